"""Rules on signals: which process gets one, and what it does with it."""

from __future__ import annotations

from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript, HeaderOption
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity

_HEAD = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


@rule(
    "signal-to-steps-only",
    Severity.BREAKS,
    "a trap in the script for a signal that goes to the steps",
    why="--signal=USR1@90 reaches the tasks of the steps, not the batch script: the trap never runs. B: sends it to the script.",
    instead="Write --signal=B:USR1@90 where the script traps it, or handle the signal in the program.",
    source=sources.SBATCH,
    bad=_HEAD
    + "#SBATCH --signal=USR1@90\ntrap 'touch save' USR1\nsrun --kill-on-bad-exit=1 python train.py &\nwait\nwait\n",
    good=_HEAD
    + "#SBATCH --signal=B:USR1@90\ntrap 'touch save' USR1\nsrun --kill-on-bad-exit=1 python train.py &\nwait\nwait\n",
)
def find_unheard_traps(job: BatchScript) -> Iterator[Hit]:
    """Yield --signal without B: where the script traps that signal."""
    directive = job.header.get("signal")
    signal = _signal_of(directive)
    if (
        directive is None
        or signal is None
        or (directive.value or "").upper().partition("@")[0].startswith(("B:", "RB:", "BR:"))
    ):
        return
    if signal in _trapped(job):
        yield Hit(directive.place, f"the script traps {signal}, but the signal goes to the steps")


@rule(
    "signal-kills-script",
    Severity.BREAKS,
    "B: sends a signal that the script does not trap",
    why="A shell that does not trap the signal dies of it, and the job ends at the warning.",
    instead="Add a trap for it before srun, start srun in the background and wait twice: the signal ends the first wait.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --signal=B:USR1@90\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD
    + "#SBATCH --signal=B:USR1@90\ntrap 'touch save' USR1\nsrun --kill-on-bad-exit=1 python train.py &\nwait\nwait\n",
)
def find_deadly_signals(job: BatchScript) -> Iterator[Hit]:
    """Yield --signal=B: without a trap."""
    directive = job.header.get("signal")
    signal = _signal_of(directive)
    if (
        directive is not None
        and signal
        and (directive.value or "").upper().startswith("B:")
        and signal not in _trapped(job)
        and not any(each.program == "exec" and len(each.words) > 1 for each in job.shell.commands)
    ):
        reads = any(each.program in {"source", "."} for each in job.shell.commands)
        unknown = "whether a file that the script reads has a trap" if reads else ""
        yield Hit(directive.place, f"the batch shell does not trap {signal}, so it dies of it", unknown=unknown)


@rule(
    "trap-waits-for-srun",
    Severity.BREAKS,
    "a trap that cannot run while srun does",
    why="bash runs a trap only after the command in the foreground has ended: srun holds it until the job is killed.",
    instead="Start srun with & and wait for it, twice: the signal ends the first wait.",
    source=sources.BASH,
    bad=_HEAD + "#SBATCH --signal=B:USR1@90\ntrap 'touch save' USR1\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD
    + "#SBATCH --signal=B:USR1@90\ntrap 'touch save' USR1\nsrun --kill-on-bad-exit=1 python train.py &\nwait\nwait\n",
)
def find_blocked_traps(job: BatchScript) -> Iterator[Hit]:
    """Yield a step in the foreground of a script that traps the signal sent to it."""
    directive = job.header.get("signal")
    signal = _signal_of(directive)
    if directive is None or not (directive.value or "").upper().startswith("B:") or signal not in _trapped(job):
        return
    for launch in job.launches:
        starts = launch.stage("python") or launch.stage("agent")
        if starts and not launch.command.in_background and not launch.command.in_substitution:
            name = launch.stages[0].name
            yield Hit(launch.command.place, f"bash runs the trap for {signal} only after this {name} has ended")
            return


def _signal_of(directive: HeaderOption | None) -> str | None:
    if directive is None or directive.value is None:
        return None
    name = directive.value.upper().partition("@")[0].rpartition(":")[2].removeprefix("SIG")
    return {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP"}.get(name, name)


def _trapped(job: BatchScript) -> set[str]:
    numbers = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP"}
    words = [
        word.value.upper().removeprefix("SIG")
        for each in job.shell.commands
        if each.program == "trap"
        for word in each.words[1:]
    ]
    return {numbers.get(word, word) for word in words}
