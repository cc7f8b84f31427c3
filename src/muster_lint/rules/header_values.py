"""Rules on the values of directives: what sbatch refuses, and what it reads otherwise than a person does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from muster.words.slurm import SBATCH_FLAGS
from muster_lint import sources
from muster_lint.job import BatchScript, HeaderOption
from muster_lint.rule import rule
from muster_lint.rules.header import DECIDES
from muster_lint.values import Hit, Severity

_HEAD = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes=1\n"
_STEP = "srun --kill-on-bad-exit=1 hostname\n"


class _Form(NamedTuple):
    """What sbatch takes for an option. tests/lint/test_values.py asks a real one."""

    taken: str
    """A regular expression of the values that it takes, in letters of either case."""

    written: str
    """How such a value is written, for a hint."""

    rises: bool = False
    """Whether a range has to go from the lower number to the higher."""

    def takes(self, value: str) -> bool:
        """Return whether sbatch takes the value."""
        falls = self.rises and any(int(low) > int(high) for low, high in re.findall(r"(\d+)-(\d+)", value))
        return bool(re.fullmatch(self.taken, value, re.IGNORECASE)) and not falls


_COUNTS = frozenset(
    "ntasks ntasks-per-node ntasks-per-gpu ntasks-per-socket ntasks-per-core cpus-per-task cpus-per-gpu mincpus "  # noqa: SIM905
    "cores-per-socket sockets-per-node threads-per-core".split()
)
_COUNT = _Form(r"0*[1-9]\d*", "a whole number, 1 or more")
_TIME = _Form(r"-\d+|\d+(:\d+){0,2}|\d+-(\d+(:\d+){0,2})?|INFINITE|UNLIMITED", "minutes, H:M:S, or D-H:M:S")
_MEMORY = _Form(r"-?0|\d+([KMGT]B?)?", "a whole number with K, M, G or T")
_MAIL = r"NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(_[985]0)?|ARRAY_TASKS"
_SIGNALS = "HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU|XCPU"
_JOBS = r"-?\d+(_(\d+|\*))?(\+\d+)?"
_BEFORE = rf"((after(any|burstbuffer|corr|notok|ok)?|expand)(:{_JOBS})+|singleton|{_JOBS})"
_LAYOUT = r"(block|cyclic|fcyclic|\*)"
_FORMS = {
    "time": _TIME,
    "time-min": _TIME,
    "mem": _MEMORY,
    "mem-per-cpu": _MEMORY,
    "mem-per-gpu": _MEMORY,
    "tmp": _MEMORY,
    "nodes": _Form(r"-?\d+[km]?(-\d*[km]?)?(:\d+)?(,-?\d*(-\d*)?(:\d+)?)*", "a number, or MIN-MAX", rises=True),
    "gres": _Form(
        r"(?!(gres:)?(gpus\b|gpu-\d|\d+$|gpu:$|gpu:[^:,]+:$|gpu:\d+:[a-z]\w*$))(?-i:(?!(gres:)?GPU:)).*",
        "gpu:NUMBER or gpu:TYPE:NUMBER",
    ),
    # sbatch takes the brackets that squeue shows
    "array": _Form(r"(?![^%]*:0*(\D|$)|\d+:|[^%]*\d-\d+-\d)[\d,:[\]\s-]*(%.*)?", "0-9, 1,3,5 or 0-9%4", rises=True),
    # one word that sbatch knows is enough
    "mail-type": _Form(rf"(.*,\s*)?({_MAIL})(,.*)?", "BEGIN, END, FAIL or ALL"),
    "signal": _Form(rf"([BR]*:?\s*)?(\d+|(SIG)?({_SIGNALS}))(@\d{{0,5}})?", "SIGNAL@SECONDS or B:SIGNAL@SECONDS"),
    "dependency": _Form(rf"{_BEFORE}([,?]{_BEFORE})*", "afterok:JOBID"),
    "exclusive": _Form(r"user|mcs|topo|exclusive", "--exclusive alone, or --exclusive=user"),
    "constraint": _Form(rf"(?!({'|'.join(SBATCH_FLAGS)})=).*", "this option on an #SBATCH line of its own"),
    "open-mode": _Form(r"[at].*", "append or truncate"),
    "kill-on-invalid-dep": _Form(r"yes|no", "yes or no"),
    "hint": _Form(
        r"(multithread|nomultithread|compute_bound|memory_bound|help|,)+",
        "nomultithread, multithread, compute_bound or memory_bound",
    ),
    "distribution": _Form(
        rf":?{_LAYOUT}(:{_LAYOUT}){{0,2}}:?(,(no)?pack)?,?|plane[^=]*=\d+|arbitrary|(no)?pack",
        "such as block:cyclic or plane=4",
    ),
}
_MANY_MINUTES = 10
_LEAST_MIB = 1024


@rule(
    "directive-value",
    Severity.BREAKS,
    "a value that sbatch refuses",
    why="sbatch stops at a value it cannot read, and the job is not queued.",
    instead="Write the value as sbatch reads it.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --time=90min\n" + _STEP,
    good=_HEAD + "#SBATCH --time=90\n" + _STEP,
)
def find_refused_values(job: BatchScript) -> Iterator[Hit]:
    """Yield values that are none of the forms that sbatch has for this option."""
    taken = -1
    for index, each in enumerate(job.directives):
        value = each.value
        lone = _lone_letter(each, job.directives[index + 1 : index + 2]) if index != taken else None
        if lone is not None:
            taken = index + 1
            yield lone
        elif value == "" and each.name in _NEVER_EMPTY and re.search(rf"{each.written}(\s|$)", each.line):
            yield Hit(each.place, f"--{each.name} has no value, and sbatch refuses that", "Write the value.")
        elif re.match(r"-[A-Za-z]=", each.written):
            yield _behind_a_letter(each)
        elif (
            value and not re.search(r"[$`<]", value) and not re.fullmatch(r"X+|[A-Z]*_[A-Z_]+|[xX]{2}.*|.*:XXX+", value)
        ):
            form = _form_of(each.name, value)
            if form:
                yield Hit(each.place, f"sbatch does not take --{each.name}={value}", f"Write {form}.")


_NEVER_EMPTY = _COUNTS | {"time", "time-min", "nodes", "mem", "mem-per-cpu", "mem-per-gpu", "gres", "partition"}
"""Options that sbatch does not take without a value; of an empty account, QOS or name it says nothing."""

_REFUSES_OPTIONS = _COUNTS | {"time", "nodes", "partition", "constraint", "nodelist", "exclude"}
"""Options that take no option of another line for their value: no partition and no number is written so."""

_SWITCHES = {"hold", "no-kill", "overcommit", "oversubscribe", "quiet", "verbose", "wait"}
"""Options of one letter that have no value."""


def _lone_letter(option: HeaderOption, behind: Sequence[HeaderOption]) -> Hit | None:
    """Return what becomes of a letter without its value: sbatch reads on in the next line, by Slurm 22.05, 24.11 and 26.05."""
    is_letter = re.fullmatch(r"-[A-Za-z]", option.written) is not None and len(option.name) > 1
    if not is_letter or option.value is not None or option.name in _SWITCHES:
        return None
    following = behind[0] if behind else None
    if following is not None and not following.written.startswith("-"):
        return None
    is_one_word = following is not None and (following.value is None or following.written.endswith(following.value))
    if following is None or not is_one_word or option.name in _REFUSES_OPTIONS:
        return Hit(option.place, f"{option.written} has no value, and sbatch refuses that", "Write the value.")
    lost = f"{option.written} has no value, and takes {following.written} of the next line for it: the job loses that"
    return Hit(option.place, lost, "Write the value.", severity=Severity.FRAGILE)


def _behind_a_letter(option: HeaderOption) -> Hit:
    letter, value = option.written[:2], option.written[3:]
    return Hit(
        option.place,
        f"behind {letter} the sign = is a part of the value: {'=' + value!r}",
        f"Write {letter} {value}.",
        severity=Severity.BREAKS if option.name in DECIDES else Severity.FRAGILE,
    )


def _form_of(name: str, value: str) -> str:
    """Return how the value is written, where this one is refused; empty where it is taken."""
    form = _COUNT if name in _COUNTS else _FORMS.get(name)
    return "" if form is None or form.takes(value) else form.written


@rule(
    "time-in-minutes",
    Severity.FRAGILE,
    "a time limit that reads as hours and is minutes",
    why="--time=24:00 is 24 minutes: with one colon sbatch reads minutes and seconds.",
    instead="Write 24:00:00 for hours.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --time=24:00\n" + _STEP,
    good=_HEAD + "#SBATCH --time=24:00:00\n" + _STEP,
)
def find_minutes(job: BatchScript) -> Iterator[Hit]:
    """Yield N:00 where N is a number that people give hours in."""
    limit = job.header.get("time")
    match = re.fullmatch(r"(\d+):00", (limit.value or "") if limit is not None else "")
    if limit is not None and match and match[1] in {"24", "48", "72", "96"}:
        yield Hit(limit.place, f"--time={limit.value} is {match[1]} minutes, not hours")


@rule(
    "memory-in-megabytes",
    Severity.FRAGILE,
    "memory without a unit",
    why="A number without a unit is in megabytes: the job is killed for its memory as soon as it starts Python.",
    instead="Write the unit: --mem=64G.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --time=01:00:00\n#SBATCH --mem=64\n" + _STEP,
    good=_HEAD + "#SBATCH --time=01:00:00\n#SBATCH --mem=64G\n" + _STEP,
)
def find_megabytes(job: BatchScript) -> Iterator[Hit]:
    """Yield a memory limit below one gigabyte that has no unit."""
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        limit = job.header.get(name)
        value = limit.value or "" if limit is not None else ""
        least = _LEAST_MIB if name != "mem-per-cpu" else 256
        bare = (
            any(each.place.line == limit.place.line and not each.written.startswith("-") for each in job.directives)
            if limit
            else False
        )
        if limit is not None and not bare and value.isdigit() and 0 < int(value) < least:
            yield Hit(limit.place, f"--{name}={value} is {value} megabytes", unknown="whether the site enforces it")


@rule(
    "array-beyond-list",
    Severity.BREAKS,
    "an array whose tasks have no entry in the list",
    why="A task whose number is beyond the list gets an empty value, and runs with it.",
    instead="Give --array the numbers of the list: 0 to its length less one.",
    source=sources.SBATCH,
    bad=_HEAD
    + '#SBATCH --time=01:00:00\n#SBATCH --array=0-3\nseeds=(1 2 3)\nsrun --kill-on-bad-exit=1 ./train "${seeds[$SLURM_ARRAY_TASK_ID]}"\n',
    good=_HEAD
    + '#SBATCH --time=01:00:00\n#SBATCH --array=0-2\nseeds=(1 2 3)\nsrun --kill-on-bad-exit=1 ./train "${seeds[$SLURM_ARRAY_TASK_ID]}"\n',
)
def find_array_beyond_list(job: BatchScript) -> Iterator[Hit]:
    """Yield --array with a number that a list indexed by the task's number does not have, or that leaves some out."""
    array = job.header.get("array")
    for each in job.shell.assigned("SLURM_ARRAY_TASK_ID") if array is not None and "-" in (array.value or "") else ():
        if each.value is not None and each.value.is_literal and not each.may_not_run and not each.of_command:
            yield Hit(each.place, f"every task of the array works as task {each.value.value}", "Remove this line.")
    match = re.fullmatch(r"(\d+)-(\d+)(%\d+)?", (array.value or "") if array is not None else "")
    if array is None or match is None:
        return
    first, last = int(match[1]), int(match[2])
    for each in job.shell.assignments:
        if not each.elements or each.may_not_run or len(job.shell.assigned(each.name)) > 1:
            continue
        if any(not word.is_literal or re.search(r"[*?{]|^\[", word.text) for word in each.elements):
            continue  # the last are keys of their own
        offset = None if re.search(rf"-A\s+{each.name}\b", job.text) else _offset_of(job, each.name)
        if offset is None:
            continue
        length = len(each.elements)
        if last - offset >= length:
            yield Hit(array.place, f"{each.name} has {length} entries, but the array goes to {last}")
        elif length // 2 <= last - offset < length - 1 and first - offset == 0:  # fewer are chosen on purpose
            message = f"{each.name} has {length} entries, and the array ends at {last}: the last ones never run"
            yield Hit(array.place, message, severity=Severity.FRAGILE)
        elif first - offset == 1:
            message = f"{each.name} begins with the number 0, and the array at {first}: the first entry never runs"
            yield Hit(array.place, message, severity=Severity.FRAGILE)


