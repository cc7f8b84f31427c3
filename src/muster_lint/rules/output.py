"""Rules on a job's output: where Slurm writes it, and what writes over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.samples import STEP
from muster_lint.values import Edit, Hit, Severity, TextSpan
from muster_lint.works import is_work, text_of

_HEAD = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


@rule(
    "output-of-array",
    Severity.FRAGILE,
    "all tasks of an array write one file",
    why="The tasks of an array run side by side; without %a or %j in its name they overwrite one another's output.",
    instead="Put %A_%a into the file's name.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --array=0-3\n#SBATCH --output=train.out\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "#SBATCH --array=0-3\n#SBATCH --output=train-%A_%a.out\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_shared_outputs(job: BatchScript) -> Iterator[Hit]:
    """Yield --output and --error of an array without a pattern that differs between tasks."""
    array = job.header.get("array")
    unknown = "whether sbatch is given --array" if array is None else ""
    is_array = "SLURM_ARRAY_TASK_ID" in job.body if array is None else not _is_one_task(array.value or "")
    for name in ("output", "error") if is_array else ():
        directive = job.header.get(name)
        value = (directive.value if directive is not None else None) or "/dev/null"
        is_meant = array is not None or "%A" in value
        if directive is not None and is_meant and value != "/dev/null" and not re.search(r"%\d*[ajJN]", value):
            yield Hit(directive.place, f"every task of the array writes {value}", unknown=unknown)


def _is_one_task(indexes: str) -> bool:
    """Tell whether --array names one task alone: 3, [3], 3-3."""
    ends = indexes.strip("[]").partition("%")[0].split("-")
    return all(end.isdigit() for end in ends) and len(set(ends)) == 1


@rule(
    "output-folder",
    Severity.STYLE,
    "a folder that an old Slurm does not make",
    why="""Slurm makes the folder of an output since 23.02. Before, a job whose folder is missing fails at its start,
    without any output: a mkdir in the script comes too late. A job whose folder of --chdir is missing starts in /tmp, unless its log is to lie there too.""",
    instead="Make the folder before you submit.",
    source="SchedMD/slurm CHANGELOG/slurm-23.02.md @30ed0b626046",
    bad=_HEAD + "#SBATCH --output=logs/%j.out\nmkdir -p logs\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "#SBATCH --output=%x-%j.out\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_late_folders(job: BatchScript) -> Iterator[Hit]:
    """Yield outputs whose folder the script makes, which is too late, or nobody; and a missing folder of --chdir."""
    words = [word for each in job.shell.commands if each.program == "mkdir" for word in each.words[1:]]
    made = {job.shell.filled(word.value).rstrip("/").removeprefix("./") for word in words}
    told: set[str] = set()
    for name in ("output", "error"):
        directive = job.header.get(name)
        folder = (directive.value or "").rpartition("/")[0].removeprefix("./") if directive else ""
        if directive is None or not folder or folder in told or _is_told_to_make(job, folder):
            continue
        told.add(folder)
        if "%j" in folder or "%A" in folder:
            yield Hit(directive.place, f"nobody but Slurm, since 23.02, can make {folder}: it holds the job's number")
        elif folder in made:
            message = f"the script makes {folder}, but Slurm opens the file before the script starts"
            yield Hit(directive.place, message)
        elif _is_nowhere(job, folder.partition("%")[0].rstrip("/") or folder):
            message = f"there is no folder {folder} beside the script: before 23.02 Slurm does not make it"
            yield Hit(directive.place, message, unknown="from which folder it is submitted")
    chdir = job.header.get("chdir")
    folder = (chdir.value or "").rstrip("/").removeprefix("./") if chdir is not None else ""
    if chdir is None or not _is_nowhere(job, folder or "."):
        return
    logs = [job.header[name].value or "" for name in ("output", "error") if name in job.header]
    message = f"there is no folder {chdir.value} beside the script:"
    if "output" in job.header and all(log.startswith("/") and f"/{folder}/" not in log for log in logs):
        unknown = "from which folder it is submitted"
        yield Hit(chdir.place, f"{message} the job starts in /tmp", unknown=unknown, severity=Severity.FRAGILE)
    else:
        message += " before 23.02 the job fails without output; newer ones make the folder"
        yield Hit(chdir.place, message, unknown="which Slurm runs it")


def _is_told_to_make(job: BatchScript, folder: str) -> bool:
    """Tell whether a comment says to make the folder before the job is submitted."""
    return re.search(rf"^#.*\bmkdir\b[^#]*{re.escape(folder.rstrip('/'))}", job.text, re.MULTILINE) is not None


def _is_nowhere(job: BatchScript, folder: str) -> bool:
    """Tell whether a relative folder is neither beside the script, nor above it, nor here."""
    if not job.path or job.path == "-" or folder.startswith(("/", "~")) or "%" in folder or "$" in folder:
        return False
    script = Path(job.path)
    if not script.is_file() or ("chdir" in job.header and folder not in (job.header["chdir"].value or "")):
        return False
    return not any((place / folder).is_dir() for place in [*[*script.absolute().parents][:4], Path.cwd()])


@rule(
    "requeue-overwrites",
    Severity.FRAGILE,
    "a requeued job overwrites its first output",
    why="After a requeue Slurm opens the output again and truncates it: the log of the first run is gone.",
    instead="Add #SBATCH --open-mode=append.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --requeue\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD + "#SBATCH --requeue\n#SBATCH --open-mode=append\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_lost_logs(job: BatchScript) -> Iterator[Hit]:
    """Yield --requeue, or scontrol requeue, without --open-mode=append."""
    requeue = job.header.get("requeue")
    if requeue is not None and "open-mode" not in job.header:
        line, length = requeue.place.line, len(job.lines[requeue.place.line - 1])
        behind = Edit(TextSpan(line, length + 1, line, length + 1), "\n#SBATCH --open-mode=append")
        # A file of another name for each job is not one that an earlier job has written.
        names = [job.header[name].value or "" for name in ("output", "error") if name in job.header]
        edits = (behind,) if all(re.search("%[jA]", name) for name in names) else ()
        yield Hit(requeue.place, "the second run truncates the output of the first", edits=edits)
    for each in job.shell.commands if requeue is None and "open-mode" not in job.header else ():
        if text_of(each).startswith("scontrol requeue") and job.directives:
            yield Hit(each.place, "the run that follows truncates the output of this one")
            return


@rule(
    "output-of-every-run",
    Severity.FRAGILE,
    "every run of the job writes the same log",
    why="Slurm opens the file again for each job and empties it: the next run wipes the log of this one, also while this one still runs.",
    instead="Put %j into the file's name, or add --open-mode=append.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --output=train.log\n" + STEP,
    good=_HEAD + "#SBATCH --output=train-%j.log\n" + STEP,
)
def find_overwritten_logs(job: BatchScript) -> Iterator[Hit]:
    """Yield an output whose name is the same in each run."""
    output = job.header.get("output")
    mode = job.header["open-mode"].value or "" if "open-mode" in job.header else "t"
    if output is None or not output.value or not mode.startswith("t") or output.value.startswith("/dev/"):
        return
    if "%x" in output.value and "job-name" not in job.header:
        return  # the name is given to sbatch
    shared_by_array = "array" in job.header and not re.search(r"%\d*[ajAJ]", output.value)
    # Nextflow makes a folder for each task; output-of-array says what tasks of an array share.
    if not re.search(r"%\d*[jJA]|\$|<|/\.command\.log$", output.value) and not shared_by_array:
        yield Hit(output.place, f"the next run of this job wipes {output.value}")


@rule(
    "pattern-in-command",
    Severity.FRAGILE,
    "a pattern of Slurm's file names in a command",
    why="sbatch and srun alone put a number in the place of %j and %A_%a. bash leaves them, so the name is the same in every job.",
    instead="Write $SLURM_JOB_ID, or ${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}.",
    source=sources.SBATCH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 python train.py > train-%j.log\n",
    good=_HEAD + 'srun --kill-on-bad-exit=1 python train.py > "train-$SLURM_JOB_ID.log"\n',
)
def find_unread_patterns(job: BatchScript) -> Iterator[Hit]:
    """Yield the first such pattern in a program's own words, or in the name of a file that a command writes."""
    for launch in job.launches if job.directives else ():
        last = launch.stages[-1] if launch.stages else None
        words = last.words if last is not None and is_work(job, launch) and last.kind != "step" else ()
        places = [
            word.place
            for word in words
            if _PATTERN.search(word.value) and not (word.substitutions or "sbatch" in word.value)
        ]
        places += [
            launch.command.place for target in launch.command.writes if _PATTERN.search(target) and "$(" not in target
        ]
        if places:
            yield Hit(places[0], "nothing puts the number of the job in the place of this pattern")
            return
    for each in job.shell.commands if job.directives else ():
        for word in each.words[1:]:
            found = _OF_USER.search(word.value)
            if (
                found
                and each.program not in {"date", "printf", "awk", "sed", "stat", "find"}
                and not word.substitutions
            ):
                message = f"bash leaves {found[0]} as it is: it is not the name of the user"
                yield Hit(word.place, message, "Write $USER, or $HOME.", unknown="whether the program fills it in")
                return


_PATTERN = re.compile(r"(?<!%)%(j|J|A_%a)(?![\w%])")
_OF_USER = re.compile(r"(?<=/)%(USER|HOME|u)(?=/|$)")
