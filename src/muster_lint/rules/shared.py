"""Rules on what jobs share with each other, and on what a job takes from the line and the folder of its submission.

Long: one rule after the other, each with its examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.rank.errors import HostlistError
from muster.rank.hostlist import count
from muster_lint import sources
from muster_lint.array_values import shared_results
from muster_lint.bash import SimpleCommand, Word
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity
from muster_lint.works import copies, is_work

_HEAD = "#!/bin/bash\n#SBATCH --mem=4G\n#SBATCH --time=01:00:00\n"
_ARRAY = _HEAD + "#SBATCH --array=0-3\n#SBATCH --output=train-%A_%a.out\n"
_STEP = "srun --kill-on-bad-exit=1 hostname\n"


@rule(
    "nodes-pinned",
    Severity.STYLE,
    "a job for nodes by their names",
    why="""The job waits for these nodes while others are free, and for good where one of them is out of service. With fewer nodes than names
    Slurm 22.05 refuses the job; 24.11 and 26.05 take as many of them as it has nodes.""",
    instead="Remove it, and ask for the kind of node: a partition, --constraint, or the type in --gres.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --nodelist=node1\n" + _STEP,
    good=_HEAD + _STEP,
)
def find_pinned_nodes(job: BatchScript) -> Iterator[Hit]:
    """Yield --nodelist with names."""
    pinned = job.header.get("nodelist")
    names = (pinned.value or "") if pinned is not None else ""
    if pinned is None or not re.fullmatch(r"[A-Za-z][\w.,\[\]-]*", names):
        return
    try:
        number = count(names)
    except HostlistError:
        return
    if job.nodes is not None and job.nodes < number:
        message = f"{number} nodes are named for a job of {job.nodes}"
        yield Hit(
            pinned.place, f"{message}: Slurm 22.05 refuses it, newer ones take some of them", severity=Severity.SLOW
        )
    else:
        yield Hit(pinned.place, f"the job waits for {names}, whatever else is free")


@rule(
    "temporary-path-shared",
    Severity.FRAGILE,
    "a fixed path on the node's own disk",
    why="""Two jobs of one user on one node, or two tasks of an array, have the same /tmp: they overwrite each other's files, and the one that ends
    first removes those of the other. The file of another user cannot be written at all.""",
    instead="Put the number of the job into it: /tmp/$SLURM_JOB_ID; or use mktemp -d.",
    source=sources.SBATCH,
    bad=_HEAD + "set -e\ncp -r data /tmp/work\nsrun --kill-on-bad-exit=1 cat /tmp/work/a\nrm -rf /tmp/work\n",
    good=_HEAD
    + 'set -e\ncp -r data "/tmp/$SLURM_JOB_ID"\nsrun --kill-on-bad-exit=1 cat "/tmp/$SLURM_JOB_ID/a"\nrm -rf "/tmp/$SLURM_JOB_ID"\n',
)
def find_shared_paths(job: BatchScript) -> Iterator[Hit]:
    """Yield the first fixed path below /tmp that a job writes or removes, where another job may be on its node."""
    if not job.directives or has_whole_nodes(job) or (job.nodes or 1) > 1:
        return
    written: list[tuple[int, SimpleCommand, str, str]] = []
    for each in job.shell.commands:
        if each.program == "rm" and any(word.value.startswith("-") and "r" in word.value for word in each.words[1:]):
            written += [(0, each, _filled(job, word.value), "removes") for word in each.words[1:]]
        written += [(2, each, _filled(job, target.strip("'\"")), "writes") for target in each.writes]
    written += [
        (1, each.command, _filled(job, each.command.words[-1].value), "fills") for each in job.launches if copies(each)
    ]
    fixed = [entry for entry in sorted(written, key=lambda entry: entry[0]) if _FIXED.fullmatch(entry[2])]
    for _, each, path, does in fixed[:1]:
        if not each.is_guarded and not each.is_conditional:
            message = f"every job of yours on this node {does} {path}"
            yield Hit(each.place, message, unknown="whether two share a node, and its /tmp")


_FIXED = re.compile(r"/(tmp|var/tmp|dev/shm)/([\w./*-]|\$\{?(USER|LOGNAME|SLURM_JOB_USER|SLURM_JOB_NAME)\b\}?)+")


def _filled(job: BatchScript, text: str) -> str:
    return job.shell.filled(text).strip("'\"")


def _has_several_tasks(job: BatchScript) -> bool:
    """Tell whether the job is an array whose tasks may run beside each other."""
    array = job.header["array"].value or "" if "array" in job.header else ""
    ends = re.fullmatch(r"\[?(\d+)-(\d+)\]?(%\d+)?", array)
    return re.search(r"\d[-,]\d", array) is not None and not array.endswith("%1") and not (ends and ends[1] == ends[2])


@rule(
    "left-on-node",
    Severity.FRAGILE,
    "files left on the node's own disk or in its memory",
    why="""Nobody but the job knows of them. They stay when it ends: the disk, or in /dev/shm the memory, is filled a little more by each run, until jobs
    of others fail there.""",
    instead="Use the job's own $TMPDIR, or remove them however the job ends: trap 'rm -rf \"$DIR\"' EXIT.",
    source=sources.BASH,
    bad=_HEAD
    + 'set -e\nmkdir "/dev/shm/$SLURM_JOB_ID"\ncp -r data "/dev/shm/$SLURM_JOB_ID"\nsrun --kill-on-bad-exit=1 ./train "/dev/shm/$SLURM_JOB_ID"\n',
    good=_HEAD
    + "set -e\ntrap 'rm -rf \"/dev/shm/$SLURM_JOB_ID\"' EXIT\n"
    + 'mkdir "/dev/shm/$SLURM_JOB_ID"\ncp -r data "/dev/shm/$SLURM_JOB_ID"\nsrun --kill-on-bad-exit=1 ./train "/dev/shm/$SLURM_JOB_ID"\n',
)
def find_left_files(job: BatchScript) -> Iterator[Hit]:
    """Yield the first copy onto the node's own disk, or folder of the job there, in a script that removes nothing."""
    if not job.directives or _REMOVES.search(job.body) or not any(is_work(job, each) for each in job.launches):
        return
    for launch in job.launches:
        each = launch.command
        makes = each.program == "mkdir" and not each.in_substitution
        if not (makes or copies(launch)) or each.function:
            continue
        into = [_filled(job, word.value) for word in each.words[1:]]
        into = into if makes or launch.stages[-1].name in {"tar", "unzip"} else into[-1:]
        here = next((path for path in into if _OF_NODE.match(path) and (not makes or "SLURM_" in path)), "")
        if here:
            where = "in the node's memory" if "/shm" in here else "on the node's own disk"
            yield Hit(each.place, f"{here} stays {where} when the job ends", unknown="whether the site clears it")
            return


