"""muster stacks over real processes: on this machine, and over the hosts of a lab under each launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.runner import DEVNULL, ProgramResult, checked, end_group, start
from plugins.forked import run_muster
from plugins.labs import Lab

MUSTER = str(Path(sys.executable).with_name("muster"))
_SLEEP = "import time\n\n\ndef wait():\n    time.sleep(600)\n\n\nwait()\n"
_HANG = """\
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")


def load():
    time.sleep(600)


if dist.get_rank() == 1:
    load()
dist.all_reduce(torch.ones(1))
"""


def _until(asked: Callable[[], ProgramResult], seen: Callable[[ProgramResult], bool]) -> ProgramResult:
    """Ask until the answer is there; the test's own time-out ends it if it never is."""
    while not seen(done := asked()):
        assert done.status in {0, 2, 3}, done.stderr
        time.sleep(0.2)
    return done


@contextmanager
def _running_here(folder: Path, ranks: int, *options: str) -> Iterator[str]:
    """Start ranks that sleep, and name their run: other tests' runs on this machine are not asked."""
    (folder / "sleep.py").write_text(_SLEEP)
    words = [MUSTER, "run", "--here", "--ntasks-per-node", str(ranks), *options, "--", sys.executable, "sleep.py"]
    process = start(words, cwd=folder, stdout=DEVNULL, stderr=DEVNULL, own_group=True)
    try:
        yield f"here-{process.pid}"
    finally:
        end_group(process, grace_s=20)


def _pids(job: str) -> list[int]:
    """The processes of a local run that are Python's and have a rank."""
    own = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "environ").read_bytes()
            if f"MUSTER_JOB={job}".encode() in words and b"\0RANK=" in words:
                own.append(int(folder.name))
        except OSError:
            continue
    return sorted(own)


