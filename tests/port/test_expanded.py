"""The words of a command with the values of the script in them: what bash makes of each text."""

from __future__ import annotations

import pytest

from muster_lint.bash import read_shell
from muster_lint.port.carry_environment import _plain_words
from muster_lint.port.expand import ShellSource, expanded, values_of, with_home
from muster_lint.port.modules import meaning_of, same_at
from muster_lint.port.own import _within
from muster_lint.port.step import _quoted
from sites.profiles import bundled


def _words(text: str) -> list[str]:
    shell = read_shell(text)
    return [word.value for word in expanded(shell.commands[-1], values_of(shell))][1:]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=1\np $A", ["1"]),
        ("A=1\np ${A}b", ["1b"]),
        ('A=1\np "$A b"', ["1 b"]),
        ("A=1\np '$A'", ["$A"]),
        ("declare -i A=2*$B\np $A", ["$A"]),
        ("declare -i A=2\np $A", ["2"]),
        ('A="x y"\np $A', ["x", "y"]),
        ('A="x y"\np "$A"', ["x y"]),
        ('A="x y"\np --f="$A"', ["--f=x y"]),
        ("A=1\nB=$A-2\np $B", ["1-2"]),
        ('A=(a "b c")\np "${A[@]}"', ["a", "b c"]),
        ("A=(a b)\np '${A[@]}'", ["${A[@]}"]),
        ("A=(a b)\np ${A[*]}", ["a", "b"]),
        ('A=(a "b c")\np ${A[@]}', ["a", "b", "c"]),
        ('A=(a "b c")\np "${A[*]}"', ["a b c"]),
        ('A=(a "b c")\np ${A[*]}', ["a", "b", "c"]),
        ("p ${A:-2}", ["2"]),
        ("p ${A:-2 3}", ["2", "3"]),
        ("B=4\np ${A:-$B}", ["4"]),
        ("p ${A}", ["${A}"]),
        ("p ${SLURM_NNODES:-2}", ["${SLURM_NNODES:-2}"]),
        ("p ${1:-2}", ["${1:-2}"]),
        ("read A\np ${A:-2}", ["${A:-2}"]),
        ("A=1\nA=2\np $A", ["$A"]),
        ("A=1\nA+=2\np $A", ["$A"]),
        ("A=$A:/x\np $A", ["$A"]),
        ("A=1 q\np $A", ["$A"]),
        ("p a\\ b", ["a b"]),
        ("p $A\\ b", ["$A b"]),
        ("p {a,b}\\ c", ["{a,b}\\ c"]),
        ('A="x y"\np {a,b}$A', ["{a,b}$A"]),
        ("p '$A'{a,b}", ["'$A'{a,b}"]),
        ("A=1\np '$A'{a,b}", ["'$A'{a,b}"]),
        ("A=1\np {a,b}$A", ["{a,b}1"]),
        ("A=/d\np $A/*.x", ["/d/*.x"]),
        ("p ~/x", ["$HOME/x"]),
        ('p "~/x"', ["~/x"]),
        ("A=~/x\np $A", ["$HOME/x"]),
        ("A='~/x'\np $A", ["~/x"]),
    ],
)
def test_a_word_has_the_values_of_the_script(text: str, words: list[str]) -> None:
    assert _words(text) == words


@pytest.mark.parametrize(
    ("text", "defaults"),
    [
        ("p ${A:-2}", {"A": "2"}),
        ("A=1\np ${A:-2}", {}),
        ("p ${MASTER_PORT:-2}", {}),
        ("p ${SLURM_X:-2}", {}),
    ],
)
def test_a_default_is_told_where_nothing_in_the_script_sets_the_variable(text: str, defaults: dict[str, str]) -> None:
    shell = read_shell(text)
    values = values_of(shell)
    expanded(shell.commands[-1], values)

    assert values.defaults == defaults


@pytest.mark.parametrize(
    ("text", "between", "whole"),
    [("~/a", "", "$HOME/a"), ("~", "", "$HOME"), ("~ada/a", "", "~ada/a"), ("a~/b", "", "a~/b"),
     ("/x:~/a", "", "/x:~/a"), ("/x:~/a", ":", "/x:$HOME/a")],
)  # fmt: skip
def test_a_tilde_stands_for_the_home(text: str, between: str, whole: str) -> None:
    assert with_home(text, between) == whole


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exec python a.py", ("python", "a.py")),
        ("exec python 'a b.py'", ("python", "a b.py")),
        ("python a.py", None),
        ("exec python $A", None),
        ("exec python a.py > x", None),
        ("exec python a.py; b", None),
        ("exec python 'a.py", None),
    ],
)
def test_exec_of_plain_words_needs_no_shell(text: str, words: tuple[str, ...] | None) -> None:
    assert _plain_words(text) == words


@pytest.mark.parametrize(
    ("word", "flags", "value"),
    [
        ("--nodes=2", ("-N", "--nodes"), "2"),
        ("--nodes", ("-N", "--nodes"), ""),
        ("-N2", ("-N", "--nodes"), "2"),
        ("-N=2", ("-N", "--nodes"), "2"),
        ("-q", ("-q",), ""),
        ("-x2", ("-N",), ""),
    ],
)
def test_the_value_of_a_word_that_was_typed(word: str, flags: tuple[str, ...], value: str) -> None:
    assert _within(word, flags) == value


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        ("PyTorch/2.7", "torch"),
        ("nvidia/pytorch", "cuda"),
        ("cuda12.1", "cuda"),
        ("cudaish", ""),
        ("rocm/6.2", "rocm"),
        ("aws-ofi-nccl/1.9", "nccl"),
        ("openmpi/4.1", "mpi"),
        ("apptainer", "container"),
        ("miniforge3", "python"),
        ("PrgEnv-gnu", "build"),
        ("mine/own", ""),
    ],
)
def test_what_a_module_brings_is_in_its_name(module: str, kind: str) -> None:
    assert meaning_of(module)[0] == kind


def test_the_module_of_a_site_that_brings_the_same() -> None:
    horeka, generic = (bundled(name).profile for name in ("horeka", "generic"))

    assert same_at(horeka, "cuda") == "CUDA/12.9.1"
    assert same_at(horeka, "slurm") is None
    assert same_at(generic, "cuda") is None


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("a-b", "a-b"),
        ("a b", "'a b'"),
        ("$A b", '"$A b"'),
        ('$A"b', '"$A\\"b"'),
        ('$(f "x")"', '"$(f "x")\\""'),
        ('$(f (g "x") "y")', '"$(f (g "x") "y")"'),
        ('$A("b")', '"$A(\\"b\\")"'),
        ("`f`", '"`f`"'),
        (ShellSource("*.py x"), "*.py x"),
    ],
)
def test_a_word_is_quoted_so_that_the_shell_of_a_task_still_expands_it(word: str, quoted: str) -> None:
    assert _quoted(word) == quoted
