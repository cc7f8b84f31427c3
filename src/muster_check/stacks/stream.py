"""The answers of a step that looks at the ranks again and again: whole looks as they come in, node by node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from muster.runner import end_group, start
from muster.slurm.allocation import step_of_job
from muster.slurm.variables import scheduler_environment
from muster_check.stacks.ask import StackQuestion, gather_words
from muster_check.stacks.move import Movement, movements
from muster_check.stacks.read import RankStack, Round, by_role_and_rank, read_rounds

if TYPE_CHECKING:
    from muster.runner import Process


class Looks(msgspec.Struct):
    """What was heard of each task of the step, and the last two whole looks of it."""

    lines: dict[str, list[str]] = msgspec.field(default_factory=dict)
    looks: dict[str, tuple[Round, ...]] = msgspec.field(default_factory=dict)
    rest: str = ""

    def feed(self, text: str) -> bool:
        """Take in more of the step's output; return whether a look was completed."""
        *whole, self.rest = (self.rest + text).split("\n")
        rounds = [self._line(line) for line in whole]
        return any(rounds)

    def _line(self, line: str) -> bool:
        task, _, rest = line.partition(": ")
        task = task.rstrip(":").strip()
        if not task.isdigit():
            return False
        self.lines.setdefault(task, []).append(rest)
        if not rest.startswith("@done "):
            return False
        look = read_rounds("\n".join(self.lines.pop(task)))
        before = self.looks.get(task, ())[-1:]
        self.looks[task] = (*before, *(_with_kept(each, before) for each in look[-1:]))
        return True

    def movements(self) -> tuple[Movement, ...]:
        """Return what each rank did between its node's last two looks, by rank."""
        found_movements = [movement for rounds in self.looks.values() for movement in movements(rounds)]
        return tuple(sorted(found_movements, key=lambda movement: by_role_and_rank(movement.stack)))

    def rounds(self) -> tuple[Round, ...]:
        """Return the last two looks of all nodes as two."""
        pairs = [(rounds[0], rounds[-1]) for rounds in self.looks.values()]
        return tuple(_merged([pair[index] for pair in pairs]) for index in (0, 1)) if pairs else ()


def _with_kept(look: Round, before: Sequence[Round]) -> Round:
    """Return the look with the stacks of the look before, for the ranks whose stacks were not taken this time."""
    known = {(stack.rank, stack.host, stack.pid): stack for each in before for stack in each.stacks}
    stacks = tuple(_kept(stack, known.get((stack.rank, stack.host, stack.pid))) for stack in look.stacks)
    return msgspec.structs.replace(look, stacks=stacks)


def _kept(stack: RankStack, before: RankStack | None) -> RankStack:
    if before is None:
        return stack
    old, signs = before.signs, stack.signs
    if signs.gpu_use is None:
        signs = msgspec.structs.replace(signs, gpu_use=old.gpu_use, gpu_mib=old.gpu_mib)
    if not stack.is_kept:
        return msgspec.structs.replace(stack, signs=signs)
    signs = msgspec.structs.replace(signs, has_gpu=old.has_gpu, file=old.file)
    return msgspec.structs.replace(
        stack, frames=before.frames, threads=before.threads, trouble=before.trouble, signs=signs
    )


def _merged(rounds: Sequence[Round]) -> Round:
    stacks = sorted((stack for answer in rounds for stack in answer.stacks), key=by_role_and_rank)
    nodes = frozenset(node for answer in rounds for node in answer.nodes)
    programs = sorted((program for answer in rounds for program in answer.programs), key=by_role_and_rank)
    return Round(tuple(stacks), nodes, rounds[0].at_s, programs=tuple(programs))


class StepWatch:
    """One step beside a running job that looks at its ranks until it is ended: one request to the controller."""

    def __init__(self, job: str, nodes: Sequence[int], environment: Mapping[str, str], question: StackQuestion) -> None:
        self._answers = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the step
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._read = 0
        self.looks = Looks()
        words = [*step_of_job(job, nodes), *gather_words(job, question)]
        self._process: Process = start(
            words, env=scheduler_environment(environment), stdout=self._answers, stderr=self._errors, own_group=True
        )

    def has_news(self) -> bool:
        """Read what came in; return whether a look was completed."""
        text = os.pread(self._answers.fileno(), 1 << 24, self._read)
        self._read += len(text)
        return self.looks.feed(text.decode(errors="replace"))

    @property
    def has_ended(self) -> bool:
        """Return whether the step is over: the job has ended, or Slurm refused it."""
        return self._process.poll() is not None

    @property
    def status(self) -> int | None:
        """Return the exit status of the step; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """Return srun's own words."""
        return os.pread(self._errors.fileno(), 1 << 16, 0).decode(errors="replace")

    def end(self) -> None:
        """End the step."""
        end_group(self._process, grace_s=1.0)
        self._answers.close()
        self._errors.close()
