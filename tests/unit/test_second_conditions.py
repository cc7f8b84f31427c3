"""Second conditions of several rooms, each with the input that only it decides on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from act.test_keeper import _allocated
from muster.act import keep
from muster.errors import MachineLacks, RequestError
from muster.follow.attempts import _story
from muster.job.option import parse_nodes
from muster.life.told import last_error
from muster.parts import load_place
from muster.policy.queues import _kinds_of_type
from muster.probe.judge import _files
from muster.sites.schema import NodeKind
from muster.sites.tell import _spell
from muster_check.ranks.gather import _is_open
from muster_check.ranks.meeting import judge_port
from muster_check.survey.verify import _names_of_requests
from muster_lab.rehearse.source import _needs
from muster_lint.look import _lint_python
from muster_lint.read import FileKind, SourceFile
from port.scripts import read
from sites.profiles import bundled


@pytest.mark.parametrize(
    ("lines", "rank", "labelled", "error"),
    [
        (["3: ValueError: a", "3: bye"], 3, True, "ValueError: a"),
        (["3: ValueError: a", "4: KeyError: b"], 3, True, "ValueError: a"),
        (["3: ValueError: a", "4: KeyError: b"], None, True, "KeyError: b"),
        (["ValueError: a"], 3, True, ""),
        (["ValueError: a"], 3, False, "ValueError: a"),
        (["3: ValueError: a", "muster: rank 4 ended: KeyError: x"], None, False, "ValueError: a"),
        (["3: hello"], 3, True, ""),
    ],
)
def test_the_last_error_of_a_rank(lines: list[str], rank: int | None, labelled: bool, error: str) -> None:
    assert last_error(lines, rank, labelled) == error


def test_only_a_package_that_is_not_installed_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "muster_half.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(MachineLacks, match="this needs muster-nothing, which is not installed"):
        load_place("muster_nothing.part:x")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        load_place("muster_half:x")


@pytest.mark.parametrize(("number", "words"), [(0, "a.x"), (1, "a.y"), (2, "a.2"), (3, "a.3"), (4, "a.4"), (5, "a./p")])
def test_an_entry_is_called_by_its_name_where_no_other_has_it(number: int, words: str) -> None:
    table = {"a": [{"name": "x"}, {"id": "y"}, {"z": 1}, {"name": "w"}, {"name": "w"}, {"path": "/p"}]}

    assert _spell(("a", number), table) == words


@pytest.mark.parametrize(
    ("option", "asks"),
    [
        ("--gres", False),
        ("--gres=gpu:0", False),
        ("--gres=gpu:a100:0", False),
        ("--gres=gpu:2", True),
        ("--gres=shard:1,gpu:1", True),
        ("--gres=shard:1", False),
        ("--gpus=0", False),
        ("--gpus=1", True),
        ("--ntasks-per-gpu=1", True),
        ("--nodes=2", False),
    ],
)
def test_a_header_asks_for_gpus(option: str, asks: bool) -> None:
    job, _ = read(f"#!/bin/bash\n#SBATCH {option}\nsrun python a.py\n")

    assert job.asks_for_gpus is asks


def test_the_port_of_the_meeting_point_is_rank_0s() -> None:
    taken, free = ({"squatter": squatter, "host": "n", "environment": {"MASTER_PORT": "9"}} for squatter in ("x", ""))

    for ranks, count in (([taken, taken], 1), ([free, taken], 0), ([free], 0), ([], 0)):
        world: Any = SimpleNamespace(ranks=ranks)
        assert len(list(judge_port(world))) == count


def test_a_file_that_another_process_has_mapped_is_open(tmp_path: Path) -> None:
    file = tmp_path / "held"
    file.write_bytes(b"x" * 4096)
    text = "import mmap, sys; file = open(sys.argv[1]); held = mmap.mmap(file.fileno(), 0, prot=1)\n"
    text += "print(flush=True); sys.stdin.read()"
    assert not _is_open(str(file))
    with subprocess.Popen(
        [sys.executable, "-c", text, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        was_open = _is_open(str(file))
        process.communicate()

    assert was_open


@pytest.mark.parametrize(
    ("text", "line", "column"), [("a = (\n", 1, 5), ("a\0", 1, 1), ("x = 1\ny = = 2\n", 2, 5), ("x = 1\n  y\n", 2, 1)]
)
def test_the_place_where_a_file_is_no_python(text: str, line: int, column: int) -> None:
    (finding,) = _lint_python(SourceFile("a.py", text, FileKind.PYTHON))

    assert finding.rule == "not-python"
    assert (finding.place.line, finding.place.column >= 1) == (line, column >= 1)


def _end(decision: str) -> Any:
    return SimpleNamespace(decision=decision, sentence=f"it is {decision}")


@pytest.mark.parametrize(
    ("ends", "sentences"),
    [
        ({1: _end("done")}, []),
        ({1: _end("end")}, ["attempt 1 (job 7): it is end"]),
        ({1: _end("again"), 2: _end("done")}, ["attempt 1 (job 7): it is again", "attempt 2: it is done"]),
    ],
)
def test_a_single_attempt_that_ended_well_has_no_story(ends: dict[int, Any], sentences: list[str]) -> None:
    attempt: Any = SimpleNamespace(number=1, job="7", lost_before=())
    run: Any = SimpleNamespace(job="7")

    assert list(_story(run, None, [attempt], ends)) == sentences


@pytest.mark.parametrize(
    ("types", "listed", "gpu_type", "kinds"),
    [
        ({"a100": None, "h100": None}, (), "h100", ["h100"]),
        ({"a100": None, "h100": None}, (), "v100", ["a100", "h100"]),
        ({"a100": None, "h100": None}, ("gpu:v100",), "v100", ["a100", "h100"]),
        ({"a100": None, "h100": None}, ("gpu:a100",), "v100", []),
        ({"a100": "x", "h100": "y"}, (), "a100", []),
        ({"a100": "x", "h100": "y"}, (), "y", ["h100"]),
        ({"a100": "x", "h100": None}, (), "x", ["a100"]),
    ],
)
def test_the_kinds_of_node_with_a_type_of_gpu(
    types: dict[str, str | None], listed: tuple[str, ...], gpu_type: str, kinds: list[str]
) -> None:
    profile = bundled("generic").profile
    nodes = {name: NodeKind(gpus=4, gpu_type=named) for name, named in types.items()}
    request = replace(profile.request, gpu_type=None, gres_names=listed or None)

    assert _kinds_of_type(replace(profile, nodes=nodes, request=request), gpu_type) == kinds


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("torch.cuda.set_device(0)", "torch.cuda.set_device"),
        ("cuda.set_device(0)", "torch.cuda.set_device"),
        ("torch.npu.set_device(0)", None),
        ("set_device(0)", None),
        ("dist.init_process_group('nccl')", 'init_process_group("nccl")'),
        ("dist.init_process_group('gloo')", None),
        ("print('nccl')", None),
        ("model.cuda()", ".cuda()"),
        ("cuda()", None),
        ("model.to('cuda:0')", 'to("cuda")'),
        ("model.to(f'cuda:{n}')", 'to("cuda")'),
        ("model.to('cpu')", None),
        ("print('cuda')", None),
    ],
)
def test_what_a_call_needs_that_a_rehearsal_lacks(text: str, need: str | None) -> None:
    call = ast.parse(text, mode="eval").body

    assert isinstance(call, ast.Call)
    assert _needs(call) == need


def test_files_that_a_host_cannot_read_are_named_and_else_all_is_well() -> None:
    plan: Any = None
    lost, fine = (SimpleNamespace(host="n1", unreadable=paths) for paths in (("/a", "/b", "/c", "/d"), ()))

    assert [point.ok for point in _files(plan, [lost, fine])] == [False] * 3  # type: ignore[list-item]
    assert [point.ok for point in _files(plan, [fine])] == [True]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("status", "group", "job", "of_slurm", "killed", "left_over", "is_given_back"),
    [
        (0, 44, "7", False, True, True, True),
        (1, None, "7", True, False, False, True),
        (None, None, None, False, False, False, True),
        (-9, 44, "7", False, True, True, False),
    ],
)
def test_what_salloc_leaves_is_ended_and_what_it_held_is_given_back(
    monkeypatch: pytest.MonkeyPatch, status: int | None, group: int | None, job: str | None, of_slurm: bool,
    killed: bool, left_over: bool, is_given_back: bool,
) -> None:  # fmt: skip
    keeper, guard, _ = _allocated(steps_of_slurm=of_slurm)
    keeper.child_status, keeper.group, keeper.job = status, group, job
    sent: list[int] = []
    ended: list[str] = []
    monkeypatch.setattr(keep._Keeper, "_send", lambda _, number: sent.append(number))
    monkeypatch.setattr("muster.act.left_over.end_left_over_steps", ended.append)
    keeper.finish()

    assert (sent, ended) == ([9] * killed, ["7"] * left_over)
    assert ("finish" in guard.watched) is is_given_back


def test_names_that_a_request_may_hold_and_no_node_has_are_told() -> None:
    kinds = [SimpleNamespace(gpus=(("a100", 4), ("", 1)), features=("ib",))]
    profile = bundled("generic").profile

    def told(*, kinds: Any = kinds, **request: Any) -> list[tuple[str, str]]:
        cluster: Any = SimpleNamespace(kinds=kinds)
        own = replace(profile, request=replace(profile.request, **{"gres_names": None, "features": None, **request}))
        return [(key, words) for key, words, *_ in _names_of_requests(own, cluster)]

    assert told() == []
    assert told(gres_names=("gpu:a100", "gpu"), features=("ib",)) == []
    ((key, words),) = told(gres_names=("gpu:a100", "gpu:h100"))
    assert (key, "gpu:h100" in words, "gpu:a100" in words) == ("request.gres_names", True, False)
    ((key, words),) = told(features=("ib&big",))
    assert (key, "big" in words) == ("request.features", True)
    assert told(kinds=[], gres_names=("gpu:h100",)) == []


@pytest.mark.parametrize(("text", "is_right"), [("n[1-3]", True), ("n1,n2", True), ("n[1-", False), ("./n[1-", True)])
def test_a_list_of_nodes_is_read_and_a_file_of_one_is_not(text: str, is_right: bool) -> None:
    if is_right:
        assert parse_nodes(text) == text
        return
    with pytest.raises(RequestError, match="is not a list of nodes"):
        parse_nodes(text)
