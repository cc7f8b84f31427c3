"""Rules on failures that nobody notices: a status that is lost, a copy or a folder that is not there. Long: one rule after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import structs

from muster_lint import sources
from muster_lint.bash import SimpleCommand, Word
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, launches_of
from muster_lint.rule import rule
from muster_lint.samples import TASKS
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import (
    AT_ONCE,
    ENDINGS,
    HARMLESS,
    INSTALLERS,
    SERVER,
    STARTS_RANKS,
    TEXT_TOOLS,
    copies,
    is_part,
    is_work,
    starts_ranks,
    text_of,
    trains,
)

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"
_LONE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n#SBATCH --time=01:00:00\n"


@rule(
    "status-lost-in-pipe",
    Severity.FRAGILE,
    "the status of the training is lost in a pipe",
    why="The status of a pipeline is that of its last command: with `srun … | tee log` a failed training counts as done.",
    instead="Write set -o pipefail before it.",
    source=sources.BASH,
    bad=TASKS + "srun --kill-on-bad-exit=1 python train.py 2>&1 | tee -a train.log\n",
    good=TASKS + "set -o pipefail\nsrun --kill-on-bad-exit=1 python train.py 2>&1 | tee -a train.log\n",
)
def find_pipes(job: BatchScript) -> Iterator[Hit]:
    """Yield a launch whose output is piped on, without pipefail."""
    if job.sets("pipefail") or "PIPESTATUS" in job.text or not job.is_slurm:
        return
    last: dict[int, LaunchCommand] = {}
    for launch in job.launches:
        command = launch.command
        inside = launch.stage("step") and launch.inner is not None and STARTS_RANKS.search(launch.inner.text)
        is_named = is_work(job, launch) and launch.stages[-1].name not in AT_ONCE
        is_step = launch.stage("step") and is_named and launch.inner is None
        makes = job.stops_at_errors and is_work(job, launch) and is_part(launch) and _fills_file(job, command)
        makes = makes and not command.writes
        is_training = launch.stage("agent") or trains(launch) or inside or is_step or makes
        if command.pipes_on and is_training and not command.in_substitution and not command.in_background:
            last[command.pipe] = launch  # of several in one pipe the last one's status is that of the group
    end = {each.pipe: index for index, each in enumerate(job.shell.commands)}
    for launch in last.values():
        if not job.stops_at_errors and end.get(launch.command.pipe, len(end)) + 2 < len(job.shell.commands):
            continue  # the script ends with the status of what follows the pipe: status-lost-at-end says that
        fails = "set -e sees no failure of this" if job.stops_at_errors else "a failure of this is lost"
        yield Hit(launch.command.place, f"{fails}: the pipe has the status of what reads it")
    for each in reversed(job.shell.commands if job.directives else ()):
        is_bad = each.program == "exit" and len(each.words) > 1 and each.words[1].value != "0"
        if is_bad and each.pipes_on and not (each.in_substitution or each.in_background or each.pipe in last):
            yield Hit(each.place, "this ends the subshell alone, and its status is lost in the pipe: the job goes on")
            return


def _fills_file(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether what reads a command's output, at the end of its pipe, writes a file."""
    behind = [each for each in job.shell.commands if each.order > command.order]
    last = next((each for each in behind if not each.pipes_on), None)
    return last is not None and bool(last.writes or last.program == "tee" or last.option("-o", "--output"))


@rule(
    "status-lost-at-end",
    Severity.FRAGILE,
    "the job ends with the status of another command",
    why="Slurm takes the status of the script's last command: whatever fails in front of it, a training before an echo or a step before the next, counts as COMPLETED.",
    instead="Write set -e at the top, or keep the status: status=$?; …; exit $status.",
    source=sources.SBATCH,
    bad=TASKS + 'srun --kill-on-bad-exit=1 python train.py\necho "done"\n',
    good=TASKS + 'set -e\nsrun --kill-on-bad-exit=1 python train.py\necho "done"\n',
)
def find_lost_status(job: BatchScript) -> Iterator[Hit]:
    """Yield the last work of the job that what follows hides, or one that other work follows."""
    piped = {each.place for each in job.shell.commands if each.pipes_on}
    for hit in _lost_statuses(job):
        is_piped = hit.place in piped
        is_early = _STOPS_EARLY.search(job.text) or _SAVES.search("\n".join(job.lines[hit.place.end_line :]))
        if hit.instead is None and is_early:
            status = "${PIPESTATUS[0]}" if is_piped else "$?"
            yield structs.replace(hit, instead=f"Keep the status: status={status}; …; exit $status. {_WHY_NOT}")
        else:
            pipefail = "Write set -eo pipefail at the top." if is_piped else None
            yield structs.replace(hit, instead=hit.instead or pipefail)


