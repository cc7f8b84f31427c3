"""Guards that node lists mean to the ranks what they mean to Slurm, and that no list can hurt the reader."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster.rank.errors import HostlistError
from muster.rank.hostlist import MOST_NAMES, compress, count, expand, first

Scontrol = Callable[[str, str], str]

SEEDS = {
    "as02r1b[01-10,12-32],as02r2b[01-04,06-13,16-23],as02r3b[17-32],as02r4b[01-32],as02r5b[01-10,13-31]": (
        128,
        "as02r1b01",
        "as02r5b31",
    ),
    "hkn[0518,0519,0533,0614,0625,0630,0811]": (7, "hkn0518", "hkn0811"),
}

WORDS = {
    "": [],
    " , ,, ": [],
    "n1": ["n1"],
    "login": ["login"],
    "n1, n2\tn3\n": ["n1", "n2", "n3"],
    "a[1-3,5]": ["a1", "a2", "a3", "a5"],
    "a[9-11]": ["a9", "a10", "a11"],
    "a[09-11]": ["a09", "a10", "a11"],
    "a[098-101]": ["a098", "a099", "a100", "a101"],
    "a[5-007]": ["a5", "a6", "a7"],
    "a[3,1,1]": ["a3", "a1", "a1"],
    "a[1-2][3-4]": ["a13", "a14", "a23", "a24"],
    "r[1-2]n[03-04]": ["r1n03", "r1n04", "r2n03", "r2n04"],
    "a[1-2]-ib,c": ["a1-ib", "a2-ib", "c"],
    "a[1-2]x[1-2].cluster": ["a1x1.cluster", "a1x2.cluster", "a2x1.cluster", "a2x2.cluster"],
    "[1-3]": ["1", "2", "3"],
    "a[1-2]b[1-2]c[1-2]": ["a1b1c1", "a1b1c2", "a2b1c1", "a2b1c2", "a1b2c1", "a1b2c2", "a2b2c1", "a2b2c2"],
    "knoten-ä[1-2]": ["knoten-ä1", "knoten-ä2"],
}

WRONG = {
    "a[1-2": 1,
    "n1,a[": 4,
    "a]": 1,
    "a[1]]": 4,
    "a[[1]]": 1,
    "a[]": 2,
    "a[1,,2]": 4,
    "a[1-]": 2,
    "a[-1]": 2,
    "a[3-1]": 2,
    "a[x]": 2,
    "a[1 - 2]": 2,
    "a[1-2-3]": 2,
    "a[0x10]": 2,
    "a[٣]": 2,
    "b1,a[1234567890123456789]": 5,
    "a\x00b": 1,
    "a\x1b[31m": 1,
    f"n1,{'x' * 256}": 3,
    "n0," + "[1]" * 300: 3,
    f"n[0-{MOST_NAMES}]": 0,
    "n[1-600000],m[1-600000]": 12,
    "n" + "[0-9]" * 7: 0,
    "n[0-999999999999999999]": 0,
}


@pytest.mark.parametrize(("text", "names"), WORDS.items())
def test_a_list_is_read_as_slurm_reads_it(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert count(text) == len(names)


@pytest.mark.parametrize(("text", "expected"), SEEDS.items())
def test_lists_seen_in_published_scripts(text: str, expected: tuple[int, str, str]) -> None:
    names = expand(text)
    assert (len(names), names[0], names[-1]) == expected
    assert first(text) == names[0]
    assert compress(names) == text.replace("0518,0519", "0518-0519")


@pytest.mark.parametrize(("text", "position"), WRONG.items())
def test_a_wrong_list_is_refused_where_it_goes_wrong(text: str, position: int) -> None:
    for read in (expand, count):
        with pytest.raises(HostlistError) as refused:
            read(text)
        assert refused.value.position == position
        assert refused.value.text == text
        assert "\x00" not in str(refused.value)
        assert "\x1b" not in str(refused.value)


def test_a_million_names_are_the_most() -> None:
    assert count(f"n[1-{MOST_NAMES}]") == MOST_NAMES
    with pytest.raises(HostlistError):
        count(f"n[1-{MOST_NAMES}],m")


def test_the_first_name_is_found_before_an_endless_list_is_counted() -> None:
    assert first("n[007-99999999]") == "n007"
    assert first("r[1-2]n[03-04]-ib,x") == "r1n03-ib"
    with pytest.raises(HostlistError):
        first(" ,")


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1", "a]", "a\nb", "a\x00", "x" * 256])
def test_what_is_no_name_is_not_written(name: str) -> None:
    with pytest.raises(HostlistError):
        compress(["good", name])


def test_a_bracket_is_never_longer_than_slurm_takes() -> None:
    names = [f"n{number}" for number in range(70_000)]
    assert compress(names) == "n[0-65535],n[65536-69999]"
    assert compress(names[::-1][:3]) == "n[69999,69998,69997]"


names_as_seen = st.from_regex(r"\A[a-z]{0,3}(-[a-z])?[0-9]{0,4}([a-z][0-9]{0,3})?\Z").filter(bool)


@given(st.lists(names_as_seen | st.from_regex(r"\An[0-9]{1,2}\Z"), max_size=40))
@example(["n09", "n10", "n9", "n10", "n99", "n100", "n099", "n100"])
@example(["1", "2", "3"])
@example(["n9999999999999999999999", "n10000000000000000000000"])
def test_what_was_written_reads_back(names: list[str]) -> None:
    text = compress(names)
    assert expand(text) == names
    assert count(text) == len(names)
    if names:
        assert first(text) == names[0]


@given(st.text(alphabet="ab01239[]-, \t\n\x00é٣", max_size=40) | st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_position(text: str) -> None:
    try:
        names = expand(text)
    except HostlistError as error:
        refused = error
        names = None
    if names is None:
        assert 0 <= refused.position <= len(text)
    else:
        assert count(text) == len(names)
        assert all(names)


# --- against the real one -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scontrol(tmp_path_factory: pytest.TempPathFactory) -> Scontrol:
    """`scontrol show WORD LIST`; it needs a configuration that it can parse, and no controller."""
    program = shutil.which("scontrol")
    if program is None:
        pytest.skip("this machine has no scontrol")
    conf = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    conf.write_text("ClusterName=none\nSlurmctldHost=localhost\n")

    def show(word: str, text: str) -> str:
        return _said([program, "show", word, text], conf)

    return show


def _said(argv: Sequence[str], conf: Path) -> str:
    done = subprocess.run(argv, env={"SLURM_CONF": str(conf)}, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, (argv, done.stderr)
    return done.stdout


@st.composite
def lists_of_every_slurm(draw: st.DrawFn) -> str:
    """Lists in the grammar that 22.05 shares with its successors: brackets, and nothing after the last."""
    number = st.integers(0, 120).flatmap(lambda n: st.integers(1, 4).map(lambda width: str(n).zfill(width)))
    spread = st.tuples(number, st.integers(0, 15)).map(lambda pair: f"{pair[0]}-{int(pair[0]) + pair[1]}")
    bracket = st.lists(number | spread, min_size=1, max_size=4).map(lambda items: f"[{','.join(items)}]")
    stem = st.from_regex(r"\A[a-z](-?[a-z0-9]){0,4}\Z")
    small = st.sampled_from(["[1-2]", "[08-10]", "[3,1]"])
    many = st.lists(st.tuples(stem, small).map("".join), min_size=3, max_size=4).map("".join)
    name = stem | st.tuples(stem, bracket).map("".join) | st.tuples(stem, bracket, stem, bracket).map("".join) | many
    return draw(st.sampled_from([",", ", "])).join(draw(st.lists(name, min_size=1, max_size=4)))


@pytest.mark.wide
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(lists_of_every_slurm(), min_size=1, max_size=25))
def test_expansion_is_scontrols(scontrol: Scontrol, lists: list[str]) -> None:
    text = ",".join(lists)
    assert expand(text) == scontrol("hostnames", text).splitlines()
    assert first(text) == expand(text)[0]


@pytest.mark.wide
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.from_regex(r"\A[a-c](-[a-z])?[0-9]{1,3}(x[0-9]{1,2})?\Z"), min_size=1, max_size=60))
def test_scontrol_reads_what_was_written_and_writes_what_is_read(scontrol: Scontrol, names: list[str]) -> None:
    assert scontrol("hostnames", compress(names)).splitlines() == names
    assert expand(scontrol("hostlist", ",".join(names))) == names


def test_scontrol_reads_the_longest_bracket(scontrol: Scontrol) -> None:
    names = [f"n{number:06d}" for number in range(70_000)]
    assert scontrol("hostnames", compress(names)).splitlines() == names
