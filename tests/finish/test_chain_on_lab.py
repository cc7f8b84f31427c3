"""`--until-done` on a lab: a job that is told to end goes on in exactly one next job, until it is done or fails."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

# It is done in its third attempt; until then it waits to be told to end.
_RANK = """\
echo "$MUSTER_ATTEMPT $SLURM_JOB_ID" >>"began.${SLURM_ARRAY_TASK_ID:-}$RANK"
echo "words of attempt $MUSTER_ATTEMPT"
[ "$MUSTER_ATTEMPT" -lt 3 ] || exit 0
exec sleep 300
"""
_SIZE = ("-N", "2", "--ntasks-per-node", "1", "-t", "10")


class _Chain:
    """A job that goes on, and the folder that it lies in."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder

    def muster(self, *words: str) -> ProgramResult:
        environment = ("env", f"XDG_STATE_HOME={self.folder / 'state'}")
        return self.lab.exec((*environment, MUSTER, *words), cwd=self.folder, env={"PATH": path_with()})

    def python(self, code: str) -> str:
        words = ("env", f"XDG_STATE_HOME={self.folder / 'state'}", sys.executable, "-c", f"import muster; {code}")
        return checked(self.lab.exec(words, cwd=self.folder)).stdout

    def submit(self, *words: str, rank: str = _RANK, size: tuple[str, ...] = _SIZE) -> str:
        (self.folder / "rank.sh").write_text(rank)
        asked = ("submit", "--quiet", "--until-done", *size, *words, "--", "sh", "rank.sh")
        return checked(self.muster(*asked)).stdout.strip()

    def run(self) -> Path:
        (found,) = (self.folder / "muster-runs").iterdir()
        return found

    def links(self, folder: Path | None = None) -> list[str]:
        file = (folder or self.run()) / "links"
        return [line.split("\t")[1] for line in file.read_text().splitlines()] if file.exists() else []

    def wait(self, holds: Callable[[], bool], timeout_s: float = 120) -> None:
        until = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < until, [
                (str(file), file.read_text())
                for file in self.run().rglob("*")
                if file.suffix in {".log", ""}
                and file.is_file()
                and file.name in {"batch.log", "links", "ends", "attempts", "over"}
            ]
            time.sleep(0.1)

    def wait_for_start(self, attempt: int, task: str = "", folder: Path | None = None) -> None:
        """Wait until an attempt has begun, and the link after it is queued."""
        self.wait(lambda: len(self.began(task)) == attempt and len(self.links(folder)) == attempt + 1)

    def wait_for_attempt(self, attempt: int) -> None:
        self.wait(lambda: len(self.began()) == attempt)

    def began(self, task: str = "") -> list[tuple[int, str]]:
        """Attempt and job of each start of rank 1."""
        file = self.folder / f"began.{task}1"
        return (
            [(int(line.split()[0]), line.split()[1]) for line in file.read_text().splitlines()] if file.exists() else []
        )

    def tell_to_end(self, job: str) -> None:
        """As Slurm does it at the end of the time, but for the message that says why: the script, then its ranks."""
        host = self.lab.exec(["squeue", "--noheader", "--jobs", job, "--format=%B"]).stdout.strip()
        checked(self.lab.exec(["pkill", "-TERM", "-f", f"job0*{job}/slurm_script"], host=host))
        checked(self.lab.exec(["scancel", "--signal=TERM", job]))

    def states(self) -> list[str]:
        """The states of all jobs that were ever queued here, but for those of other tests."""
        told = self.lab.exec(["squeue", "--noheader", "--states=all", "--format=%A %T %Z"]).stdout
        return [line.split()[1] for line in told.splitlines() if line.endswith(str(self.folder))]


@pytest.fixture
def chain(lab: Lab, shared_directory: Path) -> _Chain:
    return _Chain(lab, shared_directory)


def test_it_goes_on_in_one_next_job_each_time(chain: _Chain) -> None:
    first = chain.submit()
    for attempt in (1, 2):
        chain.wait_for_start(attempt)
        chain.tell_to_end(chain.began()[-1][1])
    chain.wait((chain.run() / "over").exists)
    assert chain.muster("logs", "-f", first).status == 0

    links = chain.links()
    assert chain.began() == [(1, links[0]), (2, links[1]), (3, links[2])]
    assert links[0] == first
    chain.wait(lambda: sorted(chain.states()) == ["CANCELLED", "COMPLETED", "FAILED", "FAILED"])
    assert (chain.run() / "over").read_text() == "the script is done\n"

    for job in (first, links[1]):
        story = chain.muster("why", job).stdout
        assert f"job {links[2]} (rank) is COMPLETED" in story
        assert "link 3 of at most 20" in story
        assert f"attempt 1 (job {first}): " in story
        assert "the job was told to end; the job goes on in its next link" in story
    assert "COMPLETED" in chain.muster("status", first).stdout
    followed = chain.muster("logs", "-f", first).stdout
    assert [f"1: words of attempt {number}\n" in followed for number in (1, 2, 3)] == [True] * 3
    assert "words of attempt 2" in chain.muster("logs", "--attempt", "2", first).stdout