@pytest.mark.parametrize("options", [(), ("--closed",)])
def test_the_ranks_of_this_machine(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The door of a closed job, which the first rank starts, was taken for rank 0."""
    from muster_check.stacks.ask import StackQuestion, ask_here, find_spy, jobs_here
    from muster_check.stacks.fold import fold
    from stacks.answers import read_answers

    with _running_here(tmp_path, 3, *options) as job:

        def groups() -> list[tuple[str, int, str]]:
            stacks = read_answers(ask_here(job, StackQuestion(find_spy(os.environ))))
            return [(group.what, len(group.ranks), group.where.name if group.where else "") for group in fold(stacks)]

        while groups() != [("wait", 3, "sleep.py")]:
            time.sleep(0.1)
        assert job in jobs_here()
        os.kill(_pids(job)[-1], signal.SIGSTOP)
        while len(groups()) != 2:
            time.sleep(0.1)
        assert ("is stopped, in wait", 1, "sleep.py") in groups()
        os.kill(_pids(job)[-1], signal.SIGCONT)


@pytest.mark.programs
def test_stacks_are_taken_in_turn(tmp_path: Path) -> None:
    from muster_check.stacks.ask import StackQuestion, ask_here, find_spy
    from muster_check.stacks.read import read_rounds

    with _running_here(tmp_path, 5) as job:
        question = StackQuestion(find_spy(os.environ), rounds=9, gap_s=0.05, at_once=2)

        def looks() -> list[list[int]]:
            rounds = read_rounds(ask_here(job, question))
            return [[stack.rank for stack in each.stacks if stack.frames] for each in rounds]

        while len(taken := looks()) != 9 or len(taken[0]) != 5 or len(taken[1]) != 5:
            time.sleep(0.1)
        assert all(len(ranks) <= 2 for ranks in taken[2:])
        assert {rank for ranks in taken[2:] for rank in ranks} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        # Slurm 20.02 knows no --overlap; where the job's step has all that it may give, 20.11 says the others.
        ("srun: unrecognized option '--overlap'", "takes no further step"),
        ("srun: error: Unable to create step for job 7: Requested nodes are busy", "takes no further step"),
        (
            "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)",
            "takes no further step",
        ),
        ("srun: error: Unable to create step for job 7: Job/step already completing or completed", "it has ended"),
        ("srun: error: Unable to create step for job 7: Invalid job id specified", "it has ended"),
        ("srun: error: Unable to create step for job 7: Job/step expired", "it has ended"),
        ("srun: error: Unable to create step for job 7: Step creation is disabled", "takes no further step"),
        ("srun: error: Unable to create step for job 7: Access/permission denied", "belongs to another user"),
        ("srun: error: Unable to create step for job 7: Invalid user id", "belongs to another user"),
    ],
)
def test_what_slurm_refuses_is_a_sentence_with_what_to_do(said: str, sentence: str) -> None:
    from muster_check.stacks.ask import refused

    error = refused(said, 1, "7")
    assert sentence in str(error)
    assert error.hint


def test_nothing_runs_here(tmp_path: Path) -> None:
    done = run_muster(["stacks"], env={**os.environ, "XDG_STATE_HOME": str(tmp_path)})
    assert done.status == 2
    assert "no job is named, and Muster remembers none of yours" in done.stderr
    assert run_muster(["stacks", "--here", "--rank", "x"], env=os.environ).status == 2


@pytest.mark.lab
@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun"])
def test_the_rank_that_did_not_come_is_named(lab: Lab, shared_directory: Path, launcher: str) -> None:
    (shared_directory / "hang.py").write_text(_HANG)
    asked = ["submit", "-N", "2", "--ntasks-per-node", "1", "--launcher", launcher, "--", "python", "hang.py"]
    path = {"PATH": f"{Path(MUSTER).parent}:{os.environ['PATH']}"}
    job = checked(lab.exec([MUSTER, *asked], cwd=shared_directory, env=path)).stdout.strip()

    def shown() -> ProgramResult:
        return lab.exec([MUSTER, "stacks", job, "--json"])

    def is_known(done: ProgramResult) -> bool:
        # torchrun's agents run before the ranks: no process has a rank then.
        early = ("may not have started", "not run yet", "no rank was found")
        assert done.ok or any(words in done.stderr for words in early), done.stderr
        assert "has ended" not in done.stderr, checked(lab.exec([MUSTER, "logs", job])).stdout
        return done.ok and '"all_reduce"' in done.stdout and '"load"' in done.stdout

    done = _until(shown, is_known)
    answer = json.loads(done.stdout)
    checked(lab.exec(["scancel", job]))
    assert re.match(r"1 rank waits in all_reduce for rank 1 on node\d, which stands at hang.py:10", answer["sentence"])
    assert [group["ranks"] for group in answer["groups"]] == [[0], [1]]


@pytest.mark.lab
def test_a_row_that_shares_its_job_shows_its_own_ranks(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "grid.csv").write_text("name\none\ntwo\n")
    (shared_directory / "wait.py").write_text(
        "import sys, time\ndef one(): time.sleep(600)\ndef two(): time.sleep(600)\nvars()[sys.argv[1]]()\n"
    )
    table = ["--sweep", "grid.csv", "--sweep-per-node", "2", "--ntasks-per-node", "2"]
    asked = ["submit", *table, "--", sys.executable, "wait.py", "{name}"]
    job = checked(lab.exec([MUSTER, *asked], cwd=shared_directory)).stdout.strip()

    def shown(*words: str) -> list[tuple[list[int], str]]:
        done = lab.exec([MUSTER, "stacks", *words, "--json"])
        assert done.status in {0, 2, 3}, done.stderr
        return [(group["ranks"], group["function"]) for group in json.loads(done.stdout or '{"groups": []}')["groups"]]

    for row, name in (("1", "one"), ("2", "two")):
        while shown(f"{job}_{row}") != [([0, 1], name)]:
            time.sleep(0.2)
    both = lab.exec([MUSTER, "stacks", job])
    checked(lab.exec(["scancel", job]))
    assert f"hint: name one: muster stacks {job}_1" in both.stderr


@pytest.mark.lab
def test_a_job_that_has_ended_is_a_sentence(lab: Lab, shared_directory: Path) -> None:
    asked = ["submit", "--", "true"]
    job = checked(lab.exec([MUSTER, *asked], cwd=shared_directory)).stdout.strip()
    done = _until(lambda: lab.exec([MUSTER, "stacks", job]), lambda done: "has ended" in done.stderr)
    assert done.status == 3
    assert f"hint: muster why {job}" in done.stderr


@pytest.mark.lab
@pytest.mark.parametrize("verb", ["stacks", "top"])
def test_a_job_of_another_user_is_a_sentence(ordinary_lab: Lab, shared_directory: Path, verb: str) -> None:
    lab = ordinary_lab
    (shared_directory / "wait.py").write_text(_SLEEP)
    asked = ["submit", "--", sys.executable, "wait.py"]
    job = checked(lab.exec([MUSTER, *asked], cwd=shared_directory)).stdout.strip()

    def shown() -> ProgramResult:
        return lab.exec([MUSTER, verb, job], user="alice")

    done = _until(shown, lambda done: "not run yet" not in done.stderr)
    checked(lab.exec(["scancel", job]))
    assert done.status == 2, done.stdout + done.stderr
    assert f"job {job} belongs to another user" in done.stderr
    assert "hint: only its owner can look into its processes" in done.stderr


@pytest.mark.lab
@pytest.mark.torch
def test_why_says_whom_a_running_job_waits_for(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "hang.py").write_text(_HANG)
    path = {"PATH": f"{Path(MUSTER).parent}:{os.environ['PATH']}"}
    asked = ["submit", "-N", "2", "--ntasks-per-node", "1", "--", "python", "hang.py"]
    job = checked(lab.exec([MUSTER, *asked], cwd=shared_directory, env=path)).stdout.strip()
    sentence = " sleeps at hang.py:10 (load); 1 rank waits in all_reduce at hang.py:15 (<module>)"
    done = _until(lambda: lab.exec([MUSTER, "why", job]), lambda done: sentence in done.stdout)
    assert "hang.py:10 | time.sleep(600)" in done.stdout
    (answer,) = json.loads(checked(lab.exec([MUSTER, "why", job, "--json"])).stdout)
    checked(lab.exec(["scancel", job]))
    running = answer["running"]
    assert (running["kind"], running["ranks"], running["line"]) == ("sleep", [1], 10), answer
    assert f"rank 1 on {running['host']} sleeps" in done.stdout