_STOPS_EARLY = re.compile(r"\(\(\s*\w+(\+\+|--)|^\s*let |(^|\|)\s*(grep|diff|cmp) ", re.MULTILINE)
_SAVES = re.compile(r"^\s*(cp|mv|rsync|scp|tar|zip|gzip|rclone|sacct|seff) ", re.MULTILINE)
_WHY_NOT = (
    "(set -e ends the script at ((n++)) where n is 0, at a grep that finds nothing, and before anything is saved.)"
)


def _lost_statuses(job: BatchScript) -> Iterator[Hit]:
    """Yield the work of the job whose status the end of the script hides."""
    yield from _lost_inside(job) if job.directives else ()
    yield from _lost_installations(job) if job.directives and not job.stops_at_errors and "$?" not in job.text else ()
    if not job.directives or job.stops_at_errors or "$?" in job.text or "PIPESTATUS" in job.text:
        yield from _handled(job)
        return
    works = {each.command.order: each for each in job.launches if is_work(job, each)}
    main = [each for each in job.shell.commands if each.function is None and not each.in_substitution]
    main = [inner for each in main for inner in _called(job, each)]
    hiding: SimpleCommand | None = None
    for index, each in reversed(list(enumerate(main))):
        is_asked = each.is_tested and (each.is_conditional or each.in_loop)
        reads_pipe = each.program in _FILTERS and index > 0 and main[index - 1].pipes_on
        waits = each.program == "wait" and any(other.in_background for other in main[:index])
        if (
            is_asked
            or each.in_background
            or reads_pipe
            or (each.program == "wait" and not waits)
            or (each.is_guarded and each.order not in works)
        ):
            continue
        if each.program == "wait" and len(each.words) == 1:
            return  # wait-forgets-status says it
        is_end = each.program == "exit" and not each.is_conditional
        if is_end and [word.value for word in each.words[1:]] in ([], ["0"]):
            hiding = each if len(each.words) > 1 else hiding
        elif (
            each.order in works
            or each.program == "wait"
            or (each.program == "eval" and starts_ranks(job, each))
            or (hiding is not None and each.words and _OF_PROGRAMS.search(each.words[0].lone_name or ""))
        ):
            if hiding is not None and hiding.is_conditional and each.is_conditional:
                return  # they may stand in two branches, of which one runs
            if hiding is not None:
                yield from _hidden(each, hiding)
            elif each.program == "wait" and each.in_loop and len(each.words) > 1 and not each.is_tested:
                yield Hit(each.place, "the job ends with the status of the program that is waited for last")
            elif each.order in works and not each.is_guarded:
                yield from _forgotten(job, works, each, main[:index])
            return
        elif each.program not in HARMLESS | ENDINGS | (INSTALLERS | TEXT_TOOLS if hiding is not None else set()) or (
            each.program == "source" and each.pipes_on
        ):
            return  # what it does with the status before it is not known
        else:
            hiding = hiding or each


_OF_PROGRAMS = re.compile(r"mpi|run(ner)?$|exe|binary|python|cmd|command|launch|solver|program", re.IGNORECASE)
"""The names of variables that hold the program of the work."""


def _called(job: BatchScript, call: SimpleCommand, depth: int = 0) -> list[SimpleCommand]:
    """Return the commands that a call of the script's own function runs, where nothing in it ends it early."""
    body = [each for each in job.functions.get(call.program, ()) if not each.in_substitution]
    if call.program not in job.functions or depth > 3 or any(each.program in _ENDS_EARLY for each in body):
        return [call]
    flags = ("in_background", "in_loop", "is_conditional", "is_tested", "is_guarded", "pipes_on")
    changes = {name: True for name in flags if getattr(call, name)}
    return [inner for each in body for inner in _called(job, structs.replace(each, **changes), depth + 1)]


