"""TAB: a real bash reads what `muster completion` prints, and finds verbs and options, but nothing in the command."""

from __future__ import annotations

import pytest

from muster.cli.app import main
from muster.runner import run

ASK = 'COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _muster; printf "%s\\n" "${{COMPREPLY[@]}}"'


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("muster su", ["submit"]),
        ("muster run --ntasks", ["--ntasks-per-node"]),
        ("muster run -- x --ntasks", [""]),
        ("muster lab --ntasks", [""]),
    ],
)
def test_a_shell_completes(words: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    assert run(["bash", "-c", script + ASK.format(words=words)]).stdout.splitlines() == expected


def test_a_shell_that_we_do_not_know_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert "known: bash, zsh" in capsys.readouterr().err
