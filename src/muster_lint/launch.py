"""A command → the chain of programs that it starts: srun, a container, torchrun, python, the script. Pure.

Each program is read with its own grammar: which of its options take the next word is a table, not a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from muster_lint.bash import ShellText, SimpleCommand, Word, read_shell

_STEP_VALUES = "-A -b -B -c -C -d -D -e -E -G -i -I -J -L -M -m -n -N -o -p -q -r -S -t -T -w -W -x -Z"
_STEP_LONG = """
    account acctg-freq bb begin bell chdir cluster-constraint clusters comment constraint container container-id
    core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution
    environment epilog error exclude export extra-node-info gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
    gpus-per-task gres hint input jobid job-name licenses mail-type mail-user mem mem-bind mem-per-cpu mem-per-gpu
    mpi network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    open-mode output partition profile prolog propagate qos relative reservation signal sockets-per-node
    switches task-epilog task-prolog tasks-per-node thread-spec threads threads-per-core time time-min tmp tres-bind
    tres-per-task uid wait wckey container-image container-mounts container-workdir container-name container-env
    image module volume
""".split()  # noqa: SIM905  # a page of names, not of quotes
_AGENT_LONG = """
    nnodes nproc-per-node nproc_per_node rdzv-backend rdzv_backend rdzv-endpoint rdzv_endpoint rdzv-id rdzv_id
    rdzv-conf rdzv_conf max-restarts max_restarts monitor-interval monitor_interval start-method start_method role
    log-dir log_dir redirects tee local-ranks-filter node-rank node_rank master-addr master_addr master-port
    master_port local-addr local_addr logs-specs numa-binding event-log-handler virtual-local-rank
    num_machines num_processes machine_rank main_process_ip main_process_port config_file mixed_precision
    rdzv_backend same_network gradient_accumulation_steps deepspeed_config_file zero_stage dynamo_backend
    hostfile include exclude num_nodes num_gpus launcher launcher_args nproc
""".split()  # noqa: SIM905

AGENTS = frozenset({"torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch"})
"""Programs that start the ranks of their node themselves."""


class _Grammar(msgspec.Struct, frozen=True):
    """Which options of a program take the next word, and what stands before its command."""

    kind: str
    letters: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    """Options that take the next two words."""

    words_before: int = 0
    """Words that are not options and stand before the command: an image, a sub-command."""


def _long(names: Sequence[str]) -> frozenset[str]:
    return frozenset(f"--{name}" for name in names)


_STEP = _Grammar("step", frozenset(_STEP_VALUES.split()), _long(_STEP_LONG))
_MPI = _Grammar(
    "mpi",
    frozenset(
        [
            "-n",
            "-np",
            "-c",
            "-H",
            "-x",
            "-host",
            "-hostfile",
            "-machinefile",
            "-f",
            "-ppn",
            "-N",
            "-npernode",
            "-map-by",
            "-bind-to",
            "-rank-by",
            "-wdir",
            "-genvlist",
            "-env",
        ]
    ),
    _long(
        [
            "np",
            "host",
            "hostfile",
            "machinefile",
            "bind-to",
            "map-by",
            "rank-by",
            "wdir",
            "prefix",
            "oversubscribe-by",
            "npernode",
        ]
    ),
    frozenset(["-mca", "--mca", "-gmca", "--gmca", "-genv", "--pmca"]),
)
_CONTAINER = _Grammar(
    "container",
    frozenset(["-B", "-H", "-W", "-w", "-S", "-o"]),
    _long(
        [
            "bind",
            "env",
            "env-file",
            "home",
            "overlay",
            "pwd",
            "scratch",
            "workdir",
            "network",
            "security",
            "volume",
            "mount",
        ]
    ),
    words_before=2,
)
_PLAIN = _Grammar("wrapper")
_GRAMMARS = {
    "srun": _STEP,
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "orterun": _MPI,
    "prterun": _MPI,
    "ibrun": _Grammar("mpi", frozenset({"-n", "-np", "-o"})),
    "singularity": _CONTAINER,
    "apptainer": _CONTAINER,
    "shifter": _Grammar(
        "container", frozenset({"-i", "-V", "-e"}), _long(["image", "module", "volume", "env", "workdir"])
    ),
    "podman-hpc": _Grammar(
        "container", frozenset({"-v", "-e", "-w"}), _long(["volume", "env", "workdir"]), words_before=2
    ),
    "env": _Grammar("wrapper", frozenset({"-u", "-C"})),
    "time": _Grammar("wrapper", frozenset({"-f", "-o"})),
    "timeout": _Grammar("wrapper", frozenset({"-s", "-k"}), words_before=1),
    "numactl": _Grammar("wrapper", frozenset({"-N", "-m", "-C", "-p", "-i"})),
    "taskset": _Grammar("wrapper", frozenset({"-c"})),
    "nice": _Grammar("wrapper", frozenset({"-n"})),
    "stdbuf": _Grammar("wrapper", frozenset({"-o", "-e", "-i"})),
    "exec": _PLAIN,
    "command": _PLAIN,
    "nohup": _PLAIN,
    "eval": _PLAIN,
    "uv": _Grammar("wrapper", frozenset({"--with", "--project", "--python"}), words_before=1),
    "poetry": _Grammar("wrapper", words_before=1),
    "conda": _Grammar("wrapper", frozenset({"-n", "-p"}), frozenset({"--name", "--prefix"}), words_before=1),
    "torchrun": _Grammar("agent", frozenset({"-r", "-t"}), _long(_AGENT_LONG)),
    "accelerate": _Grammar("agent", frozenset(), _long(_AGENT_LONG), words_before=1),
    "deepspeed": _Grammar("agent", frozenset({"-H", "-i", "-e"}), _long(_AGENT_LONG)),
}
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})


class Stage(msgspec.Struct, frozen=True):
    """One program of the chain, with its own options; what it starts is the next stage."""

    name: str
    kind: str
    """step, mpi, container, agent, wrapper, shell, python or program."""

    word: Word
    options: tuple[tuple[str, Word | None], ...]
    """Each option with its value; for --name=VALUE the whole word."""

    words: tuple[Word, ...]
    """What is left: the program's own arguments, or the command that it starts."""

    before: tuple[Word, ...] = ()
    """Words that are not options and stand before its command: a container's verb and image, the variables of `env`."""

    def option(self, *names: str) -> Word | None:
        """Return the value of the first of these options that stands here."""
        return next((value for name, value in self.options if name in names and value is not None), None)

    def has(self, *names: str) -> bool:
        """Tell whether one of these options stands here."""
        return any(name in names for name, _ in self.options)

    def text(self, *names: str) -> str | None:
        """Return the text of an option's value."""
        word = self.option(*names)
        if word is None:
            return None
        return (
            word.value.partition("=")[2] if word.value.startswith(tuple(f"{name}=" for name in names)) else word.value
        )


