"""Words that people type: values are not guessed, not swallowed and not absurd; other tools' words get their answer."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest

from muster.errors import RequestError
from muster.job.option import Option, parse_host, parse_role_port
from muster.job.options import parse
from muster.job.request import options_of
from muster.units import Memory, Walltime

WITH_VALUE = [each for each in options_of().values() if not each.is_switch]
PLAIN = [each for each in WITH_VALUE if not each.whole_flags]


@pytest.mark.parametrize("option", PLAIN, ids=lambda each: each.flags[0])
def test_an_option_does_not_swallow_the_one_behind_it(option: Option) -> None:
    flag = option.flags[0]
    with pytest.raises(RequestError, match=f"{re.escape(flag)} needs a value, but -N follows"):
        parse([flag, "-N", "1", "--", "python"])
    with pytest.raises(RequestError, match=f"{re.escape(flag)} needs a value, but -- follows"):
        parse([flag, "--", "python"])


@pytest.mark.parametrize("option", WITH_VALUE, ids=lambda each: each.flags[0])
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_value_is_refused(option: Option, empty: str) -> None:
    flag = option.flags[0]
    for words in ([flag, empty], [f"{flag}={empty}"]):
        with pytest.raises(RequestError, match="needs a value") as caught:
            parse([*words, "--", "python"])
        assert caught.value.hint


@pytest.mark.parametrize(
    "words",
    [
        ["-N", "99999999999"],
        ["-g", "1" + "0" * 20],
        ["--ntasks-per-node", "1000000"],
        ["-c", "1000000"],
        ["--grace", "1" + "0" * 11],
        ["-t", "99999999999"],
        ["--mem", "1" + "0" * 20 + "G"],
        ["--master-addr", "a b"],
        ["--master-addr", "a..b"],
        ["--master-addr=-x"],
        ["--sbatch", "--"],
        ["--master-port", "1" + "0" * 5000],
        ["-N", "1" + "0" * 5000],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_cannot_be_is_refused_with_a_hint(words: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        parse([*words, "--", "python"])
    assert caught.value.hint


@pytest.mark.parametrize(
    "host",
    ["node1", "node1.cluster.org", "10.0.0.1", "fe80::1", "[fe80::1]", "node1:29500", "r01_n2", "n." * 126 + "n"],
)
def test_a_host_is_a_host(host: str) -> None:
    assert parse(["--master-addr", host])[0] == {"master_addr": host}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("--ntasks 4", "--ntasks leaves open", "-N NODES with --ntasks-per-node RANKS"),
        ("-n 4", "--ntasks leaves open", "-N NODES with --ntasks-per-node RANKS"),
        ("--gpus 4", "--gpus leaves open", "-g GPUS_PER_NODE"),
        ("-G 4", "--gpus leaves open", "-g GPUS_PER_NODE"),
        ("--gpus-per-task 1", "breaks peer access", "-g GPUS_PER_NODE"),
        ("--tasks-per-node 2", "no option --tasks-per-node", "--ntasks-per-node N"),
        ("--cpus 4", "no option --cpus", "-c N"),
        ("--dry-run", "no option --dry-run", "muster plan"),
        ("--wait", "would hold the submission", "muster run"),
        ("--array 0-3", "sbatch has --array", "--sbatch=--array=0-3"),
        ("-a 0-3", "sbatch has --array", "--sbatch=--array=0-3"),
        ("--reservation=x", "sbatch has --reservation", "--sbatch=--reservation=x"),
        ("--reservation=x y", "sbatch has --reservation", "--sbatch=--reservation=x"),
        ("--array -N 2", "sbatch has --array", "--sbatch=--array"),
        ("--json", "no option --json", "--help lists the options"),
        ("--nodse 2", "no option --nodse", "--nodes"),
    ],
)
def test_words_of_other_tools_are_answered(words: str, message: str, hint: str) -> None:
    with pytest.raises(RequestError, match=re.escape(message)) as caught:
        parse([*words.split(), "--", "python"])
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("--nproc_per_node 4", {"ntasks_per_node": 4}),
        ("--nproc_per_node=4", {"ntasks_per_node": 4}),
        ("--nnodes 2", {"nodes": 2}),
        ("-t 1h", {"time": Walltime(3600)}),
        ("-t 2d", {"time": Walltime(172800)}),
        ("-t 1d12h", {"time": Walltime(129600)}),
        ("-t 90m", {"time": Walltime(5400)}),
        ("-t 90min", {"time": Walltime(5400)}),
        ("-t 30", {"time": Walltime(1800)}),
        ("-t -1", {"time": Walltime(None)}),
        ("--mem 64gb", {"mem": Memory(65536)}),
        ("--sbatch -n4", {"sbatch": ("-n4",)}),
        ("--hang 5s", {"hang": 5}),
        ("--hang off", {"hang": 0}),
        ("-w ./a[", {"nodelist": "./a["}),
    ],
)
def test_what_is_exact_works(words: str, values: dict[str, object]) -> None:
    assert parse(words.split())[0] == values


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["--array"], "--sbatch=--array"), (["--array=0-3", "-x"], "--sbatch=--array=0-3"), (["--array", "7"], "array=7")],
)
def test_a_flag_of_sbatch_at_the_end_is_answered(words: list[str], hint: str) -> None:
    with pytest.raises(RequestError, match="sbatch has --array") as caught:
        parse(words)
    assert (caught.value.hint or "").endswith(hint)


def test_a_dash_alone_begins_the_command() -> None:
    assert parse(["-N", "2", "-", "x"])[2] == ("-", "x")


@pytest.mark.parametrize(
    ("port", "refused"),
    [("grpc", None), ("8000", None), ("http:8000", None), ("http:", "no number"), (":8000", "is not a port")],
)
def test_the_port_of_a_role_is_what_it_speaks_a_number_or_both(port: str, refused: str | None) -> None:
    with nullcontext() if refused is None else pytest.raises(RequestError, match=refused):
        assert parse_role_port(port) == port


@pytest.mark.parametrize(("letters", "is_one"), [(253, True), (254, False)])
def test_the_name_of_a_host_has_253_letters_at_most(letters: int, is_one: bool) -> None:
    name = ("a." * 127)[: letters - 1] + "b"
    with nullcontext() if is_one else pytest.raises(RequestError, match="is not a host"):
        assert parse_host(name) == name
