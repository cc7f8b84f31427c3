"""The registry of runs: clusters number their jobs alike, and nobody is shown another cluster's job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from muster.act.record import Run, find_run, forget, is_of, known_runs, make_run_directory, register
from muster.cli import asked_jobs
from muster.cli.asked_jobs import cases
from muster.errors import RequestError
from muster.follow.scheduler import Answer
from muster.look.cluster import UNNAMED, cluster_name
from muster.runner import ProgramResult
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of

NOW = 1_700_000_000
RUN = Run("2", Path("/scratch/muster-runs/train"), "train", "nuA", NOW, "abc")
JOB = SlurmJob("2", "2", "train", state_of("RUNNING"), reason_of("None"), submitted=NOW, comment="muster:abc")
INSIDE = "/scratch/muster-runs/train/logs/batch.log"


def test_one_number_on_two_clusters_is_two_jobs(tmp_path: Path) -> None:
    other = replace(RUN, cluster="nuB", directory=Path("/other"))
    register(tmp_path, RUN)
    register(tmp_path, other)

    assert find_run(tmp_path, "2", "nuA") == RUN
    assert find_run(tmp_path, "2", "nuB") == other
    assert find_run(tmp_path, "2", "nuC") is None
    assert list(known_runs(tmp_path)) == [RUN, other]
    assert find_run(tmp_path, "2", UNNAMED) is None
    forget(tmp_path, RUN)
    assert find_run(tmp_path, "2", UNNAMED) == other
    assert list(known_runs(tmp_path)) == [other]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "."])
def test_a_hostile_name_of_a_cluster_stays_in_the_registry(tmp_path: Path, name: str) -> None:
    register(tmp_path, replace(RUN, cluster=name))

    assert [path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.json")] == ["jobs"]
    assert find_run(tmp_path, "2", name) is not None


@pytest.mark.parametrize(
    ("run", "job", "same"),
    [
        (RUN, replace(JOB, stdout=INSIDE), True),
        (RUN, replace(JOB, stdout="/elsewhere/slurm-2.out"), False),  # queued by hand
        (
            RUN,
            replace(JOB, stdout="/scratch/muster-runs/train-2/logs/batch.log"),
            False,
        ),  # the same launch, of another lab
        (replace(RUN, moved=True), replace(JOB, stdout="/elsewhere/out.txt"), True),
        (replace(RUN, moved=True), replace(JOB, stdout="/elsewhere/out.txt", comment="muster:other"), False),
        (RUN, JOB, True),  # accounting does not say where the output lies
        (RUN, replace(JOB, comment="muster:other"), False),
        (RUN, replace(JOB, submitted=NOW + 86400), False),
        (replace(RUN, requeues=True), replace(JOB, submitted=NOW + 86400), True),
        (replace(RUN, requeues=True), replace(JOB, submitted=NOW - 86400), False),
        (replace(RUN, submitted=None), replace(JOB, submitted=None, comment=None), True),  # the name is all there is
        (replace(RUN, submitted=None), replace(JOB, submitted=None, comment=None, name="other"), False),
    ],
)
def test_what_slurm_says_tells_a_job_from_another_of_its_number(run: Run, job: SlurmJob, *, same: bool) -> None:
    assert is_of(run, job) is same


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory, on the cluster nuA, whose next job is number 3."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(asked_jobs, "cluster", lambda: "nuA")
    monkeypatch.setattr("muster.follow.scheduler.Scheduler.next_job_id", lambda _: 3)
    return tmp_path / "muster"


def test_a_job_that_slurm_has_forgotten_is_known_by_its_record(state: Path) -> None:
    register(state, RUN)

    assert cases(["2"], Answer((), ("2",)))[0].run == RUN


def test_a_number_that_the_cluster_has_not_come_to_was_another_clusters(state: Path) -> None:
    """A lab that was brought up again."""
    register(state, replace(RUN, job="3"))

    with pytest.raises(RequestError, match="Slurm knows no job 3"):
        cases(["3"], Answer((), ("3",)))


class Clients:
    """scontrol, as far as it is asked."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.asked: list[Sequence[str]] = []

    def __call__(self, argv: Sequence[str], **_: Any) -> ProgramResult:
        self.asked.append(argv)
        return ProgramResult(tuple(argv), 0, self.said, "")


def test_the_name_of_the_cluster_stands_in_its_file_else_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "slurm.conf"
    file.write_text("# ClusterName=old\nclustername = nuA # ours\n")
    clients = Clients("Configuration data\nBOOT_TIME = 1\nClusterName             = nuB\n")

    assert cluster_name({"SLURM_CONF": str(file)}, clients) == "nuA"
    assert clients.asked == []
    assert cluster_name({"SLURM_CONF": "/nowhere"}, clients) == "nuB"
    assert cluster_name({"SLURM_CONF": "/nowhere"}, Clients("error")) == UNNAMED
    inside = {"SLURM_CONF": "/nowhere", "SLURM_JOB_ID": "1", "SLURM_CLUSTER_NAME": "nuC"}
    assert cluster_name(inside, clients) == "nuC"


@pytest.mark.parametrize(("name", "begins"), [(".", "run-2"), ("..", "run-2"), (".train", "train-2"), ("a.b", "a.b-2")])
def test_a_run_directory_is_never_hidden(tmp_path: Path, name: str, begins: str) -> None:
    assert make_run_directory(tmp_path, name, {}).name.startswith(begins)
