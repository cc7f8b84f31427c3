"""Hold what port makes of a command's words to bash: random quotes, variables and arrays; the same script, run by bash.

bash runs the line of the script, and the line that port writes; a stub in the place of python prints its words.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from muster_lint.port.values import is_open

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


_CONSTRUCTS = r"""
getopts ab A -a; python t.py $A $OPTIND
declare -i A=2+3; python t.py $A
declare -i A; A=2+3; python t.py $A
declare -u A=abc; python t.py $A
declare -l A; A=ABC; export A; python t.py $A
declare -lx A=ABC; python t.py
declare -n B=A; A=1; B=2; python t.py $A $B
declare -A A=([x]=1 [y]=2); python t.py ${A[x]} "${A[@]}"
A=(x y); A[1]=z; python t.py "${A[@]}"
A=(x y); unset 'A[0]'; python t.py "${A[@]}"
A=([2]=x [0]=y); python t.py "${A[@]}"
A=(a b c); python t.py ${#A[@]} ${A[@]:1} ${A[-1]} ${!A[@]} "${A[@]/#/x}"
A=1; unset A; python t.py $A end
A=1; f() { A=2; }; f; python t.py $A
set -- a b; shift; python t.py "$@" $#
read A B <<< "1 2"; python t.py $A $B
A=1; read -r A <<< 2; export A; python t.py
mapfile -t A < <(printf '1\n2\n'); python t.py "${A[@]}"
A=1; printf -v A %s 5; python t.py $A
A=1; let A=5; python t.py $A
A=1; let "A += 2"; python t.py $A
A=1; ((A<<=2)); python t.py $A
A=1; B=$((A++)); python t.py $A $B
A=1; : $((A=7)); python t.py $A
: ${A:=5}; python t.py $A
A=1; eval A=2; python t.py $A
A=1; B=A; eval "$B=2"; python t.py $A
A=1; B=A; declare $B=2; python t.py $A
A=1; B=A; export "$B=2"; python t.py $A
A=1; B=A; python t.py ${!B}
A=1; source /dev/stdin <<< A=2; python t.py $A
exec python t.py a
command python t.py a
builtin cd /; python t.py a
command export A=1; python t.py
env A=1 python t.py $A
A=1 python t.py $A end
A=$B; B=2; python t.py $A end
A=1; (A=2); python t.py $A
A=1; A=2 true; python t.py $A
A=1; true && A=2; python t.py $A
false && A=2; python t.py $A
A=2; case x in x) A=1 ;& y) A=3 ;; esac; python t.py $A
for A in x; do python t.py $A; done
for ((A=0; A<1; A++)); do python t.py $A; done
select A in x; do python t.py $A; break; done <<< 1
A=1; if ! (((1 + 1) % 2)); then A=2; fi; python t.py $A
python t.py <(true) b
python t.py {1..3} x{a,b} a{,.bak}
python t.py *.none
shopt -s nullglob; python t.py *.none
shopt -s extglob; python t.py @(a|b)
set -f; python t.py *
set +B; python t.py {a,b}
A='*.none'; python t.py $A
A='$HOME'; python t.py $A "$A"
A=x'$y'; python t.py $A
A="\$HOME"; python t.py $A
A=\$HOME/x; python t.py $A
export A=\$HOME/x; python t.py
A=$'x\ty'; python t.py "$A"
export A=$'x\ty'; python t.py
python t.py $'a\nb' $"c"
python t.py $[1+2] $((1+2))
python t.py $A\ \  b
A=x\ ; python t.py "$A" $A\  b
A=abc; python t.py ${A#a} ${A%c} ${A/b/x} ${A^^} ${A:1:1} ${#A} ${A:+y} ${A@Q}
alias python='python x'; shopt -s expand_aliases; python t.py
python t.py $A; A=1
python t.py "$(echo a b)" `echo c d`
A=~; python t.py $A/x ~/y "~/z"
IFS=,; A=a,b; python t.py $A
""".strip().splitlines()
"""Constructs of bash, each in a line: ; stands for the end of a line where no command needs it."""


def _words_by_bash(commands: list[str], folder: Path) -> list[str]:
    """Return the words that python gets from each of these commands."""
    (folder / "python").write_text('#!/bin/bash\nprintf "%s|" "$@" "A=${A-}"\n')
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


def test_a_construct_of_bash_is_the_same_or_asked_about(tmp_path: Path) -> None:
    """Each was run by bash, and by bash as port writes it: words and the exported A."""
    kept = []
    for script in _CONSTRUCTS:
        lines = re.sub("; (?!do|done|then|fi|esac|})", "\n", script)
        _, draft = read(f"#!/bin/bash\n#SBATCH --nodes=1 --time=10\n{lines}\n")
        settings = shlex.join(word for word in draft.values.get("env", ()) if "=" in word)
        if not any(is_open(row) and row.what != "(no GPUs)" for row in draft.rows):
            kept.append((script, f"env {settings} {shlex.join(draft.command)}"))
    assert len(kept) > 12

    wanted = _words_by_bash([script for script, _ in kept], tmp_path)
    found = _words_by_bash([command for _, command in kept], tmp_path)

    assert [case for case, one, other in zip(kept, wanted, found) if one != other] == []


@pytest.mark.parametrize("ending", ["\\\n  <<'X'\ntext\nX\n", "\\", "\\\n", "\\\n\n"])
def test_a_backslash_at_the_end_of_a_line_is_bash(ending: str) -> None:
    _, draft = read(f"#!/bin/bash\n#SBATCH --nodes=1 --time=10\npython t.py --a 1 {ending}")

    assert draft.command == ("python", "t.py", "--a", "1")
    assert all("cannot read" not in row.why for row in draft.rows)
