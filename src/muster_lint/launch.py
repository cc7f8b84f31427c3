"""A command → the chain of programs that it starts: srun, a container, torchrun, python, the script. Pure.

The programs and their options are read by `muster.words`; here each word keeps its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from muster.words.chain import StartedProgram, read_chain
from muster_lint.bash import ShellText, SimpleCommand, Word, read_shell, with_its_end
from muster_lint.values import TextSpan


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

    hidden: tuple[Word, ...] = ()
    """Words among its options that nobody can read here: an expansion may hold any option."""

    def option(self, *names: str) -> Word | None:
        """Return the value of the first of these options that stands here."""
        return next((value for name, value in self.options if name in names and value is not None), None)

    def place_of(self, *names: str) -> TextSpan:
        """Return where the value of one of these options stands; for a stage without one, its own place."""
        return (self.option(*names) or self.word).place

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


class LaunchCommand(msgspec.Struct, frozen=True, dict=True):
    """A command that starts programs, and the shell text inside it."""

    command: SimpleCommand
    stages: tuple[Stage, ...]
    inner: ShellText | None = None
    """The text of `bash -c`, as the tasks run it."""

    early: tuple[Word, ...] = ()
    """The word that holds this text, where the batch host expands variables in it."""

    def stage(self, kind: str) -> Stage | None:
        """Return the first stage of a kind."""
        return self._first_stages.get(kind)

    @cached_property
    def _first_stages(self) -> dict[str, Stage]:
        return {stage.kind: stage for stage in reversed(self.stages)}

    @property
    def unknown(self) -> str:
        """Return what is not known of its flags: the expansions that may hold some; empty where all is read."""
        words = [word for stage in self.stages for word in stage.hidden]
        words += [last.word for last in self.stages[-1:] if last.kind == "program" and last.word.may_be_several]
        return f"what {words[0].value} holds" if words else ""

    @property
    def script(self) -> Word | None:
        """Return the word that names the Python script."""
        stage = self.stage("python")
        return next((word for word in stage.words if word.value.endswith(".py")), None) if stage else None


def is_of_one_node(agent: Stage) -> bool:
    """Tell whether a launcher of ranks is told of no other node: each start of it is a training of its own."""
    if agent.name == "deepspeed":
        return not agent.hidden and not agent.has("--hostfile", "-H", "--no_ssh", "--launcher", "--num_nodes")
    return agent.has("--standalone")


def starts_python(launches: Sequence[LaunchCommand]) -> bool:
    """Tell whether one of these commands starts Python, or may do so.

    A script, a shell text and a program out of a variable may.
    """
    return not launches or any(_may_be_python(each) for each in launches)


def _may_be_python(launch: LaunchCommand) -> bool:
    last = launch.stages[-1]
    known = last.kind in {"program", "container"} and last.word.program and not last.name.endswith(".sh")
    return not known or last.kind == "container"


def launches_of(shell: ShellText) -> tuple[LaunchCommand, ...]:
    """Return the commands of a script that start programs, each with its chain."""
    return tuple(launch for command in shell.commands if command.words for launch in _launches(shell, command))


def _launches(shell: ShellText, command: SimpleCommand) -> Iterator[LaunchCommand]:
    words = _expanded(shell, command)
    wraps = shell.wrappers.get(words[0].value) if len(words) > 1 else None
    if wraps or (len(words) > 1 and words[0].value == "eval"):
        yield from _evaluated(shell, command, words[1:])
        return
    words = words if wraps is None else words[1:]
    stages = stages_of(words[:1] if _only_looks(words) else words)
    last = stages[-1] if stages else None
    text = last.option("-c", "-lc", "-ec", "-xc", "-exc") if last is not None and last.kind == "shell" else None
    if text is None:
        yield LaunchCommand(command, stages)
        return
    is_early = text.quoted == '"' or bool(text.names)
    step = next((stage for stage in stages if stage.kind == "step"), None)
    exports = step.text("--export") if step is not None else None
    body, reaches = text.value, exports is None or "ALL" in exports.upper().split(",")
    if is_early or (reaches and not _FROM_FILE.search(body)):
        body = _with_values(shell, body, command.order, only_exported=not is_early)
    if text.text.startswith('"'):
        body = body.replace("\\$", "$").replace("\\\\\n", "\\\n")  # what the outer shell makes of it
    inner = read_shell(body, line=text.place.line, column=text.place.column + len(text.quoted))
    whole = _with_texts(shell, body, command.order) if text.quoted == '"' else body
    if whole != body:
        inner = _placed(read_shell(whole), text.place)
    yield LaunchCommand(command, stages, inner, (text,) if not text.is_literal else ())


def _only_looks(words: Sequence[Word]) -> bool:
    """Tell whether a command asks where a program lies, and does not start it: command -v."""
    return len(words) > 1 and words[0].value == "command" and re.fullmatch("-p?[vV]", words[1].value) is not None


def _evaluated(shell: ShellText, command: SimpleCommand, words: Sequence[Word]) -> Iterator[LaunchCommand]:
    """Yield the commands that `eval` makes of its words."""
    text = _with_values(shell, " ".join(word.value for word in words), command.order)
    if re.fullmatch(r"\$\{?\w+\}?", text):
        text = shell.filled(text)  # its signs are those of a script: eval reads them again
    place = command.place
    for inner in read_shell(text).commands:
        if inner.words[0].value != "eval":
            placed = [msgspec.structs.replace(word, place=place, from_variable=True) for word in inner.words]
            outer = msgspec.structs.replace(
                command,
                words=tuple(placed),
                in_background=command.in_background or inner.in_background,
                pipes_on=command.pipes_on or inner.pipes_on,
                pipe=command.pipe or inner.pipe,
            )
            yield LaunchCommand(outer, stages_of(placed))


def _expanded(shell: ShellText, command: SimpleCommand) -> tuple[Word, ...]:
    """Put the words of `LAUNCHER="torchrun …"` or ARGS=(…) in the place of $LAUNCHER and "${ARGS[@]}"."""
    result: list[Word] = []
    waiting = [(word, 0) for word in reversed(command.words)]
    while waiting:
        word, depth = waiting.pop()
        name = word.lone_name if word.may_be_several or not result else None
        values = shell.words_of(name, command.order) if name is not None and depth < 4 else None
        if values is None:
            result.append(word)
            continue
        waiting += [
            (msgspec.structs.replace(value, place=word.place, from_variable=True), depth + 1)
            for value in reversed(values)
        ]
    return tuple(result)


_FROM_FILE = re.compile(r"(^|[\s;&|(])(source|eval|unset|\.)\s")
"""Signs that a shell takes variables out of a text that is not known here."""


def _with_values(shell: ShellText, text: str, order: int, *, only_exported: bool = False) -> str:
    """Put the values of variables that are known here in their places; in a task's own shell the exported ones."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        is_own = re.search(rf"(?<![\w-]){name}\+?=|\b(for|read|printf|mapfile)\s[^;\n]*(?<![\w${{]){name}\b", text)
        is_exported = any(each.exported and each.elements is None for each in shell.assigned(name))
        if only_exported and (is_own or not is_exported):
            return match[0]
        words = shell.words_of(name, order)
        return with_its_end(" ".join(word.text for word in words), match) if words is not None else match[0]

    return re.sub(r"(?<!\\)\$(?:\{(\w+)(?:\[[@*]\])?\}|([A-Za-z_]\w*))", value_of, text)


