"""Guards that the tests and the demo hold wherever a person clones: in a closed home, in /tmp, in a home much used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from own_home import FOR_ALL, ROOT, find_place, is_open_to_all, leave_home

from plugins.own_home import HOUSE

KEPT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "CI": "true",
    "TORCH_INDEX": "https://x",
    "PIP_INDEX_URL": "https://y",
}
GONE = (
    *("MUSTER_SITE", "SLURM_JOB_ID", "SBATCH_ACCOUNT", "SRUN_CPUS_PER_TASK", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "OMP_NUM_THREADS", "NCCL_DEBUG", "TMPDIR"),
    *(
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "PYTHONPATH",
        "PYTHONWARNINGS",
        "CUDA_VISIBLE_DEVICES",
        "TORCH_EXTENSIONS_DIR",
    ),
    *("CONDA_PREFIX", "APPTAINER_BIND", "LOADEDMODULES", "BASH_ENV"),
)


def test_the_variables_of_a_person_are_gone_and_those_of_the_machine_stay(tmp_path: Path) -> None:
    environment = {**KEPT, "HOME": str(tmp_path), **dict.fromkeys(GONE, str(tmp_path))}
    leave_home(environment, tmp_path / "new")
    assert {name: environment.get(name) for name in KEPT} == KEPT
    assert not set(GONE) & set(environment)
    assert environment["HOME"] == str(tmp_path / "new")


def test_a_name_that_only_begins_like_one_of_a_rank_stays(tmp_path: Path) -> None:
    environment = {"RANKING": "1", "MASTER_ADDRESS": "x", "HOME": str(tmp_path)}
    leave_home(environment, tmp_path / "new")
    assert {"RANKING", "MASTER_ADDRESS"} <= set(environment)


def test_the_checkout_stays_on_the_path_of_another_python(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PYTHONPATH": f"/their/own:{ROOT}/src:"}
    leave_home(environment, tmp_path / "new")
    assert environment["PYTHONPATH"] == f"{ROOT}/src"


def test_the_devices_and_the_torch_of_make_test_gpu_stay(tmp_path: Path) -> None:
    given = {"CUDA_VISIBLE_DEVICES": "2", "PYTHONPATH": "/their/torch"}
    environment = {**given, "HOME": str(tmp_path), "MUSTER_GPU_REPORT": "x"}
    leave_home(environment, tmp_path / "new")
    assert {name: environment.get(name) for name in given} == given


@pytest.mark.parametrize("where", ["cache", ".cache"])
def test_what_muster_has_fetched_is_kept_and_nothing_else_of_the_cache(where: str, tmp_path: Path) -> None:
    (tmp_path / where / "muster").mkdir(parents=True)
    (tmp_path / where / "torch_extensions").mkdir()
    more = {"XDG_CACHE_HOME": str(tmp_path / where)} if where == "cache" else {}
    leave_home({"HOME": str(tmp_path), **more}, tmp_path / "new")
    assert [path.name for path in (tmp_path / "new/.cache").iterdir()] == ["muster"]
    assert (tmp_path / "new/.cache/muster").samefile(tmp_path / where / "muster")


def test_a_home_that_cannot_be_written_is_left_all_the_same(tmp_path: Path) -> None:
    environment = {"HOME": "/proc/none"}
    leave_home(environment, tmp_path / "new")
    assert environment["HOME"] == str(tmp_path / "new")


def test_a_folder_in_a_closed_one_is_closed(tmp_path: Path) -> None:
    (tmp_path / "home/checkout").mkdir(parents=True)
    (tmp_path / "home").chmod(0o750)
    assert not is_open_to_all(tmp_path / "home/checkout")
    assert is_open_to_all(Path("/usr/bin"))


@pytest.mark.parametrize(("opened", "place"), [(True, Path("/usr/.cache/tests")), (False, FOR_ALL)])
def test_folders_for_all_lie_where_all_may_enter(opened: bool, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("own_home.is_open_to_all", lambda _: opened)
    assert find_place(Path("/usr")) == place


def test_folders_for_all_hosts_do_not_lie_in_a_folder_of_each_host(tmp_path: Path) -> None:
    assert find_place(Path("/tmp")) == FOR_ALL


def test_these_tests_have_left_home() -> None:
    assert os.environ["HOME"] == str(HOUSE / "home")
    assert not [
        name for name in os.environ if name.startswith(("SLURM_", "MUSTER_")) and not name.startswith("MUSTER_GPU")
    ]
