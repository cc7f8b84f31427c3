"""Guards the words of `muster lab`: what is refused before anything is made, with status 2 and a hint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.cli.app import main
from muster_lab import enter, labs, registry
from muster_lab.spec import LabSpec


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
    words: str, complaint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
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


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("", {"name": "lab", "cluster": "lab", "hosts": 4, "accounting": False, "internet": False, "tmp_mib": 256}),
        ("-N 2 --name My.Lab", {"name": "My.Lab", "cluster": "my_lab", "hosts": 2}),
        ("--accounting --internet --tmp 1G", {"accounting": True, "internet": True, "tmp_mib": 1024}),
        ("--partition a:nodes=1 --partition b", {"partitions": ["a", "b"]}),
        ("--topology tree:2 --slurm 24.11", {"topology": ("tree", 2), "slurm": "24.11", "partitions": ["main"]}),
        ("--cpus-per-node 2 --gpus-per-node 1 --gpu-type a100 --memory 1G", {"group": (2, 1, "a100", 1024)}),
        ("--like snellius -N 2 --name x --internet --tmp 1G", {"site": "snellius", "internet": True, "tmp_mib": 1024}),
    ],
)
@pytest.mark.parametrize("form", ["", " --json"])
def test_a_lab_is_made_as_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, made: dict[str, Any], form: str
) -> None:
    specs: list[LabSpec] = []
    monkeypatch.setattr(labs, "up", lambda spec, *_: specs.append(spec))
    monkeypatch.setattr(labs, "status", lambda name, _: {"name": name})
    assert main(["lab", "up", *f"{words}{form}".split()]) == 0
    (spec,) = specs
    group = spec.groups[0]
    seen = {
        **{name: getattr(spec, name) for name in ("name", "cluster", "accounting", "internet", "tmp_mib", "site")},
        "topology": spec.topology, "slurm": spec.slurm, "hosts": len(spec.hosts),
        "partitions": [partition.name for partition in spec.partitions],
        "group": (group.cpus, group.gpus, group.gpu_type, group.memory_mib),
    }  # fmt: skip
    assert {key: seen[key] for key in made} == made
    told = capsys.readouterr()
    assert (told.out == f'{{\n  "name": "{spec.name}"\n}}\n') is bool(form)
    option = "" if spec.name == "lab" else f" --name {spec.name}"
    assert (f"muster lab exec{option} -- srun -N{len(spec.hosts)} hostname" in told.err) is not bool(form)


def test_a_lab_that_is_interrupted_is_gone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(labs, "up", interrupt)
    assert main(["lab", "up", "--name", "x"]) == 130
    assert "what was begun of the lab 'x' is gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "done", "said"),
    [
        ("restore", ("restore", "all"), "all hosts and the controller are repaired"),
        ("restore all", ("restore", "all"), "all hosts and the controller are repaired"),
        ("restore node1", ("restore", "node1"), "node1 is repaired"),
        ("stop-controller", ("stop",), "muster lab fault restore controller"),
        ("stop-controller --name x", ("stop",), "muster lab fault --name x restore controller"),
        ("slow-link node1 10mbit", ("slow-link", "node1", "10mbit"), "slow-link node1 10mbit: done; undo it: "),
        ("slow-link node1", None, "slow-link takes H RATE, not node1"),
        ("restore a b", None, "restore takes [H|controller|all], not a b"),
        ("stop-controller a", None, "stop-controller takes no host, not a"),
        ("kill-node", None, "kill-node takes H, not nothing"),
    ],
)
def test_a_fault_is_typed_with_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, done: Any, said: str
) -> None:
    seen: list[tuple[str, ...]] = []
    monkeypatch.setattr(labs, "restore", lambda _, __, target: seen.append(("restore", target)))
    monkeypatch.setattr(labs, "stop_controller", lambda *_: seen.append(("stop",)))
    monkeypatch.setattr(labs, "fault", lambda _, __, *fault: seen.append(fault))
    assert main(["lab", "fault", *words.split()]) == (2 if done is None else 0)
    assert seen == ([] if done is None else [done])
    assert said in capsys.readouterr().err


def test_the_status_of_a_lab_is_a_table_or_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = {"name": "node1", "address": "10.77.0.2", "state": "idle", "faults": ["cut-link"]}
    told = {"name": "x", "pid": 7, "slurm": "24.11", "controller": "up", "memory_mib": 30.0, "hosts": [host] * 2}
    monkeypatch.setattr(labs, "status", lambda *_: {**told, "real": ["slurmctld"], "faked": ["GPUs"]})
    assert main(["lab", "status"]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in ("30 MiB, 15.0 MiB a host", "node1", "cut-link", "real:\n  slurmctld"))
    assert main(["lab", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == [host] * 2


@pytest.mark.parametrize(
    ("uid", "user", "said"), [(5, None, True), (5, "root", True), (5, "bob", False), (0, None, False)]
)
def test_an_ordinary_user_is_told_who_root_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], uid: int, user: str | None, said: bool
) -> None:
    commands: list[Any] = []
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("SHELL", "/bin/dash")
    monkeypatch.setattr(registry.LabRegistry, "find", lambda *_: SimpleNamespace(pid=7))

    def execute(pid: int, command: enter.LabCommand) -> int:
        commands.append((pid, command))
        return 3

    monkeypatch.setattr(enter, "execute", execute)
    assert main(["lab", "shell", *(["--user", user] if user else [])]) == 3
    assert [(pid, command.argv, command.user) for pid, command in commands] == [(7, ("/bin/dash",), user)]
    assert ("you are root in the lab" in capsys.readouterr().err) is said