_REMOVES = re.compile(r"\brm\b|-delete\b|\btrap\b|\brmdir\b|\bmv\b")
_OF_NODE = re.compile(r"/(tmp|var/tmp|dev/shm)/.")


@rule(
    "array-shares-file",
    Severity.FRAGILE,
    "one file for all tasks of an array",
    why="The tasks of an array run beside each other in one folder: of what they write to one file the last one's is left, or a mixture.",
    instead="Put the task's number into its name: $SLURM_ARRAY_TASK_ID.",
    source=sources.SBATCH,
    bad=_ARRAY + 'srun --kill-on-bad-exit=1 python train.py "$SLURM_ARRAY_TASK_ID" > result.txt\n',
    good=_ARRAY
    + 'srun --kill-on-bad-exit=1 python train.py "$SLURM_ARRAY_TASK_ID" > "result-$SLURM_ARRAY_TASK_ID.txt"\n',
)
def find_shared_files(job: BatchScript) -> Iterator[Hit]:
    """Yield the first file into which every task of an array writes, and a place of results that two of them share."""
    for place, value, first, second in shared_results(job):
        yield Hit(place, f"the tasks {first} and {second} differ, and both write to {value}", _OWN_PLACE)
    moves = any(each.program == "cd" and each.words[-1].names for each in job.shell.commands)
    if not _has_several_tasks(job) or moves:
        return
    for launch in job.all_launches:
        each = launch.command
        if each.in_substitution or each.is_conditional or not is_work(job, launch):
            continue
        for target in each.writes:
            appends = re.search(rf">>\s*[\"']?{re.escape(target)}", job.lines[each.place.end_line - 1])
            if re.fullmatch(r"[\w./-]+", _filled(job, target)) and not appends:
                yield Hit(each.place, f"every task of the array writes {target}")
                return


