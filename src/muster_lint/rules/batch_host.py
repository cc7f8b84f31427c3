"""Rules on what the batch host alone is: its copy of the script, its rank, its lack of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand, Word
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --time=01:00:00\n"
_STEP = "srun --kill-on-bad-exit=1 hostname\n"
_OWN_FOLDER = re.compile(
    r"dirname\s+(--\s+)?(\"?\$\(\s*(realpath|readlink\s+-f)\s+)?\"?\$\{?(0|BASH_SOURCE)\b|\$\{(0|BASH_SOURCE(\[0\])?)%/\*\}"
)
"""The folder of the script, as a script asks for it."""


@rule(
    "file-beside-script",
    Severity.BREAKS,
    "a file that is looked for beside the running script",
    why="""sbatch copies the script, and slurmd runs the copy in its own spool folder: $0 and BASH_SOURCE name that copy, and no other file lies
    beside it.""",
    instead='Use the folder of the submission: "$SLURM_SUBMIT_DIR/FILE", or an absolute path.',
    source=sources.SBATCH,
    bad=_HEAD + 'set -e\nsource "$(dirname "${BASH_SOURCE[0]}")/common.sh"\n' + _STEP,
    good=_HEAD + 'set -e\nsource "$SLURM_SUBMIT_DIR/common.sh"\n' + _STEP,
)
def find_files_beside_script(job: BatchScript) -> Iterator[Hit]:
    """Yield the first use of a file in the script's own folder."""
    if not job.directives or any(each.program == "sbatch" for each in job.shell.commands):
        return  # a script that submits itself runs outside of a job too
    for assignment in job.shell.assignments:
        if assignment.name == "PYTHONPATH" and assignment.value and _is_beside(job, assignment.value):
            unknown = "whether the program finds its modules without it"
            message = "PYTHONPATH names Slurm's spool folder, where the script runs"
            yield Hit(assignment.place, message, unknown=unknown, severity=Severity.FRAGILE)
            return
    starts = {launch.command.order for launch in job.launches if launch.stage("python") or launch.stage("shell")}
    for each in job.shell.commands:
        beside = [word for word in each.words if _is_beside(job, word)]
        if (
            not beside
            or each.is_conditional
            or each.is_guarded
            or each.is_tested
            or each.function
            or each.in_substitution
        ):
            continue
        reads = each.program in {"source", "."}
        if each.program in {"cd", "pushd"}:
            message = "the script runs in Slurm's spool folder, and cd goes there"
            yield Hit(each.place, message, unknown="what the script needs from that folder", severity=Severity.FRAGILE)
            return
        if reads or each.order in starts or beside[0] == each.words[0]:
            certain = not reads or job.stops_at_errors
            message = f"{_file_of(beside[0])} is looked for in Slurm's spool folder, where the script runs"
            yield Hit(beside[0].place, message, severity=None if certain else Severity.FRAGILE)
            return


def _is_beside(job: BatchScript, word: Word) -> bool:
    """Tell whether a word is a path below the script's own folder, by itself or by a variable that has one value."""
    if _OWN_FOLDER.search(word.text) and "SLURM" not in word.text:
        return True
    for _ in range(3):
        name = next((each for each in word.names if word.value.startswith((f"${each}", f"${{{each}}}"))), None)
        assigned = job.shell.assigned(name) if name is not None else ()
        if len(assigned) != 1 or assigned[0].may_not_run or assigned[0].value is None:
            return False
        word = assigned[0].value
        if _OWN_FOLDER.search(word.text):
            return "SLURM" not in word.text and "||" not in word.text
    return False


def _file_of(word: Word) -> str:
    return word.value.rpartition("/")[2].rstrip('"') or word.value


_OF_A_TASK = r"\"?\$\{?(SLURM_PROCID|SLURM_LOCALID|SLURM_NODEID)\}?\"?"
_CASE = re.compile(rf"^\s*case\s+{_OF_A_TASK}\s+in\b")
_TEST = re.compile(rf"^\s*((el)?if\s+)?\[\[?\s+{_OF_A_TASK}\s+(-eq|-ne|-gt|-ge|==?|!=)\s+\"?(\d+)\"?\s+\]")


