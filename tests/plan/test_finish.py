"""What a job that goes on asks for, and what is refused before anybody waits."""

from __future__ import annotations

import shlex

import pytest

from launch.plans import FACTS, plan
from muster.errors import RequestError
from muster.job.options import parse, request_from
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.render.script import job_script, lines_of_job
from muster.sites.load import load

_CHAIN = ("--until-done", "--links", "3")
_COMMAND = ("-N", "2", "--ntasks-per-node", "2", "--", "python", "train.py")


def test_without_the_options_the_script_has_none_of_it() -> None:
    script = job_script(plan(*_COMMAND))

    for word in (
        "muster_supervise",
        "export MUSTER_ATTEMPT",
        "export MUSTER_CHECKPOINT",
        "no-kill",
        "USR1@",
        "muster_save",
    ):
        assert word not in script


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
def test_spare_nodes_are_asked_for_and_have_no_ranks(launcher: str) -> None:
    made = plan("--spares", "1", "--restart", "2", *_COMMAND, launcher=launcher)
    header = {each.name: each.value for each in made.directives}

    assert (header["nodes"], made.shape.nodes, made.shape.ntasks) == ("3", 2, 4)
    assert "no-kill" in header
    assert {"restarts=3", "spares=1"} <= rules(made)


def rules(made: Plan) -> set[str]:
    """Return the words of the line by which the script becomes the supervisor."""
    (line,) = [line for _, line in lines_of_job(made) if line.startswith("muster_supervise ")]
    return set(shlex.split(line.replace("\\\n", " ")))


@pytest.mark.parametrize(
    ("words", "queues", "ahead"), [(_CHAIN, False, True), (_CHAIN, True, False), (("--restart", "1"), False, False)]
)
def test_links_are_queued_ahead_where_jobs_cannot_queue_any(words: tuple[str, ...], queues: bool, ahead: bool) -> None:
    values, origins, command = parse(["-t", "30", *words, *_COMMAND])
    site = load("generic", None, {"launch.queues_from_jobs": queues})
    made = make_plan(request_from({}, values, origins, command), site, FACTS, typed=())
    assert made.finish is not None
    assert made.finish.links_ahead is ahead


def test_the_supervisor_knows_whether_slurm_may_run_the_job_again() -> None:
    with_spares = ("--spares", "1", "--restart", "2", "-t", "30")
    for words, may_requeue in (((), False), (("--requeue",), True), (("--until-done",), True)):
        assert ("requeue=yes" in rules(plan(*with_spares, *words, *_COMMAND))) == may_requeue


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("srun", set()),
        ("torchrun", {"tells=torchrun", "of=agents"}),
        ("mpirun", {"tells=mpirun", "starter=program"}),
        ("mpirun+torchrun", {"tells=torchrun", "of=agents", "starter=program"}),
    ],
)
def test_the_supervisor_knows_who_tells_of_the_ranks(launcher: str, words: set[str]) -> None:
    told = {"tells=torchrun", "tells=mpirun", "of=agents", "starter=program"}

    assert rules(plan("--restart", "1", *_COMMAND, launcher=launcher)) & told == words


@pytest.mark.parametrize(
    ("array", "folder", "line"),
    [
        ("0-9", "saved/%a", 'checkpoint=/home/ada/project/saved/"$SLURM_ARRAY_TASK_ID" '),
        ("0-9", "my saved/%a/x", "checkpoint='/home/ada/project/my saved/'\"$SLURM_ARRAY_TASK_ID\"/x "),
        ("1-9%1", "saved", "checkpoint=/home/ada/project/saved "),
    ],
)
def test_each_task_of_an_array_has_checkpoints_of_its_own(array: str, folder: str, line: str) -> None:
    made = plan("--checkpoint", folder, "--restart", "1", f"--sbatch=--array={array}", *_COMMAND)

    assert line in job_script(made)


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
def test_slurm_signals_the_script_and_the_script_the_ranks(launcher: str) -> None:
    made = plan("--save-before", "5m", "--save-signal", "sigterm", "-t", "30", *_COMMAND, launcher=launcher)

    assert {each.name: each.value for each in made.directives}["signal"] == "B:USR1@300"
    assert {"save=300", "signal=TERM", "restarts=0"} <= rules(made)
    assert "clock=yes" not in rules(made)


def test_a_job_that_slurm_does_not_signal_looks_at_the_clock() -> None:
    made = plan("--save-before", "5m", "-t", "30", *_COMMAND, stream=True)

    assert "signal" not in {each.name for each in made.directives}
    assert {"save=300", "signal=USR1", "clock=yes"} <= rules(made)


@pytest.mark.parametrize(("spares", "nodes"), [(1, 65), (3, 67)])
def test_spare_nodes_count_where_a_partition_is_too_small(spares: int, nodes: int) -> None:
    words = ("-A", "x", "-p", "boost_usr_prod", "-t", "30", "-N", "64", "-g", "4", "--spares", str(spares))
    with pytest.raises(RequestError, match=rf"{nodes} nodes \({spares} spare\), but normal allows 64"):
        plan(*words, "--", "python", "train.py", site="leonardo")
