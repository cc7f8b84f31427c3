"""Scripts that hang, each in its way: submitted with --hang, and what the job then says of itself.

The first line of a script says the rank that hangs (1 if it does not say) and how; `# HERE` stands at its line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from muster.runner import ProgramResult, checked
from muster_check.stacks.condition import JobCondition
from plugins.labs import MUSTER, Lab

__all__ = ["CASES", "HIDDEN", "Case", "Report", "misses", "reports", "submit"]

_LONGEST_QUEUE_S = 900
FOLDER = Path(__file__).with_name("hangs")


class Case(NamedTuple):
    """One script, and what is to be said of it."""

    script: Path
    rank: int
    kinds: tuple[JobCondition, ...]
    line: int


class Report(NamedTuple):
    """What a job said."""

    sentence: str
    silent_s: float
    """From its last output to the report."""


class _Job:
    """A job whose report is waited for."""

    def __init__(self, number: str, directory: Path) -> None:
        self.number, self.directory = number, directory
        self._since, self._has_begun = time.monotonic(), False

    def is_late(self, patience_s: float) -> bool:
        """Tell whether no report came in time: counted from the begin of the job, or in the queue."""
        if not self._has_begun and (self.directory / "logs/batch.log").exists():
            self._since, self._has_begun = time.monotonic(), True
        return time.monotonic() - self._since > (patience_s if self._has_begun else _LONGEST_QUEUE_S)


def _case(script: Path) -> Case:
    lines = script.read_text(encoding="utf-8").splitlines()
    head = lines[0]
    rank = re.search(r" rank: (\d)", head)
    kinds = re.search(r" kind: ([a-z_ ]+)", head)
    assert kinds, f"{script.name} does not say how it hangs"
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# HERE"))
    return Case(
        script, int(rank[1]) if rank else 1, tuple(JobCondition[each.upper()] for each in kinds[1].split(" or ")), line
    )


CASES = {script.stem: _case(script) for script in sorted(FOLDER.glob("*.py"))}
HIDDEN = {script.stem: _case(script) for script in sorted(Path(__file__).with_name("hidden").glob("*.py"))}
"""Beside something that looks like work: a thread that writes, a peer that spins, lines that still come."""


def misses(case: Case, report: Report | None) -> Iterator[str]:
    """Yield what a report should say and does not: the rank, its host, the line, how it hangs."""
    if report is None:
        yield "no report"
        return
    # A loop of two lines stands at either.
    lines = (case.line, case.line - 1) if JobCondition.LOOP in case.kinds else (case.line,)
    places = [f"{case.script.name}:{line}" for line in lines]
    where = next((place for place in places if report and place in report.sentence), places[0])
    whole = JobCondition.COLLECTIVE in case.kinds
    wanted = ("all 2 ranks",) if whole else (f"rank {case.rank} on node",)
    yield from (word for word in (*wanted, where) if word not in report.sentence)
    words = {JobCondition.ORDER: f"rank {case.rank} on node[0-9] is in "}
    if not any(re.search(words.get(kind, kind.value), report.sentence) for kind in case.kinds) and not whole:
        yield " or ".join(kind.value for kind in case.kinds)


def reports(
    lab: Lab,
    folder: Path,
    names: Iterable[str],
    *,
    launcher: str,
    after_s: int,
    at_once: int,
    patience_s: float,
    muster: Sequence[str] = (MUSTER,),
    more: Sequence[str] = (),
) -> dict[str, Report | None]:
    """Run the scripts, some at once, each until it has said who hangs; return what each said.

    The patience is of a job that has begun: on a busy machine a lab's nodes are away for some minutes, and jobs wait.
    """
    waiting, running, found = list(names), dict[str, _Job](), dict[str, Report | None]()
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            running[name] = _Job(
                *submit(lab, folder, (CASES | HIDDEN)[name].script, launcher, after_s, muster=muster, more=more)
            )
        time.sleep(0.3)
        for name, job in list(running.items()):
            text = _read(job.directory / "hang")
            if text or job.is_late(patience_s):
                found[name] = Report(text, _silence(job.directory)) if text else None
                checked(lab.exec(["scancel", job.number]))
                del running[name]
    return found


def submit(
    lab: Lab,
    folder: Path,
    script: Path,
    launcher: str,
    after_s: int,
    *,
    muster: Sequence[str] = (MUSTER,),
    more: Sequence[str] = (),
    **variables: str,
) -> tuple[str, Path]:
    """Submit a script over two hosts; return the job and its run directory."""
    path = {"PATH": f"{Path(MUSTER).parent}:/usr/bin:/bin:/usr/sbin:/sbin"}
    place = folder / script.stem
    place.mkdir()
    size = ["-N", "2", "--ntasks-per-node", "1", "--launcher", launcher, "--hang", f"{after_s}s", "--grace", "1"]
    told = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    done = _checked(
        lab.exec([*muster, "submit", *size, *more, *told, "--", "python", str(script)], cwd=place, env=path)
    )
    (directory,) = (place / "muster-runs").iterdir()
    return done.stdout.strip(), directory


def _checked(done: ProgramResult) -> ProgramResult:
    assert done.ok, done.stderr
    return done


def _silence(directory: Path) -> float:
    logs: Sequence[Path] = [path for path in (directory / "logs").glob("*.log") if path.name != "batch.log"]
    written = [path.stat().st_mtime for path in logs if path.stat().st_size]
    return (directory / "hang").stat().st_mtime - max(written, default=(directory / "job_id").stat().st_mtime)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
