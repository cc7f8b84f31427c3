"""The words of a launch with the variables of the script in them, and the commands that `eval` makes of its words."""

from __future__ import annotations

import pytest

from muster_lint.bash import read_shell
from muster_lint.launch import _evaluated, _expanded, is_of_one_node, launches_of, starts_python


def _last(text: str) -> list[str]:
    shell = read_shell(text)
    return [word.value for word in _expanded(shell, shell.commands[-1])]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('L="srun -n 4"\n$L python a.py', ["srun", "-n", "4", "python", "a.py"]),
        ("A=(-n 4)\nsrun ${A[@]} python a.py", ["srun", "-n", "4", "python", "a.py"]),
        ('A=(-n "4 5")\nsrun "${A[@]}" a', ["srun", "-n", "4 5", "a"]),
        ("A=1\nsrun '$A'", ["srun", "$A"]),
        ('A="-n 4"\nsrun "$A"', ["srun", "$A"]),
        ('L="srun -n 4"\n"$L" a', ["srun", "-n", "4", "a"]),
        ("srun $A", ["srun", "$A"]),
        ('B="-n 4"\nA="$B -N 2"\nsrun $A', ["srun", "-n", "4", "-N", "2"]),
    ],
)
def test_the_words_of_a_variable_stand_in_its_place(text: str, words: list[str]) -> None:
    assert _last(text) == words


def test_a_variable_that_holds_itself_ends() -> None:
    assert _last('A="$A x"\nsrun $A')[0] == "srun"


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ('eval "srun a"', [["srun", "a"]]),
        ('C="srun a"\neval "$C"', [["srun", "a"]]),
        ('C="srun a"\neval $C b', [["srun", "a", "b"]]),
        ('eval "srun a; srun b"', [["srun", "a"], ["srun", "b"]]),
        ('eval "eval srun a"', []),
        ('eval ""', []),
    ],
)
def test_eval_starts_the_commands_of_its_words(text: str, commands: list[list[str]]) -> None:
    shell = read_shell(text)
    command = shell.commands[-1]
    launches = list(_evaluated(shell, command, command.words[1:]))

    assert [[word.value for word in launch.command.words] for launch in launches] == commands
    assert all(word.from_variable for launch in launches for word in launch.command.words)


@pytest.mark.parametrize(
    ("text", "background", "pipes_on"),
    [
        ('eval "srun a"', False, False),
        ('eval "srun a &"', True, False),
        ('eval "srun a" &', True, False),
        ('eval "srun a | tee x"', False, True),
        ('eval "srun a" | tee x', False, True),
    ],
)
def test_what_eval_starts_waits_and_is_piped_as_both_say(text: str, background: bool, pipes_on: bool) -> None:
    shell = read_shell(text)
    command = next(each for each in shell.commands if each.program == "eval")
    first = next(iter(_evaluated(shell, command, command.words[1:])))

    assert (bool(first.command.in_background), bool(first.command.pipes_on)) == (background, pipes_on)


@pytest.mark.parametrize(
    ("text", "names", "value"),
    [
        ("srun -n 4 a", ("-n",), "4"),
        ("srun --ntasks=4 a", ("-n", "--ntasks"), "--ntasks=4"),
        ("srun a -n", ("-n",), None),
        ("srun a", ("-n",), None),
        ("srun -N 2 -n 4", ("-n", "-N"), "2"),
    ],
)
def test_an_option_of_a_command_has_the_word_behind_it(text: str, names: tuple[str, ...], value: str | None) -> None:
    word = read_shell(text).commands[0].option(*names)

    assert (None if word is None else word.value) == value


@pytest.mark.parametrize(
    ("text", "is_alone"),
    [
        ("torchrun --standalone a.py", True),
        ("torchrun --nnodes 2 a.py", False),
        ("deepspeed a.py", True),
        ("deepspeed --hostfile h a.py", False),
        ("deepspeed --num_nodes 2 a.py", False),
    ],
)
def test_a_launcher_that_is_told_of_no_other_node_is_of_one(text: str, is_alone: bool) -> None:
    launch = launches_of(read_shell(text))[0]
    agent = launch.stage("agent")

    assert agent is not None
    assert is_of_one_node(agent) is is_alone


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("srun python a.py", True),
        ("srun ./a.sh", True),
        ("srun ./a.out", False),
        ("srun $PROGRAM", True),
    ],
)
def test_a_program_of_its_own_is_no_python(text: str, may_be: bool) -> None:
    assert starts_python(launches_of(read_shell(text))) is may_be
    assert starts_python([])


@pytest.mark.parametrize("function", ['run() { echo "+ $*"; "$@"; }', 'run() { eval "$@"; }'])
def test_a_function_that_runs_what_it_is_given_is_seen_through(function: str) -> None:
    launch = launches_of(read_shell(f"{function}\nrun srun -n 4 a\n"))[-1]

    assert (launch.stages[0].kind, launch.stages[0].name) == ("step", "srun")