@rule(
    "rank-in-batch-shell",
    Severity.BREAKS,
    "the batch script asks which task it is",
    why="The batch script runs once, on the first node: SLURM_PROCID, SLURM_LOCALID and SLURM_NODEID are 0 there, and only the branch of 0 runs.",
    instead="Ask in the task: srun bash -c 'case $SLURM_PROCID in …'; or start a step for each branch.",
    source=sources.SRUN,
    bad=_HEAD + "case $SLURM_PROCID in\n0) srun -N1 -n1 hostname ;;\n1) srun -N1 -n1 date ;;\nesac\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 bash -c 'case $SLURM_PROCID in 0) hostname ;; 1) date ;; esac'\n",
)
def find_ranks_of_batch_host(job: BatchScript) -> Iterator[Hit]:
    """Yield branches of the batch script that only another task would take."""
    is_several = (job.nodes or 0) > 1 or (job.tasks_per_node or 0) > 1
    runs_itself = re.search(r"\b(srun|mpirun)\b.*(\$\{?0\b|BASH_SOURCE)|SLURM_STEP_?ID", job.body)
    if not is_several or runs_itself or not job.steps:
        return
    own = {each.name for each in job.assignments}
    written = [place for place, _ in job.shell.heredocs] + list(job.shell.long_texts)
    functions = [each.place.line for each in job.shell.commands if each.function is not None]
    for number, line in enumerate(job.lines, start=1):
        place = TextSpan(number, 1, number, len(line) + 1)
        inside = any(text.line <= number <= text.end_line for text in written)
        if inside or (functions and min(functions) - 1 <= number <= max(functions)):
            continue
        case, test = _CASE.match(line), _TEST.match(line)
        if case is not None and case[1] not in own:
            others = [label for label in _labels(job.lines[number - 1 :]) if label != "0"]
            if others:
                yield Hit(place, f"${case[1]} is 0 in the batch script: the branch {others[0]}) never runs")
        elif test is not None and test[3] not in own and not _holds_for_zero(test[4], int(test[5])):
            message = f"${test[3]} is 0 in the batch script: this is never true"
            yield Hit(place, message, severity=Severity.FRAGILE)


def _holds_for_zero(sign: str, number: int) -> bool:
    """Tell whether a comparison of 0 with a number, which is 0 or more, is true."""
    return sign != "-gt" and (number != 0) == (sign in {"-ne", "!="})


def _labels(lines: list[str]) -> Iterator[str]:
    """Yield the numbers that are branches of the case that begins here."""
    for line in lines:
        yield from re.findall(r"(?:^|;;|\bin)\s*\(?(\d+)\)", line)
        if re.search(r"\besac\b", line):
            return


@rule(
    "terminal-in-batch",
    Severity.FRAGILE,
    "a command for terminals under set -e",
    why="A batch job has no terminal. Where TERM is not set either (--export=NONE, a job from cron) clear and tput fail, and set -e ends the job.",
    instead="Remove it.",
    source=sources.BASH,
    bad=_HEAD + "set -e\nclear\n" + _STEP,
    good=_HEAD + "set -e\n" + _STEP,
)
def find_terminal_commands(job: BatchScript) -> Iterator[Hit]:
    """Yield clear, reset and tput where their failure ends the job."""
    for each in job.shell.commands if job.directives and job.stops_at_errors else ():
        if each.program in {"clear", "reset", "tput"} and not _is_excused(each):
            yield Hit(each.place, f"{each.program} fails without a terminal", unknown="whether TERM is set in the job")


def _is_excused(command: SimpleCommand) -> bool:
    """Tell whether the failure of a command does not end the script."""
    return command.is_tested or command.is_conditional or command.in_substitution