_OWN_PLACE = "Give each task a place of its own."


@rule(
    "input-of-every-job",
    Severity.FRAGILE,
    "a file for the work that every job writes under one name",
    why="""A second job in the same folder writes the file again while the first still reads it: it then runs on the other's hosts, or with its settings.""",
    instead="Put the number of the job into its name: hosts.$SLURM_JOB_ID; or use mktemp.",
    source=sources.BASH,
    bad=_HEAD + "#SBATCH --nodes=2\nset -e\nscontrol show hostnames > hosts\nmpirun --hostfile hosts ./solve\n",
    good=_HEAD
    + '#SBATCH --nodes=2\nset -e\nscontrol show hostnames > "hosts.$SLURM_JOB_ID"\nmpirun --hostfile "hosts.$SLURM_JOB_ID" ./solve\n',
)
def find_shared_inputs(job: BatchScript) -> Iterator[Hit]:
    """Yield the first file of hosts, settings or commands that the script writes under a fixed name, and its work reads."""
    if not job.directives or _has_own_folder(job):
        return
    works = [each for each in job.launches if is_work(job, each) or each.stage("step")]
    for each in job.shell.commands:
        target = next((name for name in each.writes if _OF_INPUT.search(_filled(job, name))), "")
        path = _filled(job, target)
        is_apart = each.in_loop or each.is_conditional or each.in_substitution or each.function
        if not target or is_apart or each.program not in _WRITERS or not _LITERAL.fullmatch(path):
            continue
        own = path.removeprefix("./")
        for work in works:
            words = [part for word in work.command.words for part in re.split("[=:,]", _filled(job, word.value))]
            if work.command.order > each.order and own in {part.removeprefix("./") for part in words}:
                message = f"every job writes {path}, which line {work.command.place.line} reads"
                yield Hit(each.place, message, unknown="whether two run in one folder")
                return


def _has_own_folder(job: BatchScript) -> bool:
    """Tell whether the script goes into a folder that hardly another job has."""
    moves = [each for each in job.shell.commands if each.program in {"cd", "pushd"}]
    return any(_OWN.search(_filled(job, word.value)) for each in moves for word in each.words[1:])


_OWN = re.compile(r"SLURM_(JOB|ARRAY)|TMP|mktemp|\$\{?\d|date|\$\{?\w*(ID|NAME|RUN)\b", re.IGNORECASE)
_OF_INPUT = re.compile(
    r"host|machine|node|config|rankfile|tasks?\b|\.(ya?ml|json|in|ini|sh|py|cfg|conf|txt|toml)$", re.IGNORECASE
)
_OF_EVERY_RUN = re.compile(r"^\$\{?(PWD|HOME|SLURM_SUBMIT_DIR)\}?/")
_LITERAL = re.compile(r"(?!/(tmp|dev|var)/)(\.{1,2}/|/|~/)?[\w./-]+")
_WRITERS = frozenset({"echo", "cat", "printf", "scontrol", "srun", "sed", "envsubst", "hostname", "awk", "head", "jq"})