class LaunchCommand(msgspec.Struct, frozen=True):
    """A command that starts programs, and the shell text inside it."""

    command: SimpleCommand
    stages: tuple[Stage, ...]
    inner: ShellText | None = None
    """The text of `bash -c`, as the tasks run it."""

    early: tuple[Word, ...] = ()
    """The word that holds this text, where the batch host expands variables in it."""

    def stage(self, kind: str) -> Stage | None:
        """Return the first stage of a kind."""
        return next((stage for stage in self.stages if stage.kind == kind), None)

    @property
    def script(self) -> Word | None:
        """Return the word that names the Python script."""
        stage = self.stage("python")
        return next((word for word in stage.words if word.value.endswith(".py")), None) if stage else None


def starts_python(launches: Sequence[LaunchCommand]) -> bool:
    """Tell whether one of these commands starts Python, or may do so.

    A script, a shell text and a program out of a variable may.
    """
    return not launches or any(_may_be_python(each) for each in launches)


def _may_be_python(launch: LaunchCommand) -> bool:
    last = launch.stages[-1]
    known = last.kind in {"program", "container"} and last.word.is_literal and not last.name.endswith(".sh")
    return not known or last.kind == "container"


def launches_of(shell: ShellText) -> tuple[LaunchCommand, ...]:
    """Return the commands of a script that start programs, each with its chain."""
    return tuple(_launch(shell, command) for command in shell.commands if command.words)


def _launch(shell: ShellText, command: SimpleCommand) -> LaunchCommand:
    stages = stages_of(_expanded(shell, command.words))
    last = stages[-1] if stages else None
    if last is None or last.kind != "shell" or not last.has("-c", "-lc", "-ec", "-xc", "-exc"):
        return LaunchCommand(command, stages)
    text = next((value for name, value in last.options if name.endswith("c") and value is not None), None)
    if text is None:
        return LaunchCommand(command, stages)
    body = _with_values(shell, text.value) if text.quoted == '"' or text.names else text.value
    if text.text.startswith('"'):
        body = body.replace("\\$", "$")  # what the outer shell makes of it
    inner = read_shell(body, line=text.place.line, column=text.place.column + len(text.quoted))
    return LaunchCommand(command, stages, inner, (text,) if not text.is_literal else ())


