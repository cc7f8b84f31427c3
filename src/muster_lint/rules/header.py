"""Rules on the #SBATCH header and the file as sbatch reads it. Long: one rule after the other, each with its examples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from muster.errors import nearest_name
from muster.slurm.flags import is_flag
from muster.words.slurm import SBATCH_FLAGS
from muster_lint import sources
from muster_lint.job import BatchScript, HeaderOption, directives_of
from muster_lint.launch import LaunchCommand, starts_python
from muster_lint.rule import rule
from muster_lint.values import Edit, Hit, Severity, TextSpan

_PLUGIN_OPTIONS = frozenset(
    """
    image module volume bee edf environment container-image container-mounts container-workdir container-name
    container-save container-mount-home no-container-mount-home container-remap-root no-container-remap-root
    container-entrypoint no-container-entrypoint container-entrypoint-log container-writable container-readonly
    container-env quotatype gpu-accounting cluster jobperf x11 gpu_cmode ear ear-policy ear-verbose
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Options that plugins of sites add (Shifter, pyxis, accounting): sbatch of other sites has none of them."""

_MISSED = frozenset(
    "array gpus gpus-per-node gpus-per-task gres nodes ntasks ntasks-per-node partition".split()  # noqa: SIM905
)
_GPUS = frozenset({"gpus", "gpus-per-node", "gres", "gpus-per-task"})
_RIVALS = (_GPUS, frozenset({"ntasks", "ntasks-per-node"}), frozenset({"mem", "mem-per-cpu", "mem-per-gpu"}))
"""The options that say one size in several ways: of two, a person has to choose."""

_HEAD = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


def _whole_line(number: int, line: str) -> TextSpan:
    return TextSpan(number, 1, number, len(line) + 1)


@rule(
    "directive-after-command",
    Severity.BREAKS,
    "#SBATCH after the first command",
    why="sbatch reads directives up to the first line that is not a comment. Later ones are comments: the job gets the default.",
    instead="Move the line above the first command.",
    source=sources.SBATCH,
    bad=_HEAD + "module load cuda\n#SBATCH --gres=gpu:4\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD + "#SBATCH --gres=gpu:4\nmodule load cuda\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_late_directives(job: BatchScript) -> Iterator[Hit]:
    """Yield the first directive that Slurm does not read, with the number of the others."""
    lost = [each for each in job.late_directives if _changes(job, each)] or list(job.late_directives)
    if not lost or not job.lines[0].startswith("#!"):
        return  # sbatch refuses a script without #!
    first = lost[0]
    lines = {each.place.line for each in lost}
    text = job.lines[first.place.line - 1]
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    last = max((each.place.line for each in job.shell.commands if job.runs_at(each.place) is not False), default=0)
    is_worse = first.place.line < last and _is_missed(job, lost)  # those behind the last command may be parked there
    if not (is_worse or job.directives):
        return  # a text in which no directive counts is none that sbatch is given
    severity = Severity.BREAKS if is_worse else Severity.FRAGILE
    message = f"{text.strip()!r}{more}: it stands after the first command (line {job.shell.first_command_line})"
    names = any("$" in (each.value or "") for each in lost)
    instead = (
        "Move the line above the first command, and write its values: sbatch expands no variable." if names else ""
    )
    message += ", so sbatch ignores it"
    yield Hit(_whole_line(first.place.line, text), message, instead, severity=severity)


DECIDES = frozenset(
    """
    account array constraint cpus-per-gpu cpus-per-task gpus gpus-per-node gpus-per-task gres mem mem-per-cpu mem-per-gpu
    nodes ntasks ntasks-per-node partition qos time
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Options without which the job is another one."""


def _changes(job: BatchScript, option: HeaderOption) -> bool:
    """Tell whether the job would be another one with this option."""
    return option.name not in job.header or job.header[option.name].value != option.value


@rule(
    "directive-misspelt",
    Severity.BREAKS,
    "a line that looks like a directive but is a comment",
    why="sbatch reads only lines that begin with exactly #SBATCH. A typing error makes a comment of it; so does a space, which may be on purpose (style).",
    instead="Write #SBATCH at the beginning of the line.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH -c 8 --ntasks-per-node=4\n#SBTACH --gres=gpu:4\nsrun -c 8 -K python train.py\n",
    good=_HEAD + "#SBATCH -c 8 --ntasks-per-node=4\n#SBATCH --gres=gpu:4\nsrun -c 8 -K python train.py\n",
)
def find_misspelt_directives(job: BatchScript) -> Iterator[Hit]:
    """Yield comments that were meant as directives."""
    header_end = job.shell.first_command_line or len(job.lines) + 1
    for number, line in enumerate(job.lines[: header_end - 1], start=1):
        match = re.match(r"(\s*#\s*(?P<word>[A-Za-z]{4,8}))(?=\s+-[-\w])", line)
        # Two or more # are how people switch a directive off.
        if match is None or line.startswith("#SBATCH") or not _looks_like_sbatch(match["word"]):
            continue
        options = list(directives_of("#SBATCH" + line[match.end() :], number))
        if not options or not all(each.written.startswith("-") for each in options):
            continue  # a command that somebody commented out, or a sentence
        is_missed = _is_missed(job, options)
        is_doubtful = re.match(r"\s*#\s", match[0]) is not None or match["word"] == "sbatch"
        if is_doubtful and not is_missed:
            continue  # switched off with a blank
        place = TextSpan(number, 1, number, match.end() + 1)
        edits = (Edit(place, "#SBATCH"),) if _is_slip(job, number, match) else ()
        yield Hit(
            place,
            f"{match[0].strip()!r} is a comment for sbatch",
            edits=edits,
            unknown="whether the line is switched off on purpose" if is_doubtful else "",
            severity=Severity.STYLE if is_doubtful else Severity.BREAKS if is_missed else Severity.FRAGILE,
        )


def _looks_like_sbatch(word: str) -> bool:
    """Tell whether a word is SBATCH, in another case or with a slip of the hand."""
    upper = word.upper()
    return upper in {"SBATCH", "BATCH"} or (upper[0] == "S" and SequenceMatcher(None, upper, "SBATCH").ratio() > 0.72)


def _is_slip(job: BatchScript, number: int, match: re.Match[str]) -> bool:
    """Tell whether a line is a directive but for its first word: in the header, of options alone, not switched off."""
    if re.match(r"\s*#(\s|sbatch)", match[0]) or (job.shell.first_command_line or number + 1) <= number:
        return False
    meant = list(directives_of("#SBATCH" + match.string[match.end() :], number))
    names = {each.name for each in meant}
    given = names.union(*(rivals for rivals in _RIVALS if rivals & names)) & job.header.keys()
    return all(is_flag(name) for name in names) and not given


def _is_missed(job: BatchScript, options: Sequence[HeaderOption]) -> bool:
    """Tell whether the job lacks what these options ask for: its size, its place. A default account or QOS may do."""
    names = {each.name for each in options if (each.name, each.value) not in {("nodes", "1"), ("ntasks", "1")}}
    if names & _GPUS and _GPUS & job.header.keys():
        return False
    return bool(names & _MISSED) and not names & job.header.keys()


@rule(
    "directive-expands",
    Severity.BREAKS,
    "a variable or a pattern that sbatch does not expand",
    why="sbatch expands nothing in directives: $HOME stays five characters (Slurm before 23.02 fails a job whose log is to lie there, later ones make the folder). %j and its like are for names of files alone.",
    instead="Write the value, or use Slurm's own patterns (%x name, %j job, %u user), or give the option to sbatch on the command line.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --mem=$MEMORY\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "#SBATCH --mem=16G\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_expansions(job: BatchScript) -> Iterator[Hit]:
    """Yield directives with a $ or a backquote that a shell would expand, and a job's name with a pattern."""
    for each in job.directives:
        if each.value is not None and re.search(r"\$[A-Za-z_{(]|`|^~", each.value):
            in_name = each.name in {"output", "error"} and not re.search(r"[$`~].*/", each.value)  # the file is made
            is_text = each.name in {"job-name", "mail-user", "comment", "export"}
            severity = Severity.FRAGILE if in_name or is_text else None
            unknown = "" if in_name else _EXPANDED.get(each.name, "")
            yield Hit(each.place, f"sbatch takes {each.value!r} as it is written", severity=severity, unknown=unknown)
        elif each.name == "job-name" and re.search("%[AajJ]", each.value or ""):
            instead = "Take it out: squeue shows the number beside the name."
            yield Hit(each.place, f"the job is called {each.value!r}, as written", instead, severity=Severity.STYLE)


