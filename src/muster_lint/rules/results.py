"""Rules on results that end with a folder or a disk of the job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.site import time_limit_of
from muster_lint.values import Hit, Severity
from muster_lint.works import copies, is_work

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"


@rule(
    "results-on-node-disk",
    Severity.FRAGILE,
    "work in a folder of the node that nothing is copied out of",
    why="$SLURM_TMPDIR, $TMPDIR and /tmp are of the node and of the job: the site empties them when the job ends, or nobody finds what lies there.",
    instead='Copy the results at the end: cp -r results "$SLURM_SUBMIT_DIR"/.',
    source="Alliance Doc, Using node-local storage (docs.alliancecan.ca): data in $SLURM_TMPDIR is deleted when the job ends",
    bad=_HEAD + 'cd "$SLURM_TMPDIR"\npython ~/code/convert.py\n',
    good=_HEAD + 'cd "$SLURM_TMPDIR"\npython ~/code/convert.py\ncp -r out "$SLURM_SUBMIT_DIR"/\n',
)
def find_results_on_node(job: BatchScript) -> Iterator[Hit]:
    """Yield the last work in a folder of the node's own disk, where nothing is copied out of it, or only behind the work."""
    if not job.directives or re.search(_BRINGS_BACK, job.body):
        return
    limit = time_limit_of(job)
    works = [each for each in job.launches if is_work(job, each) and not each.command.in_substitution]
    moves = [
        each for each in job.shell.commands if each.program in {"cd", "pushd", "popd"} and not each.in_substitution
    ]
    for work in works[-1:]:
        here = [each for each in moves if each.order < work.command.order]
        folder = ([*_paths(job, here[-1]), ""] if here else [""])[0]
        if not _ON_NODE.match(folder) or here[-1].is_conditional or work.command.writes:
            continue
        later = [each for each in job.shell.commands if each.order > work.command.order]
        words = _words(job, work.command)[1:]
        script = work.script
        elsewhere = [word for word in words if _ELSEWHERE.search(word) and (script is None or word != script.value)]
        back = next((each for each in job.launches if copies(each) and each.command in later), None)
        if back is not None and not elsewhere and (limit or 0) >= _LONG_S and "signal" not in job.header:
            message = f"at the time limit what it wrote into {folder} is lost: line {back.command.place.line} copies it"
            instead = "Let a trap copy it: #SBATCH --signal=B:USR1@300, trap 'cp -r …' USR1, the program in the background, and wait."
            yield Hit(work.command.place, message, instead, unknown="whether it ends before")
        if not elsewhere and not work.unknown and all(each.program in _ENDS for each in later):
            message = f"it runs in {folder}, on the node's own disk, and nothing is copied out of it"
            yield Hit(work.command.place, message, unknown="where the program writes its results")


_ON_NODE = re.compile(r"(\$SLURM_TMPDIR|\$TMPDIR|/tmp|/local_?scratch|/var/tmp|/dev/shm|\$LOCAL_?SCRATCH)")
_ELSEWHERE = re.compile(r"(^|=)(/|~|\$(?!SLURM_TMPDIR|TMPDIR))|\.\./|\$\(")
_BRINGS_BACK = r"\b(rclone|gsutil|aws s3|azcopy|globus|trap|ln -s|wandb|git push)\b"
_ENDS = frozenset("echo date ls du pwd cd exit deactivate conda rm module printf sleep hostname".split())  # noqa: SIM905
_LONG_S = 6 * 3600


@rule(
    "results-wiped-at-start",
    Severity.FRAGILE,
    "a job that begins by removing results",
    why="""The results of the run before are gone, whether or not this one gets as far. A job of the same script that still runs loses its files, and a job that
    is put back into the queue removes its own.""",
    instead='Give each run a folder of its own: out="results/$SLURM_JOB_ID"; mkdir -p "$out".',
    source=sources.BASH,
    bad=_HEAD + "rm -rf /project/results/*\nsrun --kill-on-bad-exit=1 ./solve /project/results\n",
    good=_HEAD + 'mkdir -p "results/$SLURM_JOB_ID"\nsrun --kill-on-bad-exit=1 ./solve "results/$SLURM_JOB_ID"\n',
)
def find_wiped_results(job: BatchScript) -> Iterator[Hit]:
    """Yield the first rm, in front of all work, of a folder or of all files of it that are results by their name."""
    first = min((each.command.order for each in job.launches if is_work(job, each)), default=0)
    if not job.directives or _CONTAINS_OWN.search(job.body):
        return
    for each in job.shell.commands:
        is_sure = not (each.in_loop or each.is_conditional or each.is_guarded or each.function or each.in_substitution)
        if each.program != "rm" or each.order > first or not is_sure:
            continue
        takes_folders = any(re.match(r"-\w*[rR]|--rec", word.value) for word in each.words[1:])
        for path in _paths(job, each):
            is_several = takes_folders or path.endswith("*") or "/*." in path
            if is_several and _OF_RESULTS.search(path) and not _OF_NO_RESULTS.search(path):
                what = "each task of the array removes" if "array" in job.header else "it removes"
                message = f"{what} {path}, which an earlier run, or one beside it, has written"
                is_own = not path.startswith(("/", "$", "~"))
                if is_own and _moves_apart(job, each):
                    return
                above = job.lines[each.place.line - 2].strip()
                severity = (
                    Severity.STYLE if is_own and above.startswith("#") else None
                )  # a comment says that it is meant
                yield Hit(each.place, message, unknown="whether anything there is wanted", severity=severity)
                return


def _moves_apart(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether the script has gone into a folder that a variable names before this command."""
    moves = [each for each in job.shell.commands if each.program in {"cd", "pushd"} and each.order < command.order]
    return any(word.names for each in moves for word in each.words[1:])


_OF_RESULTS = re.compile(
    r"(^|[/_])(check_?points?|ckpts?|results?|outputs?|models?|weights|csv_logs|predictions?|runs|experiments?|saved?_?\w*|plots|figures)"
    r"(?=[/_]|$)",
    re.IGNORECASE,
)
_OF_NO_RESULTS = re.compile(
    r"SLURM_|TMPDIR|\$\(|`|^/tmp|\btemp|\btmp|\$\d|\$\{\d|cache|RANDOM|/dev/shm|slurm[_-]|test|debug|lock"
)
_CONTAINS_OWN = re.compile(r"cd \S*(SLURM_JOB|TMPDIR|SLURM_TMPDIR|mktemp)")


def _paths(job: BatchScript, command: SimpleCommand) -> list[str]:
    """Return the paths that a command names, with the values of the script's variables."""
    words = [job.shell.filled(word.value).rstrip("/") for word in command.words[1:]]
    return [re.sub(r"\$\{(\w+)\}", r"$\1", word) for word in words if word and not word.startswith("-")]


def _words(job: BatchScript, command: SimpleCommand) -> list[str]:
    return [re.sub(r"\$\{(\w+)\}", r"$\1", job.shell.filled(word.value)) for word in command.words]
