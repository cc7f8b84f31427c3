"""A profile by another hand: 24 predictions, written before any plan; what it leaves out and what it may get wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from launch.plans import plan
from muster.cli.app import main
from muster.errors import ProfileError, RequestError
from muster.policy.names import say_unlisted, unlisted_names
from muster.policy.rules import Ask
from muster.sites.heads import SearchPath
from muster.sites.load import load, overrides_from
from muster_lab.like import lab_like, say_sizes
from sites.profiles import written

TEXT = (Path(__file__).parent / "elmwood.toml").read_text(encoding="utf-8")
NOBODY = SearchPath(site_wide=None)
PAID = "-A grp-physics"

# What was typed; partition, QOS, GPUs, CPUs of a rank, memory of a GPU.
RIGHT = [
    (f"{PAID} -t 60 -g 4", ["small", None, "gpu:a100:4", "12", "100G"]),
    (f"{PAID} -t 60 -N 6 -g 4", ["small", None, "gpu:a100:4", "12", "100G"]),
    (f"{PAID} -t 60 -g 1", ["small", None, "gpu:a100:1", "12", "100G"]),
    (f"{PAID} -t 60 -p big -g 8", ["big", "std", "gpu:h100:8", "20", "160G"]),
    (f"{PAID} -p big -q hero -N 3 -g 8 -t 24h", ["big", "hero", "gpu:h100:8", "20", "160G"]),
    (f"{PAID} --gpu-type h100 -N 2 -g 2 -t 12h", ["big", "std", "gpu:h100:2", "20", "160G"]),
    (f"{PAID} -t 60 -q hero -g 8", ["big", "hero", "gpu:h100:8", "20", "160G"]),
    (f"{PAID} -t 60 --gres gpu:l40s:2", ["viz", None, "gpu:l40s:2", None, None]),
    (f"{PAID} -t 60 -p viz -N 2 -g 4", ["viz", None, "gpu:l40s:4", None, None]),
    (f"{PAID} -t 60 -g 0", ["prep", None, None, "128", None]),
    (f"{PAID} -g 0 --trial -t 20", ["debug", None, None, "128", None]),
    (f"{PAID} -p debug -g 0 -N 2 -t 30", ["debug", None, None, "128", None]),
]
# What was typed, words of the refusal, and the whole hint.
WRONG = [
    ("-t 60 -p debug -g 1", "a node of debug has none", "-p small, or -p big, or -p viz, or omit --gpus-per-node"),
    (
        "-t 60 -p debug -g 0",
        "debug allows 00:30:00",
        "-p prep (Muster does not know its limit of time), or --time 00:30:00",
    ),
    ("-t 60 -p big -N 3 -g 8", "3 nodes, but std allows 2", "-q hero, or -N 2"),
    ("-p big -q std -g 8 -t 13h", "std allows 12:00:00", "-q hero, or --time 12:00:00"),
    ("-p big -q hero -g 8 -t 25h", "hero allows 1-00:00:00", "--time 1-00:00:00"),
    ("-t 60 -p big -q normal -g 8", "big takes jobs of the QOS std or hero", "-q std"),
    ("-t 60 -p small --gres gpu:h100:4", "a100, none of type h100", "-p big, or --gpu-type a100"),
    ("-t 60 -p viz --gpu-type a100 -g 1", "l40s, none of type a100", "-p small, or --gpu-type l40s"),
    ("-t 60 -g 5", "a node of small has 4", "-p big, or --gpus-per-node 4, on 2 nodes (-N 2)"),
    ("-t 60 -g 8", "a node of small has 4", "-p big, or --gpus-per-node 4, on 2 nodes (-N 2)"),
    ("-t 60 -N 7 -g 4", "7 nodes, but small has 6", "-N 6"),
    ("-t 60 -p prep -g 0 -N 5", "5 nodes, but prep has 4", "-N 4"),
    ("-t 60 -p viz -g 4 -N 3", "3 nodes, but viz has 2", "-p small, or -p big -q hero, or -N 2"),
    ("-t 60 -g 1 --gpu-type v100 -p big", "there are a100 (small), h100 (big), l40s (viz)", "--gpu-type h100"),
]


@pytest.fixture(scope="module")
def elmwood(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(written(tmp_path_factory.mktemp("elmwood"), TEXT, "elmwood"))


def changed(folder: Path, old: str, new: str) -> str:
    assert TEXT.count(old) == 1
    return str(written(folder, TEXT.replace(old, new), "elmwood"))


@pytest.mark.parametrize(("typed", "predicted"), RIGHT, ids=lambda each: each if isinstance(each, str) else "")
def test_a_prediction_becomes_the_plan(elmwood: str, typed: str, predicted: list[str | None]) -> None:
    made = plan(*typed.split(), "--", "python", "train.py", site=elmwood)
    header = {directive.name: directive.value for directive in made.directives}
    assert [header.get(name) for name in ("partition", "qos", "gres", "cpus-per-task", "mem-per-gpu")] == predicted


@pytest.mark.parametrize(("typed", "words", "hint"), WRONG, ids=lambda each: each)
def test_a_refusal_names_the_queue_and_what_can_be_typed(elmwood: str, typed: str, words: str, hint: str) -> None:
    with pytest.raises(RequestError) as refused:
        plan(*PAID.split(), *typed.split(), "--", "python", "train.py", site=elmwood)
    assert words in refused.value.message
    assert refused.value.hint == hint


@pytest.mark.parametrize(("typed", "_words", "hint"), WRONG, ids=lambda each: each)
def test_what_a_hint_says_is_taken(elmwood: str, typed: str, _words: str, hint: str) -> None:
    """The options of a hint take the place of those that were typed, and the request is planned."""
    for way in hint.replace(", or omit --gpus-per-node", "").replace("on 2 nodes (-N 2)", "-N 2").split(", or "):
        options = re.findall(r"(--?[a-z-]+|-N) ([\w:.-]+)", way)
        names = {"--gpus-per-node": "-g", "--time": "-t"}
        words = typed.split()
        for name, value in options:
            short = names.get(name, name)
            if short == "--gpu-type" and "--gres" in words:
                words[words.index("--gres") : words.index("--gres") + 2] = ["-g", "4"]
            if short in words:
                words[words.index(short) + 1] = value
            else:
                words += [short, value]
        assert plan(*PAID.split(), *words, "--", "python", "train.py", site=elmwood).directives, way


def test_a_number_of_nodes_that_slurm_says_is_not_the_profiles_to_refuse(elmwood: str) -> None:
    from muster.policy.rules import refusals

    ask = Ask(nodes=7, gpus_per_node=4, gpu_type="a100", partition="small", account="grp-physics", time_s=60)
    profile = load(elmwood, NOBODY).profile
    assert [each.rule for each in refusals(profile, ask)] == ["nodes-max"]
    assert not list(refusals(profile, ask, is_counted=True))


@pytest.mark.parametrize(
    ("old", "new", "cpus"),
    [
        ('name = "elmwood"', 'name = "elmwood"', "128"),
        ('sharing = "exclusive"\n\n[partitions.debug]', 'sharing = "shared"\n\n[partitions.debug]', None),
        ('sharing = "exclusive"\n\n[partitions.debug]', "[partitions.debug]", None),
    ],
)  # fmt: skip
def test_a_job_without_gpus_has_the_cores_of_a_node_that_it_does_not_share(
    tmp_path: Path, old: str, new: str, cpus: str | None
) -> None:
    site = changed(tmp_path, old, new)
    made = plan(*PAID.split(), "-t", "60", "-g", "0", "--", "python", "train.py", site=site)
    header = {directive.name: directive.value for directive in made.directives}
    assert header.get("cpus-per-task") == cpus
    assert any("no -c is given" in note.text for note in made.notes) == (cpus is None)
    more = ["--exclusive", "--ntasks-per-node", "4"]
    whole = plan(*PAID.split(), "-t", "60", "-g", "0", *more, "--", "python", "train.py", site=site)
    assert whole.shape.cpus_per_task == 32


MISTAKES = {
    "two defaults": ('node = "h100"\n', 'node = "h100"\ndefault = true\n', ["partitions.big.default", "small"]),
    "an example that is no account": (
        'account_example = "grp-physics"',
        'account_example = "physics"',
        ["request.account_example", "grp-[a-z]+"],
    ),
    "no pattern": ('account_pattern = "grp-[a-z]+"', 'account_pattern = "grp-["', ["not a regular expression"]),
    "a type that is not listed": (', "gpu:l40s"]', "]", ["request.gres_names", "nodes.l40s", 'add "gpu:l40s"']),
    "more memory than a node": (
        'mem_per_gpu = "160G"',
        'mem_per_gpu = "300G"',
        ["nodes.h100.mem_per_gpu", "2457600 MiB", "1500000 MiB", '"187500M"'],
    ),
    "more memory than a node, for all": (
        'policy = "per-gpu"',
        'policy = "per-gpu"\nmem_per_gpu = "400G"\n[nodes.x]\ngpus = 4\nmemory_mib = 512000',
        ["memory.mem_per_gpu", "kind x"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_contradiction_in_the_file_is_named(tmp_path: Path, name: str) -> None:
    old, new, words = MISTAKES[name]
    with pytest.raises(ProfileError) as error:
        load(changed(tmp_path, old, new), NOBODY)
    assert all(word in f"{error.value} {error.value.hint}" for word in words), str(error.value)
    assert error.value.line


def test_a_share_that_nobody_asks_for_is_not_judged(tmp_path: Path) -> None:
    text = TEXT.replace('mem_per_gpu = "160G"', 'mem_per_gpu = "300G"').replace('"per-gpu"', '"whole-node"')
    assert load(str(written(tmp_path, text, "elmwood")), NOBODY).profile.nodes["h100"].mem_per_gpu == "300G"


REMARKS = {
    "threads": ('cpus = "threads"', 'cpus = "cores"', "CPUTot=192"),
    "no default": ("default = true\n", "", None),
    "a source of nothing": (
        "[sources.guide]",
        '[sources.wiki]\ntitle = "W"\nat = "https://w.example.org"\nchecked = 2026-11-20\ntrust = "D"\n[sources.guide]',
        "sources.wiki: no value comes from it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REMARKS)
def test_show_warns_of_what_may_not_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    old, new, words = REMARKS[name]
    assert main(["site", "show", changed(tmp_path, old, new), "--why"]) == 0
    said = capsys.readouterr().err
    assert "nodes.l40s: its jobs ask for no CPUs (`cores`) and no memory (`mem_per_gpu`)" in said
    assert words is None or words in said
    assert said.count("warning:") == 1 + (words is not None)
    assert re.search(r"muster: no mistake found\nmuster: \d+ keys of a complete profile", said)
    assert "request.constraint" not in said


def test_of_a_profile_that_was_not_checked_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "show", "delta"]) == 0
    said = capsys.readouterr().err
    assert "keys of a complete profile" in said
    assert "no mistake" not in said


def test_no_default_and_no_rule_for_every_job_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace("default = true\n", "").replace(
        '[[queue_rules]]\npartition = "small"\nreason = "everything else"\n', ""
    )
    assert main(["site", "show", str(written(tmp_path, text, "elmwood"))]) == 0
    assert "no partition is the default and no queue rule takes every job" in capsys.readouterr().err


def test_slurm_that_counts_cores_is_no_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for new in ('cpus = "cores"\nslurm_cpus = "cores"', 'cpus = "cores"\nsbatch = ["--hint=nomultithread"]'):
        assert main(["site", "show", changed(tmp_path, 'cpus = "threads"', new)]) == 0
        assert "CPUTot" not in capsys.readouterr().err


def test_the_assignment_of_an_account_adds_it(elmwood: str) -> None:
    site = load(elmwood, NOBODY)
    (unlisted,) = unlisted_names(site.profile, Ask(account="grp-phys2"))
    assert "--site-set 'request.account_pattern=grp-[a-z]+|grp-phys2' adds it" in say_unlisted(site, unlisted)
    taught = load(elmwood, NOBODY, overrides_from([(unlisted.assignment or "").strip("'")])).profile
    for account in ("grp-phys2", "grp-physics"):
        assert not list(unlisted_names(taught, Ask(account=account)))


@pytest.mark.parametrize(
    ("asked", "counts"),
    [({}, [6, 3, 2, 4]), ({"nodes": 3}, [3, 3, 2, 3]), ({"nodes": 9}, [6, 3, 2, 4]), ({"nodes": 1}, [1, 1, 1, 1])],
)
def test_a_lab_has_what_the_site_has(elmwood: str, asked: dict[str, Any], counts: list[int]) -> None:
    profile = load(elmwood, NOBODY).profile
    lab = lab_like(profile, name="elm", **asked)
    assert [group.count for group in lab.groups] == counts
    said = list(say_sizes(profile, lab))
    assert f"a100: {counts[0]} of 6 nodes, h100: {counts[1]} of 3 nodes" in said[-1]
    assert said[0] == "the profile does not say what a node of kind l40s has: here 64 cores and 256 GiB of memory"


def test_a_rehearsal_has_the_nodes_of_its_job(elmwood: str) -> None:
    lab = lab_like(load(elmwood, NOBODY).profile, name="elm", nodes=8, kind="h100", other_nodes=1)
    assert [group.count for group in lab.groups] == [1, 8, 1, 1]


def test_the_schema_of_a_profile_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("profile.schema.json", "reference/profile.schema.json"):
        assert main(["docs", name]) == 0
        assert '"account_pattern"' in capsys.readouterr().out
