"""Rules on jobs that run again: requeued, submitted by themselves, or as the tasks of an array."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.site import time_limit_of
from muster_lint.values import Hit, Severity
from muster_lint.works import is_work

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n#SBATCH --open-mode=append\n"
_WORK = "srun --kill-on-bad-exit=1 ./train\n"


@rule(
    "array-facts",
    Severity.FRAGILE,
    "the number of an array's task in a job that is not an array",
    why="""Without --array, %a in a name is 4294967294, and SLURM_ARRAY_TASK_ID is empty: in the brackets of an array, or in a calculation, bash takes 0 for it
    without a word.""",
    instead="Add --array to the header, or let bash ask: ${SLURM_ARRAY_TASK_ID:?this is an array job}.",
    source=sources.SBATCH,
    bad=_HEAD + "set -e\nlambdas=(0.0 0.5 1.0)\nsrun --kill-on-bad-exit=1 ./train ${lambdas[SLURM_ARRAY_TASK_ID]}\n",
    good=_HEAD
    + "#SBATCH --array=0-2\nset -e\nlambdas=(0.0 0.5 1.0)\nsrun --kill-on-bad-exit=1 ./train ${lambdas[SLURM_ARRAY_TASK_ID]}\n",
)
def find_numbers_without_array(job: BatchScript) -> Iterator[Hit]:
    """Yield %a, and an index or a sum of the task's number, without --array; and an index above Slurm's default limit."""
    array = job.header.get("array")
    if array is not None:
        indexes = [int(number) for number in re.findall(r"\d+", (array.value or "").partition("%")[0])]
        if max(indexes, default=0) > _LARGEST_INDEX and len(str(max(indexes))) < _DIGITS:
            message = f"Slurm's own limit is index {_LARGEST_INDEX}: sbatch refuses {max(indexes)}"
            yield Hit(
                array.place,
                message,
                "Give smaller numbers, and add an offset in the script.",
                unknown="whether the site raised MaxArraySize",
                severity=Severity.STYLE,  # sbatch says it at once
            )
        return
    if not job.directives or _IS_TOLD.search(job.text) or "array" in job.path.rpartition("/")[2].lower():
        return
    for name in ("output", "error"):
        directive = job.header.get(name)
        has_pattern = directive is not None and re.search(r"%\d*a", directive.value or "")
        if directive is not None and has_pattern and "SLURM_ARRAY" not in job.body:
            is_off = re.search(r"^#+\s*SBATCH\s+(--array|-a)\b", job.text, re.MULTILINE) is not None
            severity = None if is_off and not directive.line.startswith("##") else Severity.STYLE
            message = "%a is 4294967294 in a job that is not an array"
            yield Hit(directive.place, message, unknown="whether sbatch is given --array", severity=severity)
            return
    words = [word for each in job.shell.commands for word in each.words]
    words += [each.value for each in job.shell.assignments if each.value is not None]
    for word in sorted(words, key=lambda each: each.place):
        if re.search(r"\[\$?\{?SLURM_ARRAY_TASK_ID|\(\([^)]*(?<!:)SLURM_ARRAY_TASK_ID(?!:)", word.text):
            message = "without --array SLURM_ARRAY_TASK_ID is empty, and bash takes 0 here"
            yield Hit(word.place, message, unknown="whether sbatch is given --array")
            return
    yield from _options_without_value(job)


def _options_without_value(job: BatchScript) -> Iterator[Hit]:
    """Yield the first option of the work whose value is the task's number, where nothing else says that the job is an array."""
    if re.search(r"%A|%\d*a|\barray\b", _SLURM_NAME.sub("", job.text), re.IGNORECASE):
        return
    for launch in job.launches:
        last = launch.stages[-1] if launch.stages and is_work(job, launch) else None
        words = last.words if last is not None else ()
        for option, word in zip(words, words[1:]):
            is_number = word.value in {"$SLURM_ARRAY_TASK_ID", "${SLURM_ARRAY_TASK_ID}"} and not word.quoted
            if is_number and re.fullmatch(r"--?(?!\w*array)[A-Za-z][\w-]*", option.value):
                empty = f"without --array SLURM_ARRAY_TASK_ID is empty, and {option.value} takes the next word or none"
                yield Hit(word.place, empty, unknown="whether sbatch is given --array")
                return
    works = [each.command for each in job.launches if is_work(job, each)]
    given = [word for each in works for word in each.words[1:] if not word.quoted]
    given += [each.value for each in job.shell.assignments if each.value is not None]
    tools = [each for each in job.shell.commands if each.program in {"sed", "awk", "head", "tail"}]
    lines = [word for each in tools for word in each.words if "SLURM_ARRAY_TASK_ID" in word.names]
    for word in sorted(given + lines, key=lambda each: each.place):
        is_line = word in lines and not re.search(r"[./]", word.value)
        if word.lone_name == "SLURM_ARRAY_TASK_ID" or is_line:
            message = "SLURM_ARRAY_TASK_ID is empty without --array, of which nothing here speaks"
            yield Hit(word.place, message, unknown="whether sbatch is given --array")
            return


