"""Write docs/explanation/life.md from the rules of muster.life; `--check` says whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from muster.life import machine
from muster.life.machine import RULES, LifePhase

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/life.md"

HEAD = """\
# The life of a job, as one machine

What has to become of a job that goes on (`--restart`, `--spares`, `--hang`, `--checkpoint`, `--save-before`,
`--until-done`) is written down as one machine: `decide(terms, state, event)` of `src/muster/life/machine.py` returns
the next state, and the actions that are to be done. It is pure: an event brings the time, and an action is a value.
One link of a job, that is one job of Slurm, is one such machine.

This page is made from its rules by `scripts/make_life_page.py`. An event without a line changes nothing there.

**One program steers the job by this machine**, and nothing else decides: the supervisor
(`src/muster/life/supervise.py`). A job with such an option has the line `muster_supervise` behind `muster_begin`. The
script becomes the supervisor there, under the same pid, so it gets the signals that Slurm sends to the script. For
each attempt it starts the same script again, `bash FILE attempt NUMBER …`: all lines below that one are one start of
the ranks. An attempt tells it what srun says, whose end is not known, and whether the ranks hang; the supervisor asks
Slurm, the nodes and the disk, each time with a bound, gives all of that to the machine as events, and does what the
machine says. It needs a Python of 3.6 or later on the host of the script, and nothing but its standard library:
Muster's own Python, else that of the ranks' environment, else `python3`. Where there is none, the script says so in
one line, and its ranks start once. A job without such an option has no supervisor.

`tests/life/test_orders.py` plays 1,000 random orders of events against the machine. Its Slurm is simulated as the lab
shows it: a rank or a host dies, Slurm says so late or early, a peer fails first, a rank is deaf or ends well too early,
a save, a limit, a cancellation, a requeue, a controller that is away. In each order:

- an attempt is called done only if every rank said that it ended with status 0;
- the ranks of two attempts never run at the same time: none start before the nodes have answered;
- no ranks start after a cancellation;
- each wait has a bound;
- each attempt begins at the newest whole checkpoint;
- the cause that is named is the first."""


def page() -> str:
    """Return the whole text."""
    return "\n".join([HEAD, *_phases(), *_values("Events", _events()), *_values("Actions", _actions()), *_bounds(), ""])


def _phases() -> Iterator[str]:
    for phase in (value for name, value in vars(LifePhase).items() if name.isupper()):
        rules = [(event, rule) for (of, event), rule in RULES.items() if of == phase]
        if not rules:
            continue
        yield f"\n## In the phase “{phase}”\n"
        yield "| event | what is done |\n|---|---|"
        for event, rule in rules:
            yield f"| {event.__name__} | {_first_line(rule)} |"


def _events() -> list[type]:
    return sorted({event for _, event in RULES}, key=lambda event: event.__name__)


def _actions() -> list[type]:
    return [getattr(machine, name) for name in machine.ACTIONS]


def _values(title: str, values: Sequence[type]) -> Iterator[str]:
    yield f"\n## {title}\n"
    for value in values:
        yield f"- **{value.__name__}**: {_first_line(value)}"


def _bounds() -> Iterator[str]:
    yield "\n## Bounds\n"
    yield f"- one question to Slurm, the nodes or the disk: {machine.ANSWER_S:.0f} s, then it is asked again"
    yield f"- all of them, and nodes that Slurm calls busy: {machine.BUSY_S:.0f} s"
    yield f"- Slurm, to end a job whose node has died and that has no spare node: {machine.LOST_S:.0f} s"
    yield f"- links in turn that end without a new checkpoint: {machine.IDLE_LINKS}"


def _first_line(value: Any) -> str:
    return " ".join((value.__doc__ or "").split())


def main(words: Sequence[str]) -> int:
    """Write the page, or say that it is not current."""
    if "--check" in words:
        return 0 if PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