def test_a_script_that_is_done_at_once_has_no_second_job(chain: _Chain) -> None:
    job = chain.submit(rank="exit 0\n")
    chain.muster("logs", "-f", job)

    chain.wait(lambda: set(chain.states()) <= {"COMPLETED", "CANCELLED"})
    assert chain.states().count("COMPLETED") == 1
    assert not (chain.run() / "link-2").exists()


def test_a_script_that_fails_by_itself_ends_it_with_one_sentence(chain: _Chain) -> None:
    job = chain.submit("--restart", "5", rank='echo "$MUSTER_ATTEMPT" >>began.$RANK\nexit 7\n')
    chain.muster("logs", "-f", job)

    chain.wait(lambda: set(chain.states()) <= {"FAILED", "CANCELLED"})
    assert chain.states().count("FAILED") == 1
    # A rank that failed may have ended the others before they began.
    assert {attempt for path in chain.folder.glob("began.*") for attempt in path.read_text().split()} == {"1", "2"}
    story = chain.muster("why", job).stdout
    assert story.count("not started again: the same first error came twice") == 1


def test_a_prelude_that_fails_ends_it(chain: _Chain) -> None:
    job = chain.submit("--env", "X=1", "--module", "no-such-module")
    chain.muster("logs", "-f", job)

    chain.wait(
        lambda: (chain.run() / "over").exists() or not any(each in {"PENDING", "RUNNING"} for each in chain.states())
    )
    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))
    assert chain.began() == []
    assert len(chain.states()) <= 2


def test_cancel_ends_all_of_it(chain: _Chain) -> None:
    job = chain.submit()
    chain.wait(lambda: bool(chain.began()) and len(chain.links()) == 2)
    assert f"job {job} is cancelled" in chain.muster("cancel", job).stderr

    chain.wait(lambda: set(chain.states()) == {"CANCELLED"})
    assert len(chain.began()) == 1
    assert "is CANCELLED" in chain.muster("status", job).stdout


def test_the_first_id_stands_for_all_links(chain: _Chain) -> None:
    first = chain.submit()
    chain.wait_for_start(1)
    chain.tell_to_end(first)
    chain.wait_for_start(2)
    chain.wait(lambda: chain.states().count("RUNNING") == 1)
    assert "has ended" not in chain.muster("stacks", first).stderr
    assert chain.python(f"print(muster.job({first!r}).state().name)") == "RUNNING\n"

    assert f"job {first} is cancelled" in chain.muster("cancel", first).stderr
    chain.wait(lambda: not any(state in {"PENDING", "RUNNING", "COMPLETING"} for state in chain.states()))
    assert len(chain.began()) == 2


def test_scancel_of_one_link_ends_all_of_it(chain: _Chain) -> None:
    job = chain.submit()
    chain.wait(lambda: bool(chain.began()) and len(chain.links()) == 2)
    checked(chain.lab.exec(["scancel", job]))

    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))
    assert len(chain.began()) == 1
    assert "was cancelled" in (chain.run() / "over").read_text()


def test_scancel_of_a_later_link_ends_all_of_it(chain: _Chain) -> None:
    """Slurm says so where it writes the output of the job, and not among the logs of the attempt."""
    first = chain.submit()
    chain.wait_for_start(1)
    chain.tell_to_end(first)
    chain.wait_for_start(2)
    checked(chain.lab.exec(["scancel", chain.began()[-1][1]]))

    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))
    assert len(chain.began()) == 2
    assert "was cancelled" in (chain.run() / "over").read_text()


def test_two_links_without_a_new_checkpoint_are_the_last(chain: _Chain) -> None:
    (chain.folder / "saved").mkdir()
    job = chain.submit("--checkpoint", "saved")
    for attempt in (1, 2):
        chain.wait_for_start(attempt)
        chain.tell_to_end(chain.began()[-1][1])
    chain.wait((chain.run() / "over").exists)

    assert (chain.run() / "over").read_text() == "no new checkpoint in two links\n"
    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))
    assert len(chain.began()) == 2
    story = chain.muster("why", job).stdout
    assert "link 1 and link 2 saved nothing; not started: no new checkpoint in two links" in story


@pytest.mark.long
def test_ranks_that_fail_when_the_time_is_over_do_not_end_it(chain: _Chain) -> None:
    """Slurm looks at its limits every 30 seconds: until then the job is RUNNING, and no step starts in it."""
    rank = (
        'echo "$MUSTER_ATTEMPT $SLURM_JOB_ID" >>"began.$RANK"\n[ "$MUSTER_ATTEMPT" = 1 ] || exit 0\nsleep 62; exit 7\n'
    )
    chain.submit("--restart", "1", rank=rank, size=("-N", "2", "--ntasks-per-node", "1", "-t", "1"))
    chain.wait((chain.run() / "over").exists, timeout_s=240)

    assert (chain.run() / "over").read_text() == "the script is done\n"
    assert [job for _, job in chain.began()] == chain.links()[:2]


