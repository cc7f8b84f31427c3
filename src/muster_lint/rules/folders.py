"""Rules on folders: caches that jobs fill beside each other, and folders that nobody makes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from muster_lint import sources
from muster_lint.bash import Branch
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity
from muster_lint.works import copies, is_work, text_of

_HEAD = "#!/bin/bash\n#SBATCH --mem=4G\n#SBATCH --time=01:00:00\nset -e\n"
_COPY = "cp data.tar /tmp/data.tar"


@rule(
    "half-copied-file",
    Severity.FRAGILE,
    "a copy only where the file is missing, in a place that jobs share",
    why="""The file is there from its first byte on. A job that starts while another one copies, or after one that was killed at that, takes half a file for
    a whole one.""",
    instead='Copy under another name, and rename it: cp data "$to.$SLURM_JOB_ID" && mv "$to.$SLURM_JOB_ID" "$to"; or hold a lock (flock).',
    source=sources.BASH,
    bad=_HEAD + f"if [ ! -f /tmp/data.tar ]; then\n    {_COPY}\nfi\nsrun --kill-on-bad-exit=1 ./train /tmp/data.tar\n",
    good=_HEAD
    + f'if [ ! -f /tmp/data.tar ]; then\n    {_COPY}."$SLURM_JOB_ID"\n    mv /tmp/data.tar."$SLURM_JOB_ID" /tmp/data.tar\nfi\n'
    + "srun --kill-on-bad-exit=1 ./train /tmp/data.tar\n",
)
def find_half_copies(job: BatchScript) -> Iterator[Hit]:
    """Yield the first copy that a test for its own result guards, where other jobs make the same test."""
    if not job.directives or re.search(r"\b(flock|lockfile|ln -s|mktemp)\b", job.body):
        return
    branches = [each for each in job.shell.branches if _missing(each)]
    is_array = "array" in job.header and re.search(r"\d[-,]\d", job.header["array"].value or "") is not None
    for launch in job.launches if branches else ():
        each = launch.command
        if not copies(launch) or each.in_substitution or each.in_background:
            continue
        around = [branch for branch in branches if branch.place <= each.place and _ends_behind(branch, launch)]
        for branch in around[-1:]:
            place = _filled(job, _missing(branch))
            inside = [other for other in job.shell.commands if branch.place <= other.place and other.order > each.order]
            is_renamed = any(other.program == "mv" and _is_before_end(branch, other.place.line) for other in inside)
            if is_renamed or not _brings(job, launch, place) or _OWN.search(place):
                continue
            of_node = _OF_NODE.match(place) is not None and not has_whole_nodes(job)
            if of_node or is_array:
                who = "another task of the array" if is_array else "another job on this node"
                unknown = "" if is_array and not of_node else "whether other jobs use this folder"
                yield Hit(
                    each.place, f"{who} may find {_missing(branch)} half copied, and take it as whole", unknown=unknown
                )
                return


def _missing(branch: Branch) -> str:
    """Return the path that has to be missing for a branch to run; empty where it is another one."""
    condition, wanted = branch.conditions[-1]
    found = re.fullmatch(r"(?:\[\[?|test)\s+!\s+-[defs]\s+(\"[^\"]+\"|'[^']+'|\S+)(?:\s+\]\]?)?", condition.strip())
    return found[1].strip("\"'") if found is not None and wanted else ""


def _ends_behind(branch: Branch, launch: LaunchCommand) -> bool:
    return (branch.place.end_line, branch.place.end_column) >= (
        launch.command.place.end_line,
        launch.command.place.end_column,
    )


def _is_before_end(branch: Branch, line: int) -> bool:
    return line <= branch.place.end_line


def _filled(job: BatchScript, text: str) -> str:
    bare = text.strip("'\"")
    filled = job.shell.filled(bare)
    return (bare if re.search(r"[`(]", filled) else filled).replace("{", "").replace("}", "").rstrip("/")


def _brings(job: BatchScript, launch: LaunchCommand, place: str) -> bool:
    """Tell whether a copy brings what a test asked for."""
    words = [_filled(job, word.value) for word in launch.command.words[1:]]
    targets = [words[-1], *(after for word, after in zip(words, words[1:]) if word in {"-C", "-d", "-P", "-O", "-o"})]
    folder, _, name = place.rpartition("/")
    return any(
        len(target) > 4 and (target in {place, folder} or target.startswith(f"{place}/")) for target in targets
    ) and bool(name)


_OF_NODE = re.compile(
    r"/(tmp|var/tmp|dev/shm|local|lscratch|localscratch|ssd|nvme|raid|mnt/(local|ssd|nvme))/|\$TMPDIR/.*\$USER/"
)
_OWN = re.compile(r"SLURM_(JOB|ARRAY|TMPDIR|PROCID|LOCALID)|\$\$|RANDOM")


@rule(
    "folder-not-made",
    Severity.FRAGILE,
    "a folder for programs that nobody makes",
    why="Programs write their settings, caches and temporary files there without a question: where the folder is missing they stop, or write elsewhere. The shell does not start a program whose output it cannot open.",
    instead='Make it first, on each node that uses it: srun --ntasks-per-node=1 mkdir -p "$HOME".',
    source=sources.BASH,
    bad=_HEAD + 'export TMPDIR="/tmp/ann/work"\nsrun --kill-on-bad-exit=1 ./train\n',
    good=_HEAD + 'export TMPDIR="/tmp/ann/work"\nmkdir -p "$TMPDIR"\nsrun --kill-on-bad-exit=1 ./train\n',
)
def find_missing_folders(job: BatchScript) -> Iterator[Hit]:
    """Yield HOME or TMPDIR in a folder of the node that no command of the script makes, and a file in such a folder."""
    yield from _files_in_missing_folders(job)
    made = [text_of(each) for each in job.commands if each.program in {"mkdir", "install", "mktemp"}]
    made += [text_of(each) for each in job.commands if "mkdir" in text_of(each)]
    for each in job.shell.assignments if job.directives else ():
        path = _filled(job, each.value.value) if each.value is not None else ""
        if each.name not in {"HOME", "TMPDIR", "TMP"} or not each.exported or each.may_not_run or each.of_command:
            continue
        is_deep = re.fullmatch(r"/(tmp|var/tmp|dev/shm)/[\w./$-]+", path) is not None
        if is_deep and not any(each.name in text or path in _filled(job, text) for text in made):
            yield Hit(
                each.place, f"no command makes {path}, which {each.name} names", unknown="whether the nodes have it"
            )
            return


def _files_in_missing_folders(job: BatchScript) -> Iterator[Hit]:
    """Yield the first program whose output goes to a relative folder for logs that the script names nowhere else."""
    if not job.directives or _MAKES_FOLDERS.search(job.body):
        return
    works = [each.command for each in job.launches if is_work(job, each) and not each.command.in_substitution]
    rest = re.sub(r"[{}]", "", job.shell.filled(job.text))
    for file in [_filled(job, file) for each in job.shell.commands for file in each.writes]:
        rest = rest.replace(file, "")
    for each in works:
        for name in each.writes:
            folder = _filled(job, name).removeprefix("./").rpartition("/")[0]
            program = next((word.program for word in each.words if word.program != "time"), "") or "the program"
            is_there = any((place / folder).is_dir() for place in (Path(), Path(job.path).parent))
            if (
                not re.fullmatch(r"\w[\w.+/-]*", folder)
                or not re.search("logs?(/|$)", folder, re.IGNORECASE)
                or is_there
            ):
                continue
            if f"{folder}/" not in rest:
                message = f"where {folder} is missing, {program} does not start"
                yield Hit(
                    each.place, message, f"Write mkdir -p {folder} above it.", unknown="whether the folder is there"
                )
            return


_MAKES_FOLDERS = re.compile(
    r"mkdir|makedirs|\binstall -d|\bgit clone|\b(tar|unzip|rsync|mktemp|ln)\b|\bcp -\w*[ra]|\bmv\b"
)
"""Signs of a command that makes folders, or brings them."""