def _offset_of(job: BatchScript, name: str) -> int | None:
    """Return how far the index of a list lies below the task's number; None where something else is the index."""
    numbers = {"SLURM_ARRAY_TASK_ID": 0}
    for each in job.shell.assignments:
        own = re.fullmatch(_NUMBER, each.value.value) if each.value is not None and not each.of_command else None
        if own and len(job.shell.assigned(each.name)) == 1:
            numbers[each.name] = 1 if own[1] else 0
    for index, offset in numbers.items():
        shift = re.search(rf"\$\{{{name}\[\s*\$?\(*\{{?\$?\{{?{index}\}}?\s*(-\s*1)?\s*\)*\]\}}", job.text)
        if shift is not None:
            return offset + (1 if shift[1] else 0)
    return None


_NUMBER = r"(?:\$\(\(\s*)?\$?\{?SLURM_ARRAY_TASK_ID\}?\s*(-\s*1)?\s*(?:\)\))?"


@rule(
    "gpus-of-node-twice",
    Severity.FRAGILE,
    "GPUs of a node asked for twice",
    why="--gres=gpu:N and --gpus-per-node=N ask for the same thing. Slurm 22.05 and 24.11 take the number of --gres, and refuse a type at one of the two alone; 26.05 refuses both.",
    instead="Keep one of the two.",
    source=sources.SBATCH,
    bad=_HEAD
    + "#SBATCH --time=01:00:00\n#SBATCH --cpus-per-gpu=8\n#SBATCH --gres=gpu:2\n#SBATCH --gpus-per-node=1\n"
    + _STEP,
    good=_HEAD + "#SBATCH --time=01:00:00\n#SBATCH --cpus-per-gpu=8\n#SBATCH --gpus-per-node=2\n" + _STEP,
)
def find_two_numbers_of_gpus(job: BatchScript) -> Iterator[Hit]:
    """Yield --gpus-per-node beside --gres."""
    gres, per_node = job.header.get("gres"), job.header.get("gpus-per-node")
    parts = (gres.value or "").split(",") if gres is not None else []
    asked = [part for part in parts if f"{part}:".startswith("gpu:")]
    if asked and per_node is not None and per_node.value:
        message = f"--gres={asked[0]} asks for GPUs of a node, and so does --gpus-per-node={per_node.value}"
        number = re.search(r":(\d+)$", asked[0])
        is_same = (number[1] if number else "1") == per_node.value.rpartition(":")[2]
        if (re.search(r":[A-Za-z]", asked[0]) is None) != (":" not in per_node.value):
            yield Hit(
                per_node.place, f"{message}: sbatch refuses a type at one of them alone", severity=Severity.BREAKS
            )
            return
        severity = Severity.STYLE if is_same else None
        yield Hit(per_node.place, message, unknown="whether this Slurm takes both", severity=severity)