@rule(
    "log-of-every-run",
    Severity.FRAGILE,
    "every run of the work writes the same log",
    why="The shell empties the file when it opens it: the next run wipes the log of this one, also while this one still runs.",
    instead="Put $SLURM_JOB_ID into its name, or leave it to --output=train-%j.log.",
    source=sources.BASH,
    bad=_HEAD + "set -e\nsrun --kill-on-bad-exit=1 ./train > train.log\n",
    good=_HEAD + 'set -e\nsrun --kill-on-bad-exit=1 ./train > "train-$SLURM_JOB_ID.log"\n',
)
def find_wiped_logs(job: BatchScript) -> Iterator[Hit]:
    """Yield the first log with a fixed name that a program of the work, or tee behind it, opens and empties."""
    if not job.directives or _has_own_folder(job) or _has_several_tasks(job):
        return  # array-shares-file says the last but one
    works = {each.command.order: each for each in job.launches if is_work(job, each)}
    piped = {each.command.pipe for each in works.values() if each.command.pipes_on}
    for each in job.shell.commands:
        launch = works.get(each.order)
        starts = launch is not None and any(launch.stage(kind) for kind in ("python", "agent", "step", "mpi"))
        is_tee = each.program == "tee" and not any(word.value in {"-a", "--append"} for word in each.words)
        names = [*each.writes] if starts else [each.words[-1].value] if is_tee and piped and len(each.words) > 1 else []
        for name in names:
            appends = re.search(rf">>\s*[\"']?{re.escape(name)}", job.lines[each.place.end_line - 1])
            path = _filled(job, name)
            path = _OF_EVERY_RUN.sub("/", path)
            is_log = (
                _LITERAL.fullmatch(path)
                and not re.search(r"(run|exp|v)[-_]?\d", path)
                and re.search(
                    r"\.(log|out|err|txt|res)$|\blog|(results?|scores?|metrics|timings?|bench\w*)[\w-]*\.\w+$",
                    path,
                    re.IGNORECASE,
                )
            )
            if is_log and not (appends or each.in_loop or each.in_substitution or each.function):
                yield Hit(each.place, f"the next run of this job wipes {_filled(job, name)}")
                return


@rule(
    "argument-unchecked",
    Severity.FRAGILE,
    "an argument of the script that nothing asks for",
    why="sbatch takes a script without arguments as well: $1 is empty then, and the job runs with it, often after hours in the queue.",
    instead='Let bash ask: "${1:?which model}" ends the script with these words.',
    source=sources.BASH,
    bad=_HEAD + 'srun --kill-on-bad-exit=1 python train.py --model "$1"\n',
    good=_HEAD + 'srun --kill-on-bad-exit=1 python train.py --model "${1:?which model}"\n',
)
def find_unchecked_arguments(job: BatchScript) -> Iterator[Hit]:
    """Yield the first use of an argument in the work's own words or in a value, where nothing looks at the arguments."""
    comments = [text for _, text in job.shell.comments if not re.match(r"#+\s*(echo|print)", text, re.IGNORECASE)]
    is_told = any(_OF_USAGE.search(text) for text in comments)
    body = "\n".join(line for line in job.body.splitlines() if not re.match(r"\s*echo\b[^|;&`(]*$", line))
    if not job.directives or is_told or _CHECKS.search(body) or job.sets("nounset", "u"):
        return
    held = [each.name for each in job.shell.assignments if each.value and any(map(str.isdigit, each.value.names))]
    if held and re.search(rf"(\[|\btest)\s.*\$\{{?({'|'.join(held)})\b|\bcase\s+\W*({'|'.join(held)})\b", job.body):
        return  # an empty one is noticed
    launches = [each for each in job.launches if is_work(job, each) or _is_argument(each)]
    works = {each.command.order for each in launches}
    words = [word for each in job.shell.commands if each.order in works and not each.function for word in each.words]
    words += [each.value for each in job.shell.assignments if each.value is not None and not each.may_not_run]
    for word in sorted(words, key=lambda each: each.place):
        if any(name.isdigit() and name != "0" for name in word.names) and not re.search(r"\$\{\d:?[-=?+]", word.text):
            number = next(name for name in word.names if name.isdigit())
            is_program = any(_is_argument(each) and each.command.words[-1] is word for each in launches)
            holder = next((each.name for each in job.shell.assignments if each.value is word), "")
            readers = [each for each in words if holder in each.names] if holder else [word]
            if readers and all(_stands_alone(each, holder or number) for each in readers) and not is_program:
                continue  # what it is given to stops at once
            others = ", and what is given behind it is dropped" if is_program and number == "1" else ""
            instead = 'Write "$@", which takes them all.' if others and not re.search(r"\$\{?[2-9]", body) else None
            yield Hit(
                word.place, f"without an argument ${number} is empty{others}", instead, unknown="what sbatch is given"
            )
            return


