"""Rules on failures that the script catches: what it makes of them, and what the job's status says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from muster_lint import sources
from muster_lint.bash import Branch, SimpleCommand, read_shell
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import is_part, is_work

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"
_WORK = "srun --kill-on-bad-exit=1 ./solve {}"


class _CaughtFailure(msgspec.Struct, frozen=True):
    """What a script does where a command has failed."""

    text: str
    place: TextSpan

    @property
    def programs(self) -> list[str]:
        return [each.program for each in read_shell(self.text).commands]

    @property
    def names(self) -> set[str]:
        """Return the variables that it sets or counts up."""
        assigned = {each.name for each in read_shell(self.text).assignments if not each.of_command}
        return assigned | set(re.findall(r"(?:\(\(|\blet )\s*\+*(\w+)\s*(?:\+\+|\+=|--)?", self.text))


@rule(
    "failure-only-printed",
    Severity.FRAGILE,
    "a failure that is caught, and only printed",
    why="""A command that an if or || asks for its end does not end the script, and its status is used up: with a message alone, or a variable that is
    only printed, Slurm counts the job as COMPLETED, and jobs that depend on it start.""",
    instead='Keep it, and end with it: … || status=1; …; exit "$status".',
    source=sources.BASH,
    bad=_HEAD + f'set -e\n{_WORK.format(1)} || echo "1 failed"\n{_WORK.format(2)}\n',
    good=_HEAD + f'set -e\nstatus=0\n{_WORK.format(1)} || status=1\n{_WORK.format(2)}\nexit "$status"\n',
)
def find_printed_failures(job: BatchScript) -> Iterator[Hit]:
    """Yield the first work whose failure the script answers by a message or a variable that nothing but a message reads."""
    if not job.directives or job.shell.error is not None:
        return
    last_end = max((each.place for each in job.shell.commands if _ends_badly(each)), default=None)
    lines = _lines_of_use(job)
    for launch in job.launches:
        place = launch.command.place
        if not (is_work(job, launch) and is_part(launch)) or (last_end is not None and last_end > place):
            continue
        answer = _answer_of(job, launch) if launch.command.is_tested else _reading_of(job, launch.command)
        if answer is None or not set(answer.programs) <= _TELLS or not (answer.programs or answer.names):
            continue
        is_retried = launch.command.in_loop and re.search(r"\b(break|retry|sleep)\b", job.body)
        if answer.names & lines or is_retried or re.search(r"\breturn\s+[1-9$]", answer.text):
            continue
        into = f"goes into {min(answer.names)}, which is only printed" if answer.names else "is only printed"
        yield Hit(place, f"its failure {into}: the job's status does not show it")
        return


def _reading_of(job: BatchScript, command: SimpleCommand) -> _CaughtFailure | None:
    """Return the line right behind a command that keeps or prints its status, or what an if makes of it there."""
    asked = command.is_guarded or command.in_background or command.pipes_on or command.in_substitution
    last = command.place.end_line
    while last < len(job.lines) and job.lines[last - 1].endswith("\\"):
        last += 1  # the redirections of the command go on
    following = job.lines[last : last + _FAR]
    behind = re.sub(r"^(\s*(#.*)?\n)+", "", "\n".join(following))
    read, handled = _READS.match(behind), _ASKED.match(behind)
    if asked or (read is None and handled is None):
        return None
    if handled is not None:
        is_last = not behind[handled.end() :].strip() and job.text.count("$?") == 1  # status-lost-at-end says it
        return None if is_last or re.search(r"\b(if|else)\b", handled[1]) else _CaughtFailure(handled[1], command.place)
    return _CaughtFailure(read[0], command.place) if read is not None else None


_READS = re.compile(r"\s*(\w+=\$\?|(echo|printf)\b[^\n|>]*\$\?[^\n|>]*)(?=\n|$)")
_ASKED = re.compile(r"\s*if \[+ \"?\$\?\"? (?:-ne|!=) \"?0\"? \]+\s*;?\s*then\b(.*?)\n\s*fi\b", re.DOTALL)


_TELLS = frozenset({"echo", "printf", "date", "tail", "cat", "ls", "continue", "return", "tee", "hostname", ""})


def _ends_badly(command: SimpleCommand) -> bool:
    """Tell whether a command ends the script with another status than 0, or may do so."""
    words = [word.value for word in command.words]
    return (words[:1] == ["exit"] and words[1:] not in ([], ["0"])) or command.program in {"false", "scancel", "kill"}


def _lines_of_use(job: BatchScript) -> set[str]:
    """Return the variables that a line reads which does more than print or count up."""
    used: set[str] = set()
    for line in job.body.splitlines():
        if not re.match(r"\s*(echo|printf)\b[^|>;&`]*$", line):
            used |= set(re.findall(r"\$\{?#?(\w+)", line)) | set(re.findall(r"\(\(\s*(\w+)\s*(?:[<>!=]|\)\))", line))
    return used


def _answer_of(job: BatchScript, launch: LaunchCommand) -> _CaughtFailure | None:
    """Return what the script does where this command fails: behind ||, or in the branch of an if."""
    place = launch.command.place
    behind = "\n".join(job.lines[place.end_line - 1 : place.end_line + 12])[place.end_column - 1 :]
    found = _OR.match(behind)
    if found is not None:
        braced = re.match(r"\{\s(.*?)[;\n]\s*\}", behind[found.end() :], re.DOTALL)
        text = braced[1] if braced is not None else re.split(r"\n|\s#", behind[found.end() :])[0]
        return None if re.match(r"(true|:)\b|[({]", text.strip()) else _CaughtFailure(text, place)
    near = [each for each in job.shell.branches if 0 <= each.place.line - place.end_line <= _FAR and each.place > place]
    for branch in near:
        if _is_failure_of(branch, launch.command):
            lines = job.lines[branch.place.line - 1 : branch.place.end_line]
            lines[-1] = lines[-1][: branch.place.end_column - 1]
            lines[0] = lines[0][branch.place.column - 1 :]
            text = re.sub(r"^\s*(then|else)\b|\bfi\s*$", "", "\n".join(lines))
            return _CaughtFailure(text, branch.place)
    return None


_FAR = 200
_OR = re.compile(
    r"(?:\s*\d?>>?\s*(?:&\d|\S+)|\s*&>>?\s*\S+|\s*<\s*\S+)*\s*(?:\\\n\s*)?(?:&&\s*(?:echo|printf)\b[^|&;\n]*)?\|\|\s*(?:\\?\n\s*)?"
)
"""What stands between a command and what runs where it fails."""


def _is_failure_of(branch: Branch, command: SimpleCommand) -> bool:
    """Tell whether a branch runs exactly where a command has failed."""
    if len(branch.conditions) != 1:
        return False
    condition, wanted = branch.conditions[0]
    negated = condition.startswith("!")
    asked = condition.lstrip("! ")
    is_alone = not re.search(r"\|\||&&|;\s*\S|\|", asked)
    return is_alone and wanted is negated and asked.startswith(command.words[0].text)


@rule(
    "status-of-background",
    Severity.FRAGILE,
    "the status of a program in the background, before the program has ended",
    why="Behind & the shell goes on at once, and $? is 0 whatever becomes of the program: what reads it never sees a failure.",
    instead='Keep $! and ask for the end: wait "$pid"; status=$?.',
    source=sources.BASH,
    bad=_HEAD + f"set -e\n{_WORK.format(1)} & status=$?\nwait\nexit $status\n",
    good=_HEAD + f'set -e\n{_WORK.format(1)} &\nwait $! && status=0 || status=$?\nexit "$status"\n',
)
def find_early_statuses(job: BatchScript) -> Iterator[Hit]:
    """Yield each reading of $? in the line of a program in the background, or in the line below, where nothing else ran."""
    for each in job.shell.commands if job.directives else ():
        if not each.in_background:
            continue
        line = each.place.end_line
        behind = job.lines[line - 1][each.place.end_column - 1 :]
        below = job.lines[line] if line < len(job.lines) else ""
        found = _EARLY.fullmatch(behind)
        if found or (_ALONE.fullmatch(behind) and _READ.match(below)):
            place = each.place if found else TextSpan(line + 1, 1, line + 1, len(below) + 1)
            yield Hit(place, f"$? is 0 here: {each.program or 'the program'} has not ended")
    starters = [each.place.end_line for each in job.shell.commands if each.in_background and job.directives]
    for number, text in enumerate(job.lines if starters else (), start=1):
        if _BEHIND_NUMBER.match(text) and starters[0] < number:
            place = TextSpan(number, 1, number, len(text) + 1)
            yield Hit(place, "$? is 0 here: it is that of the assignment in front of it, and the program has not ended")


_READ = re.compile(r"\s*(\w+\+?=\(?\$\?|if\s+\[\[?\s*\"?\$\?|\(\(\s*\$\?)")
_BEHIND_NUMBER = re.compile(r"\s*\w+\+?=\(?\"?\$!\"?\)?\s*;\s*\w+\+?=\(?\"?\$\?")
_ALONE = re.compile(r"[^&|;]*&\s*(#.*)?")
_EARLY = re.compile(r"[^&|;]*&\s*\w+\+?=\(?\$\?.*")
