"""The watch of a silent job: when it looks at the ranks, and what it makes of the answer; without a clock."""

from __future__ import annotations

from pathlib import Path

from muster.follow.hang_report import HANG_REPORT
from muster_check.stacks.quiet import QuietWatch


class Job:
    """A job whose logs, clock and ranks the test moves."""

    def __init__(self, directory: Path, *answers: str | None) -> None:
        (directory / "logs").mkdir()
        self.log = directory / "logs" / "node1.log"
        self.log.touch()
        self.now = 0.0
        self.reports = False
        self.looks: list[tuple[float, bool]] = []
        self._answers = list(answers)
        self.watch = QuietWatch(directory, 100, self._look, lambda: self.now)

    def _look(self, is_second: bool) -> str | None:
        self.looks.append((self.now, is_second))
        if self.reports:
            self.write()
        return self._answers.pop(0)

    def wait(self, seconds: int) -> list[str]:
        """Return the hangs that are reported in so many seconds."""
        hangs: list[str | None] = []
        for _ in range(seconds):
            self.now += 1
            hangs.append(self.watch.check())
        return [hang for hang in hangs if hang]

    def write(self) -> None:
        with self.log.open("a") as log:
            log.write("a line\n")


def test_it_looks_after_half_of_the_time_and_again_at_its_end(tmp_path: Path) -> None:
    job = Job(tmp_path, "", "rank 1 sleeps")

    assert job.wait(1000) == ["rank 1 sleeps"]
    assert job.looks == [(50, False), (100, True)]


def test_a_job_that_writes_is_never_looked_at(tmp_path: Path) -> None:
    job = Job(tmp_path)

    for _ in range(20):
        job.write()
        assert job.wait(49) == []
    assert job.looks == []


def test_a_rank_that_goes_on_begins_the_time_again(tmp_path: Path) -> None:
    job = Job(tmp_path, None, "", None, "", "it hangs")

    assert job.wait(300) == ["it hangs"]
    assert job.looks == [(50, False), (100, False), (150, True), (200, False), (250, True)]


def test_a_report_is_dropped_when_the_job_writes_again_and_at_its_start(tmp_path: Path) -> None:
    (tmp_path / HANG_REPORT).write_text("of the attempt before")
    job = Job(tmp_path, "", "it hangs", "", "it hangs again")
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
    job = Job(tmp_path, "", "it hangs")
    job.reports = True

    job.wait(500)

    assert job.looks == [(50, False), (100, True)]


def test_a_run_without_a_directory_is_watched_as_well(tmp_path: Path) -> None:
    answers = iter(["", "it hangs"])
    watch = QuietWatch(tmp_path / "not there", 0, lambda second: next(answers), lambda: 0.0)

    assert [watch.check() for _ in range(3)] == [None, "it hangs", None]


def test_the_output_that_the_script_names_is_watched_too(tmp_path: Path) -> None:
    """A job that sbatch alone queued writes to a file elsewhere; RUN/output names it."""
    job = Job(tmp_path)
    job.log = tmp_path / "slurm-7.out"
    (tmp_path / "output").write_text(f"{job.log}\n")

    for _ in range(20):
        job.write()
        assert job.wait(49) == []
    assert job.looks == []


def test_an_output_that_is_no_file_is_not_watched(tmp_path: Path) -> None:
    job = Job(tmp_path, "", "it hangs")
    (tmp_path / "output").write_text("/dev/null\n")

    assert job.wait(1000) == ["it hangs"]
