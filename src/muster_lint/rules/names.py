"""Rules on the script's own variables: read and never set, set behind their use, set and never read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from muster_lint import sources
from muster_lint.bash import Assignment, SimpleCommand, Word
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import STARTS_RANKS, is_work, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n#SBATCH --time=01:00:00\n"


@rule(
    "variable-never-set",
    Severity.FRAGILE,
    "a variable that nothing sets",
    why="The shell puts nothing in its place: an option loses its value, or takes the next word for it.",
    instead="Set it above, or take the option out.",
    source=sources.BASH,
    bad=_HEAD + "set -e\nstep_size=10\npython train.py --step $stepsize\n",
    good=_HEAD + "set -e\nstep_size=10\npython train.py --step $step_size\n",
)
def find_never_set(job: BatchScript) -> Iterator[Hit]:
    """Yield a variable whose name is nearly that of another one which nothing reads, and one that is set below."""
    is_given = re.search(r"--export[= ](?!NONE|ALL\b(?!,))", job.text)
    if not job.directives or job.shell.error or is_given:
        return
    settings = _settings_of(job)
    for hit in [*_misspelt(job), *_set_behind(job)]:
        if not settings or hit.place.line <= settings[0].place.line:  # what is read there may set it from there on
            yield hit


def _misspelt(job: BatchScript) -> Iterator[Hit]:
    """Yield each variable, in a word or in a test, where another one is called nearly so."""
    known = {each.name for each in job.assignments} | job.declared
    for name, word, _ in _readings(job):
        meant = "" if name in known or _has_default(word, name) else _meant(job, name)
        if meant:
            known.add(name)
            message = f"nothing sets {name}: it is empty{meant}"
            yield Hit(word.place_of(name), message, unknown="what the submitting shell exports")
    yield from _unset_in_tests(job, known)


def reads_settings(job: BatchScript) -> bool:
    """Tell whether the script reads a file, or evaluates a text, that may set or read its variables."""
    return bool(_settings_of(job))


def _settings_of(job: BatchScript) -> list[SimpleCommand]:
    return [
        each
        for each in job.shell.commands
        if (each.program in {"source", "."} and not re.search(_QUIET_SOURCES, text_of(each)))
        or (each.program == "eval" and not re.search(_QUIET_TEXTS, text_of(each)))
    ]


def _unset_in_tests(job: BatchScript, known: set[str]) -> Iterator[Hit]:
    """Yield the first variable of a test that nothing sets, where one that nothing reads is called nearly so."""
    for number, line in enumerate(job.lines, start=1):
        tested = re.search(r"^[^#]*?(?:\[\[?\s|\btest\s)(.*)", line)
        for match in re.finditer(r"\$\{?([A-Za-z_]\w+)\}?", tested[1] if tested else ""):
            meant = "" if match[1] in known else _meant(job, match[1])
            if meant and tested:
                start = tested.start(1) + match.start() + 1
                place = TextSpan(number, start, number, start + len(match[0]))
                yield Hit(place, f"nothing sets {match[1]}: it is empty{meant}")
                return


def _set_behind(job: BatchScript) -> Iterator[Hit]:
    """Yield the first variable that is read above the place where the script sets it."""
    for name, word, reader in _readings(job):
        own = [each for each in job.shell.assigned(name) if not each.of_command]
        if not own or min(each.place for each in own) <= word.place:
            continue
        place = word.place_of(name)
        is_bare = isinstance(reader, Assignment) and reader.may_not_run
        apart = is_bare or (
            isinstance(reader, SimpleCommand)
            and (reader.function or reader.in_loop or reader.is_tested or reader.program in {"echo", "printf"})
        )
        given = rf"\b(local|read|declare|typeset|printf -v|select|let|for)\b[^\n;]*\b{name}\b|\(\([^\n]*\b{name}\b"
        if not own or apart or re.search(given, job.body) or _has_default(word, name) or re.search(_OF_SHELL, name):
            continue
        behind = min(each.place for each in own)
        is_own = any(each.place.line <= place.line <= each.place.end_line for each in own)
        in_function = any(body <= place <= _end_of(body) for body, _ in job.shell.bodies)
        if place < behind and not (is_own or in_function or _MAY_BE_THERE.fullmatch(name)):
            message = f"{name} is empty here: the script sets it in line {behind.line}"
            yield Hit(place, message, unknown="what the submitting shell exports")
            return


def _readings(job: BatchScript) -> Iterator[tuple[str, Word, SimpleCommand | Assignment]]:
    """Yield each place where the shell expands a variable with a name, in the order of the text."""
    found: list[tuple[TextSpan, str, Word, SimpleCommand | Assignment]] = []
    for command in job.shell.commands:
        found += [
            (word.place, name, word, command) for word in command.words if word.quoted != "'" for name in word.names
        ]
    for held in job.shell.assignments:
        words = [word for word in (held.value, *(held.elements or ())) if word is not None and word.quoted != "'"]
        found += [(word.place, name, word, held) for word in words for name in word.names]
    for _, name, word, reader in sorted(found, key=lambda entry: entry[0]):
        if re.fullmatch(r"[A-Za-z_]\w+", name) and re.search(rf"\$(?:{name}\b|\{{{name}\b)", word.text):
            yield name, word, reader


def _has_default(word: Word, name: str) -> bool:
    return re.search(rf"\$\{{{name}\[?[^}}]*?(:?[-=?+])", word.text) is not None


def _end_of(place: TextSpan) -> TextSpan:
    return TextSpan(place.end_line, place.end_column, place.end_line, place.end_column)


def _meant(job: BatchScript, name: str) -> str:
    """Return the question for a name that ends where another was meant to, or that differs from one which nothing reads."""
    beginning = re.sub(r"_\d*$", "", name)
    if beginning != name and job.shell.assigned(beginning) and re.search(rf"\${name}\b", job.body):
        return f": did you mean ${{{beginning}}}{name[len(beginning) :]}?"
    for near in job.shell.own_names:
        if _is_near(near, name) and not _is_mentioned(job, near):
            return f": did you mean {near}, which nothing reads?"
    return ""


def _is_near(one: str, other: str) -> bool:
    """Tell whether two names differ in capitals alone, by one letter, or one is the beginning of the other."""
    if min(len(one), len(other)) < 4 or one == other:
        return False
    if one.lower() == other.lower() or (one.startswith(other) and len(one) < len(other) + 6):
        return True
    short, long = sorted((one, other), key=len)
    first = next((index for index, (a, b) in enumerate(zip(short, long)) if a != b), len(short))
    is_swapped = short[first : first + 2] == long[first : first + 2][::-1] and short[first + 2 :] == long[first + 2 :]
    return short[first:] == long[first + 1 :] or short[first + 1 :] == long[first + 1 :] or is_swapped


def _is_mentioned(job: BatchScript, name: str) -> bool:
    """Tell whether the script, a text in it or a program's own line names a variable anywhere but where it is set."""
    return name in _mentioned(job.body)


