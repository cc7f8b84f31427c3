"""A batch script as a job: its header, its sizes, and what it starts. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache, cached_property

import msgspec

from muster.errors import RequestError
from muster.words.slurm import SBATCH_FLAGS
from muster_lint.bash import Assignment, ShellText, SimpleCommand, read_shell
from muster_lint.launch import LaunchCommand, launches_of
from muster_lint.values import TextSpan

_LETTERS = {
    "A": "account", "a": "array", "b": "begin", "c": "cpus-per-task", "C": "constraint", "d": "dependency",
    "D": "chdir", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input", "J": "job-name",
    "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "n": "ntasks", "N": "nodes", "o": "output",
    "O": "overcommit", "p": "partition", "q": "qos", "Q": "quiet", "s": "oversubscribe", "S": "core-spec", "t": "time",
    "v": "verbose", "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_SWITCHES = frozenset("HkOQsvW")
_SAME = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir"}
_FLAGS_ALONE = frozenset(
    """
    contiguous exclusive hold ignore-pbs no-kill no-requeue overcommit oversubscribe parsable quiet reboot requeue
    spread-job stepmgr test-only use-min-nodes verbose wait kill-on-invalid-dep get-user-env
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)


_SPREADS = {"ntasks", "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task"}
"""The options beside which --gpus may mean the GPUs of several nodes."""


_NEXT_HEADER = {"hetjob", "packjob"}
"""The words of an #SBATCH line behind which the header of another component begins."""


class HeaderOption(msgspec.Struct, frozen=True):
    """One option of an #SBATCH line."""

    name: str
    """Its long name."""

    written: str
    value: str | None
    place: TextSpan
    line: str


class Task(msgspec.Struct, frozen=True, dict=True):
    """Shell text that every task of a step runs: the body of `srun bash -c`."""

    launch: LaunchCommand
    shell: ShellText

    @cached_property
    def launches(self) -> tuple[LaunchCommand, ...]:
        """Return every command that its shell runs."""
        return launches_of(self.shell)