_SLURM_NAME = re.compile(r"SLURM_ARRAY_\w+")


_IS_TOLD = re.compile(
    r"sbatch\s.*(-a\b|--array)|SLURM_ARRAY_TASK_ID:?[-?=]|SLURM_ARRAY_TASK_ID="
    r"|(\[|\btest)\s+(!\s+)?(-[znv]\s+)?\"?\$?\{?SLURM_ARRAY_TASK_ID"
)
_LARGEST_INDEX = 1000
_DIGITS = 8


@rule(
    "preempted-unprepared",
    Severity.FRAGILE,
    "a queue whose jobs make place for others, and a job that is not ready for it",
    why="""A job that makes place is ended without its results. Where it is put back into the queue it begins again, and Slurm empties its log; where it may not be put
    back it is gone.""",
    instead="Write checkpoints and go on from the last one; add #SBATCH --requeue, --open-mode=append, and --signal=B:USR1@120 for a notice before the end.",
    source="Slurm Doc, Preemption (slurm.schedmd.com/preempt.html)",
    bad=_HEAD.replace("#SBATCH --open-mode=append", "#SBATCH --partition=preempt").replace("=01", "=12") + _WORK,
    good=_HEAD.replace("=01", "=12") + "#SBATCH --partition=preempt\n#SBATCH --requeue\n" + _WORK,
)
def find_unprepared_jobs(job: BatchScript) -> Iterator[Hit]:
    """Yield a partition or a QOS that preempts by its name, for a job of more than a while that neither comes back nor is warned."""
    if not {"requeue", "no-requeue", "open-mode", "signal"}.isdisjoint(job.header) or _GOES_ON.search(job.text):
        return
    limit = time_limit_of(job)
    for name in ("partition", "qos"):
        asked = job.header.get(name)
        found = _MAKES_PLACE.search((asked.value or "") if asked is not None else "")
        is_long = limit is None or limit > _A_WHILE_S
        if asked is not None and found and is_long and not _BUILDS.search(job.body):
            what = (
                "one of these partitions" if "," in (asked.value or "") else f"this {'QOS' if name == 'qos' else name}"
            )
            message = f"by its name {what} ends jobs for others, and there is no --requeue, --open-mode nor --signal"
            yield Hit(asked.place, message, unknown="what this site does with them")
            return


_MAKES_PLACE = re.compile(
    r"preempt(?!ion_?off)|scaveng|requeue|best-?effort|opportun|interruptib|(^|[,_-])(spot|ckpt)(?=[,_-]|$)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\btrap\b|scontrol requeue|resume|restart|_from_checkpoint|auto_?load|load_?from", re.IGNORECASE)
"""Signs of a job that goes on from where it was."""
_BUILDS = re.compile(r"^\s*(cmake|make|ninja|\./configure|spack install)\b", re.MULTILINE)
_A_WHILE_S = 8 * 3600