@rule(
    "mail-without-type",
    Severity.FRAGILE,
    "an address for mail, but no event that sends one",
    why="Slurm sends mail for the events of --mail-type, and without it for none.",
    instead="Add --mail-type=END,FAIL.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --time=01:00:00\n#SBATCH --mail-user=ann.lee@physics.edu\n" + _STEP,
    good=_HEAD
    + "#SBATCH --time=01:00:00\n#SBATCH --mail-user=ann.lee@physics.edu\n#SBATCH --mail-type=END,FAIL\n"
    + _STEP,
)
def find_silent_addresses(job: BatchScript) -> Iterator[Hit]:
    """Yield --mail-user without --mail-type."""
    if "mail-user" in job.header and "--mail-type" not in job.text:
        yield Hit(job.header["mail-user"].place, "no mail is ever sent", unknown="what sbatch was given")


@rule(
    "placeholder",
    Severity.STYLE,
    "a placeholder that was not filled in",
    why="It is only an example's: sbatch refuses such an account or partition, a path is not there, and mail reaches nobody.",
    instead="Write your own value.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --time=01:00:00\n#SBATCH --account=<your_account>\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "#SBATCH --time=01:00:00\n#SBATCH --account=phys42\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_placeholders(job: BatchScript) -> Iterator[Hit]:
    """Yield values that stand for a value."""
    mail = job.header["mail-type"].value if "mail-type" in job.header else None
    unread = {"job-name", "comment"} | ({"mail-user"} if (mail or "").upper() == "NONE" else set())
    for each in job.directives:
        if (
            each.value
            and each.name not in unread
            and re.search(
                r"<[^>@]+>|/path/to/|^(your|my)[-_ ]?(acc(oun)?t|project|partition|qos|e?mail|name|netid)|\bYOUR_|@(your|example|domain)|^X+$|^[xX]{2}:|^XXX|^\?\?\?|\.\.\.$|^ACCOUNT$|^PARTITION$",
                each.value,
            )
        ):
            yield Hit(each.place, f"{each.value!r} is a placeholder")
    told: set[str] = set()
    for assignment in job.shell.assignments:
        text = assignment.value.value if assignment.value is not None else ""
        if re.match(r"/?path/to/|/path/", text) and job.directives and not assignment.may_not_run and not told:
            told.add(text)
            yield Hit(assignment.place, f"{text!r} is a placeholder")
        is_empty = not (text or assignment.may_not_run or assignment.of_command)
        is_lone = is_empty and len(job.shell.assigned(assignment.name)) == 1
        root = re.search(rf"(?<![^\s\"'=])\$\{{?{assignment.name}\}}?/[\w.-]+", job.body) if is_lone else None
        if root is not None:
            message = f"{assignment.name} is empty, and {root[0]} begins at the root of the file system"
            yield Hit(assignment.place, message, unknown="whether that is meant")
    commands = [each for each in job.shell.commands if each.program not in {"echo", "printf"}]
    lines = {each.place.end_line: each.place for each in commands if job.directives}
    comments = {place.line: place.column for place, _ in job.shell.comments}
    for number, line in enumerate(job.lines, start=1):
        code = line[: comments.get(number, len(line) + 1) - 1]
        blank = _BLANK.search(code) if number in lines else None
        if blank is not None:
            yield Hit(lines[number], f"{blank[0]} is a placeholder, and bash takes < and > for redirections")
            break
    words = [word for each in commands for word in each.words]
    path = next((word for word in words if word.value.startswith(("/path/to/", "path/to/"))), None)
    if path is not None and job.directives and not told:
        yield Hit(path.place, f"{path.value!r} is a placeholder")


_BLANK = re.compile(
    r"(?<![<\w\"'])<(?=[\w-]*(your|path|name|id|dir|project|user|account|env|_))[A-Za-z][\w-]*>(?=/|\s|$)(?!\s*[&|])",
    re.IGNORECASE,
)
"""A word in brackets that an example leaves for its reader, where bash would read it."""