_ENDS_EARLY = frozenset({"return", "exit", "trap", "exec"})


def _lost_installations(job: BatchScript) -> Iterator[Hit]:
    """Yield the last installation of a job that does nothing else, where a harmless command ends the script."""
    main = [each for each in job.shell.commands if each.function is None and not each.in_substitution]
    installs = [each for each in main if _installs(each)]
    if not installs or any(is_work(job, each) for each in job.launches):
        return
    last, end = installs[-1], main[-1]
    behind = [each for each in main if each.order > last.order]
    is_alone = not (last.is_conditional or last.in_loop or last.is_tested or last.pipes_on or last.in_background)
    if behind and is_alone and all(each.program in HARMLESS | ENDINGS | INSTALLERS for each in behind):
        message = f"the job ends with the status of {end.program!r} in line {end.place.line}"
        yield Hit(last.place, f"{message}: a failed installation counts as COMPLETED")


def _installs(command: SimpleCommand) -> bool:
    """Tell whether a command installs packages, or makes an environment of them."""
    return _INSTALLS.match(text_of(command)) is not None


def _handled(job: BatchScript) -> Iterator[Hit]:
    """Yield the work in front of the script's last if, where the if asks for its failure and then ends well."""
    if not job.directives or job.stops_at_errors or job.text.count("$?") != 1:
        return
    last = _LAST_QUESTION.search(job.text)
    if last is None or re.search(r"\b(exit|return|exec|false|requeue|else|if)\b", last[1]):
        return
    line = job.text.count("\n", 0, last.start(1)) + 1
    works = [each for each in job.launches if is_work(job, each) and each.command.place.end_line < line]
    before = [each for each in job.shell.commands if each.place.end_line < line and each.function is None]
    if works and works[-1].command.order == before[-1].order and not works[-1].command.in_background:
        message = f"the if in line {line} handles a failure and ends well: a failure here counts as COMPLETED"
        yield Hit(works[-1].command.place, message, "Write exit 1 at the end of this if.")


_LAST_QUESTION = re.compile(r"\nif (\[+ \"?\$\?\"? (?:-ne|!=) \"?0\"? \]+.*?)\nfi\s*(?:#[^\n]*\s*)*\Z", re.DOTALL)

_FILTERS = frozenset({"tee", "grep", "egrep", "sed", "awk", "ts", "cat", "tail"})
"""What stands behind the work in a pipe: the pipe's status is a matter of status-lost-in-pipe."""


def _hidden(work: SimpleCommand, hiding: SimpleCommand) -> Iterator[Hit]:
    """Yield work whose status another command hides, but for a job that is CANCELLED, or FAILED, whatever failed."""
    name = hiding.program if hiding.program != "exit" else "exit 0"
    message = f"the job ends with the status of {name!r} in line {hiding.place.line}"
    condition = "where that goes well " if hiding.program in _NEEDS_FILES else ""
    if not cancels_itself(hiding) and not _needs_its_file(hiding):
        yield Hit(work.place, f"{message}: {condition}a failure here counts as COMPLETED")


def _needs_its_file(command: SimpleCommand) -> bool:
    """Tell whether a copy of one named file ends the job: it fails where the work has not written that file."""
    name = command.words[1].value if command.program in {"cp", "mv"} and len(command.words) == 3 else ""
    return re.search(r"slurm-|SLURM_JOB|\.log$|[*?]|^-", name) is None and "." in name.rpartition("/")[2]


def cancels_itself(command: SimpleCommand) -> bool:
    """Tell whether a command is scancel of the job that it stands in."""
    words = [word.value for word in command.words[1:]]
    return command.program == "scancel" and len(words) == 1 and _OWN_JOB.fullmatch(words[0]) is not None


_OWN_JOB = re.compile(r"\$\{?SLURM_JOB_?ID\}?")
_NEEDS_FILES = frozenset({"cat", "cp", "mv", "tar", "rsync", "gzip", "zip", "head", "tail", "ls", "scp"})
"""Commands that fail themselves where the work left no file for them."""