class BatchScript(msgspec.Struct, frozen=True, dict=True):
    """One batch script."""

    path: str
    text: str
    shell: ShellText
    directives: tuple[HeaderOption, ...]
    late_directives: tuple[HeaderOption, ...]
    """Those after the first command, which Slurm does not read."""

    first_header: int | None = None
    """How many directives a heterogeneous job has for its first component: those before `#SBATCH hetjob`."""

    has_mark: bool = False
    """The file begins with a byte order mark, which `text` lacks."""

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def body(self) -> str:
        """Return the text without the lines that begin as comments, the directives among them."""
        return "\n".join(line for line in self.lines if not line.lstrip().startswith("#"))

    @cached_property
    def header(self) -> dict[str, HeaderOption]:
        """Return the options by long name; the last of a name counts. A heterogeneous job: of its first component."""
        return {directive.name: directive for directive in self.directives[: self.first_header]}

    @cached_property
    def launches(self) -> tuple[LaunchCommand, ...]:
        """Return every command that the batch host runs."""
        return launches_of(self.shell)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Return the shell texts that the tasks of a step run."""
        return tuple(
            Task(launch, launch.inner) for launch in self.launches if launch.inner is not None and launch.stage("step")
        )

    @cached_property
    def steps(self) -> tuple[LaunchCommand, ...]:
        """Return the commands that srun starts, those with another purpose than ranks included."""
        return tuple(
            launch for launch in self.launches if launch.stage("step") and launch.stages[0].kind in {"step", "wrapper"}
        )

    @cached_property
    def all_launches(self) -> tuple[LaunchCommand, ...]:
        """Return the commands of the batch host, then those inside the tasks."""
        return (*self.launches, *(launch for task in self.tasks for launch in task.launches))

    def task_of(self, launch: LaunchCommand) -> Task | None:
        """Return the task whose shell runs a command; None for a command of the batch host."""
        return next((task for task in self.tasks if any(each is launch for each in task.launches)), None)

    @cached_property
    def assignments(self) -> tuple[Assignment, ...]:
        """Return every assignment, in the script and in its tasks."""
        return (*self.shell.assignments, *(assignment for task in self.tasks for assignment in task.shell.assignments))

    @cached_property
    def commands(self) -> tuple[SimpleCommand, ...]:
        """Return every command, in the script and in its tasks."""
        return (*self.shell.commands, *(command for task in self.tasks for command in task.shell.commands))

    def runs_at(self, place: TextSpan) -> bool | None:
        """Tell whether what stands at a place runs, in the script or its tasks; None where that is not known."""
        if self.shell.error is not None:
            is_of_sbatch = place.line == 1 or "".join(self.lines[place.line - 1 : place.line]).startswith("#SBATCH")
            return True if place < self.shell.error or is_of_sbatch else None
        found = [each.runs_at(place) for each in (self.shell, *(task.shell for task in self.tasks))]
        return False if False in found else None if None in found else True

    @cached_property
    def functions(self) -> dict[str, tuple[SimpleCommand, ...]]:
        """Return the commands of each function that the script itself defines."""
        bodies: dict[str, list[SimpleCommand]] = {name: [] for _, name in self.shell.bodies}
        for each in self.shell.commands:
            if each.function is not None:
                bodies.setdefault(each.function, []).append(each)
        return {name: tuple(body) for name, body in bodies.items()}

    @cached_property
    def declared(self) -> set[str]:
        """Return the names that the text gives a value by other ways than NAME=: local, read, let, ((…))."""
        lines = re.findall(r"\b(?:local|read|declare|typeset|printf -v|select)\b([^\n;]*)", self.text)
        names = re.findall(r"\b(\w+)(?:\[[^]]*\])?\s*[-+*/]?=(?!=)", self.body)  # let, ((…)), a[0]=
        return {*re.findall(r"\w+", " ".join(lines)), *names}

    @property
    def is_slurm(self) -> bool:
        """Tell whether this is a job for Slurm at all."""
        return bool(self.directives or self.late_directives) or any(launch.stage("step") for launch in self.launches)

    @cached_property
    def nodes(self) -> int | None:
        """Return the number of nodes, lowered to that of --ntasks; None where the header does not fix it."""
        nodes, tasks, per_node = (self._number(name) for name in ("nodes", "ntasks", "ntasks-per-node"))
        if "nodes" not in self.header and tasks and per_node and tasks % per_node == 0:
            return tasks // per_node  # at most so many tasks fit on a node
        return min(nodes, tasks) if nodes and tasks else nodes

    @cached_property
    def tasks_per_node(self) -> int | None:
        """Return the tasks of each node; None where the header does not fix it."""
        per_node = self._number("ntasks-per-node")
        if per_node is not None:
            return per_node
        total = self._number("ntasks")
        if total is not None and self.nodes and total % self.nodes == 0:
            return total // self.nodes
        return None

    @cached_property
    def gpus_per_node(self) -> int | None:
        """Return the GPUs of each node; None where the header does not fix it."""
        if self.first_header is not None:
            return None
        for name in ("gpus-per-node", "gres"):
            value = self.header[name].value if name in self.header else None
            if value is not None and (name != "gres" or "gpu" in value):
                items = [item for item in value.split(",") if name != "gres" or "gpu" in item]
                numbers = [re.search(r"(?:^|:)(\d+)(?:\(|$)", item) for item in items]
                return sum(int(each[1]) if each else 1 for each in numbers) if name == "gres" or all(numbers) else None
        total = re.fullmatch(
            r"(?:[A-Za-z]\w*:)?(\d+)", (self.header["gpus"].value or "") if "gpus" in self.header else ""
        )
        is_on_one = self.nodes == 1 or ("nodes" not in self.header and self.header.keys().isdisjoint(_SPREADS))
        return int(total[1]) if total and is_on_one else None

    @cached_property
    def has_one_task(self) -> bool:
        """Tell whether the header fixes the job to one task; without a number of nodes it has one."""
        if "ntasks" in self.header or self.first_header is not None:
            return self._number("ntasks") == 1
        grows = any(self.header[name].value != "1" for name in ("gpus", "gpus-per-task") if name in self.header)
        nodes = 1 if "nodes" not in self.header and not grows else self.nodes
        tasks = self._number("ntasks-per-node") if "ntasks-per-node" in self.header else 1
        return nodes == 1 and tasks == 1 and "ntasks-per-gpu" not in self.header

    @cached_property
    def asks_for_gpus(self) -> bool:
        """Tell whether the header asks for GPUs in one of the ways that Slurm has."""
        names = {"gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "ntasks-per-gpu", "cpus-per-gpu"}
        options = self.header.values() if self.first_header is None else self.directives
        gres = ",".join(each.value or "" for each in options if each.name == "gres")
        counts = [each.value for each in options if each.name in names]
        return any(count != "0" for count in counts) or bool(re.search(r"gpu(?!:(\w+:)?0)", gres))

    @property
    def has_one_gpu(self) -> bool:
        """Tell whether the header fixes the job to one GPU."""
        return self.gpus_per_node == 1 and (self.nodes or 1) == 1

    @cached_property
    def stops_at_errors(self) -> bool:
        """Tell whether bash ends the script at the first command that fails: set -e, a trap of ERR, #!/bin/bash -e."""
        first = self.lines[0] if self.lines else ""
        traps = [[word.value for word in each.words[1:]] for each in self.shell.commands if each.program == "trap"]
        for text in [words[0] for words in traps if "ERR" in words]:
            if "exit" in text or any(each.program == "exit" for each in self.functions.get(text, ())):
                return True
        return self.sets("errexit", "e") or re.match(r"#!.*\s-\w*e", first) is not None

    def sets(self, *options: str) -> bool:
        """Tell whether the script turns one of these options of bash on."""
        for each in self.shell.commands:
            for word in each.words[1:] if each.program in {"set", "shopt"} else ():
                letters = word.value[1:] if word.value.startswith("-") and not word.value.startswith("--") else ""
                if word.value in options or any(option in letters for option in options):
                    return True
        return False

    def _number(self, name: str) -> int | None:
        if self.first_header is not None:
            return None  # each component of a heterogeneous job has sizes of its own
        value = self.header[name].value if name in self.header else None
        return int(value) if value is not None and value.isascii() and value.isdigit() and len(value) < 10 else None