def _expanded(shell: ShellText, words: Sequence[Word]) -> tuple[Word, ...]:
    """Put the words of `LAUNCHER="torchrun …"` in the place of $LAUNCHER."""
    result: list[Word] = []
    for word in words:
        name = word.lone_name
        value = shell.value_of(name) if name else None
        if value is None or not value.value.strip() or word.quoted == "'":
            result.append(word)
            continue
        body = value.value.replace("\\\n", " ").replace("\n", " ")
        commands = read_shell(body).commands
        words_of_value = commands[0].words if len(commands) == 1 and not commands[0].assignments else ()
        result += [msgspec.structs.replace(part, place=word.place) for part in words_of_value] or [word]
    return tuple(result)


def _with_values(shell: ShellText, text: str) -> str:
    """Put the values of variables that the script assigns once in their places."""
    for assignment in shell.assignments:
        value = shell.value_of(assignment.name)
        if value is None or assignment.of_command:
            continue
        for spelling in (f"${{{assignment.name}}}", f"${assignment.name}"):
            if text == spelling or f"{spelling} " in text or f" {spelling}" in text:
                flat = value.value.replace("\\\n", " ").replace("\n", " ")
                text = text.replace(f"{spelling} ", f"{flat} ").removesuffix(spelling) + (
                    flat if text.endswith(spelling) else ""
                )
    return text


def stages_of(words: Sequence[Word]) -> tuple[Stage, ...]:
    """Return the chain of programs that these words start."""
    stages: list[Stage] = []
    rest = tuple(words)
    while rest:
        stage = _stage(rest)
        stages.append(stage)
        if stage.kind in {"program", "shell", "python", "agent"} and not _goes_on(stage):
            break
        rest = stage.words
    return tuple(stages)


def _goes_on(stage: Stage) -> bool:
    return stage.kind == "agent" and bool(stage.words)


def _stage(words: tuple[Word, ...]) -> Stage:
    first = words[0]
    name = first.value.rpartition("/")[2]
    if name.endswith(".py"):
        return Stage(name, "python", first, (), words)
    if name.startswith("python"):
        return _python(words)
    if name in _SHELLS:
        return _read_options(name, "shell", words, frozenset({"-c", "-lc", "-ec", "-xc", "-exc"}), frozenset())
    grammar = _GRAMMARS.get(name)
    if grammar is None or not first.is_literal:
        return Stage(name, "program", first, (), words[1:])
    return _read_options(name, grammar.kind, words, grammar.letters, grammar.long, grammar.words_before, grammar.pairs)


def _read_options(
    name: str,
    kind: str,
    words: tuple[Word, ...],
    letters: frozenset[str],
    long: frozenset[str],
    words_before: int = 0,
    pairs: frozenset[str] = frozenset(),
) -> Stage:
    options: list[tuple[str, Word | None]] = []
    earlier_words: list[Word] = []
    index = 1
    positional_count = 0
    while index < len(words):
        word = words[index]
        text = word.value
        if text == "--":
            index += 1
            break
        if not text.startswith("-") or text == "-":
            if name == "env" and "=" in text:
                earlier_words.append(word)
                index += 1
                continue
            if positional_count == words_before:
                break
            earlier_words.append(word)
            positional_count += 1
            index += 1
            continue
        flag, equals, _ = text.partition("=")
        if text in pairs and index + 2 < len(words):
            next_two = f"{words[index + 1].value} {words[index + 2].value}"
            options.append((text, msgspec.structs.replace(words[index + 1], value=next_two)))
            index += 2
        elif equals:
            options.append((flag, word))
        elif (text in letters or text in long) and index + 1 < len(words):
            options.append((text, words[index + 1]))
            index += 1
        elif text[:2] in letters and not text.startswith("--") and len(text) > 2:
            options.append((text[:2], msgspec.structs.replace(word, value=text[2:])))
        else:
            options.append((text, None))
        index += 1
    return Stage(name, kind, words[0], tuple(options), words[index:], tuple(earlier_words))


def _python(words: tuple[Word, ...]) -> Stage:
    """Read `python [-u] [-m MODULE] SCRIPT`; a module that starts ranks is an agent."""
    for index, word in enumerate(words[1:], start=1):
        if word.value == "-m" and index + 1 < len(words):
            module = words[index + 1].value
            if module in AGENTS or module in {"accelerate.commands.launch", "deepspeed.launcher.runner"}:
                return _read_options(module, "agent", words[index + 1 :], frozenset(), _long(_AGENT_LONG))
            return Stage("python", "python", words[0], (("-m", words[index + 1]),), words[index + 2 :])
        if not word.value.startswith("-"):
            return Stage("python", "python", words[0], (), words[index:])
    return Stage("python", "python", words[0], (), ())
