"""What starts the ranks → options of Muster: srun, mpirun, an agent, a container, and the command inside. Pure.

Every option of every program in the chain gets a row, so that none is lost in silence. The file is long because one
reader goes down the whole chain: each stage changes what the next one means.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from muster.errors import RequestError
from muster.plan.accelerate import TYPED, read_accelerate_config
from muster.slurm.flags import whole_step_flags
from muster_lint.bash import SimpleCommand, Word, read_shell
from muster_lint.launch import Stage, stages_of
from muster_lint.port.expand import (
    OF_ARRAY,
    TASKS,
    WIRED,
    ShellSource,
    Values,
    expanded,
    names_in,
    open_text,
    values_of,
)
from muster_lint.port.step_options import (
    AGENT_DROPPED,
    AGENT_VARIABLES,
    CONTAINER_DROPPED,
    MPI_DROPPED,
    MPI_SIZES,
    STEP_DROPPED,
    STEP_FIELDS,
    STEP_SIZES,
)
from muster_lint.port.values import Draft, Fate, PortRow, holds_secret

_OF_ONE_TASK = frozenset("RANK LOCAL_RANK NODE_RANK SLURM_PROCID SLURM_LOCALID SLURM_NODEID HOSTNAME".split())  # noqa: SIM905
AGENTS_OF_TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_OF_MPI = frozenset({"mpirun", "mpiexec", "orterun", "prterun", "ibrun", "mpiexec.hydra", "mpirun.mpich"})
_CONFIGURATIONS = frozenset({"--config_file", "--config-file"})
_GIVES_RANK = frozenset({"deepspeed", "torch.distributed.launch"})


class Chain(msgspec.Struct, frozen=True):
    """One command that starts programs, with its words as the shell makes them."""

    command: SimpleCommand
    stages: tuple[Stage, ...]
    values: Values
    words: tuple[Word, ...] = ()
    """All words of the command, as the shell makes them."""

    def stage(self, kind: str) -> Stage | None:
        """Return the first stage of a kind."""
        return next((stage for stage in self.stages if stage.kind == kind), None)

    @property
    def weight(self) -> int:
        """Tell how much it looks like the training: 0: not at all."""
        if self.command.in_substitution or self.command.program in _NEVER:
            return 0
        starter = any(stage.kind in {"step", "mpi", "agent"} for stage in self.stages)
        last = self.stages[-1] if self.stages else None
        runs = (
            last is not None
            and not self.is_chore
            and (
                (last.kind == "python" and not _only_prepares(last, self.words))
                or last.kind == "agent"
                or (last.kind != "python" and self._holds_python(last))
            )
        )
        return 4 * runs + (0 if self.is_chore else 2 * starter)

    @property
    def is_chore(self) -> bool:
        """Tell whether the program at the end prepares or looks, and does not train."""
        last = self.stages[-1] if self.stages else None
        return last is None or last.name in _CHORES or (last.kind == "python" and _only_prepares(last, self.words))

    @staticmethod
    def _holds_python(last: Stage) -> bool:
        text = (
            last.text("-c", "-lc", "-ec", "-xc", "-exc")
            if last.kind == "shell"
            else " ".join(word.value for word in (last.word, *last.words))
        )
        return re.search(r"(?<![\w-])(python[\d.]*|torchrun|accelerate|deepspeed|\S+\.py)\b", text or "") is not None


_NEVER = frozenset(
    """
    echo printf cat which module ml pip source . log msg cd pushd popd test [ trap unset find alias coproc sbatch qsub
    """.split()  # noqa: SIM905
)
_CHORES = frozenset(
    """
    hostname nvidia-smi rocm-smi date mkdir cp rm rsync tar unzip ls cat echo lscpu numactl env printenv nproc free df
    true sleep ln chmod touch pip which sbcast scp mv sed awk grep perl git dos2unix diff wget curl unzip gzip head tail
    wc sort md5sum sha256sum
    """.split()  # noqa: SIM905
)


def _only_prepares(stage: Stage, words: Sequence[Word]) -> bool:
    if stage.has("-m") or stage.name.endswith(".py"):
        module = " ".join([stage.text("-m") or "", *(word.value for word in stage.words[:1])])
        return re.match(r"(pip|venv)\b|wandb login$", module) is not None
    behind = next((words[index + 1 :] for index, word in enumerate(words) if word is stage.word), ())
    return any(word.value in {"-c", "-V", "--version"} for word in behind[:1])


def chain_of(command: SimpleCommand, values: Values) -> Chain:
    """Return a command with its programs."""
    words = expanded(command, values)
    wraps = values.wrappers.get(words[0].value) if len(words) > 1 else None
    if wraps or (len(words) > 1 and words[0].value == "eval"):
        words = _evaluated(words, values)
    elif wraps is not None:
        words = words[1:]
    return Chain(command, stages_of(words), values, words)


def _evaluated(words: tuple[Word, ...], values: Values) -> tuple[Word, ...]:
    """Return the words of the command that eval makes of its own: the shell reads them once more."""
    text = re.sub(r"\\([$`])", r"\1", " ".join(word.value for word in words[1:]))
    inner = read_shell(text)
    if inner.error is None and len(inner.commands) == 1 and not inner.assignments and not inner.commands[0].writes:
        return expanded(inner.commands[0], values)
    flag, body = (msgspec.structs.replace(words[0], text=word, value=word, quoted="") for word in ("-c", text))
    return (msgspec.structs.replace(words[0], text="bash", value="bash"), flag, body)


def read_chain(chain: Chain, draft: Draft) -> dict[str, str]:
    """Read what starts the ranks; return the sizes that its flags give: nodes, tasks, agents' ranks."""
    reader = _StepReader(chain, draft)
    reader.read(chain.stages, chain.words)
    command = chain.command
    early = [name for name in _expanded_too_early(chain) if name in _OF_ONE_TASK]
    if early:
        reason = f"the batch host fills in {', '.join(early)} before a rank starts, and here each rank fills in its own"
        draft.ask(command.place.line, f"${early[0]} …", reason)
    if command.writes or command.pipes_on:
        shown = " ".join([*(f"> {name}" for name in command.writes), *(["| …"] if command.pipes_on else [])])
        reason = "the lines of the ranks are in the run directory: muster logs"
        draft.rows.append(PortRow(command.place.line, shown, Fate.CHANGED, "", reason))
    if command.in_background:
        draft.drop(command.place.line, "&", "the script goes on beside it; Muster's waits for the ranks")
    if command.reads:
        reason = "what the script gives its standard input: the job has none"
        draft.ask(command.place.line, "< …", reason)
    return reader.sizes


def _expanded_too_early(chain: Chain) -> Iterator[str]:
    """Yield the variables that the batch host expands in the text of a task's shell."""
    if chain.stage("shell") is not None:
        for word in chain.command.words:
            if word.quoted == '"':
                yield from dict.fromkeys(names_in(word.value))


class _StepReader:
    """Goes through the chain once, from the outside to the inside."""

    def __init__(self, chain: Chain, draft: Draft) -> None:
        self.line = chain.command.place.line
        self.draft = draft
        self.values = chain.values
        self.sizes: dict[str, str] = {}
        self._outer: list[str] = []
        """Wrappers that become a part of the command."""

        self._settings: list[str] = []
        """Assignments whose values only the task knows."""

        self._is_inner = False
        self._words: tuple[Word, ...] = ()
        for assignment in chain.command.assignments:
            value = self.values.of(assignment.value.value) if assignment.value else ""
            self._variable(assignment.name, value, f"{assignment.name}={value}")

    def read(self, stages: tuple[Stage, ...], words: tuple[Word, ...]) -> None:
        """Read each program of the chain, whose words these are."""
        self._words = words
        for stage in stages:
            for word in stage.hidden:
                self.draft.ask(
                    self.line, word.value, f"options of {stage.name} may stand in it, and the script does not say"
                )
            reader = _STAGES.get(stage.kind)
            if reader is not None:
                reader(self, stage)
        if not self.draft.command:
            reason = "no program stands behind it: write the program and its arguments"
            self.draft.ask(self.line, f"{stages[-1].name} …", reason, "COMMAND", field="command")
            self.draft.command = ("COMMAND",)

    # ------------------------------------------------------------ srun

    def step(self, stage: Stage) -> None:
        reason = "srun starts the ranks, or what the site prefers; --launcher srun keeps it"
        self.draft.rows.append(PortRow(self.line, stage.name, Fate.CHANGED, "", reason, "started"))
        self.sizes["starter"] = "srun"
        for flag, word in stage.options:
            value = _value(flag, word)
            subject = f"{stage.name} {_shown(flag, word)}"
            if flag in STEP_SIZES:
                self._size(STEP_SIZES[flag], value, subject, "the step has the job's size; the plan works it out")
            elif flag in STEP_DROPPED:
                self.draft.drop(self.line, subject, STEP_DROPPED[flag], f"step {flag}")
            elif flag in STEP_FIELDS:
                self._field(STEP_FIELDS[flag], value, subject)
            elif flag in {"--container-mounts", "--volume"}:
                self._binds(value or "", subject)
            elif flag == "--export":
                self._export(value or "", subject)
            elif not self._letters(flag):
                self._step_flag(subject, flag, value)

    def _size(self, name: str, value: str | None, subject: str, reason: str) -> None:
        """Keep a size for the arithmetic of all sizes, which may change its row."""
        text = value or ""
        if text.startswith("$(("):  # a name in arithmetic needs no $
            text = re.sub(r"(?<![\w${])([A-Za-z_]\w*)", r"$\1", text)
        self.sizes[name] = self.values.of(text)
        self.draft.note(self.line, subject, "", reason, f"size {name}")

    def _letters(self, flag: str) -> bool:
        """Read -lu as -l -u; tell whether all of them are switches that are known."""
        letters = [f"-{letter}" for letter in flag[1:]]
        if not all(letter in STEP_DROPPED for letter in letters):
            return False
        for one_letter in letters:
            self.draft.drop(
                self.line, f"srun {flag}", f"{one_letter}: {STEP_DROPPED[one_letter]}", f"step {one_letter}"
            )
        return True

    def _step_flag(self, subject: str, flag: str, value: str | None) -> None:
        whole = flag if value is None else (f"{flag}={value}" if flag.startswith("--") else f"{flag}{value}")
        try:
            (whole_flag,) = whole_step_flags([whole])
        except RequestError as error:
            self.draft.ask(self.line, subject, f"{error.message}; {error.hint}")
            return
        if "$" in whole:
            self.draft.ask(
                self.line, subject, "the shell expands a variable in it, whose value the script does not say"
            )
            return
        self.draft.keep(self.line, subject, "srun", whole_flag, "a flag of the step that Muster hands on")

    def _export(self, value: str, subject: str) -> None:
        if value and "ALL" not in value.upper().split(","):
            reason = "the step hands on nothing else of the script's environment, and here the ranks get all of it"
            self.draft.ask(self.line, f"{subject} (not ALL)", reason)
        for word in value.split(","):
            if "=" in word:
                name, _, text = word.partition("=")
                self._variable(name, self.values.of(text), subject)
        self.draft.note(self.line, subject, "", "what the plan shows reaches every rank")

    # ------------------------------------------------------------ mpirun

    def mpi(self, stage: Stage) -> None:
        self.draft.keep(self.line, stage.name, "launcher", "mpirun")
        if stage.name not in _OF_MPI:
            reason = f"{stage.name} starts ranks in its own way, Muster by mpirun: is the program built with an MPI?"
            self.draft.replace(self.draft.rows[-1], Fate.ASKED, "--launcher mpirun", reason)
        self.sizes["starter"] = "mpirun"
        for flag, word in stage.options:
            value = _value(flag, word)
            subject = f"{stage.name} {_shown(flag, word)}"
            bare = flag.lstrip("-")
            if bare in MPI_SIZES:
                self._size(MPI_SIZES[bare], value, subject, "the size of the job says it")
            elif bare in {"x", "genvlist"}:
                self._passed(value or "", subject)
            elif bare in {"mca", "gmca"}:
                key, _, text = (value or "").partition(" ")
                self._variable(f"OMPI_MCA_{key}", text, subject)
            elif bare == "genv":
                key, _, text = (value or "").partition(" ")
                self._variable(key, text, subject)
            elif bare in MPI_DROPPED:
                self.draft.drop(self.line, subject, MPI_DROPPED[bare], f"mpirun {bare}")
            else:
                self.draft.ask(self.line, subject, "a flag of mpirun that no option of Muster's stands for")

    def _passed(self, value: str, subject: str) -> None:
        for word in value.split(","):
            name, equals, text = word.partition("=")
            if equals:
                self._variable(name, self.values.of(text), subject)
            else:
                self.draft.note(self.line, subject, "", "what the plan shows reaches every rank, over ssh too")

    # ------------------------------------------------------------ agents

    def agent(self, stage: Stage) -> None:
        self.sizes["agent"] = stage.name
        self._agents_of_torch(stage)
        if stage.name in _GIVES_RANK and not stage.has("--use-env", "--use_env", "--no_local_rank"):
            reason = (
                f"{stage.name} gives the script --local_rank, and Muster LOCAL_RANK alone: does the script read it?"
            )
            self.draft.ask(self.line, f"{stage.name} …", reason)
        configured = self._configuration(stage) if stage.name == "accelerate" else frozenset[str]()
        for flag, word in stage.options:
            value = _value(flag, word)
            subject = f"{stage.name} {_shown(flag, word)}"
            key = flag.lstrip("-").replace("_", "-")
            if key.replace("-", "_") in configured:
                self.draft.note(self.line, subject, "", "it stands in the variables of the configuration")
            elif key == "config-file":
                continue
            elif key in {"nproc-per-node", "num-processes", "num-gpus", "nproc"}:
                counted = "processes" if key == "num-processes" else "ranks"
                self._size(counted, value, subject, "the ranks of each node, which -g or --ntasks-per-node says")
            elif key in {"nnodes", "num-machines", "num-nodes"}:
                self._size("nnodes", value, subject, "the nodes of the job")
            elif key in AGENT_VARIABLES and value:
                self._variable(AGENT_VARIABLES[key], value, subject)
            elif key in AGENT_DROPPED:
                self.draft.drop(self.line, subject, AGENT_DROPPED[key])
            elif key in {"m", "module"}:
                self._outer += [self._interpreter(stage), "-m"]
                self.draft.note(self.line, subject, "python -m", "the same module")
            else:
                self.draft.ask(self.line, subject, f"a flag of {stage.name} that no option of Muster's stands for")
        if not stage.has("-m", "--module", "--no-python", "--no_python"):
            self._outer.append(self._interpreter(stage))

    def _interpreter(self, stage: Stage) -> str:
        """Return the Python that runs an agent's module, and so its ranks; a program of its own has the first one."""
        place = next((index for index, word in enumerate(self._words) if word is stage.word), 0)
        before = [word.value for word in self._words[:place]]
        pythons = [word for word in before if re.fullmatch(r"(.*/)?python[\d.]*", word)]
        return pythons[-1] if pythons and before[-1] == "-m" else "python"

    def _configuration(self, stage: Stage) -> frozenset[str]:
        """Read accelerate's configuration file into variables and sizes; return the flags that stand in them too."""
        path = next((_value(name, word) for name, word in stage.options if name in _CONFIGURATIONS), None)
        if path is None:
            return frozenset()
        subject = f"accelerate --config_file {path}"
        text = None if "$" in path else self.draft.read_file(path)
        if text is None:
            reason = "the file is not here to be read: how many ranks are in it? --env ACCELERATE_… says the rest"
            self.draft.ask(self.line, subject, reason, field="size processes")
            return frozenset()
        typed = {name.lstrip("-").replace("-", "_"): _value(name, word) or "true" for name, word in stage.options}
        typed = {name: value for name, value in typed.items() if name in TYPED}
        config = read_accelerate_config(text, path, typed)
        if config.question:
            reason = f"{config.question}: --env ACCELERATE_… says what stands in the file"
            self.draft.ask(self.line, subject, reason)
            return frozenset()
        for name, value in config.variables.items():
            self.draft.values.setdefault("env", []).append(f"{name}={value}")
        now = shlex.join(word for each in config.variables.items() for word in ("--env", "=".join(each)))
        reason = "the variables that accelerate makes of this file"
        self.draft.rows.append(PortRow(self.line, subject, Fate.CHANGED, now, reason))
        for key, number in (("processes", config.processes), ("nnodes", config.machines)):
            if number is not None:
                self.sizes[key] = str(number)
        return frozenset(typed)

    def _agents_of_torch(self, stage: Stage) -> None:
        """Read torch's agents, one a node, under srun or under mpirun."""
        if self.draft.get("launcher") != "mpirun":
            for row in [row for row in self.draft.rows if row.field == "started"]:
                reason = f"here {row.what} starts one agent on each node, and the agent the ranks"
                self.draft.replace(row, Fate.KEPT, "", reason)
            if stage.name in AGENTS_OF_TORCH:
                self.draft.keep(self.line, stage.name, "launcher", "torchrun")
            else:
                reason = f"{stage.name} starts the ranks as torchrun does, with the same variables"
                self.draft.change(self.line, stage.name, "launcher", "torchrun", reason)
            return
        reason = "here mpirun starts one agent on each node, and the agent the ranks"
        self.draft.revise("launcher", Fate.KEPT, "mpirun+torchrun", reason)
        self.draft.note(self.line, stage.name, "--launcher mpirun+torchrun", reason)

    # ------------------------------------------------------------ containers, wrappers, shells, programs

    def container(self, stage: Stage) -> None:
        verb, image = self._verb_and_image(stage)
        for flag, word in stage.options:
            value = _value(flag, word)
            subject = f"{stage.name} {_shown(flag, word)}"
            if flag in {"--bind", "-B", "--volume", "-v", "-V", "--mount"} and value:
                self._binds(value, subject)
            elif flag in {"--env", "-e"} and value and "=" in value:
                for setting in value.split(","):
                    self._variable(*setting.partition("=")[::2], subject=subject)
            elif flag in {"--pwd", "--cwd", "--workdir", "-w"} and value:
                self.draft.change(
                    self.line, subject, "chdir", value, "the directory of the ranks, inside the image too"
                )
            elif flag in {"--image", "-i"} and value:
                image = value
            else:
                reason = CONTAINER_DROPPED.get(flag)
                if reason is None:
                    self.draft.ask(self.line, subject, "a flag of the engine that no option of Muster's stands for")
                else:
                    self.draft.drop(self.line, subject, reason)
        if verb == "run" and self._is_own_program(stage):
            reason = "the image's own program gets these words in the script: here they are a command in the image"
            self.draft.ask(self.line, f"{stage.name} run …", reason)
        if image:
            self._field("image", image, " ".join(filter(None, [stage.name, verb, image])))
        else:
            self.draft.ask(self.line, stage.name, "the image's name is not in the script: --image IMAGE")

    def _is_own_program(self, stage: Stage) -> bool:
        """Tell whether the words behind an image are options of its own program, and no program that starts ranks."""
        place = next((index for index, word in enumerate(self._words) if word is stage.word), 0)
        inner = stages_of(self._words[place:])[1:]
        return bool(inner) and (inner[0].kind == "program" or inner[0].name.endswith(".py"))

    def _verb_and_image(self, stage: Stage) -> tuple[str, str]:
        words = [word.value for word in stage.before]
        if stage.name == "shifter":
            return "", ""
        return (words[0] if words else ""), (self.values.of(words[1]) if len(words) > 1 else "")

    def wrapper(self, stage: Stage) -> None:
        words = [stage.name, *(text for name, word in stage.options for text in _words(name, word))]
        if stage.name in {"time", "nohup", "exec", "command", "eval"}:
            self.draft.drop(self.line, " ".join(words), "says or changes nothing of what the ranks do")
        elif stage.name == "env":
            for name, word in stage.options:
                self.draft.ask(self.line, f"env {_shown(name, word)}", "it removes variables of the ranks")
            for word in stage.before:
                name, _, value = word.value.partition("=")
                self._variable(name, value, f"env {word.value}")
        else:
            self._outer += [*words, *(word.value for word in stage.before)]
            self.draft.note(self.line, " ".join(words), shlex.join(words), "a part of the command now")

    def shell(self, stage: Stage) -> None:
        word = stage.option("-c", "-lc", "-ec", "-xc", "-exc")
        if word is None:
            flags = [text for flag, word in stage.options for text in _words(flag, word)]
            self._finish([stage.name, *flags, *(word.value for word in stage.words)], stage.name)
            return
        # What the outer shell makes of it.
        text = word.value if word.quoted == "'" else re.sub(r"\\([$`])", r"\1", word.value)
        inner = read_shell(text)
        values = values_of(inner)
        chains = [chain_of(command, values) for command in inner.commands]
        best = max(chains, key=lambda chain: chain.weight, default=None)
        if best is None or inner.error or not best.weight or not _is_simple(inner.text, chains, best):
            self._whole(stage.name, text.strip())
            return
        self._is_inner = True
        self.values = msgspec.structs.replace(
            self.values,
            texts={**self.values.texts, **values.texts},
            assigned=self.values.assigned - values.assigned,
            arrays={**self.values.arrays, **values.arrays},
        )
        for assignment in inner.assignments:
            if assignment.exported and (not assignment.of_command or assignment in best.command.assignments):
                value = self.values.of(assignment.value.value) if assignment.value else ""
                self._variable(assignment.name, value, f"{assignment.name}={value}")
        for chain in chains:
            if chain is not best:
                _say_inner(self.draft, self.line, chain)
        if best.command.writes:
            shown = " ".join(f"> {name}" for name in best.command.writes)
            reason = "a file of each rank's own: the lines of the ranks are in the run directory, muster logs"
            self.draft.rows.append(PortRow(self.line, shown, Fate.CHANGED, "", reason))
        self.read(best.stages, best.words)

    def _whole(self, shell: str, text: str) -> None:
        """Keep a shell's text as it is, unless it starts ranks itself."""
        starter = re.search(r"\b(torchrun|accelerate launch|deepspeed|mpirun|mpiexec|srun|torch\.distributed)\b", text)
        if starter is None:
            self._finish([shell, "-c", text], f"{shell} -c")
            return
        reason = f"its text starts ranks with {starter[1]} among other lines: what runs in each rank?"
        self.draft.ask(self.line, f"{shell} -c …", reason, "COMMAND", field="command")
        self.draft.command = ("COMMAND",)

    def python(self, stage: Stage) -> None:
        words = [_text_of(word) for word in stage.words]
        if stage.name.endswith(".py"):
            self._finish(words, stage.name)
            return
        start = next((index for index, word in enumerate(self._words) if word is stage.word), len(self._words))
        flags = self._words[start + 1 : max(start + 1, len(self._words) - len(stage.words))]
        options = [_text_of(word) for word in flags]
        self._finish([stage.word.value, *options, *words], stage.name)

    def program(self, stage: Stage) -> None:
        if re.fullmatch(r"\$\{?\w+(\[[@*]\])?\}?", stage.word.value) and _starts_program(stage.words):
            self.draft.ask(self.line, stage.word.value, "its words are not in the script: the job goes without them")
            self.read(stages_of(stage.words), self._words)
            return
        self._finish([_text_of(stage.word), *map(_text_of, stage.words)], stage.name)

    # ------------------------------------------------------------ what they share

    def _field(self, field: str, value: str | None, subject: str) -> None:
        value = value if field != "image" or value is None else _image(value)
        if not value or "$" in value:
            self.draft.ask(self.line, subject, f"its value is not in the script: {value or 'nothing'}")
            return
        self.draft.keep(self.line, subject, field, value)

    def _binds(self, value: str, subject: str) -> None:
        for bind in self.values.of(value).replace('"', "").split(","):
            if not bind.strip():
                continue
            if "$" in bind:
                self.draft.ask(self.line, subject, f"the path of the bind is not in the script: {bind}")
            else:
                self.draft.keep(self.line, subject, "bind", bind, "a path of the host in the image")

    def _variable(self, name: str, value: str, subject: str) -> None:
        if name in WIRED and "SLURM_ARRAY" in value:
            self.draft.ask(self.line, subject, OF_ARRAY)
        elif name in WIRED:
            self.draft.drop(self.line, subject, "every rank has it, right for its own place", f"variable {name}")
        elif names_in(value) or "$(" in value or "`" in value:
            self._settings.append(f'export {name}="{value}"')
            self.draft.change(self.line, subject, "env", f"{name}=", "")
            self.draft.values["env"].pop()
            row = self.draft.rows[-1]
            self.draft.replace(row, row.verdict, "in the command", "only the task knows its value: it is set there")
        elif name.isidentifier():
            self.draft.variable(self.line, subject, name, value)

    def _finish(self, words: list[str], subject: str) -> None:
        words = [*self._outer, *words]
        settings = [*self._settings]
        questions = [*self._open(words)]
        if words == ["python"]:
            questions.append("no program stands behind it: write the program and its arguments")
        if any(re.search(r"(?<!\\)(\$|[<>](?=\())\(", word) for word in words):
            questions.append("a command stands in the words: each rank runs it, so the ranks may get different values")
        if settings or questions or any(map(names_in, words)) or any(isinstance(word, ShellSource) for word in words):
            words = in_a_shell(settings, words)
        else:
            words = [re.sub(r"\\([$`])", r"\1", word) for word in words]
        if questions:
            self.draft.ask(self.line, f"{subject} …", "; ".join(questions), shlex.join(words), field="command")
        else:
            in_shell = words[:2] == ["bash", "-c"]
            reason = "the task's shell fills in what only it knows" if in_shell else "the command, word for word"
            self.draft.note(self.line, f"{subject} …", shlex.join(words), reason, "command")
        self.draft.command = tuple(words)

    def _open(self, words: list[str]) -> Iterator[str]:
        """Yield a question for each thing in the words that the ranks of the job do not know; pass on what they may."""
        text = words[2] if len(words) == 3 and words[1] == "-c" else ""
        inner = values_of(read_shell(text)).assigned if text else frozenset[str]()
        for name in dict.fromkeys(name for word in words for name in names_in(word)):
            if name in inner or name in {"?", "!"}:
                continue
            if name == "$":
                yield "$$ is the number of the batch host's shell in the script, and of each rank's own here"
            elif not name.isidentifier():
                yield f"${name} is an argument of the script, and the job has none: write its value"
            elif name in _OF_ONE_TASK and not (text or self._is_inner):
                yield f"{name} is that of the batch host in the script, and each rank's own here"
            elif name in TASKS or name.startswith("SLURM_"):
                continue
            elif name in self.values.assigned and not self._is_secret(name):
                yield f"{name} is worked out by the script: write its value"
            else:
                self.draft.values.setdefault("env", [])
                if name not in self.draft.values["env"]:
                    self.draft.values["env"].append(name)
                yield f"{name} is not in the script: --env {name} passes yours on, so export it where you type the line"

    def _is_secret(self, name: str) -> bool:
        return name in self.draft.secrets or holds_secret(name, "secret")


def _image(name: str) -> str:
    """Return an image's name as Muster takes it: Pyxis and enroot write REGISTRY#NAME:TAG."""
    match = re.fullmatch(r"(?:docker://)?([\w.-]+)#([\w./:@-]+)", name)
    return f"docker://{match[1]}/{match[2]}" if match else name


def _text_of(word: Word) -> str:
    """Return the text of a word; what quotes keep from the shell is kept from the shell of the task too."""
    return word.value if isinstance(word.value, ShellSource) else open_text(word)


def _starts_program(words: Sequence[Word]) -> bool:
    """Tell whether these words are a command of their own, without a word before them."""
    first = words[0].value if words else "-"
    return not first.startswith(("-", "$")) and not first.endswith(".py")


def in_a_shell(settings: list[str], words: list[str]) -> list[str]:
    if len(words) == 3 and words[0] in {"bash", "sh"} and words[1] == "-c":
        return [words[0], "-c", "; ".join([*settings, words[2]])]
    command = " ".join(_quoted(word) for word in words)
    return ["bash", "-c", "; ".join([*settings, f"exec {command}"])]


def _quoted(word: str) -> str:
    """Quote a word so that the task's shell still expands what is in it."""
    if isinstance(word, ShellSource) or re.fullmatch(r"[\w@%+=:,./-]+", word):
        return word
    if not re.search("[$`]", word):
        return shlex.quote(word)
    depth, inner = 0, ""
    for index, sign in enumerate(word):  # the quotes inside $(…) are those of its own commands
        if sign == "(" and (depth or word[index - 1 : index] == "$"):
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        inner += r"\"" if sign == '"' and not depth else sign
    return f'"{inner}"'


def _is_simple(text: str, chains: list[Chain], best: Chain) -> bool:
    """Tell whether a text holds assignments and one command that matters."""
    if best.command.is_guarded or re.search(r"(^|[\s;])(if|for|while|case)\s|\|\||&\s*$", text):
        return False
    return all(
        chain is best or chain.command.in_substitution or chain.command.program in {"export", "echo", "set", "sleep"}
        for chain in chains
    )


def _say_inner(draft: Draft, line: int, chain: Chain) -> None:
    if chain.command.in_substitution:
        return
    draft.drop(line, " ".join(word.value for word in chain.command.words), "shows something, and changes nothing")


def _value(flag: str, word: Word | None) -> str | None:
    return None if word is None else word.value.removeprefix(f"{flag}=")


def _shown(flag: str, word: Word | None) -> str:
    return " ".join(_words(flag, word))


def _words(flag: str, word: Word | None) -> tuple[str, ...]:
    if word is None:
        return (flag,)
    return (word.value,) if word.value.startswith(f"{flag}=") else (flag, word.value)


_STAGES: Mapping[str, Callable[[_StepReader, Stage], None]] = {
    "step": _StepReader.step,
    "mpi": _StepReader.mpi,
    "agent": _StepReader.agent,
    "container": _StepReader.container,
    "wrapper": _StepReader.wrapper,
    "shell": _StepReader.shell,
    "python": _StepReader.python,
    "program": _StepReader.program,
}
