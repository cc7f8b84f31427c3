"""TAB: real shells read what `muster completion` prints, and offer what the verbs say of themselves."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from muster.cli.app import main
from muster.cli.completion import candidates
from muster.runner import run
from plugins.wide import sampled

BIN = str(Path(sys.executable).parent)
# How each shell is asked for the words at the end of a line, as by TAB.
ASK = {
    "bash": """
source <("{muster}" completion bash)
COMP_LINE={line}; read -ra COMP_WORDS <<<"${{COMP_LINE//=/ = }}"; [[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _muster 2>/dev/null; printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    # Without compinit before, as in an empty .zshrc. What would be drawn is printed in its place.
    "zsh": """
source <("{muster}" completion zsh) || exit
[[ ${{_comps[muster]}} == _muster ]] || {{ print not registered; exit 1; }}
_describe() {{ print -rl -- "${{(@)${{(P@)2}}/:*/}}"; }}
_files() {{ print files; }}
line={line}; words=("${{(@s: :)line}}"); [[ $line != *' ' ]] || words[-1]=''
CURRENT=${{#words}}; _muster
""",
    "fish": """
{muster} completion fish | source
complete --do-complete {line} | string replace --regex '\\t.*' ''
""",
}


def asked(shell: str, line: str) -> list[str]:
    """What the shell offers at the end of the line."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    quiet = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    script = ASK[shell].format(muster=f"{BIN}/muster", line=f"'{line}'")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    done = run([program, *quiet, "-c", script], env=environment, timeout_s=60)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


_LINES = [
    ("muster su", ["submit"]),
    ("muster run --ntasks", ["--ntasks-per-node"]),
    ("muster bench --coll", ["--collective"]),
    ("muster check --pict", ["--picture"]),
    ("muster lab fa", ["fault"]),
    ("muster lab up --acc", ["--accounting"]),
    ("muster lab fault cut", ["cut-link"]),
    ("muster site show lum", ["lumi"]),
    ("muster run --site lum", ["lumi"]),
    ("muster run --launcher tor", ["torchrun"]),
    ("muster plan --as w", ["why", "words"]),
    ("muster build venv --gpu-kind c", ["cpu", "cuda"]),
    ("muster completion z", ["zsh"]),
]


@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    sampled(
        [pytest.param(shell, *line, id=f"{shell}-{line[0]}") for line in _LINES for shell in ASK],
        keep=lambda case: case.values[0] == "bash" and case.values[1:] in (_LINES[0], _LINES[8]),
    ),
)
def test_a_real_shell_completes(shell: str, line: str, expected: list[str]) -> None:
    assert sorted(asked(shell, line)) == sorted(expected)


@pytest.mark.parametrize(
    ("shell", "expected"), [("bash", ["torchrun"]), ("zsh", ["--launcher=torchrun"]), ("fish", ["--launcher=torchrun"])]
)
def test_a_value_behind_an_equals_sign(shell: str, expected: list[str]) -> None:
    assert asked(shell, "muster run --launcher=tor") == expected


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [
        (["run", "--", "x"], "--nta", []),
        (["run", "python"], "--nta", []),
        (["run", "-N"], "", []),
        (["run", "--quiet"], "--qui", []),
        (["run", "--env", "A=1"], "--env", ["--env"]),
        (["lab"], "", ["up", "exec", "shell", "status", "down", "fault", "--help"]),
        (["jobs"], "", ["--json", "--help"]),
        (["nonsense"], "", []),
        (["site", "nonsense"], "", []),
        (["shell"], "--snap", []),
        (["build", "image"], "--given", []),
        (["completion", "bash"], "", []),
    ],
)
def test_what_may_stand_there(before: list[str], word: str, expected: list[str]) -> None:
    assert [each.word for each in candidates(before, word)] == expected


def test_job_ids_are_those_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nexec sleep 60\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert main(["completion", "--for", "bash", "--", "cancel", ""]) in {0, 3}


def test_a_shell_that_is_not_known_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "known: bash, zsh, fish" in capsys.readouterr().err
    assert main(["completion"]) == 2
