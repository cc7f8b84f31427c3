"""muster top: one screen of a running job that refreshes: its ranks by host, and what each does."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from muster.cli.asked_jobs import ask, cases, ids_or_newest, running_case
from muster.cli.command_line import CommandLine, Words
from muster.cli.job_words import plain
from muster.errors import RequestError
from muster.follow.cases import JobCase
from muster.follow.packs import directory_of_row
from muster.job.option import option, parse_count
from muster.rank.hostlist import expand

if TYPE_CHECKING:
    from muster_check.stacks.screen import Screen
    from muster_check.stacks.stream import StepWatch

_EVERY_S = 10
_PATIENCE_S = 60
_FIRST_GAP_S = 1
# Of the stacks of a node, at each look after the second: with all of them, 16 ranks cost 3 % of a core.
_AT_ONCE = 4
_KEY_S = 0.2
# Keys that are typed fast come together.
_KEY = re.compile(r"\x1b\[[A-Z]|.", re.DOTALL)
_UP, _DOWN = {"\x1b[A", "k"}, {"\x1b[B", "j"}


def main(words: Words) -> int:
    """Show the screen until q is pressed or the job ends; on no terminal once."""
    ids = ids_or_newest(words)
    case = running_case(ids[0], cases(ids, ask(ids)), "top")
    from muster_check.stacks.ask import StackQuestion, find_spy
    from muster_check.stacks.stream import StepWatch

    assert case.job is not None  # noqa: S101  # it runs
    live = sys.stdout.isatty() and sys.stdin.isatty()
    gap_s = int(words.every or _EVERY_S) if live else _FIRST_GAP_S
    question = StackQuestion(
        find_spy(os.environ),
        rounds=1_000_000 if live else 2,
        gap_s=gap_s,
        at_once=_AT_ONCE,
        directory=directory_of_row(case.run, case.job),
    )
    watch = StepWatch(case.job.id, case.job.nodes_of_parts, dict(os.environ), question)
    try:
        return _live(case, watch) if live else _once(case, watch)
    finally:
        watch.end()


def _once(case: JobCase, watch: StepWatch) -> int:
    from rich.console import Console

    from muster_check.stacks.screen import draw_screen

    until = time.monotonic() + _PATIENCE_S
    while not watch.has_ended and time.monotonic() < until:
        watch.has_news()
        time.sleep(_KEY_S)
    watch.has_news()
    _check(case, watch)
    console = Console()
    console.print(draw_screen(_Top(case, watch).screen()._replace(takes_keys=False), console.width, 1000))
    return 0


def _check(case: JobCase, watch: StepWatch) -> None:
    if not watch.looks.looks:
        from muster_check.stacks.ask import not_answered

        raise not_answered(watch.said(), watch.status, case.asked)
    if not watch.looks.movements():
        from muster_check.stacks.judge import NO_RANK, programs_of_roles

        programs = [program for each in watch.looks.rounds()[-1:] for program in each.programs]
        sentence = f"{programs_of_roles(programs)}: there is no stack" if programs else f"no rank was found: {NO_RANK}"
        raise RequestError(sentence, hint=f"muster logs {case.asked} shows what was written")


def _live(case: JobCase, watch: StepWatch) -> int:
    from rich.console import Console
    from rich.live import Live

    from muster_check.stacks.screen import draw_screen

    console = Console()
    top = _Top(case, watch)
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw_screen(top.screen(), console.width, console.height), refresh=True)
            key = keys()
            if key == "q":
                return 0
            top.press(key)
            watch.has_news()
            if watch.has_ended:
                break
    _check(case, watch)
    print(f"job {case.asked} has ended: muster why {case.id_to_type}")
    return 0


class _Top:
    """What is shown, and what was chosen."""

    def __init__(self, case: JobCase, watch: StepWatch) -> None:
        self.case, self.watch = case, watch
        self.chosen = ""
        self.page = ""

    def press(self, key: str) -> None:
        """Choose the next rank or the one before, or a page of it; any other key goes back."""
        labels = [movement.stack.label for movement in self.watch.looks.movements()]
        if key in _UP | _DOWN and labels:
            place = labels.index(self.chosen) if self.chosen in labels else 0
            self.chosen = labels[(place + (1 if key in _DOWN else -1)) % len(labels)]
        elif key:
            self.page = key if key in {"s", "l"} and key != self.page else ""

    def screen(self) -> Screen:
        """Return the screen as it is now."""
        from muster_check.stacks.judge import judge_job
        from muster_check.stacks.screen import Screen

        assert self.case.job is not None  # noqa: S101  # it runs
        ranks = self.watch.looks.movements()
        sizes = {movement.stack.role: 0 for movement in ranks}
        for movement in ranks:
            sizes[movement.stack.role] = max(sizes[movement.stack.role], movement.stack.size)
        self.chosen = self.chosen or next((movement.stack.label for movement in ranks), "")
        rounds = self.watch.looks.rounds()
        two = len(rounds) == 2 and rounds[0].at_s < rounds[1].at_s
        # A node that has not answered is named: of its ranks nothing is known.
        nodes = expand(self.case.job.node_list or "")
        sentence = judge_job(rounds, nodes).sentence if two else "the first look …"
        page = tuple(self._stack() if self.page == "s" else self._log()) if self.page else ()
        title = self._title(sum(sizes.values()), len(ranks))
        size = max(sizes.values(), default=0)
        return Screen(title, ranks, size, self.chosen, sentence, self._last_line(), page)

    def _title(self, size: int, found_ranks: int) -> str:
        job = self.case.job
        assert job is not None  # noqa: S101  # it runs
        nodes = f"{job.nodes} node{'s' * (job.nodes != 1)}"
        parts = [f"job {self.case.id_to_type} {job.name}", f"{found_ranks} of {size} ranks on {nodes}"]
        attempt = self.case.attempt
        if attempt > 1:
            parts.append(f"attempt {attempt}")
        if job.started is not None:
            spent = max(int(time.time()) - job.started, 0)
            parts.append(f"runs {_clock(spent)}")
            if job.time_limit_s is not None:
                parts.append(f"{_clock(max(job.time_limit_s - spent, 0))} left")
        return "  ".join(parts)

    def _stack(self) -> Iterator[str]:
        stacks = (movement.stack for movement in self.watch.looks.movements())
        chosen_stack = next((stack for stack in stacks if stack.label == self.chosen), None)
        if chosen_stack is None:
            yield f"rank {self.chosen} has no process"
            return
        yield f"rank {chosen_stack.label}: process {chosen_stack.pid} on {chosen_stack.host}"
        if chosen_stack.trouble:
            yield chosen_stack.trouble
        for name, frames in sorted(chosen_stack.threads, key=lambda thread: thread[0] != "MainThread"):
            yield f"thread {name}"
            yield from (f"    {frame.function} ({frame.file}:{frame.line})" for frame in frames)

    def _log(self) -> Iterator[str]:
        role, _, rank = self.chosen.rpartition(".")
        lines = self._lines(int(rank) if rank else None, 200, role)
        yield f"rank {self.chosen}: its last lines, the newest first"
        yield from reversed(lines)

    def _last_line(self) -> str:
        lines = self._lines(None, 1)
        return f"last output: {lines[-1]}" if lines else "no line of its output is to be seen here"

    def _lines(self, rank: int | None, count: int, role: str = "") -> list[str]:
        from muster.follow.find_output import find_output
        from muster.follow.watch import last_lines

        output = find_output(self.case.job, self.case.run, self.case.asked)
        if output is None:
            return []
        output = output.of_role(role) if role else output
        return [plain(line.merged().decode(errors="replace")) for line in last_lines(output, rank=rank, count=count)]


def _clock(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the key that is pressed within a moment, or nothing."""
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    old_settings = termios.tcgetattr(descriptor)

    typed_keys: list[str] = []

    def key() -> str:
        ready, _, _ = select.select([descriptor], [], [], 0 if typed_keys else _KEY_S)
        if ready:
            typed_keys.extend(_KEY.findall(os.read(descriptor, 64).decode(errors="replace")))
        return typed_keys.pop(0) if typed_keys else ""

    tty.setcbreak(descriptor)
    try:
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, old_settings)


COMMAND = CommandLine(
    name="top",
    start=main,
    summary="""\
Show a running job on one screen that refreshes: its ranks by host, what each does and at which line, and which rank
keeps the others waiting. Keys: the arrows choose a rank, s shows its call stack, l its log, q ends. Into a file or a
pipe it is written once. It needs one step of the job, beside that of the ranks.""",
    options=(option("--every SECONDS", "seconds between two looks at the ranks (default: 10)", parse_count(1, 3600)),),
    operands="[JOB]",
    most=1,
    hint="muster jobs lists yours",
    examples=("muster top 4711",),
)