def too_deep(path: str) -> RequestError:
    """Return the error of a text that is nested too deeply."""
    return RequestError(f"{path} is nested too deeply to be read", hint="give a script that a person wrote")


def read_job(path: str, text: str) -> BatchScript:
    """Return the job that a text describes."""
    has_mark = text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    early: list[HeaderOption] = []
    late_directives: list[HeaderOption] = []
    in_header = True
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#SBATCH"):
            (early if in_header else late_directives).extend(directives_of(line, number))
        elif line.strip() and not line.lstrip().startswith("#"):
            in_header = False
    try:
        shell = read_shell(text)
    except (RecursionError, MemoryError):
        raise too_deep(path) from None
    written = {line for place, _ in shell.heredocs for line in range(place.line, place.end_line + 1)}
    written |= {line for place in shell.long_texts for line in range(place.line + 1, place.end_line + 1)}
    return BatchScript(
        path,
        text,
        shell,
        tuple(item for item in early if item.name not in _NEXT_HEADER),
        tuple(item for item in late_directives if item.place.line not in written),
        next((index for index, item in enumerate(early) if item.name in _NEXT_HEADER), None),
        has_mark,
    )


def directives_of(line: str, number: int) -> Iterator[HeaderOption]:
    """Yield the options of one #SBATCH line."""
    try:
        words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
    except ValueError:
        words = line.removeprefix("#SBATCH").split()
    index, end = 0, len("#SBATCH")
    while index < len(words):
        word = words[index]
        name, value, used_words = _option(word, words[index + 1 : index + 2])
        index += 1 + used_words
        head = word.partition("=")[0]
        column = max(0, line.find(head, end)) + 1
        end = column + len(head) - 1
        place = TextSpan(number, column, number, len(line) + 1 if index >= len(words) else column + len(word))
        yield HeaderOption(_SAME.get(name, name), word, value, place, line)


@cache
def _whole_name(name: str) -> str:
    """Return the option that getopt takes a name for, as the beginning of that one alone: --cpus-per-tas."""
    names = [option for option in SBATCH_FLAGS if option.startswith(name)]
    return names[0] if len(names) == 1 else name


def _option(word: str, next_words: list[str]) -> tuple[str, str | None, int]:
    """Return (long name, value, how many of the following words it took)."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        name = _whole_name(name)
        if equals:
            return name, value, 0
        if name in _FLAGS_ALONE or not next_words or next_words[0].startswith("-"):
            return name, None, 0
        return name, next_words[0], 1
    if word.startswith("-") and len(word) > 1:
        name = _LETTERS.get(word[1], word[1])
        if word[1] in _SWITCHES:
            return name, None, 0
        if len(word) > 2:
            return name, word[2:].removeprefix("="), 0
        return (name, next_words[0], 1) if next_words else (name, None, 0)
    return word, None, 0
