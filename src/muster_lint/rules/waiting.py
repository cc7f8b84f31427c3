"""Rules on loops that wait: what ends them, and what does not."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TypeVar

from muster_lint import sources
from muster_lint.bash import AskingLoop, Assignment, SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import SERVER, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"
_ASKS = 'curl -sf "http://localhost:$port/health"'
_SERVE = _HEAD + 'port=$((20000 + SLURM_JOB_ID % 9999))\n./serve --port "$port" &\nserver=$!\n'


@rule(
    "wait-without-end",
    Severity.FRAGILE,
    "a wait for a program that nothing ends",
    why="""If the program in the background stops (no memory, a port that is taken, a module that is not there) it never answers: the loop goes on, and
    the job keeps its nodes until the time limit.""",
    instead='Ask for the process too: until curl …; do kill -0 "$pid" || exit 1; sleep 5; done. Or count, and give up.',
    source=sources.BASH,
    bad=_SERVE + f'until {_ASKS}; do sleep 1; done\n./ask "$port"\nkill "$server" || true\n',
    good=_SERVE
    + f'until {_ASKS}; do kill -0 "$server" || exit 1; sleep 1; done\n./ask "$port"\nkill "$server" || true\n',
)
def find_endless_waits(job: BatchScript) -> Iterator[Hit]:
    """Yield each loop that sleeps until something answers or is there, and asks neither for its process nor for the time."""
    if not job.directives or job.shell.error is not None:
        return
    starters = sorted((each for each in job.shell.commands if each.in_background), key=lambda each: each.place)
    starters = [each for each in starters if not _WATCHES.search(text_of(each))]
    commands = sorted(job.shell.commands, key=lambda each: each.place)
    settings = sorted(job.shell.assignments, key=lambda each: each.place)
    of_commands, of_settings, of_starters = _places(commands), _places(settings), _places(starters)
    traps = any(each.program == "trap" and "CHLD" in text_of(each) for each in job.shell.commands)
    for loop in job.shell.loops if not traps else ():
        inside, set_inside = _between(commands, of_commands, loop.place), _between(settings, of_settings, loop.place)
        asked = _awaited(job, loop, inside, set_inside)
        if asked and not _has_end(job, loop, inside, set_inside):
            index = bisect_left(of_starters, (loop.place.line, loop.place.column))
            yield _hit(job, loop, asked, starters[max(0, index - _NEAR) : index])


_Placed = TypeVar("_Placed", SimpleCommand, Assignment)
_NEAR = 8
"""Of more programs in the background the last ones are looked at."""


def _between(sorted_ones: list[_Placed], places: list[tuple[int, int]], around: TextSpan) -> list[_Placed]:
    """Return what lies in a stretch, of what is sorted by its place."""
    start, end = (around.line, around.column), (around.end_line, around.end_column)
    return sorted_ones[bisect_left(places, start) : bisect_left(places, end)]


def _places(sorted_ones: Sequence[SimpleCommand | Assignment]) -> list[tuple[int, int]]:
    """Return where each begins."""
    return [(each.place.line, each.place.column) for each in sorted_ones]


def _hit(job: BatchScript, loop: AskingLoop, asked: str, before: list[SimpleCommand]) -> Hit:
    """Return the finding: certain where the loop asks for the server that this script starts."""
    place = TextSpan(loop.place.line, loop.place.column, loop.body.line, loop.body.column)
    servers = [each for each in before if _may_be(job, each, asked)]
    if servers:
        return Hit(place, f"if what line {servers[-1].place.line} starts dies, this loop never ends")
    unknown = f"whether what line {before[-1].place.line} starts is awaited" if before else "who is to bring it"
    return Hit(place, "if what it waits for never comes, this loop never ends", unknown=unknown)


def _may_be(job: BatchScript, command: SimpleCommand, asked: str) -> bool:
    """Tell whether a command in the background is the server that a condition asks, or writes the file that it looks at."""
    text = text_of(command)
    writes_it = any(job.shell.filled(name.strip("\"'")) in job.shell.filled(asked) for name in command.writes if name)
    return writes_it or (
        _OF_PORT.search(asked) is not None and (SERVER.search(text) or _SERVES.search(text)) is not None
    )


_SERVES = re.compile(r"serv(e|er|ing)(?![a-z])|--?port\b|ollama|redis|mongo|postgres|jupyter|daemon", re.IGNORECASE)
_WATCHES = re.compile(r"nvidia-smi|rocm-smi|^(sleep|tail|top|vmstat|dstat|iostat|watch)\b")
_OF_PORT = re.compile(r"\b(curl|wget|nc|ncat|ray status|redis-cli|pg_isready|ollama list)\b|/dev/tcp/")
_OF_FILE = re.compile(r"\[\[?\s+-[efsd]\s|\btest -[efsd]\s|\bgrep\b(?!.*\|)")


def _awaited(job: BatchScript, loop: AskingLoop, inside: list[SimpleCommand], set_inside: list[Assignment]) -> str:
    """Return the question after whose yes a loop of nothing but sleeps and messages ends; empty for another loop."""
    body = [each for each in inside if _is_within(each.place, loop.body)]
    if not any(each.program == "sleep" for each in body) or any(each.program not in _IDLE for each in body):
        return ""
    condition = loop.condition.strip()
    if loop.is_until:
        asked = condition
    elif condition in {"true", ":", "[ 1 ]", "[ true ]", "((1))"}:
        found = _BREAKS.search("\n".join(job.lines[loop.body.line - 1 : loop.body.end_line]))
        asked = (found[1] or found[2] or "") if found else ""
    else:
        negated = re.sub(r"(\[\[?|\btest)\s+!\s", r"\1 ", condition)
        differs = condition if re.search(r"\s!=\s|\s-z\s+\"?\$\(|\s==?\s+([\"'])\1\s", condition) else ""
        asked = negated if negated != condition else condition[1:] if condition.startswith("!") else differs
    for each in set_inside:
        if each.value is not None and re.search(rf"\${{?{each.name}\b", asked):
            asked = each.value.value
    is_alone = not re.search(r"\|\||&&|[\"\w]\s-[ao]\s-[a-z]\s|[<>]\s*\(|-(lt|gt|le|ge|eq|ne)\b", asked)
    return asked.strip() if is_alone and (_OF_PORT.search(asked) or _OF_FILE.search(asked)) else ""


_BREAKS = re.compile(
    r"\bif\s+(?!!)(.+?)\s*;?\s*\n?\s*then\s[^;\n]*[\s;]*(?:\n[^\n]*){0,2}?\bbreak\b|(\S[^\n]*?)\s*&&\s*break\b"
)
"""The condition of the branch in which an endless loop is left."""
_IDLE = frozenset("sleep echo printf date : true break curl wget nc grep tail ls test [ ray".split())  # noqa: SIM905


def _has_end(job: BatchScript, loop: AskingLoop, inside: list[SimpleCommand], set_inside: list[Assignment]) -> bool:
    """Tell whether something else may end the loop: a count, a deadline, a look at the process."""
    text = "\n".join(job.lines[loop.place.line - 1 : loop.place.end_line])
    changes = any(each.value is None or not _OF_PORT.search(each.value.value) for each in set_inside)
    breaks = sum(each.program == "break" for each in inside)
    return changes or breaks > 1 or _ENDS.search(text) is not None


_ENDS = re.compile(
    r"\bkill\b|\bps\b|pgrep|\bjobs\b|/proc/|SECONDS|\+%s|\bexit\b|\breturn\b|\(\(|\blet\b|\bexpr\b|\bwait\b|squeue|sacct|scontrol"
    r"|\btimeout\b|--retry|--tries"
)


def _is_within(place: TextSpan, around: TextSpan) -> bool:
    start, end = (place.line, place.column), (place.end_line, place.end_column)
    return (around.line, around.column) <= start and end <= (around.end_line, around.end_column)


@rule(
    "sweep-without-end",
    Severity.FRAGILE,
    "an agent of a sweep that goes on until the time limit",
    why="""Without --count the agent asks for the next trial as long as there is one: the time limit ends the last one in its middle. The hours of that trial are
    lost, and the job counts as TIMEOUT.""",
    instead="Write wandb agent --count N, with as many trials as the time surely holds.",
    source="wandb/wandb wandb/cli/cli.py @v0.28.0, agent; its guide: random and Bayesian searches run for ever",
    bad=_HEAD + "wandb agent ann/digits/2xk4c9\n",
    good=_HEAD + "wandb agent --count 1 ann/digits/2xk4c9\n",
)
def find_endless_sweeps(job: BatchScript) -> Iterator[Hit]:
    """Yield the first agent of Weights & Biases without a count."""
    if not job.directives or {"signal", "requeue"} & job.header.keys():
        return
    for each in job.commands:
        text = text_of(each)
        if re.search(r"\bwandb agent\s", text) and not re.search(r"--count|\btimeout\b|--help", text):
            yield Hit(each.place, "the time limit cuts the last trial", unknown="whether the sweep ends before")
            return