@lru_cache(maxsize=2)
def _mentioned(body: str) -> frozenset[str]:
    """Return all names of a text but where they are set."""
    return frozenset(re.findall(r"(?<![\w.-])(\w+)(?![\w=+-]|\[[^]]*\]\+?=)", body))


_MAY_BE_THERE = re.compile(
    r"(LD_LIBRARY_|PYTHON|MAN|C|LIBRARY_|PKG_CONFIG_)?PATH|\w*HOME|\w*DIR|TE?MP|USER|(CONDA|CUDA|SLURM|SCRATCH|WORK|PROJECT)\w*"
)
_OF_SHELL = (
    r"^(BASH\w*|DIRSTACK|EPOCH\w*|E?UID|FUNCNAME|GROUPS|HOSTTYPE|IFS|LANG|LC_\w+|LINENO|MACHTYPE|OPT(ARG|IND|ERR)|OSTYPE"
    r"|PIPESTATUS|PPID|PS[1-4]|REPLY|SECONDS|SHELL\w*|SHLVL|TZ|DISPLAY|EDITOR|PBS_\w+|LSB_\w+|SGE_\w+|NSLOTS"
    r"|MASTER_\w+|RANK|WORLD_SIZE|LOCAL_RANK|NODE_RANK|NNODES|NUM_NODES|NPROC_PER_NODE|GPUS_PER_NODE|OMP_\w+|VSC_\w+|ARCH|PE_\w+|CRAY\w*|MKL\w*|I_MPI\w*|TACC\w*"
    r"|https?_proxy|no_proxy|nodename|HOSTLIST|CC|CXX|FC|F77|F90|MPI\w*|\w+(_DIR|_HOME|_KEY|_TOKEN|_VERSION|_ARCH|_FLAGS))$"
)
_QUIET_SOURCES = r"activate|bashrc|bash_profile|profile\.d|conda|mamba|modules|lmod|venv|/etc/profile"
"""The files that set up an environment, and hardly the arguments of a program."""
_QUIET_TEXTS = r"conda|mamba|ssh-agent|spack|pyenv|direnv|lmod|modulecmd|brew shellenv"
"""The texts to evaluate that set up an environment."""


