"""Rules on signals: which process gets one, and what it does with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import read_shell
from muster_lint.job import BatchScript
from muster_lint.launch import launches_of
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import text_of

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
    place, signal, is_for_script = _signal_of(job)
    if place is not None and not is_for_script and signal in _trapped(job, to_run=True):
        handlers = {
            each.words[1].value for each in job.shell.commands if each.program == "trap" and len(each.words) > 2
        }
        is_called = any(each.text in handlers for command in job.shell.commands for each in command.words[:1])
        unknown = "whether the script does the same when the step has ended" if is_called or signal == "TERM" else ""
        yield Hit(place, f"the script traps {signal}, but the signal goes to the steps", unknown=unknown)


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
    place, signal, is_for_script = _signal_of(job)
    if (
        place is not None
        and is_for_script
        and signal not in {"", "URG", "CONT", "CHLD", "WINCH", *_trapped(job)}
        and not any(each.program == "exec" and len(each.words) > 1 for each in job.shell.commands)
    ):
        reads = any(each.program in {"source", "."} for each in job.shell.commands)
        unknown = "whether a file that the script reads has a trap" if reads else ""
        for each in job.shell.commands:
            is_open = each.program == "trap" and not all(word.is_literal for word in each.words[2:])
            if is_open or (each.program == "eval" and "trap" in text_of(each)):
                unknown = unknown or "which signals a trap names"
        yield Hit(place, f"the batch shell does not trap {signal}, so it dies of it", unknown=unknown)


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
    _, signal, is_for_script = _signal_of(job)
    is_held = is_for_script and signal in _trapped(job, to_run=True)
    starts = [each for each in job.launches if is_held and (each.stage("python") or each.stage("agent"))]
    starts = [each for each in starts if not each.command.in_substitution]
    for launch in starts:
        if not launch.command.in_background:
            message = f"bash runs the trap for {signal} only after this {launch.stages[0].name} has ended"
            is_first = len(starts) > 1 or any(each.program == "eval" for each in job.shell.commands)
            unknown = "whether it has ended when the signal comes" if is_first else ""
            yield Hit(launch.command.place, message, unknown=unknown)
            return


@rule(
    "signal-to-nobody",
    Severity.FRAGILE,
    "a signal for steps in a script that starts none",
    why="--signal without B: goes to the tasks of steps. A program that the script starts without srun is not one, and is not warned.",
    instead="Start the program with srun.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --signal=USR1@90\npython train.py\n",
    good=_HEAD + "#SBATCH --signal=USR1@90\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_unsent_signals(job: BatchScript) -> Iterator[Hit]:
    """Yield --signal without B: where Python programs are started, and no step."""
    place, signal, is_for_script = _signal_of(job)
    if place is None or is_for_script or signal in _trapped(job) or _STARTS_STEPS.search(job.body):
        return
    inner = (launch for each in job.launches if each.inner is not None for launch in launches_of(each.inner))
    if any(launch.stage("python") or launch.stage("agent") for launch in (*job.launches, *inner)):
        yield Hit(place, f"no process gets {signal}: it goes to the steps, and this script starts none")


_STARTS_STEPS = re.compile(r"srun|ibrun|\bmpi|submitit|sbatch|\bsh\b")
"""What may start a step, itself or in a file of its own."""


@rule(
    "step-in-exit-trap",
    Severity.FRAGILE,
    "srun in a trap of EXIT",
    why="""After scancel, or at the time limit, Slurm starts no step for a job that it ends: srun says that the job has expired, and what the
    trap is there for does not happen.""",
    instead="Let the trap run its command without srun, or warn the job before its end: --signal=B:USR1@120.",
    source=sources.SBATCH,
    bad=_HEAD + "trap 'srun --ntasks=1 echo saved' EXIT\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD + "trap 'echo saved' EXIT\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_steps_at_the_end(job: BatchScript) -> Iterator[Hit]:
    """Yield a trap of EXIT that starts a step, itself or in the function that it calls."""
    for each in job.shell.commands:
        names = {_name_of(word.value) for word in each.words[2:]} if each.program == "trap" else set()
        if not names & {"EXIT", "0"}:
            continue
        commands = read_shell(each.words[1].value).commands
        called = [inner for command in commands for inner in job.functions.get(command.program, ())]
        if any(inner.program == "srun" for inner in [*commands, *called]):
            yield Hit(each.place, "a job that is cancelled, or out of time, gets no step for this srun")


def _signal_of(job: BatchScript) -> tuple[TextSpan | None, str, bool]:
    """Return where --signal stands, the signal, and whether the batch script gets it."""
    directive = job.header.get("signal")
    flags, _, name = ((directive.value or "") if directive is not None else "").partition("@")[0].rpartition(":")
    return directive.place if directive is not None else None, _name_of(name), "B" in flags.upper()


def _name_of(signal: str) -> str:
    """Return a signal's name without SIG."""
    name = signal.upper().removeprefix("SIG")
    return {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP"}.get(name, name)


def _trapped(job: BatchScript, *, to_run: bool = False) -> set[str]:
    """Return the signals that the script traps; `to_run`: only those for which it runs something."""
    traps = [each.words[1:] for each in job.shell.commands if each.program == "trap" and len(each.words) > 2]
    return {
        _name_of(word.value) for first, *words in traps if not (to_run and not first.value.strip("-")) for word in words
    }
