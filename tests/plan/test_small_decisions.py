"""Small decisions of a plan, each by a table: what goes in, and what the documents of the program say comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launch.plans import plan
from muster.errors import RequestError
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.model.plan import Engine, ReadyKind, Shape
from muster.plan.command import agent_python
from muster.plan.gate import expected_at
from muster.plan.nested import _as_ours
from muster.plan.presets import with_preset
from muster.plan.role_places import what_is_left
from muster.plan.roles import _ready
from muster.plan.secret import without_values
from muster.plan.shape import NodeShape
from sites.profiles import SITES, bundled, written


@pytest.mark.parametrize(
    ("launcher", "name", "value", "ours"),
    [
        ("torchrun", "max_restarts", "3", "--restart 3"),
        ("torchrun", "max_restarts", "$N", None),
        ("torchrun", "num_gpus", "4", None),
        ("accelerate launch", "mixed_precision", "bf16", "--env ACCELERATE_MIXED_PRECISION=bf16"),
        ("python -m accelerate.commands.launch", "mixed_precision", "bf16", "--env ACCELERATE_MIXED_PRECISION=bf16"),
        ("accelerate launch", "fsdp_offload_params", "", "--env FSDP_OFFLOAD_PARAMS=true"),
        ("accelerate launch", "unknown", "1", None),
        ("deepspeed", "num_gpus", "4", "-g 4"),
        ("deepspeed", "num_gpus", "$N", None),
        ("deepspeed", "num_nodes", "4", None),
        ("mpirun", "x", "A=1", "--env A=1"),
        ("mpiexec", "x", "A=1", "--env A=1"),
        ("mpirun", "np", "4", None),
        ("srun", "x", "A=1", None),
        ("srun", "c", "8", "-c 8"),
        ("srun", "gpus_per_node", "4", "-g 4"),
        ("srun", "label", "", None),
    ],
)
def test_a_flag_of_another_launcher_has_one_of_musters(launcher: str, name: str, value: str, ours: str | None) -> None:
    assert _as_ours(launcher, name, value) == ours


@pytest.mark.parametrize(
    ("nodes", "address", "hint"),
    [
        ("2", "n1:29500", "--master-addr n1 --master-port 29500"),
        ("2", "127.0.0.1", "omit it, or name the first host"),
        ("2", "127.9.0.1", "omit it, or name the first host"),
        ("2", "localhost", "omit it, or name the first host"),
        ("2", "::1", "omit it, or name the first host"),
        ("2", "n1", None),
        ("2", "fe80::1:2", None),
        ("2", "128.0.0.1", None),
        ("1", "127.0.0.1", None),
        ("1", "localhost", None),
    ],
)
def test_an_address_of_the_meeting_point_is_one_that_all_nodes_reach(
    nodes: str, address: str, hint: str | None
) -> None:
    words = ("-N", nodes, "-g", "1", "--master-addr", address, "--", "python", "a.py")
    if hint is None:
        assert plan(*words).rendezvous.address == address
        return
    with pytest.raises(RequestError) as refused:
        plan(*words)
    assert refused.value.hint == hint


_MINE = 'muster_site = 1\nname = "mine"\ntitle = "t"\n\n[rendezvous]\n'


@pytest.mark.parametrize(
    ("words", "low", "high", "reserved"),
    [
        ((), 30000, 30999, True),
        (("--master-port", "29500"), 30000, 30999, False),
        (("--port-range", "20000-21000"), 20000, 21000, False),
    ],
)
def test_a_port_that_was_asked_for_is_not_one_that_slurm_reserves(
    tmp_path: Path, words: tuple[str, ...], low: int, high: int, reserved: bool
) -> None:
    text = f"{_MINE}reserved_ports = true\nport_low = 30000\nport_high = 30999\n"
    site = str(written(tmp_path, text))
    meeting = plan("-N", "2", *words, "--", "python", "a.py", site=site).rendezvous

    assert (meeting.port_low, meeting.port_high, meeting.reserved_ports) == (low, high, reserved)
    assert meeting.range_asked is ("--port-range" in words)
    assert meeting.port_reason.origin.startswith(f"{site}:") is not bool(words)


def test_an_address_that_was_asked_for_is_not_changed(tmp_path: Path) -> None:
    text = f'{_MINE}host = "suffix"\nsuffix = "-ib"\n'
    site = str(written(tmp_path, text))
    usual, asked = (
        plan("-N", "2", *words, "--", "python", "a.py", site=site).rendezvous for words in ((), ("--master-addr", "n1"))
    )

    assert (usual.address, usual.host_suffix) == (None, "-ib")
    assert (asked.address, asked.host_suffix, asked.rule) == ("n1", "", ())
    assert asked.address_reason != usual.address_reason


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python", "a.py"), ("python",)),
        (("/opt/bin/python3.11", "a.py"), ("/opt/bin/python3.11",)),
        (("a.py",), ("/e/python",)),
        (("uv", "run", "a.py"), ("uv", "run", "python")),
        (("uv", "run", "python", "a.py"), ("uv", "run", "python")),
        (("uv", "run", "torchthing"), ("/e/python",)),
        (("nice", "a.py"), ("/e/python",)),
        (("nice", "python", "a.py"), ("python",)),
        ((), ("/e/python",)),
    ],
)
def test_the_agent_of_torchrun_has_the_python_of_the_command(command: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert agent_python(command, "/e/python") == words


@pytest.mark.parametrize(
    ("preset", "words", "port", "ready"),
    [
        ("ray", ("--head",), "ray", "log:Ray runtime started."),
        ("serve", ("vllm", "serve", "m"), "http", "http://{host}:{port}/health http://{host}:{port}/v1/models"),
    ],
)
def test_a_preset_gives_a_role_what_it_did_not_ask_for(
    preset: str, words: tuple[str, ...], port: str | None, ready: str
) -> None:
    role = with_preset(Request(role="r", preset=preset, command=words))

    assert (role.port or None, role.ready) == (port, ready)
    assert role.command[-len(words) :] == words
    assert role.command[:2] == (("sh", "-c") if preset == "ray" else words[:2])
    assert role.command[3:4] == ((preset,) if preset == "ray" else ())


def test_a_role_of_a_preset_with_a_program_needs_no_command_and_another_one_does() -> None:
    assert with_preset(Request(command=(), role="r", preset="ray")).command[0] == "sh"
    with pytest.raises(RequestError, match="role r has no command"):
        with_preset(Request(command=(), role="r", preset="serve"))
    assert with_preset(Request(command=(), role="r", preset="ray", ntasks_per_node=1)).command
    assert with_preset(Request(role="r", preset="serve", command=("a",), ntasks_per_node=4)).command == ("a",)
    with pytest.raises(RequestError, match="one process on each node"):
        with_preset(Request(command=(), role="r", preset="ray", ntasks_per_node=2))


@pytest.mark.parametrize(
    ("asked", "kind", "text"),
    [
        (None, ReadyKind.JOINED, ""),
        ("joined", ReadyKind.JOINED, ""),
        ("port", ReadyKind.PORT, ""),
        ("log:up: now", ReadyKind.LOG, "up: now"),
        ("command:curl x", ReadyKind.COMMAND, "curl x"),
        ("http://x/health", ReadyKind.ADDRESS, "http://x/health"),
        ("https://x/health", ReadyKind.ADDRESS, "https://x/health"),
        ("http://x", ReadyKind.ADDRESS, "http://x"),
        ("http://x:8000 https://[::1]:443/", ReadyKind.ADDRESS, "http://x:8000 https://[::1]:443/"),
        ("http", None, ""),
        ("http:x", None, ""),
        ("http://", None, ""),
        ("http://:80/health", None, ""),
        ("http://x:0/", None, ""),
        ("http://x:65536/", None, ""),
        ("http://x:y/", None, ""),
        ("http://{host}:{port}/ x", None, ""),
        ("log", None, ""),
        ("log: ", None, ""),
        ("ftp://x", None, ""),
        ("never", None, ""),
    ],
)
def test_when_a_role_is_ready(asked: str | None, kind: ReadyKind | None, text: str) -> None:
    request = Request(command=(), role="r", ready=asked)
    if kind is None:
        with pytest.raises(RequestError, match="does not say when it is ready"):
            _ready(request, "r", ("r",), ())
        return
    ready = _ready(request, "r", ("r",), ())
    assert (ready.kind, "".join(map(str, getattr(ready, "text", "") or ""))) == (kind, text)


@pytest.mark.parametrize(
    ("text", "values", "shown"),
    [
        ("a secretvalue b", ["secretvalue"], "a … b"),
        ("a b", ["b"], "a b"),
        ("abcdef abcde", ["abcdef", "abcde"], "… abcde"),
        ("secretvalue secretvalue", ["secretvalue", "x"], "… …"),
    ],
)
def test_a_value_that_is_long_enough_to_be_a_secret_is_left_out(text: str, values: list[str], shown: str) -> None:
    assert without_values(text, values) == shown


def _node(**words: Any) -> NodeShape:
    return NodeShape(**{"gpus": 4, "cpus": 64, "cpus_per_gpu": 16, **words})


@pytest.mark.parametrize(
    ("asked", "node", "gpus", "cpus"),
    [
        ({}, {}, 3, 16),
        ({}, {"is_taken_whole": False}, None, None),
        ({"ntasks_per_node": 2}, {}, None, 16),
        ({"gpus_per_node": 2}, {}, 2, 16),
        ({"gpus_per_node": 2, "ntasks_per_node": 1}, {}, 2, 32),
        ({"cpus_per_task": 4}, {}, 3, 4),
        ({}, {"gpus": None}, None, None),
        ({}, {"gpus": 0}, None, None),
        ({}, {"cpus": None}, 3, None),
        ({}, {"cpus_per_gpu": None}, 3, None),
        ({}, {"cpus": 32}, 3, 5),
        ({"ntasks_per_node": 48}, {}, None, 1),
        ({"ntasks_per_node": 64}, {}, None, 1),
    ],
)
def test_a_role_beside_others_has_the_gpus_and_cores_that_they_leave(
    asked: dict[str, int], node: dict[str, Any], gpus: int | None, cpus: int | None
) -> None:
    origins = dict.fromkeys(asked, ValueOrigin(OriginKind.OPTION, "typed"))
    request = Request(command=("a",), role="r", origins=origins, **asked)  # type: ignore[arg-type]
    left = what_is_left(request, [Shape(1, 1, 1, 16)], _node(**node))

    assert (left.gpus_per_node, left.cpus_per_task) == (gpus, cpus)


@pytest.mark.parametrize(
    ("words", "engine", "segment", "hcas"),
    [
        (("--segment=4",), Engine.SLURM, 4, True),
        (("--segment=x", "--comment=4"), Engine.SLURM, None, True),
        (("--comment=4",), Engine.SLURM, None, True),
        ((), Engine.HERE, None, False),
    ],
)
def test_what_a_site_promises_of_its_nodes(
    words: tuple[str, ...], engine: Engine, segment: int | None, hcas: bool
) -> None:
    site = next(bundled(name) for name in SITES if bundled(name).profile.fabric.hcas and _numa(name))
    request = Request(command=("a",), sbatch=words)
    expected = expected_at(site, Shape(2, 4, 4, 8), engine, request)

    assert expected["gpus"] == 4
    assert expected["gpu_numa"] == list(_numa(site.name))
    assert expected["fabric"] == site.profile.fabric.kind
    assert expected.get("segment") == segment
    assert ("hcas" in expected) is hcas
    assert "closed" not in expected
    assert expected_at(bundled("generic"), Shape(1, 1, 0, 8), Engine.SLURM, request).keys() <= {"segment"}


def _numa(name: str) -> tuple[int, ...]:
    return next((tuple(node.gpu_numa) for node in bundled(name).profile.nodes.values() if node.gpu_numa), ())
