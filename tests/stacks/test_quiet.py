"""The watch of a silent job: when it looks at the ranks, and what it makes of the answer; without a clock."""

from __future__ import annotations

from math import inf
from pathlib import Path

from muster.follow.hang_report import HANG_REPORT
from muster_check.stacks.quiet import QuietWatch, Standstill


class Job:
    """A job whose logs, clock and ranks the test moves."""

    def __init__(self, directory: Path, *answers: Standstill | None, ends: bool = True) -> None:
        (directory / "logs").mkdir()
        self.log = directory / "logs" / "node1.log"
        self.log.touch()
        self.now = 0.0
        self.reports = False
        self.looks: list[tuple[float, int]] = []
        self.beside: list[tuple[float, int]] = []
        self._answers = list(answers)
        self.watch = QuietWatch(directory, 100, self._look, lambda: self.now, ends=ends)

    def _look(self, beside_output: bool, number: int, stood_s: int) -> Standstill | None:
        assert stood_s >= 100
        (self.beside if beside_output else self.looks).append((self.now, number))
        if self.reports:
            self.write()
        return self._answers.pop(0)

    def wait(self, seconds: int) -> list[str]:
        """Return the hangs for which an attempt may end, in so many seconds."""
        hangs: list[str | None] = []
        for _ in range(seconds):
            self.now += 1
            hangs.append(self.watch.check())
        return [hang for hang in hangs if hang]

    def write(self) -> None:
        with self.log.open("a") as log:
            log.write("a line\n")


_FIRST = Standstill()


def _sure(sentence: str) -> Standstill:
    return Standstill(sentence, 100)


def test_it_looks_after_half_of_the_time_and_again_at_its_end(tmp_path: Path) -> None:
    job = Job(tmp_path, _FIRST, _sure("rank 1 sleeps"))

    assert job.wait(100) == ["rank 1 sleeps"]
    assert job.looks == [(50, 0), (100, 1)]


def test_a_job_that_writes_is_looked_at_later_and_no_line_begins_its_time_again(tmp_path: Path) -> None:
    job = Job(tmp_path, None, _FIRST, _sure("it hangs"), ends=False)

    hangs = []
    for _ in range(7):
        job.write()
        hangs += job.wait(49)
    assert hangs == ["it hangs"]
    assert (job.looks, job.beside) == ([], [(100, 0), (200, 0), (250, 1)])


def test_a_job_that_writes_no_more_is_looked_at_as_a_silent_one(tmp_path: Path) -> None:
    job = Job(tmp_path, _FIRST, _FIRST, _sure("it hangs"))

    for _ in range(3):
        job.write()
        assert job.wait(40) == []
    assert job.wait(61) == ["it hangs"]
    assert (job.beside, job.looks) == ([(100, 0)], [(131, 0), (181, 1)])


def test_a_rank_that_goes_on_begins_the_time_again(tmp_path: Path) -> None:
    job = Job(tmp_path, None, _FIRST, None, _FIRST, _sure("it hangs"))

    assert job.wait(250) == ["it hangs"]
    assert job.looks == [(50, 0), (100, 0), (150, 1), (200, 0), (250, 1)]


def test_ranks_that_may_go_on_are_looked_at_again_when_that_has_lasted(tmp_path: Path) -> None:
    loose = Standstill("it may go on", 1000)
    job = Job(tmp_path, _FIRST, loose, loose)

    assert job.wait(999) == []
    assert job.wait(1) == ["it may go on"]
    assert job.looks == [(50, 0), (100, 1), (1000, 2)]


def test_ranks_that_went_on_after_all_end_no_attempt(tmp_path: Path) -> None:
    job = Job(tmp_path, _FIRST, Standstill("it may go on", 400), None, _FIRST, Standstill("it may go on", inf))

    assert job.wait(2000) == []
    assert job.looks == [(50, 0), (100, 1), (400, 2), (450, 0), (500, 1)]


def test_where_nothing_becomes_of_a_hang_nobody_looks_again(tmp_path: Path) -> None:
    job = Job(tmp_path, _FIRST, Standstill("it may go on", 400), ends=False)

    assert job.wait(2000) == []
    assert job.looks == [(50, 0), (100, 1)]


def test_a_host_that_was_suspended_did_not_see_the_time(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.wait(10)
    job.now += 3600

    assert job.wait(9) == []
    assert job.looks == []


def test_a_report_is_dropped_when_the_job_writes_again_and_at_its_start(tmp_path: Path) -> None:
    (tmp_path / HANG_REPORT).write_text("of the attempt before")
    job = Job(tmp_path, _FIRST, _sure("it hangs"), _FIRST, _sure("it hangs again"), ends=False)
    assert not (tmp_path / HANG_REPORT).exists()

    assert job.wait(100) == ["it hangs"]
    (tmp_path / HANG_REPORT).write_text("it hangs")
    job.wait(500)
    assert (tmp_path / HANG_REPORT).exists()
    job.write()
    job.wait(1)
    assert not (tmp_path / HANG_REPORT).exists()
    assert job.wait(200) == ["it hangs again"]


def test_its_own_report_in_the_log_is_not_a_sign_of_life(tmp_path: Path) -> None:
    job = Job(tmp_path, _FIRST, _sure("it hangs"), ends=False)
    job.reports = True

    job.wait(500)

    assert (job.looks, job.beside) == ([(50, 0), (100, 1)], [])


def test_a_run_without_a_directory_is_watched_as_well(tmp_path: Path) -> None:
    answers = iter([_FIRST, Standstill("it hangs", 0)])
    watch = QuietWatch(tmp_path / "not there", 0, lambda *_: next(answers), lambda: 0.0, ends=False)

    assert [watch.check() for _ in range(3)] == [None, "it hangs", None]


def test_the_output_that_the_script_names_is_watched_too(tmp_path: Path) -> None:
    """A job that sbatch alone queued writes to a file elsewhere; RUN/output names it."""
    job = Job(tmp_path, None)
    job.log = tmp_path / "slurm-7.out"
    (tmp_path / "output").write_text(f"{job.log}\n")

    for _ in range(4):
        job.write()
        assert job.wait(49) == []
    assert job.looks == []
    assert job.beside == [(100, 0)]


def test_an_output_that_is_no_file_is_not_watched(tmp_path: Path) -> None:
    job = Job(tmp_path, _FIRST, _sure("it hangs"))
    (tmp_path / "output").write_text("/dev/null\n")

    assert job.wait(100) == ["it hangs"]
