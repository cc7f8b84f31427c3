"""Facts of this host that one condition decides on: folders, files that are too large, names, answers of Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.errors import MachineLacks, NoSlurm, RequestError
from muster.follow.scheduler import Scheduler
from muster.job.request import Request
from muster.look import first_word, gather, script, sources
from muster.look.cluster import UNNAMED, cluster_name
from muster.look.first_word import _unreadable
from muster.look.gather import _read_launcher_file
from muster.look.probe import _active_python, _working_directory
from muster.look.script import _text_of
from muster.look.size import _possible
from muster.look.sources import imported_modules, read_sources
from muster.look.table import table_of_rows
from muster.runner import ProgramResult
from muster.slurm.granted import Granted
from muster_check.survey.draft import _nvidia_numa


def test_a_folder_is_called_as_the_user_reached_it_if_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    for typed, folder in (
        (tmp_path / "link", tmp_path / "link"),
        (tmp_path, tmp_path / "real"),
        (tmp_path / "gone", tmp_path / "real"),
        ("", tmp_path / "real"),
        (".", tmp_path / "real"),
    ):
        assert _working_directory({"PWD": str(typed)}) == str(folder)


def test_the_python_of_an_active_environment_is_taken_if_it_is_there(tmp_path: Path) -> None:
    for name in ("venv", "conda"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").touch(mode=0o755)
    venv, conda = {"VIRTUAL_ENV": str(tmp_path / "venv")}, {"CONDA_PREFIX": str(tmp_path / "conda")}
    path = {"PATH": str(tmp_path / "conda/bin")}
    assert _active_python({**venv, **conda}) == str(tmp_path / "venv/bin/python")
    assert _active_python(conda) == str(tmp_path / "conda/bin/python")
    assert _active_python({"VIRTUAL_ENV": str(tmp_path / "gone"), **path}) == str(tmp_path / "conda/bin/python")
    assert _active_python({"VIRTUAL_ENV": "", **path}) == str(tmp_path / "conda/bin/python")


def _asked(**fields: Any) -> Request:
    return Request(**{"command": ("python", "t.py"), **fields})


_GRANTED = Granted("7", "n[1-2]", 2, 1, None, None, "", (), (4, 8), None, False, None, None, None)


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (_asked(nodes=1, ntasks_per_node=8), False),
        (_asked(nodes=1, ntasks_per_node=9), True),
        (_asked(ntasks_per_node=9), True),
        (_asked(ntasks_per_node=8), False),
        (_asked(nodes=2, ntasks_per_node=6), False),
        (_asked(nodes=2, ntasks_per_node=7), True),
        (_asked(nodes=2, ntasks_per_node=3, cpus_per_task=2), False),
        (_asked(nodes=2, ntasks_per_node=3, cpus_per_task=3), True),
        (_asked(nodes=2, gpus_per_node=7), True),
        (_asked(nodes=2, cpus_per_task=7), True),
        (_asked(nodes=2, ntasks_per_node=7, srun=("--overcommit",)), False),
        (_asked(nodes=2, ntasks_per_node=7, srun=("-O",)), False),
    ],
)
def test_ranks_that_the_largest_nodes_do_not_hold_are_refused(request_: Request, refused: bool) -> None:
    if refused:
        with pytest.raises(RequestError, match="CPUs, but this allocation has"):
            _possible(request_, _GRANTED)
    else:
        assert _possible(request_, _GRANTED) is request_
    assert _possible(request_, replace(_GRANTED, cpus_of_nodes=())) is request_


@pytest.mark.parametrize(
    ("environment", "configuration", "answer", "name"),
    [
        ({}, "ClusterName=here\n", "ClusterName = asked\n", "here"),
        ({}, "Other=1\n", "ClusterName = asked\n", "asked"),
        ({}, "", "ClusterName = asked\n", "asked"),
        ({}, "", "", UNNAMED),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "job"}, "", "ClusterName = asked\n", "job"),
        ({"SLURM_CLUSTER_NAME": "job"}, "", "ClusterName = asked\n", "asked"),
        ({"SLURM_JOB_ID": "7"}, "", "ClusterName = asked\n", "asked"),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "job"}, "ClusterName=here\n", "", "here"),
    ],
)
def test_the_name_of_a_cluster_is_read_before_it_is_asked_for(
    tmp_path: Path, environment: Mapping[str, str], configuration: str, answer: str, name: str
) -> None:
    (tmp_path / "slurm.conf").write_text(configuration)

    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), 0, answer, "")

    assert cluster_name({**environment, "SLURM_CONF": str(tmp_path / "slurm.conf")}, runner) == name


def test_a_file_that_is_larger_than_any_script_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.py"
    file.write_text("x = (")
    monkeypatch.setattr(script, "_MOST_BYTES", 5)
    assert _text_of(file) == "x = ("
    monkeypatch.setattr(script, "_MOST_BYTES", 4)
    assert (_text_of(file), _text_of(tmp_path), _text_of(tmp_path / "gone")) == (None, None, None)
    monkeypatch.setattr(first_word, "_LONGEST_SCRIPT_BYTES", 5)
    (note,) = _unreadable(file, "t.py", is_own=False)
    assert note.startswith("t.py, line 1:")
    with pytest.raises(RequestError, match=r"t\.py, line 1"):
        list(_unreadable(file, "t.py", is_own=True))
    monkeypatch.setattr(first_word, "_LONGEST_SCRIPT_BYTES", 4)
    assert list(_unreadable(file, "t.py", is_own=True)) == []
    assert list(_unreadable(tmp_path / "gone", "t.py", is_own=True)) == []


def test_the_settings_of_a_launcher_are_read_if_they_are_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = replace(FACTS, working_directory=str(tmp_path))
    asked = _asked(command=("accelerate", "launch", "--config_file", "a.yaml", "t.py"))
    assert _read_launcher_file(asked, facts).launcher_file is None
    (tmp_path / "a.yaml").write_text("a: 1\n")
    assert _read_launcher_file(asked, facts).launcher_file == ("a.yaml", "a: 1\n")
    assert _read_launcher_file(_asked(), facts).launcher_file is None
    monkeypatch.setattr(gather, "_LARGEST_SETTINGS_BYTES", 5)
    assert _read_launcher_file(asked, facts).launcher_file is not None
    monkeypatch.setattr(gather, "_LARGEST_SETTINGS_BYTES", 4)
    assert _read_launcher_file(asked, facts).launcher_file is None


def test_the_files_that_a_script_imports_are_read_once_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "t.py": "import a\nfrom b.c import d\nfrom . import e\nimport os\n",
        "a.py": "import t\nimport a\n",
        "b/c.py": "import a\n",
        "b/__init__.py": "",
        "broken.py": "x = (",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [name for name, _ in read_sources(tmp_path / "t.py")] == ["t.py", "a.py", "b/c.py"]
    assert list(read_sources(tmp_path / "broken.py")) == []
    assert list(read_sources(tmp_path / "gone.py")) == []
    (_, tree), *_ = read_sources(tmp_path / "t.py")
    assert list(imported_modules(tree)) == ["a", "b.c", "os"]
    monkeypatch.setattr(sources, "_MOST_FILES", 2)
    assert [name for name, _ in read_sources(tmp_path / "t.py")] == ["t.py"]
    monkeypatch.setattr(sources, "_MOST_FILES", 3)
    assert len(list(read_sources(tmp_path / "t.py"))) == 3


@pytest.mark.parametrize("value", [True, None, [1], "a\0b"])
def test_a_value_of_a_row_is_a_text_or_a_number(value: object) -> None:
    with pytest.raises(RequestError, match="neither a text nor a number"):
        table_of_rows([{"a": value}])
    assert table_of_rows([{"a": 1, "b": Path("x")}]).rows == (("1", "x"),)


_GPU_1 = "GPU1\tNV4\t X \t8-15\t1\tN/A"
_TOPOLOGY = f"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV4\t0-7\t{{}}\tN/A\n{_GPU_1}\n"


@pytest.mark.parametrize(
    ("topology", "numa"),
    [
        (_TOPOLOGY.format("0"), ["0", "1"]),
        (_TOPOLOGY.format("0-1"), []),
        (_TOPOLOGY.format("0").replace("NUMA Affinity", "Other"), []),
        (_TOPOLOGY.format("0").replace(_GPU_1, "GPU1"), []),
        (_TOPOLOGY.format("0").replace(_GPU_1, "NIC0\tPIX\tPIX"), ["0"]),
        ("", []),
    ],
)
def test_the_domain_of_each_gpu_is_read_from_nvidia_s_table(topology: str, numa: list[str]) -> None:
    assert _nvidia_numa(topology) == numa


@pytest.mark.parametrize(("status", "raises"), [(1, True), (0, False)])
def test_a_client_without_a_cluster_is_no_slurm_if_it_failed(status: int, raises: bool) -> None:
    text = "squeue: error: Unknown host\nsqueue: fatal: Could not establish a configuration source\n"

    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), status, "", text)

    def absent(argv: Sequence[str], **_: Any) -> ProgramResult:
        raise MachineLacks(argv[0], "it is not on PATH", hint="x")

    if raises:
        with pytest.raises(NoSlurm):
            Scheduler({}, runner=runner)._ask(["squeue"])
    else:
        assert Scheduler({}, runner=runner)._ask(["squeue"]).ok
    with pytest.raises(NoSlurm):
        Scheduler({}, runner=absent)._ask(["squeue"])
