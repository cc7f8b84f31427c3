"""Guards the words of `muster lab`: what is refused before anything is made, with status 2 and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.app import main


@pytest.fixture(autouse=True)
def nobody_has_a_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("nope", "there is no verb of muster lab named 'nope'"),
        ("up -N 0", "-N: '0' is not a count"),
        ("up -N x", "-N: 'x' is not a count"),
        ("up --slurm 19.05", "there is no Slurm version for a lab named '19.05'"),
        ("up --memory lots", "--memory: 'lots' is not a memory size"),
        ("up --name ../x", "'../x' cannot name a lab"),
        ("up --gpu-type a:b", "'a:b' cannot be a GPU type"),
        ("up --partition a:nodes=9", "partition a wants 9 hosts of 4"),
        ("up --partition a --partition a", "the partition 'a' is there twice"),
        ("up --like lumi --memory 1G", "--memory has no effect beside --like: the hosts are those of lumi"),
        ("up --like lumi --gpus-per-node 0", "--gpus-per-node has no effect beside --like"),
        ("up --like lumi --partition a", "--partition has no effect beside --like"),
        ("up --like lumi --accounting", "--accounting has no effect beside --like"),
        ("up --like nosuch -N 2 --memory 16G", "there is no site named 'nosuch'"),
        ("up surplus", "muster lab up takes no words of its own, but 'surplus' is one too many"),
        ("down", "no lab named 'lab' is up"),
        ("status --name other", "no lab named 'other' is up"),
        ("exec", "muster lab exec needs a command"),
        ("exec true", "no lab named 'lab' is up"),
        ("exec --host", "--host needs a value"),
        ("shell", "no lab named 'lab' is up"),
        ("fault", "muster lab fault needs the name of a fault"),
        ("fault kill-node node1", "no lab named 'lab' is up"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(
    words: str, complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["lab", *words.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"muster: error: {complaint}")
    assert "\n\nhint: " in said.err
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


@pytest.mark.parametrize("verb", ["", "up", "exec", "shell", "status", "down", "fault"])
def test_every_verb_has_a_help_page(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", *verb.split(), "--help"]) == 0
    assert f"usage: muster lab {verb}".rstrip() in capsys.readouterr().out