def _stands_alone(word: Word, name: str) -> bool:
    """Tell whether a word is a variable without quotes, and so no word at all where that is empty."""
    return word.text in {f"${name}", f"${{{name}}}"}


def _is_argument(launch: LaunchCommand) -> bool:
    """Tell whether a command starts the program, or the Python script, that the first argument names, and gives it no words."""
    last = launch.stages[-1] if launch.stages else None
    word = launch.command.words[-1]
    if last is None or word.lone_name != "1" or not (launch.stage("step") or launch.stage("python")):
        return False
    return last.word.place == word.place or (
        last.kind == "python" and [each.place for each in last.words] == [word.place]
    )


_CHECKS = re.compile(
    r"\$#|\$\{#|\bshift\b|\bgetopts?\b|\bset --|\$\{\d:?[?=-]|\$\{?[@*]|\btest\s+[-!\"']|\[\[?[^]]*\$\{?\d"
)
_OF_USAGE = re.compile(r"usage|sbatch\s.*\.(sh|slurm|sbatch|bash|job)\s+\S|\$\d|arg(ument)?s?\b", re.IGNORECASE)


@rule(
    "source-relative",
    Severity.STYLE,
    "a file to source that lies in the folder of the submission",
    why="The job starts in the folder where sbatch was typed. Elsewhere the file is not there, and bash goes on without what it sets.",
    instead="Write its whole path, or cd there first; and set -e.",
    source=sources.BASH,
    bad=_HEAD + "source env.sh\nsrun --kill-on-bad-exit=1 /bin/echo trains\n",
    good=_HEAD + "source env.sh || exit 1\nsrun --kill-on-bad-exit=1 /bin/echo trains\n",
)
def find_relative_sources(job: BatchScript) -> Iterator[Hit]:
    """Yield the first relative file that is read before anything says where the script is."""
    if not job.directives or job.stops_at_errors or "chdir" in job.header:
        return
    for each in job.shell.commands:
        if each.program in {"cd", "pushd"}:
            if len(each.words) == 2 and re.fullmatch(r"(\./)?(\.\./?)+", each.words[1].value):
                continue  # that folder too lies where sbatch was typed
            return
        name = each.words[1] if each.program in {"source", "."} and len(each.words) > 1 else None
        if name is None or not name.is_literal or not re.fullmatch(r"(\.{1,2}/)*\.?\w[\w./-]*", name.value):
            continue
        folder = name.value.removeprefix("./").partition("/")[0]
        is_made = any(
            folder in word.value for other in job.shell.commands if other.order < each.order for word in other.words[1:]
        )
        if (
            name.value in {"activate", "deactivate"}
            or is_made
            or each.is_tested
            or each.is_guarded
            or each.is_conditional
            or each.function
        ):
            continue
        yield Hit(each.place, f"it reads {name.value} in the folder of the submission", unknown="where that is")
        return