_EXPANDED = {
    "chdir": "what the job does in /tmp, where Slurm runs it then",
    **dict.fromkeys(("output", "error"), "whether this Slurm, since 23.02, may make a folder of that name"),
    **dict.fromkeys(("account", "qos", "wckey", "reservation"), "whether Slurm enforces it, and what sbatch is given"),
}


@rule(
    "directive-unknown",
    Severity.BREAKS,
    "an option that sbatch does not have",
    why="sbatch stops at an option it does not know, and the job is not queued.",
    instead="Write the name that sbatch has.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --cpu-per-task=8\nsrun --cpus-per-task=8 --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "#SBATCH --cpus-per-task=8\nsrun --cpus-per-task=8 --kill-on-bad-exit=1 hostname\n",
)
def find_unknown_options(job: BatchScript) -> Iterator[Hit]:
    """Yield options that no plugin of a site can bring, and those that one may."""
    for each in job.directives:
        if each.written.startswith("--workdir"):
            instead = "Write --chdir, its name since Slurm 17.11; -D is right for all."
            yield Hit(each.place, "sbatch has no --workdir since Slurm 19.05", instead)
        if each.written.startswith("--") and each.name not in SBATCH_FLAGS | _PLUGIN_OPTIONS:
            near_name = nearest_name(each.name, sorted(SBATCH_FLAGS))
            is_slip = near_name is not None and SequenceMatcher(None, each.name, near_name).ratio() >= 0.85
            near_name = _ELSEWHERE.get(each.name) or (near_name if is_slip else None)
            is_certain = is_slip or not re.fullmatch(r"[a-zA-Z0-9][\w.-]*", each.name)
            message = f"sbatch has no --{each.name}" + (f": did you mean {near_name!r}?" if near_name else "")
            advice = (
                None if near_name else "`sbatch --help` on the cluster lists it where a plugin of the site brings it."
            )
            yield Hit(each.place, message, advice, unknown="" if is_certain else "what plugins the site has")