@rule(
    "variable-never-read",
    Severity.FRAGILE,
    "a setting that nothing reads",
    why="The variable is set, and neither the script nor a program gets it: whoever changes it changes nothing.",
    instead="Use it where it is meant, or remove it.",
    source=sources.BASH,
    bad=_HEAD + "set -e\nepochs=10\npython train.py --epochs 90\n",
    good=_HEAD + 'set -e\nepochs=10\npython train.py --epochs "$epochs"\n',
)
def find_never_read(job: BatchScript) -> Iterator[Hit]:
    """Yield the first command in a variable that nothing runs, and the first value beside an option of the same name."""
    if not job.directives or reads_settings(job) or job.shell.error or job.sets("a", "allexport"):
        return
    if re.search(r"\$\{!|printenv|\benv\b(?!\w)|compgen", job.body):
        return
    words = [word for each in job.launches if is_work(job, each) for word in each.command.words]
    told: set[str] = set()
    for each in sorted(job.shell.assignments, key=lambda entry: -len(entry.value.value) if entry.value else 0):
        if each.exported or each.of_command or each.value is None or _is_mentioned(job, each.name):
            continue
        value = each.value.value
        is_command = re.match(r"\s*(srun|mpirun|mpiexec)\s+\S", value) or STARTS_RANKS.match(value.split(" ")[0] or "-")
        if is_command and len(value.split()) > 2 and "command" not in told and not each.value.substitutions:
            told.add("command")
            yield Hit(each.place, f"nothing runs the command in {each.name}")
        option = _option_of(words, each.name) if each.value.is_literal and value else None
        if option is not None and option[1] != value and "option" not in told:
            told.add("option")
            message = f"nothing reads {each.name}={value}: {option[0].value.partition('=')[0]} in line"
            yield Hit(each.place, f"{message} {option[0].place.line} is {option[1]}")
    yield from _unread_settings(job)


def _unread_settings(job: BatchScript) -> Iterator[Hit]:
    """Yield the arrays that no loop reads, all in one; or, as a matter of style, the first settings of one value."""
    unread: dict[str, Assignment] = {}
    for each in job.shell.assignments:
        is_own = not (each.exported or each.of_command or each.appends or each.name in unread)
        if is_own and (each.elements or each.value is not None) and not _is_mentioned(job, each.name):
            unread[each.name] = each
    arrays = [each for each in unread.values() if each.elements and all(word.is_literal for word in each.elements)]
    sweeps = [each for each in arrays if len(each.elements or ()) > 1 and not each.may_not_run]
    if sweeps:
        names = ", ".join(each.name for each in arrays)
        is_told = any(re.search(rf"\b{sweeps[0].name}\b", text) for _, text in job.shell.comments)
        is_told = is_told or " #" in job.lines[sweeps[0].place.end_line - 1]  # switched off, or a list for the reader
        severity = Severity.STYLE if is_told else None
        yield Hit(sweeps[0].place, f"nothing reads {names}: no run takes these values", severity=severity)
        return
    single = [
        each for each in unread.values() if each.value is not None and each.value.is_literal and not each.may_not_run
    ]
    single = [each for each in single if each.elements is None and _OF_SETTING.search(each.name)]
    if len(single) > 1 and any(is_work(job, each) and each.stage("python") for each in job.launches):
        names = ", ".join(each.name for each in single)
        yield Hit(single[0].place, f"nothing reads {names}", severity=Severity.STYLE)


_OF_SETTING = re.compile(
    r"(^|_)(lr|epochs?|batch|dataset|data|model|mode|seed|max|min|steps?|config|output|path|dir|ckpt|checkpoint|log|size|file)(_|$)",
    re.IGNORECASE,
)
"""The words by which settings of a program are called."""


def _option_of(words: list[Word], name: str) -> tuple[Word, str] | None:
    """Return the option that a variable is called like, with its literal value."""
    for word, following in zip(words, [*words[1:], None]):
        option, _, value = word.value.partition("=")
        if re.match(r"--[a-z]", option) and option[2:].replace("-", "_").lower() == name.lower() and word.is_literal:
            value = value or (following.value if following is not None and following.is_literal else "")
            return (word, value) if value and not value.startswith("-") else None
    return None
