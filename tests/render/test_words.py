"""The named words of the job's lines: NAME=VALUE, read by one function in any shell."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pytest

from launch.shells import each_shell
from muster.render.parts import compose
from muster.runner import ProgramResult, run


def take(shell: Sequence[str], *words: str) -> ProgramResult:
    """What `muster_take` makes of these words, for a function that knows `dir` and `tasks`."""
    found = shutil.which(shell[0])
    assert found is not None, f"{shell[0]} is missing"
    text = compose(("stop", "words")) + (
        'muster_take \'muster_begin: dir tasks\' "$@"\nprintf "%s|%s" "${muster_dir-unset}" "${muster_tasks-unset}"\n'
    )
    return run([found, *shell[1:], "-c", text, "muster", *words])


@each_shell
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("dir=/scratch/ada", "tasks=4"), "/scratch/ada|4"),
        (("tasks=4",), "unset|4"),
        (('dir=/it\'s; $(touch canary)  "x"\n*', "tasks=a=b"), '/it\'s; $(touch canary)  "x"\n*|a=b'),
        (("dir=",), "|unset"),
        ((), "unset|unset"),
    ],
    ids=["both", "one", "hostile", "empty", "none"],
)
def test_each_word_is_a_variable(shell: Sequence[str], words: Sequence[str], told: str) -> None:
    result = take(shell, *words)

    assert (result.status, result.stdout, result.stderr) == (0, told, "")


@each_shell
@pytest.mark.parametrize("word", ["cpu=4", "dir", "4", "=4", "", "di=x", "$(touch canary)=1"])
def test_a_word_that_the_function_does_not_know_is_named(shell: Sequence[str], word: str) -> None:
    result = take(shell, "dir=x", word)

    assert result.status == 2
    assert f"muster: error: muster_begin knows no word '{word}'\n\nhint: " in result.stderr
    assert "of the names dir tasks" in result.stderr