def _with_texts(shell: ShellText, text: str, order: int) -> str:
    """Put whole commands in the places of the variables that hold them: CMD="cd a; python b.py"; bash -c "$CMD"."""

    def value_of(match: re.Match[str]) -> str:
        values = shell.assigned(match[1] or match[2])
        value = values[0].value if len(values) == 1 else None
        if value is None or values[0].order > order or values[0].may_not_run or values[0].of_command:
            return match[0]
        if values[0].elements is not None or value.substitutions:
            return match[0]
        return value.value if value.quoted == "'" else re.sub(r"\\([$`\"\\]|\n)", _unescaped, value.value)

    return re.sub(r"(?<!\\)\$(?:\{(\w+)\}|([A-Za-z_]\w*))", value_of, text) if _HOLDS_ALL.search(text) else text


_HOLDS_ALL = re.compile(r"(^|[;&|\n]\s*)\$\{?[A-Za-z_]\w*\}?(\s|;|$)")
"""A variable in the place of a command."""


def _unescaped(match: re.Match[str]) -> str:
    return " " if match[1] == "\n" else match[1]


def _placed(shell: ShellText, place: TextSpan) -> ShellText:
    """Return a text of commands with each of them at one place of the file: the use of the variable that holds them."""
    commands = [
        msgspec.structs.replace(
            each,
            place=place,
            words=tuple(msgspec.structs.replace(word, place=place, from_variable=True) for word in each.words),
        )
        for each in shell.commands
    ]
    return ShellText(
        text=shell.text,
        commands=tuple(commands),
        assignments=tuple(msgspec.structs.replace(each, place=place) for each in shell.assignments),
        comments=(),
        heredocs=(),
        spaced=(),
        errors=() if shell.error is None else (place,),
        first_command_line=place.line,
    )


def stages_of(words: Sequence[Word]) -> tuple[Stage, ...]:
    """Return the chain of programs that these words start."""
    texts = [word.value for word in words]

    def is_opaque(index: int) -> bool:
        return words[index].may_be_several

    return tuple(_stage(link, words) for link in read_chain(texts, is_opaque))


def _stage(link: StartedProgram, words: Sequence[Word]) -> Stage:
    options: list[tuple[str, Word | None]] = []
    for option in link.options:
        word = words[option.at]
        if option.value is not None and not word.value.startswith(f"{option.name}="):
            word = msgspec.structs.replace(word, value=option.value)
        options.append((option.name, word if option.value is not None else None))
    return Stage(
        link.name,
        link.kind,
        words[link.first],
        tuple(options),
        tuple(words[link.end :]),
        tuple(words[index] for index in link.before),
        tuple(words[index] for index in link.hidden),
    )
