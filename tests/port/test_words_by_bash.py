"""Hold what port makes of a command's words to bash: random quotes, variables and arrays; the same script, run by bash.

bash runs the line of the script, and the line that port writes; a stub in the place of python prints its words.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest

from .scripts import read

_CASES = 150
_VALUES = {
    "a": ["1", '"x y"', "/p/q", "--lr=2", '"--x 1 --y 2"'],
    "b": ["'s t'", '"u v"', "w", '"k"'],
    "ab": ["zz", '"1 2 3"', "(p q)", '("p q" r)', "(p\n  q # note\n r)"],
    "c_d": ['"$a"', "$b/x", "${a}_1", '"$a \\\n   more"'],
    "e": ['"it\'s"', "'q\"r'", "m\\ n", "~/data", "$HOME/d"],
}


_PIECES = [
    *("x", "t_", "--o=", ".", "/", "-", "2", ":", "~/u", "$HOME"),
    *("'q'", "' s '", "'a b'", "'_n'", "'$a'", "'\"d\"'", "'*'", '"lit"', '"l t"', '"*.x"'),
    *("$NAME", "${NAME}", '"$NAME"', '"v ${NAME}x"', '"w${NAME} y"', "${NAME[@]}", '"${NAME[*]}"'),
    *("{x,y}", "{1..2}", "${NAME}\\ y", "\\$NAME", '\\"', '"\\$NAME"', "${zz:-d}", '"${zz:-d e}"'),
]
"""Parts of words; NAME stands for one of the variables."""


def _scripts() -> list[str]:
    """Return the lines of random scripts, each with its variables and a command."""
    chance = random.Random("words by bash")  # noqa: S311  # the same scripts in each run
    scripts = []
    for _ in range(_CASES):
        lines = [f"{name}={chance.choice(values)}" for name, values in _VALUES.items()]
        pieces = [chance.choice([*_PIECES, " "]).replace("NAME", chance.choice(list(_VALUES))) for _ in range(5)]
        scripts.append("\n".join([*lines, f"python t.py {''.join(pieces)}"]))
    return scripts


def _words_by_bash(commands: list[str], folder: Path) -> list[str]:
    """Return the words that python gets from each of these commands."""
    (folder / "python").write_text('#!/bin/bash\nprintf "%s|" "$@"\n')
    (folder / "python").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": "/home/ada"}
    text = "".join(f"(\n{command}\n)\necho\n" for command in commands)
    done = subprocess.run(
        ["/bin/bash"], input=text, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_words_of_a_command_are_those_that_bash_makes(tmp_path: Path) -> None:
    scripts = _scripts()
    drafts = [read(f"#!/bin/bash\n#SBATCH --nodes=1 --time=10\n{script}\n")[1] for script in scripts]
    kept = [
        (script, shlex.join(draft.command))
        for script, draft in zip(scripts, drafts)
        if not any(row.verdict == "asked" and row.what.startswith("python") for row in draft.rows)
    ]
    assert len(kept) > _CASES * 0.8

    wanted = _words_by_bash([script for script, _ in kept], tmp_path)
    found = _words_by_bash([command for _, command in kept], tmp_path)

    assert [case for case, one, other in zip(kept, wanted, found) if one != other] == []


@pytest.mark.parametrize("ending", ["\\", "\\\n", "\\\n\n"])
def test_a_backslash_at_the_end_of_the_script_is_bash(ending: str) -> None:
    _, draft = read(f"#!/bin/bash\n#SBATCH --nodes=1 --time=10\npython t.py --a 1 {ending}")

    assert draft.command == ("python", "t.py", "--a", "1")
    assert all("cannot read" not in row.why for row in draft.rows)
