"""The lab of a rehearsal, and the programs that are run in it. It is gone at the end, however that comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from muster.act.keep import script_to_pass
from muster.lab import labs
from muster.lab.spec import LabSpec
from muster.model.plan import Plan
from muster.older import zip_equal
from muster.plan.secret import variables_to_hand_over
from muster.render.script import job_script
from muster.runner import DEVNULL, ProgramResult, own_command, run, start
from muster.slurm.allocation import hold_nodes
from muster.slurm.submit import ask_whether_taken
from muster.slurm.variables import scheduler_environment

if TYPE_CHECKING:
    from muster.runner import Process

__all__ = ["RehearsalLab", "Written", "rehearsal_lab"]

_ORDINARY_USER = "alice"
_PROBE_PATIENCE_S = 180.0


class Written(msgspec.Struct, frozen=True):
    """A file that the job would have written; `size` None: that it would have removed."""

    path: str
    size: int | None


class RehearsalLab(msgspec.Struct, frozen=True):
    """A lab that is up."""

    name: str
    environment: Mapping[str, str]

    def accepts(self, script: str) -> ProgramResult:
        """Return what the lab's sbatch says to the script of an ordinary user: root is bound by no rule."""
        words = self._inside(*ask_whether_taken().argv, user=_ORDINARY_USER)
        return run(words, env=self.environment, cwd="/", stdin=script, timeout_s=60)

    def probe(self, plan: Plan) -> ProgramResult:
        """Run a plan whose output is read."""
        with script_to_pass(job_script(plan)) as (memory, words):
            return run(
                self._job(plan, words),
                env=self._given(plan),
                cwd=plan.working_directory,
                timeout_s=_PROBE_PATIENCE_S,
                pass_fds=[memory],
            )

    def perform(self, plan: Plan, whole: Plan) -> int:
        """Run a plan over the allocation that `whole` asks for, its output going where ours goes; its status."""
        with script_to_pass(job_script(plan)) as (memory, words):
            process = start(
                self._job(whole, words),
                env=self._given(plan),
                cwd=plan.working_directory,
                stdin=DEVNULL if os.isatty(0) and not _has_controlling_terminal() else None,
                pass_fds=[memory],
            )
            return _status(process)

    def written(self) -> list[Written]:
        """Return what the job has written in the view of this machine's files, by path."""
        return [Written(str(entry["path"]), entry["size"]) for entry in labs.written_files(self.name, self.environment)]

    def _job(self, whole: Plan, words: Sequence[str]) -> list[str]:
        return self._inside(*hold_nodes(whole.directives, *words, quiet=True))

    def _inside(self, *argv: str, user: str | None = None) -> list[str]:
        place = ["--user", user] if user else []
        return [*own_command(), "lab", "exec", "--name", self.name, *place, "--", *argv]

    def _given(self, plan: Plan) -> dict[str, str]:
        return {**scheduler_environment(self.environment), **variables_to_hand_over(plan)}


def _has_controlling_terminal() -> bool:
    """Return whether salloc can take its terminal: it refuses one that is nobody's controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def _status(process: Process) -> int:
    try:
        return _as_shell(process.wait())
    except BaseException:
        process.send_signal(signal.SIGTERM)
        raise


def _as_shell(status: int) -> int:
    return status if status >= 0 else 128 - status


@contextmanager
def rehearsal_lab(spec: LabSpec, environment: Mapping[str, str], say: Callable[[str], None]) -> Iterator[RehearsalLab]:
    """Yield the lab, for as long as the block runs: Ctrl-C, a hang-up and SIGTERM end it too."""
    with _signals_unwind():
        labs.up(spec, environment, say)
        try:
            yield RehearsalLab(spec.name, environment)
        finally:
            _take_down(spec.name, environment)


def _take_down(name: str, environment: Mapping[str, str]) -> None:
    """Take the lab down; a second Ctrl-C does not leave half of it."""
    old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        labs.down(name, environment)
    finally:
        signal.signal(signal.SIGINT, old_handler)


@contextmanager
def _signals_unwind() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    old_handlers = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip_equal(numbers, old_handlers):
            signal.signal(number, handler)