def _forgotten(
    job: BatchScript, works: Mapping[int, LaunchCommand], last: SimpleCommand, before: list[SimpleCommand]
) -> Iterator[Hit]:
    """Yield the last work where it is a loop's, or else the first of several works in a row."""
    if last.in_loop:
        message = "a run of the loop that fails is not noticed: the job ends with the status of what runs last"
        if _has_endless_loop_around(job, last):
            message = "the loop has no end: when this fails it goes on until the time limit"
        elif last.pipes_on and not job.sets("pipefail"):
            message = "the job ends with the status of what reads the pipe: a failed run is not noticed"
        yield Hit(last.place, message)
        return
    for each in before:
        is_alone = not (each.is_tested or each.is_guarded or each.in_background)
        if each.is_conditional and (last.is_conditional or not (each.order in works and trains(works[each.order]))):
            continue  # they may stand in two branches, of which one runs
        if each.order in works and is_alone and is_part(works[each.order]):
            message = f"the script goes on when this fails, and the job ends with the status of line {last.place.line}"
            yield Hit(each.place, message)
            return


def _has_endless_loop_around(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether a command stands in a loop that nothing in the script leaves."""
    if re.search(r"\b(break|exit|return|exec|kill)\b", job.body):
        return False
    around = [loop for loop in job.shell.loops if loop.body.line <= command.place.line <= loop.body.end_line]
    return any(loop.condition in ({"false"} if loop.is_until else {"true", ":", "1", "[ 1 ]"}) for loop in around)


def _lost_inside(job: BatchScript) -> Iterator[Hit]:
    """Yield the first program in the text of a step's or a container's shell whose end another command hides."""
    for launch in job.launches:
        inner = launch.inner
        outer = launch.stages[-1] if launch.stages else None
        if inner is None or inner.error is not None or re.search(r"\bset -\w*e|\bexit\b|\$\?", inner.text):
            continue
        if outer is None or re.search(r"-\w*e\w*c", " ".join(name for name, _ in outer.options)):
            continue  # bash -ec
        works = [each for each in launches_of(inner) if trains(each) or each.stage("agent")]
        alone = [each.command for each in works if not _is_asked(each.command)]
        last = next((each for each in reversed(inner.commands) if not each.in_substitution), None)
        installs = [each for each in inner.commands if _INSTALLS.match(text_of(each)) and not _is_asked(each)]
        if installs and alone and installs[0].order < alone[0].order:
            message = f"the shell goes on when this fails, and ends with the status of {last.program!r}" if last else ""
            yield Hit(installs[0].place, message)
            return
        if not alone or last is None or last.order == alone[0].order or last.in_background:
            continue
        if alone[-1].order == last.order:
            yield Hit(
                alone[0].place, f"the shell goes on when this fails, and ends with the status of {last.program!r}"
            )
            return
        if last.program in HARMLESS and not last.is_guarded:
            message = f"the shell ends with the status of {last.program!r}: a failed program counts as COMPLETED"
            yield Hit(alone[-1].place, message)
            return


_INSTALLS = re.compile(
    r"(python\S* -m )?pip[\d.]* install\b|((micro)?mamba|conda) (env )?(install|create|update)\b|uv (sync|pip install)\b"
)


def _is_asked(command: SimpleCommand) -> bool:
    return bool(
        command.is_tested
        or command.is_guarded
        or command.is_conditional
        or command.in_background
        or command.in_substitution
        or command.function
        or command.pipes_on
    )


@rule(
    "wait-forgets-status",
    Severity.FRAGILE,
    "wait, which forgets how the programs ended",
    why="wait without a process's number is 0 whatever happened: if all programs fail, the job counts as COMPLETED.",
    instead='Keep the numbers and wait for each: pids+=($!); …; for pid in "${pids[@]}"; do wait "$pid" || status=1; done; exit $status.',
    source=sources.BASH,
    bad=_LONE + "python train.py --seed 1 &\npython train.py --seed 2 &\nwait\n",
    good=_LONE
    + "python train.py --seed 1 &\nfirst=$!\npython train.py --seed 2\nstatus=$?\nwait $first || status=$?\nexit $status\n",
)
def find_forgetful_waits(job: BatchScript) -> Iterator[Hit]:
    """Yield a lone wait at the end of a job whose programs run in the background."""
    if not job.directives or "wait -n" in job.text or "jobs -p" in job.text:
        return
    main = [each for each in job.shell.commands if each.function is None and not each.in_substitution]
    waits = [each for each in main if each.program == "wait"]
    if not waits or any(len(each.words) > 1 for each in waits) or any(each.program == "trap" for each in main):
        return
    works = {each.command.order: each for each in job.launches if each.command.function is None and is_work(job, each)}
    starters = [each for each in main if each.in_background and (each.order in works or _starts_elsewhere(job, each))]
    starters = [each for each in starters if each.order < waits[-1].order and not SERVER.search(text_of(each))]
    starters = [each for each in starters if not (each.is_tested and "||" in job.lines[each.place.end_line - 1])]
    behind = [each for each in main if each.order > waits[-1].order and each.program not in HARMLESS | {"cd"}]
    behind = [each for each in behind if each.program != "exit" or each.is_conditional]
    in_front = [each for each in works.values() if not each.command.in_background and starters]
    if starters and not behind and all(each.command.order < starters[0].order for each in in_front):
        launch = works.get(starters[0].order)
        name = launch.stages[-1].name if launch is not None else starters[0].program
        meets = re.search(r"(node|machine)[-_]rank|MASTER_ADDR", job.body, re.IGNORECASE)
        behind_it = ", and the others wait for it" if meets else ""
        yield Hit(waits[-1].place, f"the job is COMPLETED even if {name or 'the program'} fails{behind_it}")


def _starts_elsewhere(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether a command starts ranks on another host, or evaluates a text that does."""
    return command.program in {"ssh", "pdsh", "eval"} and starts_ranks(job, command)


@rule(
    "exit-without-status",
    Severity.FRAGILE,
    "exit without a number behind an error",
    why="exit ends the script with the status of the command before it: behind an echo that is 0, and the job is COMPLETED.",
    instead="Write exit 1.",
    source=sources.BASH,
    bad=_HEAD
    + "if [ $# -ne 1 ]; then\n    echo 'Error: one argument is needed'\n    exit\nfi\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD
    + "if [ $# -ne 1 ]; then\n    echo 'Error: one argument is needed'\n    exit 1\nfi\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_silent_exits(job: BatchScript) -> Iterator[Hit]:
    """Yield exit, without a number or with 0, behind a message of an error, or where an argument or a file is missing."""
    before: SimpleCommand | None = None
    for each in job.shell.commands if job.directives else ():
        ends_well = each.program == "exit" and [word.value for word in each.words[1:]] in ([], ["0"])
        if _ends_as_message(before, each):
            yield Hit(each.place, "$? is that of the message, 0: the job counts as COMPLETED")
        elif ends_well and each.is_conditional and before is not None and _is_error(job, before, each):
            yield Hit(each.place, "the job counts as COMPLETED behind this message of an error")
        elif ends_well and (each.is_conditional or each.is_guarded):
            yield from _ends_at_a_gap(job, each)
        before = each


def _ends_as_message(message: SimpleCommand | None, end: SimpleCommand) -> bool:
    """Tell whether a script ends with the status of the message right in front of the end."""
    if message is None or message.program not in {"echo", "printf"} or message.pipes_on or message.in_substitution:
        return False
    is_status = end.program == "exit" and [word.value for word in end.words[1:]] == ["$?"]
    return is_status and message.place.end_line == end.place.line and _OF_ERROR.search(text_of(message)) is not None


def _is_error(job: BatchScript, message: SimpleCommand, end: SimpleCommand) -> bool:
    """Tell whether a command right in front of the end of a script prints that something is wrong."""
    if message.program not in {"echo", "printf"} or message.place.line + 3 <= end.place.line:
        return False
    text = text_of(message)
    asked = "\n".join(job.lines[max(0, message.place.line - 2) : message.place.line])
    if "usage" in text.lower() and re.search(r"(\s|\")(-h|--help)\b", asked):
        return False
    says = _OF_ERROR.search(text) and not re.search(r"\bnothing\b|\bno (error|fail|miss)", text)
    return bool(says or (_OF_GAP.search(text) and not _OF_NO_WORK.search(text)))


_OF_ERROR = re.compile(
    r"\berr\b|error|illegal|missing|not (found|exist|set)|usage|fail|invalid|wrong|must |unknown|please|not equal|mismatch|cannot|untested|unsupported",
    re.IGNORECASE,
)
_OF_GAP = re.compile(
    r"not enough|too (few|many)|(is|are) (required|empty)|requires?\b|\bneeds?\b|expected|can'?t\b|could ?n[o']t|unable|no such|doesn'?t|does not"
    r"|at least|arguments?\b",
    re.IGNORECASE,
)
_OF_NO_WORK = re.compile(
    r"nothing|already|skip|up.to.date|no need|not need|no more|\bdone\b|finished|complete", re.IGNORECASE
)
"""The signs of a script that has no work left."""


def _ends_at_a_gap(job: BatchScript, end: SimpleCommand) -> Iterator[Hit]:
    """Yield an exit that only messages precede in a branch for a missing argument or file."""
    around = [each for each in job.shell.branches if each.place <= end.place and _ends_behind(each.place, end.place)]
    branch = max(around, key=lambda each: each.place, default=None)
    condition, wanted = branch.conditions[-1] if branch is not None else ("", False)
    if branch is None or not wanted or end.function is not None:
        return
    inside = [each for each in job.shell.commands if branch.place <= each.place < end.place]
    texts = [text_of(each) for each in inside]
    if any(not re.fullmatch(r"echo|printf|cat|date|\w*(usage|help)\w*", each.program) for each in inside):
        return
    if any(_OF_NO_WORK.search(text) for text in texts):
        return
    name = re.search(r"-z\s+\"?\$\{?(\w+)", condition)
    assigned = job.shell.assigned(name[1]) if name is not None else ()
    of_argument = name is not None and (name[1].isdigit() or (len(assigned) == 1 and _is_argument(assigned[0].value)))
    if of_argument or _COUNTS_ARGUMENTS.search(condition):
        yield Hit(end.place, "without its arguments the job counts as COMPLETED, and has done nothing")
    elif texts and re.search(r"!\s+-[defrsx]\s", condition):
        yield Hit(end.place, "without this file the job counts as COMPLETED", unknown="whether it may be missing")


def _ends_behind(around: TextSpan, place: TextSpan) -> bool:
    return (around.end_line, around.end_column) >= (place.end_line, place.end_column)


def _is_argument(value: Word | None) -> bool:
    return value is not None and re.fullmatch(r"\$\{?\d\}?", value.value) is not None


_COUNTS_ARGUMENTS = re.compile(r"\$\{?#\}?\"?\s*(-l[te]|-ne|!=|<|(-eq|==?)\s*\"?0)")


@rule(
    "cd-may-fail",
    Severity.FRAGILE,
    "rm behind a cd whose failure is not noticed",
    why="If the folder is missing the job goes on in another one, and rm deletes there.",
    instead="Write cd DIR || exit 1, or set -e.",
    source=sources.BASH,
    bad=_HEAD + "cd /scratch/project/run\nrm -rf old\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "cd /scratch/project/run || exit 1\nrm -rf old\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_unchecked_cd(job: BatchScript) -> Iterator[Hit]:
    """Yield cd without a check, where the next cd comes behind an rm of a relative name."""
    if job.stops_at_errors:
        return
    moved: SimpleCommand | None = None
    made = {"-", ".", "..", "../..", "~", "$HOME", "$SLURM_SUBMIT_DIR", "$TMPDIR"}  # folders that are there
    for each in job.shell.commands:
        if each.program == "mkdir":
            made |= {word.value.removeprefix("./").rstrip("/") for word in each.words[1:]}
        elif each.program in {"cd", "pushd"}:
            following = job.lines[each.place.end_line - 1][each.place.end_column - 1 :].lstrip()
            is_checked = each.is_conditional or each.in_substitution or following.startswith(("||", "&&"))
            target = each.words[-1].value.removeprefix("./").rstrip("/") if len(each.words) > 1 else "-"
            if is_checked or target not in made or target.startswith(("-", "/", "$", "~")):
                moved = None if is_checked or target in made else each  # else a folder made wherever the script is
        elif each.program == "rm" and moved is not None and _deletes_here(each):
            missing = moved.words[-1].value
            yield Hit(moved.place, f"rm in line {each.place.line} deletes elsewhere if {missing} is missing")
            moved = None


def _deletes_here(command: SimpleCommand) -> bool:
    """Tell whether rm deletes many files below the current folder."""
    names = [word.value for word in command.words[1:]]
    is_wide = any(name.startswith("-") and "r" in name for name in names) or any("*" in name for name in names)
    return is_wide and any(not name.startswith(("-", "/", "$", "~")) for name in names)


@rule(
    "copy-may-fail",
    Severity.FRAGILE,
    "data for the work whose copy may fail unnoticed",
    why="A full disk, a quota or a missing file makes the copy fail: the script goes on, and the work runs with half of its data or with old ones.",
    instead="Write set -e at the top, or || exit 1 behind the copy.",
    source=sources.BASH,
    bad=_HEAD + "rsync -a /project/data/ /tmp/data/\nsrun --kill-on-bad-exit=1 ./train /tmp/data\n",
    good=_HEAD + "set -e\nrsync -a /project/data/ /tmp/data/\nsrun --kill-on-bad-exit=1 ./train /tmp/data\n",
)
def find_unchecked_copies(job: BatchScript) -> Iterator[Hit]:
    """Yield the first copy in front of work that names the same place, where nothing asks how the copy ended."""
    if not job.directives or job.stops_at_errors or "$?" in job.text:
        return
    works = [each.command for each in job.launches if is_work(job, each) and not copies(each)]
    for launch in job.launches:
        each = launch.command
        asked = each.is_guarded or each.is_tested or each.in_background or each.in_substitution
        if not copies(launch) or asked or each.in_loop or each.is_conditional or each.function is not None:
            continue
        target, source = each.words[-1], each.words[-2].value.rstrip("/").rpartition("/")[2]
        place = re.sub(r"/\.?$", "", job.shell.filled(target.value))
        is_whole = launch.stages[-1].name != "cp" or any(re.match("-[rRa]", word.value) for word in each.words)
        named = {place, *target.names} if is_whole else {f"{place}/{source}", *({place} if target.names == () else ())}
        later = [word for work in works if work.order > each.order for word in work.words]
        moves = [move for move in job.shell.commands if move.program == "cd" and move.order > each.order and later]
        named |= (
            {place} if any(job.shell.filled(move.words[-1].value).rstrip("/") == place for move in moves) else set()
        )
        later += [move.words[-1] for move in moves]
        is_used = [word for word in later if named & {*word.names, job.shell.filled(word.value).rstrip("/")}]
        is_used = is_used or [word for word in later if is_whole and _lies_in(job.shell.filled(word.value), place)]
        tests = re.compile(r"(\[|\btest)\s.*" + re.escape(target.value.rstrip("/")))
        if is_used and not any(tests.search(line) for line in job.lines[each.place.end_line :]):
            line = is_used[0].place.line
            yield Hit(each.place, f"if this {launch.stages[-1].name} fails, line {line} runs all the same")
            return


def _lies_in(path: str, place: str) -> bool:
    """Tell whether a path, behind the name of its option, is below a folder that is more than one name deep."""
    return place.count("/") > 0 and path.rpartition("=")[2].startswith(f"{place}/")


@rule(
    "build-may-fail",
    Severity.FRAGILE,
    "a build in front of the work whose failure is not noticed",
    why="If the compiler stops the script goes on: the work runs with the program of an earlier build, or with none.",
    instead="Write set -e at the top, or || exit 1 behind the build.",
    source=sources.BASH,
    bad=_HEAD + "gcc -o train train.c\nsrun --kill-on-bad-exit=1 ./train\n",
    good=_HEAD + "gcc -o train train.c || exit 1\nsrun --kill-on-bad-exit=1 ./train\n",
)
def find_unchecked_builds(job: BatchScript) -> Iterator[Hit]:
    """Yield the first build in front of a program of the folder, where nothing asks how the build ended."""
    if not job.directives or job.stops_at_errors or "$?" in job.text:
        return
    programs = [each.command for each in job.launches if _runs_built(each)]
    for each in job.shell.commands:
        asked = each.is_guarded or each.is_tested or each.in_background or each.in_substitution or each.pipes_on
        is_apart = each.in_loop or each.is_conditional or each.function is not None
        if asked or is_apart or not _BUILDS.match(text_of(each)):
            continue
        later = [program for program in programs if program.order > each.order]
        if later and not later[0].is_conditional:
            name = each.words[0].value.rpartition("/")[2]
            yield Hit(each.place, f"if {name} fails, line {later[0].place.line} runs all the same")
            return


_BUILDS = re.compile(
    r"(\S*/)?(make|ninja|nvcc|gcc|g\+\+|gfortran|mpicc|mpicxx|mpic\+\+|mpif90|mpifort|icc|icpc|ifort|hipcc)(?= |$)(?!.* (clean|CLEAN|-v|-V|--version|help)$)"
    r"|cmake --build|\./(compile|build)\w*\.sh\b"
)


def _runs_built(launch: LaunchCommand) -> bool:
    """Tell whether a command starts a program of a folder of the job, alone or as the ranks of a step."""
    last = launch.stages[-1] if launch.stages else None
    is_own = last is not None and last.kind == "program" and re.match(r"\.{1,2}/|\$", last.word.value) is not None
    return is_own and not _BUILDS.match(last.word.value if last is not None else "")


@rule(
    "removed-after-copy",
    Severity.FRAGILE,
    "results removed although their copy may have failed",
    why="A full disk, a quota or a missing folder makes the copy fail: the script goes on, and removes the only results.",
    instead="Remove them only behind a copy that went well: cp -r FROM TO && rm -rf FROM.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 ./train\ncp -r /tmp/run /scratch/results\nrm -rf /tmp/run\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 ./train && cp -r /tmp/run /scratch/results && rm -rf /tmp/run\n",
)
def find_hasty_removals(job: BatchScript) -> Iterator[Hit]:
    """Yield rm of what a command before it copied behind the work, where nothing asks how the copy ended."""
    if not job.directives or job.stops_at_errors or "$?" in job.text:
        return
    first = min((each.command.order for each in job.launches if is_work(job, each)), default=None)
    copied: list[tuple[SimpleCommand, str, str]] = []
    for each in job.shell.commands if first is not None else ():
        names = [_path_of(job, word) for word in each.words[1:] if not word.value.startswith("-")]
        packed = _packed(job, each)
        if packed and first is not None and each.order > first:
            asked = each.is_tested or each.is_guarded or each.function is not None
            copied += [] if asked else [(each, name, packed[0]) for name in packed[1:]]
        elif (
            each.program in {"cp", "rsync", "mv", "ln"} and first is not None and each.order > first and len(names) > 1
        ):
            asked = each.is_tested or each.is_guarded or each.function is not None
            copied += [] if asked else [(each, name, names[-1]) for name in names[:-1]]
        elif each.program == "rm" and not each.is_guarded and each.function is None:
            for copy, source, target in copied:
                gone = [name for name in names if f"{source}/".startswith(f"{name}/") and name.strip("./")]
                if gone and not f"{target}/".startswith(f"{gone[0]}/") and each.is_conditional <= copy.is_conditional:
                    yield Hit(
                        each.place, f"it removes {gone[0]} even if the {copy.program} in line {copy.place.line} failed"
                    )
                    return


def _packed(job: BatchScript, command: SimpleCommand) -> list[str]:
    """Return the archive that a command makes, and what goes into it; nothing for another command."""
    words = [_path_of(job, word) for word in command.words[1:]]
    makes = command.program == "zip" or (command.program == "tar" and words and re.match(r"-?[a-z]*c", words[0]))
    names = [word for word in words if not word.startswith("-")]
    names = names[1:] if command.program == "tar" and names and names[0] == words[0] else names
    return names if makes and len(names) > 1 and not {"-C", "-T", "--files-from"} & set(words) else []


def _path_of(job: BatchScript, word: Word) -> str:
    """Return a path with the values of the script's variables, without what stands for all that is in it."""
    return re.sub(r"/(\*|\.)?$", "", job.shell.filled(word.value)).removeprefix("./")