def test_the_last_link_says_that_it_is_the_last(chain: _Chain) -> None:
    job = chain.submit("--links", "1")
    chain.wait(lambda: bool(chain.began()))
    chain.tell_to_end(job)
    chain.muster("logs", "-f", job)

    assert "link 1 of 1 was the last: the job does not go on" in chain.muster("logs", job).stdout
    assert chain.links() == [job]


def test_a_last_link_that_saved_is_not_a_success(chain: _Chain) -> None:
    """A job that waits for the success of this one would begin with half of a training."""
    rank = 'trap "exit 0" USR1\nwhile :; do sleep 0.2; done\n'
    size = ("-N", "1", "--ntasks-per-node", "2", "-t", "1")
    job = chain.submit("--links", "1", "--save-before", "50s", rank=rank, size=size)

    assert chain.muster("logs", "-f", job).status == 75
    chain.wait(lambda: chain.states() == ["FAILED"])
    story = chain.muster("why", job).stdout
    assert "told to save: the work may not be done (--links)" in story, story


def test_each_task_of_an_array_has_its_own(chain: _Chain) -> None:
    array = 'echo "$SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX" >>"array.$RANK"\n'
    job = chain.submit(
        "--sbatch=--array=3-4", rank=array + _RANK, size=("-N", "1", "--ntasks-per-node", "2", "-c", "1", "-t", "10")
    )
    folders = {task: chain.run() / f"task-{task}" for task in ("3", "4")}
    for task, folder in folders.items():
        chain.wait_for_start(1, task, folder)
    for attempt in (1, 2):
        chain.wait_for_start(attempt, "3", folders["3"])
        chain.tell_to_end(chain.began("3")[-1][1])
    chain.wait((folders["3"] / "over").exists)

    assert [attempt for attempt, _ in chain.began("3")] == [1, 2, 3]
    assert [attempt for attempt, _ in chain.began("4")] == [1]
    links = chain.links(folders["3"])
    # A later link is an array of one task, and the ranks see that of the first.
    assert (chain.folder / "array.1").read_text() == "2 3 4\n" * 4
    assert links[0] == f"{job}_3"
    assert all(each.endswith("_3") for each in links)
    assert "is COMPLETED" in chain.muster("status", f"{job}_3").stdout
    assert "is RUNNING" in chain.muster("status", f"{job}_4").stdout
    checked(chain.muster("cancel", job))
    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))


def test_a_job_that_is_requeued_has_one_next_link(chain: _Chain) -> None:
    job = chain.submit("--requeue")
    chain.wait(lambda: bool(chain.began()) and len(chain.links()) == 2)
    checked(chain.lab.exec(["scontrol", "requeue", job]))
    checked(chain.lab.exec(["sh", "-c", f"sleep 1; scontrol update JobId={job} StartTime=now; true"]))
    chain.wait(lambda: len(chain.began()) == 2)
    chain.tell_to_end(job)
    chain.wait((chain.run() / "over").exists)

    links = chain.links()
    assert chain.began() == [(1, job), (2, job), (3, links[1])]
    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))
    assert len(chain.states()) == len(set(links)) == 3


def test_where_jobs_cannot_queue_any_the_links_are_queued_at_once(chain: _Chain) -> None:
    job = chain.submit("--links", "4", "--site-set", "launch.queues_from_jobs=false")
    links = chain.links()
    assert len(links) == 4
    for attempt in (1, 2):
        chain.wait_for_attempt(attempt)
        chain.tell_to_end(links[attempt - 1])
    chain.wait(lambda: not any(each in {"PENDING", "RUNNING", "COMPLETING"} for each in chain.states()))

    assert chain.began() == [(1, job), (2, links[1]), (3, links[2])]
    (told,) = json.loads(chain.muster("status", "--json", job).stdout)
    assert (told["job"], told["state"]) == (links[2], "COMPLETED")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("submit", "--until-done", "--", "hostname"), "--until-done: the job has no time limit"),
        (("submit", "--until-done", "--links", "0", "-t", "5", "--", "hostname"), "--links"),
        (("submit", "--links", "3", "-t", "5", "--", "hostname"), "it has no effect without --until-done"),
        (("run", "--until-done", "-t", "5", "--", "hostname"), "no job follows it"),
        (
            ("submit", "--until-done", "-t", "5", "--checkpoint", "/dev/null/x", "--", "hostname"),
            "--checkpoint /dev/null/x is not there, and cannot be made in",
        ),
        (("submit", "--checkpoint", "/dev/null", "--", "hostname"), "--checkpoint /dev/null is not a directory"),
    ],
)
def test_bad_input_is_told_before_the_queue(chain: _Chain, words: tuple[str, ...], sentence: str) -> None:
    refused = chain.muster(*words)

    assert refused.status == 2
    assert sentence in refused.stderr
    assert chain.states() == []