_ELSEWHERE = {
    "email": "mail-user", "mail": "mail-user", "walltime": "time", "queue": "partition", "name": "job-name",
    "project": "account", "gpu": "gpus", "ngpus": "gpus", "memory": "mem", "cores": "cpus-per-task",
    "cpus": "cpus-per-task", "ppn": "ntasks-per-node", "tasks": "ntasks", "out": "output", "err": "error",
    "logs": "output",
}  # fmt: skip
"""What other schedulers, and people, call an option of sbatch."""


@rule(
    "directive-without-option",
    Severity.BREAKS,
    "a directive without an option",
    why="sbatch reads options only. A bare word ends the reading of that line or is refused.",
    instead="Begin the option with -- and give its value with =.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH gres=gpu:4\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD + "#SBATCH --gres=gpu:4\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_bare_words(job: BatchScript) -> Iterator[Hit]:
    """Yield words of a directive that are not options."""
    lines: set[int] = set()
    for each in job.directives:
        is_option = each.written.startswith("-") or each.written == "\\"  # sbatch takes a last backslash for nothing
        # a word of one that a person fills in
        is_blank = re.search(r"<[A-Za-z][^>]*>|\{[A-Za-z][^}]*\}|\[[A-Za-z][^]]*\]", each.line)
        if not is_option and not is_blank and each.place.line not in lines:
            lines.add(each.place.line)
            yield Hit(each.place, f"{each.written!r} is not an option")


@rule(
    "no-interpreter",
    Severity.BREAKS,
    "the first line does not name an interpreter",
    why="sbatch refuses a script whose first line does not begin with #!.",
    instead="Begin the file with #!/bin/bash.",
    source=sources.SBATCH,
    bad="#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 hostname\n",
    good="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_missing_interpreter(job: BatchScript) -> Iterator[Hit]:
    """Yield the first line where it is not #!."""
    first = job.lines[0] if job.lines else ""
    if job.has_mark and first.startswith("#!"):
        place = TextSpan(1, 1, 1, 2)
        yield Hit(
            place, "a byte order mark stands before #!, so sbatch refuses the script", "Save the file without it."
        )
    is_head = re.search(r"(^#!.*|\A\W{1,3}#!/.*)\n+#SBATCH", "\n".join(job.lines[:20]), re.MULTILINE) is not None
    if (job.directives or (job.late_directives and is_head)) and not first.startswith("#!"):
        is_late = any(line.lstrip("\ufeff").startswith("#!") for line in job.lines)
        if is_late and re.search(r"^[a-z]\w* ", "\n".join(job.lines).partition("\n#!")[0], re.MULTILINE):
            return  # notes, into which a script is copied
        edits = () if is_late else (Edit(TextSpan(1, 1, 1, 1), "#!/bin/bash\n"),)
        yield Hit(_whole_line(1, first), "sbatch refuses a script that does not begin with #!", edits=edits)


@rule(
    "dos-line-ends",
    Severity.BREAKS,
    "Windows line ends",
    why="sbatch refuses a script with DOS line breaks.",
    instead="Convert the file: dos2unix FILE, or --fix.",
    source=sources.SBATCH_CODE,
    bad=(_HEAD + "srun --kill-on-bad-exit=1 hostname\n").replace("\n", "\r\n"),
    good=_HEAD + "srun --kill-on-bad-exit=1 hostname\n",
)
def find_dos_line_ends(job: BatchScript) -> Iterator[Hit]:
    """Yield the first line that ends in a carriage return; the fix removes all."""
    places = [(number, len(line)) for number, line in enumerate(job.text.split("\n"), start=1) if line.endswith("\r")]
    if places:
        edits = tuple(Edit(TextSpan(number, length, number, length + 1), "") for number, length in places)
        number, length = places[0]
        message = f"{len(places)} lines end in a carriage return"
        yield Hit(TextSpan(number, max(1, length), number, length + 1), message, edits=edits)


@rule(
    "gpus-per-task",
    Severity.BREAKS,
    "--gpus-per-task with several ranks on a node",
    why="""Slurm then shows each task its own GPU alone. `cuda:LOCAL_RANK` does not exist for the second rank, and NCCL cannot
    reach the other GPUs of the node directly.""",
    instead="Give --gpus-per-node (or --gres=gpu:N) and --ntasks-per-node; each rank chooses its GPU by its local rank.",
    source=sources.SRUN,
    bad="#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 python train.py\n",
    good="#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_gpus_per_task(job: BatchScript) -> Iterator[Hit]:
    """Yield --gpus-per-task in the header or on srun, where a node has several tasks."""
    if _says(job, "gpu-bind", "none") or _says(job, "gres-flags", "allow-task-sharing"):
        return  # every task sees all GPUs
    if not job.steps or not starts_python(job.steps) or job.has_one_task:
        return
    if job.tasks_per_node is None and not {"ntasks", "ntasks-per-node"} & job.header.keys():
        return
    apart = [each.stage("agent") or _runs_one_task(each) for each in job.steps]
    if all(apart):
        return  # an agent, or the one task of a step, has all that its task is given
    hits: list[tuple[TextSpan, str]] = []
    directive = job.header.get("gpus-per-task")
    if directive is not None and directive.value is not None:
        hits.append((directive.place, directive.value))
    for launch in job.steps:
        stage = launch.stage("step")
        option = stage.option("--gpus-per-task") if stage else None
        if option is not None:
            hits.append((option.place, option.value.partition("=")[2] or option.value))
    for place, value in hits:
        if job.tasks_per_node != 1 and value != "0" and "ntasks-per-gpu" not in job.header:
            message = f"each task sees {value} GPU{'' if value == '1' else 's'} alone"
            yield Hit(place, message, unknown="how the program chooses its device")


def _runs_one_task(launch: LaunchCommand) -> bool:
    step = launch.stage("step")
    return step is not None and step.text("-n", "--ntasks") == "1"


def _says(job: BatchScript, option: str, text: str) -> bool:
    """Tell whether the header or a step gives this option a value with this text."""
    values = [each.text(f"--{option}") for launch in job.steps if (each := launch.stage("step")) is not None]
    values.append(job.header[option].value if option in job.header else None)
    return any(text in (value or "") for value in values)


@rule(
    "no-time-limit",
    Severity.STYLE,
    "no time limit",
    why="The partition's default holds: minutes at some sites, the longest time at others, and no backfill for the job.",
    instead="Give --time.",
    source=sources.SBATCH,
    bad="#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --nodes=1\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 hostname\n",
)
def find_missing_time(job: BatchScript) -> Iterator[Hit]:
    """Yield the first directive of a header without --time."""
    if not job.directives or {"time", "time-min", "reservation"} & job.header.keys():
        return
    yield Hit(job.directives[0].place, "the header has no --time")


@rule(
    "no-directives",
    Severity.FRAGILE,
    "a batch script without a directive",
    why="The job gets the site's defaults for all that it did not ask for: one CPU, little memory, a short time, no GPU.",
    instead="Write #SBATCH lines below the first line, or give the options to sbatch.",
    source=sources.SBATCH,
    bad="#!/bin/bash\nsrun --kill-on-bad-exit=1 python train.py\n",
    good="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=10\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_missing_directives(job: BatchScript) -> Iterator[Hit]:
    """Yield the first line of a file that by its name is for sbatch, or that starts steps, and asks for nothing."""
    first = job.lines[0] if job.lines else ""
    is_named = job.path.endswith((".sbatch", ".slurm", ".sub", ".job", "example"))
    reads_words = re.search(r"\$\{?[1@*]|sbatch|salloc|SBATCH|\bqsub\b", job.text)
    if is_named and first.startswith("#!") and not job.directives and not job.late_directives and not reads_words:
        unknown = "what sbatch is given"
        yield Hit(_whole_line(1, first), "there is no #SBATCH line, so the job asks for nothing", unknown=unknown)


@rule(
    "memory-twice",
    Severity.BREAKS,
    "memory asked for in two ways",
    why="--mem, --mem-per-cpu and --mem-per-gpu exclude each other; sbatch refuses or the last one counts.",
    instead="Give one of them.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --mem=64G\n#SBATCH --mem-per-cpu=4G\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "#SBATCH --mem=64G\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_memory_twice(job: BatchScript) -> Iterator[Hit]:
    """Yield the second of two ways to ask for memory."""
    asked = [each for name, each in job.header.items() if name in {"mem", "mem-per-cpu", "mem-per-gpu"}]
    for each in asked[1:]:
        yield Hit(each.place, f"--{each.name} and --{asked[0].name} exclude each other")


@rule(
    "directive-twice",
    Severity.FRAGILE,
    "the same option twice",
    why="The last one counts, and the first one misleads the reader.",
    instead="Remove one of them.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --gres=gpu:4\n#SBATCH --gres=gpu:2\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD + "#SBATCH --gres=gpu:4\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_repeated_options(job: BatchScript) -> Iterator[Hit]:
    """Yield options that a later line overrides with another value."""
    for each in job.directives[: job.first_header]:
        if each.name not in DECIDES and each.name not in {"output", "error", "chdir"}:
            continue
        last = job.header[each.name]
        if last.value != each.value and last.place.line != each.place.line:
            yield Hit(each.place, f"line {last.place.line} overrides it: --{each.name}={last.value}")


@rule(
    "export-drops-environment",
    Severity.BREAKS,
    "--export without ALL",
    why="--export=NAME passes that variable alone: PATH, modules and the environment are not there.",
    instead="Write --export=ALL,NAME=VALUE.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --export=DATA=/scratch/data\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD + "#SBATCH --export=ALL,DATA=/scratch/data\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_narrow_exports(job: BatchScript) -> Iterator[Hit]:
    """Yield --export with names but without ALL, in the header and on srun."""
    directive = job.header.get("export")
    if directive is not None and directive.value and _is_narrow(directive.value):
        yield Hit(
            directive.place,
            f"--export={directive.value} passes nothing else",
            unknown="what the login shell of the job's user sets, which sbatch then reads",
            severity=Severity.STYLE,
        )
    for launch in job.steps:
        stage = launch.stage("step")
        value = stage.text("--export") if stage else None
        if stage is not None and value and _is_narrow(value):
            yield Hit(stage.place_of("--export"), f"--export={value} passes nothing else to the tasks")


def _is_narrow(value: str) -> bool:
    names = value.upper().split(",")
    return "ALL" not in names and "NONE" not in names and "NIL" not in names


@rule(
    "export-none-reaches-srun",
    Severity.BREAKS,
    "--export=NONE in the header, and srun without --export=ALL",
    why="sbatch sets SLURM_EXPORT_ENV=NONE for the job, and srun obeys it: what the script exports does not reach the ranks.",
    instead="Write srun --export=ALL, or unset SLURM_EXPORT_ENV before srun.",
    source=sources.SBATCH,
    bad=_HEAD + "#SBATCH --export=NONE\nexport OMP_NUM_THREADS=8\nsrun --kill-on-bad-exit=1 python3 train.py\n",
    good=_HEAD
    + "#SBATCH --export=NONE\nexport OMP_NUM_THREADS=8\nsrun --export=ALL --kill-on-bad-exit=1 python3 train.py\n",
)
def find_export_none(job: BatchScript) -> Iterator[Hit]:
    """Yield steps that inherit --export=NONE."""
    directive = job.header.get("export")
    if directive is None or directive.value not in {"NONE", "NIL"}:
        return
    reads = any(each.program in {"source", "."} for each in job.shell.commands)
    unknown = "whether a file that the script reads unsets SLURM_EXPORT_ENV" if reads else ""
    undone = "SLURM_EXPORT_ENV" in job.text or "slurm_setup" in job.text  # LRZ's module unsets it
    for launch in job.steps:
        stage = launch.stage("step")
        if stage is not None and not undone and not stage.has("--export"):
            yield Hit(stage.word.place, "srun passes none of the script's variables on", unknown=unknown)
