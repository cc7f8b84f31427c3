"""What the runner of roles writes is read again: how each role stands, and which one failed first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.act.record import Run
from muster.errors import RequestError, UnknownName
from muster.follow.attempts import attempts_over, ends_of_earlier
from muster.follow.first_failure import first_failure
from muster.follow.last_words import last_words
from muster.follow.roles import failed_role, of_role, role_of, stands_of
from muster.follow.watch import JobOutput, output_of_run
from muster.model.failure import Failure, FailureKind
from muster.render.document import plan_as_json

PLACES = {
    "serve": {"host": "n1", "hosts": "n1", "port": "20001", "url": "http://n1:20001", "nodes": ["n1"], "ranks": 1},
    "train": {
        "host": "n2",
        "hosts": "n2,n3",
        "port": "20002",
        "url": "http://n2:20002",
        "nodes": ["n2", "n3"],
        "ranks": 4,
    },
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles/roles.json").write_text(json.dumps(PLACES))
    return tmp_path


def happened(run: Path, *events: tuple[str, str, int, str]) -> None:
    lines = [
        json.dumps({"role": role, "what": what, "status": status, "words": words})
        for role, what, status, words in events
    ]
    (run / "roles/events").write_text("\n".join([*lines, "{half a li"]))


def test_a_role_waits_starts_is_ready_and_ends(run: Path) -> None:
    assert [stand.stand for stand in stands_of(run)] == ["waits", "waits"]
    happened(run, ("serve", "starts", 0, ""), ("serve", "ready", 0, ""), ("train", "starts", 0, ""))
    assert [stand.stand for stand in stands_of(run)] == ["ready", "starts"]
    happened(run, ("train", "ended", 3, ""), ("train", "failed", 3, ""))
    assert role_of(run, "train").sentence == "ended with status 3, on n2, n3, http://n2:20002"


def test_the_address_of_a_role_that_nobody_saw_listen_is_not_called_ready(run: Path) -> None:
    (run / "roles/roles.json").write_text(json.dumps({"train": {**PLACES["train"], "ready": "joined"}}))
    happened(run, ("train", "starts", 0, ""), ("train", "ready", 0, ""))
    assert role_of(run, "train").sentence == "runs, on n2, n3; whether it listens at http://n2:20002 is not known"
    happened(run, ("train", "ended", 3, ""))
    assert role_of(run, "train").sentence == "ended with status 3, on n2, n3, http://n2:20002"


def test_ranks_fill_one_host_after_the_other(run: Path) -> None:
    train = role_of(run, "train")

    assert [train.host_of(rank) for rank in (0, 3, 4, 7)] == ["n2", "n2", "n3", "n3"]
    for rank in (-1, 8):
        with pytest.raises(RequestError, match="has no rank"):
            train.host_of(rank)


def test_a_role_that_is_not_there_is_refused(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(UnknownName, match="trian"):
        role_of(run, "trian")
    with pytest.raises(RequestError, match="no roles"):
        role_of(tmp_path_factory.mktemp("empty"), "train")


def test_the_first_cause_is_the_role_that_ended_the_job(run: Path) -> None:
    assert failed_role(run) is None
    happened(run, ("serve", "ended", 9, ""), ("serve", "noted", 9, ""), ("train", "noted", 8, ""))
    noted = failed_role(run)
    assert noted is not None
    assert (noted.name, noted.status) == ("serve", 9), "the job went on without it"
    happened(
        run, ("data", "noted", 9, ""), ("serve", "late", 1, "it was not ready after 4 s"), ("train", "ended", 143, "")
    )
    failed = failed_role(run)

    assert failed is not None
    assert (failed.name, failed.is_late) == ("serve", True)
    assert of_role("serve", None, 1, failed.words).sentence == "role serve: it was not ready after 4 s"
    logs = run / "roles/serve/logs"
    logs.mkdir(parents=True)
    (logs / "batch.log").write_text(
        "loading\n" * 15
        + "slurmstepd-n1: error: *** STEP 4.0 ON n1 CANCELLED ***\nsrun: error: n1: task 0: Terminated\n"
    )
    output = JobOutput(run / "logs", roles=(("serve", JobOutput(logs)),))
    failure = first_failure(output)
    assert failure is not None
    assert failure.kind is FailureKind.LATE
    assert last_words(output, failure) == ["loading"] * 15, "that it was ended then is no cause"
    assert last_words(output, replace(failure, kind=FailureKind.OUTSIDE))[-1].startswith("srun: error")


def test_a_rank_that_failed_is_named_with_its_role() -> None:
    failure = Failure("rank 1 on n3: exit status 5", "n3", (1,), 5, "")

    assert of_role("train", failure, 5, "").sentence == "role train, rank 1 on n3: exit status 5"
    late = of_role("train", failure, 5, "it ended before it was ready")
    assert late.sentence.endswith("exit status 5 (it ended before it was ready)")
    assert late.as_json()["role"] == "train"
    assert of_role("train", None, 5, "").sentence == "role train: it ended with status 5"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("srun: error: n3: task 1: Exited with exit code 5", "role train, rank 1 on n3: exit status 5"),
        ("srun: error: n3: task 1: Terminated", None),
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", None),
    ],
)
def test_a_role_that_slurm_ended_with_the_job_is_not_the_cause(run: Path, line: str, cause: str | None) -> None:
    happened(run, ("serve", "ended", 143, ""), ("train", "ended", 143, ""))
    document = json.loads(plan_as_json(plan("-N", "2", "--", "train")))
    document["roles"] = [{"name": "train"}]
    for folder in (run, run / "roles" / "train"):
        (folder / "logs").mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps(document))
        document["roles"] = []
    (run / "roles" / "train" / "logs" / "batch.log").write_text(line + "\n")
    failure = first_failure(output_of_run(run))

    assert (failure and failure.sentence) == cause


def wrote_ends(run: Run, role: str, *ends: str) -> None:
    folder = run.directory / "roles" / role
    folder.mkdir(exist_ok=True)
    lines = [f"{number}\t1\t2\t{end}" for number, end in enumerate(ends, 1)]
    (folder / "ends").write_text("\n".join([*lines, "3\t1\thalf a li"]))
    (folder / "attempts").write_text("".join(f"{number}\t1\tn[2-3]\t\n" for number in range(1, len(ends) + 1)))


AGAIN = "137\t1\tn3\tagain\trank 1 on n3: ended by SIGKILL\tthe same ranks start again (restart 1 of 1)\trank\t"
WELL = "0\t\t\tdone\t\t\t\t"
TOLD = "143\t\t\tend\tended by SIGTERM\tnot started again: the job was told to end\t\t"


def test_the_attempts_of_each_role_are_told_and_not_that_it_ended_with_the_job(run: Path) -> None:
    job = Run("7", run, "train")
    wrote_ends(job, "train", AGAIN, WELL)
    wrote_ends(job, "serve", TOLD)
    again = "role train, attempt 1: rank 1 on n3: ended by SIGKILL; the same ranks start again (restart 1 of 1)"

    assert list(ends_of_earlier(job, None, waits=False)) == [again, "role train, attempt 2: it ended well"]
    told = [(end["role"], end["attempt"], end["host"]) for end in attempts_over(job, None, waits=False)]
    assert told == [("serve", 1, None), ("train", 1, "n3"), ("train", 2, None)]

    for before, after in (("143", "7"), ("\t\tend", "\tn1\tend"), ("end\t", "again\t")):
        of_its_own = TOLD.replace(before, after, 1)
        wrote_ends(job, "serve", of_its_own)
        assert next(ends_of_earlier(job, None, waits=False)).startswith("role serve, attempt 1: "), of_its_own


def test_the_node_that_a_role_lost_is_the_cause_of_a_job_that_slurm_ended(run: Path) -> None:
    document = {**json.loads(plan_as_json(plan("-N", "2", "--", "train"))), "roles": [{"name": "train"}]}
    (run / "plan.json").write_text(json.dumps(document))
    lost = "205\t\tn3\t{}\tmpirun lost its daemon on n3\tnot started again: the job was told to end\tnode\t"
    for decision, kind, found in (("end", "node", True), ("again", "node", False), ("end", "unsaid", False)):
        wrote_ends(Run("7", run, "train"), "train", lost.format(decision).replace("node", kind))
        failure = first_failure(output_of_run(run))
        assert (failure is not None) is found, (decision, kind)
        if failure is not None:
            assert failure.sentence == "role train, mpirun lost its daemon on n3"
            assert (failure.kind, failure.host, failure.role) == (FailureKind.NODE, "n3", "train")
    wrote_ends(Run("7", run, "train"), "train", lost.format("end"))
    for failed, kind in (("train", FailureKind.NODE), ("serve", FailureKind.OUTSIDE)):
        happened(run, (failed, "failed", 205, ""))
        document["roles"] = [{"name": "train"}, {"name": "serve"}]
        (run / "plan.json").write_text(json.dumps(document))
        failure = first_failure(output_of_run(run))
        assert failure is not None
        assert (failure.role, failure.kind) == (failed, kind), "the node of another role is no cause"
