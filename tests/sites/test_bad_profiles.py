"""A profile that is wrong is refused whole, and the error says which file, which line, which key, what was expected."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.app import main
from muster.errors import ProfileError
from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.sites.text import parse_toml, read_text

from .profiles import HEAD, written

# What is wrong, the text below the head, the line that is named, and words that the error must hold.
WRONG = {
    "unknown key": ("[launch]\nprefered = 'srun'\n", 4, ["launch.prefered", "no such key", "'preferred'"]),
    "unknown table": ("[lunch]\npreferred = 'srun'\n", 3, ["lunch", "no such key", "'launch'"]),
    "wrong unit": ("[partitions.a]\ntime_max = '90'\n", 4, ["partitions.a.time_max", "a time as Slurm", "'90'"]),
    "a number as text": ("[nodes.g]\ngpus = '8'\n", 4, ["nodes.g.gpus", "a whole number", "'8'"]),
    "a negative count": ("[nodes.g]\ncores = -1\n", 4, ["nodes.g.cores", "a whole number from 1 up"]),
    "a list for a table": ("partitions = ['a']\n", 3, ["partitions", "a table", "a list"]),
    "a table for a list": ("[launch.allowed]\nsrun = true\n", 3, ["launch.allowed", "a list", "a table"]),
    "text for a list": ("[launch]\nsrun = '--exact'\n", 4, ["launch.srun", "a list"]),
    "no whole flag": ("[launch]\nsrun = ['exact']\n", 4, ["launch.srun[0]", "one whole flag"]),
    "a word of no list": ("[launch]\npreferred = 'srn'\n", 4, ["launch.preferred", "'srn'", "did you mean 'srun'"]),
    "a memory in words": ("[memory]\nmem = 'much'\n", 4, ["memory.mem", "a memory size"]),
    "missing reason": ("[[environment]]\nname = 'A'\nvalue = '1'\n", 3, ["environment[0]", "'reason' is missing"]),
    "set and unset": (
        "[[environment]]\nname = 'A'\nvalue = '1'\nunset = true\nreason = 'r'\n",
        3,
        ["A is both set and unset"],
    ),
    "neither": ("[[environment]]\nname = 'A'\nreason = 'r'\n", 3, ["A has no value"]),
    "unknown source": ("[facts]\nlaunch = 'guide'\n", 4, ["facts.launch", "no source named 'guide'"]),
    "a fact of nothing": (
        "[facts]\nlunch = 'g'\n[sources.g]\ntitle = 't'\nat = 'a'\nchecked = 2026-11-20\ntrust = 'D'\n",
        4,
        ["facts.lunch", "no key named 'lunch'", "'launch'"],
    ),
    "trust in the unverified": (
        "[sources.g]\ntitle = 't'\nat = 'a'\nchecked = 2026-11-20\ntrust = 'U'\n",
        7,
        ["sources.g.trust", "'U'"],
    ),
    "no date": ("[sources.g]\ntitle = 't'\nat = 'a'\nchecked = 'lately'\ntrust = 'D'\n", 6, ["sources.g.checked"]),
    "unknown node": ("[partitions.a]\nnode = 'b'\n[nodes.c]\n", 4, ["partitions.a.node", "no kind of node named 'b'"]),
    "unknown partition": (
        "[partitions.a]\ngpus = 1\n[[queue_rules]]\npartition = 'b'\nreason = 'r'\n",
        5,
        ["no partition named 'b'"],
    ),
    "preferred is not allowed": (
        "[launch]\nallowed = ['srun']\npreferred = 'mpirun'\n",
        5,
        ["launch.preferred", "not one of `allowed`"],
    ),
    "too many cores": (
        "[nodes.g]\ngpus = 4\ncores = 64\ncores_per_gpu = 32\n",
        6,
        ["4 GPUs × 32 cores = 128", "64"],
    ),
    "a domain too many": ("[nodes.g]\nnuma = ['0-7']\ngpus = 1\ngpu_numa = [1]\n", 6, ["beyond the 1 of"]),
    "a GPU too many": ("[nodes.g]\nnuma = ['0-7']\ngpus = 1\ngpu_numa = [0, 0]\n", 6, ["2 entries for 1 GPUs"]),
    "ports upside down": ("[rendezvous]\nport_low = 3000\nport_high = 2000\n", 4, ["port_low", "above port_high"]),
    "a port of the system": ("[rendezvous]\nport_low = 22\n", 4, ["rendezvous.port_low", "1024"]),
    "a suffix of nothing": ("[rendezvous]\nhost = 'suffix'\n", 4, ["no suffix is given"]),
    "no regular expression": ("[detect]\nhosts = ['[']\n", 4, ["detect.hosts", "not a regular expression"]),
    "not TOML": ("[launch\n", 3, ["not TOML"]),
    "a key twice": ("name = 'again'\n", 3, ["not TOML"]),
    "a source without address": (
        "[sources.g]\ntitle = 't'\nat = 'public repositories; none is named'\nchecked = 2026-11-20\ntrust = 'T'\n",
        5,
        ["sources.g.at", "nothing that can be opened again", "OWNER/NAME @COMMIT"],
    ),
    "a repository without commit": (
        "[sources.g]\ntitle = 't'\nat = 'owner/name'\nchecked = 2026-11-20\ntrust = 'T'\n",
        5,
        ["sources.g.at", "nothing that can be opened again"],
    ),
    "read tomorrow": (
        "[sources.g]\ntitle = 't'\nat = 'https://docs.example.org'\nchecked = 2099-01-01\ntrust = 'D'\n",
        6,
        ["sources.g.checked", "2099-01-01 is in the future"],
    ),
    "written tomorrow": (
        "[sources.g]\ntitle = 't'\nat = 'o/n @1234567'\ndated = 2099-01-01\nchecked = 2026-11-20\ntrust = 'D'\n",
        6,
        ["sources.g.dated", "2099-01-01 is in the future"],
    ),
    "a node that nobody gets": (
        "[nodes.a]\n[nodes.b]\n[partitions.p]\nnode = 'a'\n",
        4,
        ["nodes.b", "no partition or QOS has nodes of kind b"],
    ),
    "a rule behind one that takes all": (
        (
            "[partitions.p]\n[[queue_rules]]\npartition = 'p'\nreason = 'r'\n"
            "[[queue_rules]]\nwhen = { nodes_min = 9 }\npartition = 'p'\nreason = 'r'\n"
        ),
        7,
        ["queue_rules[1]", "never matches: rule 1 takes all of its jobs"],
    ),
    "a rule behind a wider one": (
        (
            "[[queue_rules]]\nwhen = { nodes_max = 9, time_max = '02:00:00' }\nreason = 'r'\n"
            "[[queue_rules]]\nwhen = { nodes_max = 8, time_max = '01:00:00', trial = true }\nreason = 'r'\n"
        ),
        6,
        ["queue_rules[1]", "never matches"],
    ),
    "a rule for no size": (
        "[[queue_rules]]\nwhen = { nodes_min = 9, nodes_max = 8 }\nreason = 'r'\n",
        3,
        ["queue_rules[0]", "never matches: nodes_min 9 is above nodes_max 8"],
    ),
    "a rule that its queue refuses": (
        "[partitions.p]\nnodes_max = 8\n[[queue_rules]]\nwhen = { nodes_min = 9 }\npartition = 'p'\nreason = 'r'\n",
        5,
        ["queue_rules[0]", "never matches", "its queue takes 8"],
    ),
    "a rule for unknown nodes": (
        "[nodes.a]\n[[queue_rules]]\nwhen = { gpu_kinds = ['b'] }\nreason = 'r'\n",
        4,
        ["no kind of node named 'b'"],
    ),
    "cores asked where threads are counted": (
        "[request]\nslurm_cpus = 'threads'\n",
        4,
        ["request.slurm_cpus", "the header asks for cores", "--hint=nomultithread"],
    ),
    "complete by hearsay": (
        "complete = true\ntrust = 'users'\n",
        3,
        ["complete", "needs the site's own recent documents"],
    ),
    "trust that the sources do not carry": (
        (
            "trust = 'own'\n[memory]\nmem = '4G'\n[facts]\nmemory = 'g'\n[sources.g]\ntitle = 't'\n"
            "at = 'https://docs.example.org'\nchecked = 2026-11-20\ntrust = 'T'\n"
        ),
        3,
        ["trust", "is 'own', and the sources make it 'users'"],
    ),
    "trust that the date does not carry": (
        (
            "trust = 'own'\n[memory]\nmem = '4G'\n[facts]\nmemory = 'g'\n[sources.g]\ntitle = 't'\n"
            "at = 'o/n @1234567'\ndated = 2024-01-01\nchecked = 2026-11-20\ntrust = 'D'\n"
        ),
        3,
        ["trust", "the sources make it 'old'"],
    ),
    "shell text": ("[[commands]]\nargv = 'rocm-smi; rm -rf /'\nwhere = 'node'\nreason = 'r'\n", 4, ["a list"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_error_names_file_line_key_and_what_was_expected(what: str, tmp_path: Path) -> None:
    text, line, words = WRONG[what]
    path = written(tmp_path, HEAD + text)
    with pytest.raises(ProfileError) as caught:
        load(str(path))
    said = f"{caught.value}\n{caught.value.hint or ''}"
    assert f"{path}:{line}:" in said
    for word in words:
        assert word in said


def test_a_profile_from_a_newer_muster_is_refused_before_its_keys_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "muster_site = 2\nsomething_new = 1\n")
    with pytest.raises(ProfileError, match="format 2, but this Muster reads formats up to 1"):
        load(str(path))


def test_a_profile_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="'name' is missing"):
        load(str(written(tmp_path, "[launch]\n")))


def test_ten_megabytes_are_no_profile_and_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "# " + "x" * 10_000_000)
    with pytest.raises(ProfileError, match="larger than 1000 kB"):
        load(str(path))


def test_a_file_that_is_not_there_or_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no such file"):
        load(str(tmp_path / "nowhere.toml"))
    with pytest.raises(ProfileError, match="is a directory"):
        load(f"{tmp_path}/")


def test_a_file_that_cannot_be_read_is_named_with_the_reason() -> None:
    with pytest.raises(ProfileError, match="/proc/self/mem: cannot be read: input/output error"):
        load("/proc/self/mem")  # unreadable for everybody, root included


def test_what_is_not_text_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(HEAD.encode() + b"system = '\xff'\n")
    with pytest.raises(ProfileError, match=re.escape(f"{path}:3: is not UTF-8")):
        load(str(path))


def test_brackets_without_end_are_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="not TOML"):
        load(str(written(tmp_path, HEAD + "a = " + "[" * 50_000)))


def test_profiles_that_extend_each_other_are_a_circle_that_is_spelled_out(tmp_path: Path) -> None:
    for name, parent in (("one", "two"), ("two", "three"), ("three", "one")):
        written(tmp_path, f'name = "{name}"\ntitle = "t"\nextends = "{parent}"\n', name)
    with pytest.raises(ProfileError, match=r"three.toml:3: extends: .*one → two → three → one"):
        load("one", SearchPath(bundled=tmp_path, site_wide=None))


def test_a_parent_that_is_not_there_is_offered_the_nearest_name(tmp_path: Path) -> None:
    written(tmp_path, HEAD + 'extends = "mines"\n')
    with pytest.raises(ProfileError, match=r"mine.toml:3: extends: there is no site named 'mines'") as caught:
        load("mine", SearchPath(bundled=tmp_path, site_wide=None))
    assert "'mine'" in (caught.value.hint or "")


def test_two_profiles_that_both_match_are_named_with_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "muster" / "sites").mkdir(parents=True)
    for name in ("one", "two"):
        text = f'name = "{name}"\ntitle = "t"\n[detect]\nenvironment = {{ MYSITE = "yes" }}\n'
        (tmp_path / "muster" / "sites" / f"{name}.toml").write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MYSITE", "yes")
    for words in (["site", "detect"], ["plan", "-N", "2", "--", "true"]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        for name in ("one", "two"):
            assert f"{name} ({tmp_path}/muster/sites/{name}.toml:3: MYSITE is yes)" in said.err


def test_the_error_names_the_layer_that_is_wrong_and_not_the_profile_below_it(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[memory]\nmem = 'much'\n")
    with pytest.raises(ProfileError, match=re.escape(f"{tmp_path}/site.toml:2: memory.mem")):
        load("generic", SearchPath(site_wide=None, user=tmp_path))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab-=\"'[]\n", max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["launch", "name", "a"]), inner),
        max_leaves=8,
    ),
    st.sampled_from(["launch", "nodes", "partitions", "environment", "facts", "commands", "queue_rules", "extends"]),
)
def test_whatever_stands_at_a_key_is_either_a_profile_or_a_profile_error(value: object, key: str) -> None:
    from muster.sites.consistency import check
    from muster.sites.layers import Layer, merge

    table = {"name": "mine", "title": "t", key: value}
    layers = [Layer("user", "mine.toml", "", table)]
    with contextlib.suppress(ProfileError):
        assert check(merge(layers), layers).title == "t"


@given(st.text(max_size=200))
def test_any_text_is_either_a_profile_or_an_error_of_ours(text: str) -> None:
    from muster.sites.text import parse_toml

    with contextlib.suppress(ProfileError):
        assert isinstance(parse_toml(text, "mine.toml"), dict)


def test_a_profile_with_the_mark_that_windows_puts_there_is_read(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b'\xef\xbb\xbfmuster_site = 1\r\nname = "marked"\r\n')
    assert parse_toml(read_text(path), str(path))["name"] == "marked"
