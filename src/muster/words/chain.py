"""A command → the programs that it starts, one behind the other: srun, a container, torchrun, python, the script. Pure.

The reader takes texts and answers with positions: what a word is, and where it stands in a file, is its caller's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from muster.words.programs import MODULES, PROGRAMS, PYTHON_VALUED, SHELLS, SWITCHES, KnownProgram, is_python

_LOOKED_UP = r"(?:\$\(|`)\s*(?:which|command\s+-v|type\s+-p)\s+([\w./+-]+)\s*[)`]"


def looked_up(word: str) -> str:
    """Return X of $(which X), $(command -v X) and $(type -p X); another word as it is."""
    found = re.fullmatch(_LOOKED_UP, word) if word.startswith(("$(", "`")) else None
    return found[1] if found else word


class ReadOption(msgspec.Struct, frozen=True):
    """One option of a program."""

    name: str
    """As it is written, without its value: --nodes, -N."""

    value: str | None
    at: int
    """The word that holds the value; without a value, the option itself."""


class StartedProgram(msgspec.Struct, frozen=True):
    """One program of a chain, with its own options."""

    name: str
    kind: str
    """step, mpi, container, agent, wrapper, shell, python or program."""

    first: int
    """Where the program stands."""

    options: tuple[ReadOption, ...]
    before: tuple[int, ...]
    """Words other than options that stand before the command: a sub-command, an image, the variables of `env`."""

    end: int
    """Where the command that it starts begins; for a program at the end of the chain its own words."""

    hidden: tuple[int, ...] = ()
    """Words among its options that nobody can read here: an expansion may hold any option."""


def read_chain(words: Sequence[str], is_opaque: Callable[[int], bool] = lambda _: False) -> tuple[StartedProgram, ...]:
    """Return the programs that these words start; `is_opaque` tells of a word that may be several, or none."""
    return tuple(_links(words, is_opaque))


def split_wrappers(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words before the command (env, uv run, numactl) and the command; the first may be empty.

    `uv run -m MODULE` is `uv run python -m MODULE`.
    """
    start = 0
    for link in read_chain(words):
        is_begun = link.end < len(words) and (words[link.end] == "-m" or not words[link.end].startswith("-"))
        if link.kind != "wrapper" or not is_begun or not _is_verb_first(PROGRAMS[link.name], link, words):
            break
        start = link.end
    python = ("python",) if start < len(words) and words[start] == "-m" else ()
    return tuple(words[:start]), (*python, *words[start:])


def script_of_python(words: Sequence[str]) -> str | None:
    """Return the script in `python -u script.py …`; None: a module, -c, the standard input, or nothing."""
    link = read_chain(words)[0]
    is_script = link.kind == "python" and not link.options and "-" not in words[1 : link.end]
    return words[link.end] if is_script and link.end < len(words) else None


def read_launcher(words: Sequence[str]) -> tuple[StartedProgram, KnownProgram] | None:
    """Return the program that starts ranks with which these words begin, alone or behind python; None: none."""
    link = _link(words, 0, _is_readable, with_starters=True)
    program = MODULES.get(link.name) or _program_of(link.name)
    if program is None or link.kind != program.kind or program.launcher is None:
        return None
    while (option := _unread_value(program, link, words)) is not None:
        program = msgspec.structs.replace(program, valued=program.valued | {option})
        link = _read(link.name, program, words, link.first, _is_readable)
    return (link, program) if _is_verb_first(program, link, words) else None


def _is_readable(_: int) -> bool:
    return False


def _is_verb_first(program: KnownProgram, link: StartedProgram, words: Sequence[str]) -> bool:
    """Tell whether a program that needs a sub-command has the one with which it starts something."""
    return not program.verbs or any(words[index] in program.verbs for index in link.before)


def _unread_value(program: KnownProgram, link: StartedProgram, words: Sequence[str]) -> str | None:
    """Return an option that the table lacks, which has to have the next word: the script of the ranks comes later."""
    option = link.options[-1] if link.options else None
    if option is None or program.launcher != "torchrun" or not option.name.startswith("--"):
        return None
    is_last = option.value is None and option.at == link.end - 1 and option.name not in SWITCHES
    rest = words[link.end :]
    return option.name if is_last and rest and not is_script(rest[0]) and any(map(is_script, rest[1:])) else None


def is_script(word: str) -> bool:
    """Tell whether a word is a script, an interpreter, or a program with its folder."""
    return word.endswith(".py") or "/" in word or is_python(word)


def _links(words: Sequence[str], is_opaque: Callable[[int], bool]) -> Iterator[StartedProgram]:
    start = 0
    while start < len(words):
        link = _link(words, start, is_opaque)
        yield link
        if link.kind in {"program", "shell", "python"}:
            return
        start = link.end


def _link(
    words: Sequence[str], start: int, is_opaque: Callable[[int], bool], *, with_starters: bool = False
) -> StartedProgram:
    """Read the program at a place; `with_starters`: also one that starts ranks by words that are not known here."""
    name = looked_up(words[start]).rpartition("/")[2]
    if is_opaque(start):
        return StartedProgram(name, "program", start, (), (), start + 1)
    if name.endswith(".py"):
        return StartedProgram(name, "python", start, (), (), start)
    if is_python(name):
        return _python(words, start, is_opaque, with_starters=with_starters)
    if name in SHELLS:
        # -c takes a text and -o a name, also at the end of several letters: -lc, -euo.
        valued = frozenset(word for word in words if word[:1] == "-" != word[1:2] and word[-1:] in {"c", "o"})
        return _read(name, KnownProgram("shell", valued), words, start, is_opaque)
    if name == "-m" and start:  # uv run -m MODULE
        return _python(words, start - 1, is_opaque)
    program = _program_of(name)
    is_hidden = program is not None and program.kind == "starter" and not with_starters
    if program is None or is_hidden or (program.verbs and not _has_verb(program, words, start)):
        return StartedProgram(name, "program", start, (), (), start + 1)
    return _read(name, program, words, start, is_opaque)


def _program_of(name: str) -> KnownProgram | None:
    """Return the row of a program: mpirun.mpich and mpiexec.hydra are those without a dot."""
    return PROGRAMS.get(name.partition(".")[0] if name.startswith("mpi") else name)


def _has_verb(program: KnownProgram, words: Sequence[str], start: int) -> bool:
    """Tell whether a sub-command that starts something stands behind the program, among its options."""
    return any(word in program.verbs for word in words[start + 1 : start + 12])


def _read(
    name: str, program: KnownProgram, words: Sequence[str], start: int, is_opaque: Callable[[int], bool]
) -> StartedProgram:
    options: list[ReadOption] = []
    before: list[int] = []
    hidden: list[int] = []
    index, left = start + 1, program.words_before
    while index < len(words):
        text = words[index]
        if text == "--":
            index += 1
            break
        if is_opaque(index) and _is_inside(words, index, left, is_opaque):
            hidden.append(index)
            index += 1
            continue
        if text in {"-m", "--module"} and name == "uv" and not left:
            break
        if not text.startswith("-") or text == "-":
            if name == "env" and ("=" in text or text == "-"):
                before.append(index)
            elif left and program.kind == "wrapper" and program.verbs and text not in program.verbs:
                before.append(index)  # uv tool run
            elif left:
                left -= 1
                before.append(index)
            else:
                break
            index += 1
            continue
        index = _option(program, words, index, options)
    return StartedProgram(name, program.kind, start, tuple(options), tuple(before), index, tuple(hidden))


def _is_inside(words: Sequence[str], index: int, left: int, is_opaque: Callable[[int], bool]) -> bool:
    """Tell whether an unreadable word stands among the options: what follows is an option, or begins a command."""
    following = words[index + 1] if index + 1 < len(words) else ""
    if following.startswith("-"):
        return True
    if left > 1:  # the sub-command is still to come
        return False
    name = looked_up(following).rpartition("/")[2]
    is_image = name.endswith((".sif", ".simg", ".img", ".sqsh")) or "://" in following
    is_command = name in PROGRAMS or name in SHELLS or is_python(name) or name.endswith((".py", ".sh"))
    if left:
        return is_image or (index + 2 < len(words) and is_opaque(index + 1) and not words[index + 2].startswith("-"))
    return is_command or following.startswith(("./", "/"))


def _option(program: KnownProgram, words: Sequence[str], index: int, options: list[ReadOption]) -> int:
    """Read one option into the list; return where the next word begins."""
    text = words[index]
    flag, equals, value = text.partition("=")
    if text in program.pairs and index + 2 < len(words):
        options.append(ReadOption(text, f"{words[index + 1]} {words[index + 2]}", index + 1))
        return index + 3
    if equals:
        options.append(ReadOption(flag, value, index))
    elif text in program.valued and index + 1 < len(words):
        options.append(ReadOption(text, words[index + 1], index + 1))
        return index + 2
    elif len(text) > 2 and not text.startswith("--") and text[:2] in program.valued:
        options.append(ReadOption(text[:2], text[2:], index))
    else:
        options.append(ReadOption(text, None, index))
    return index + 1


def _python(
    words: Sequence[str], start: int, is_opaque: Callable[[int], bool], *, with_starters: bool = False
) -> StartedProgram:
    """Read `python [-u] [-m MODULE] SCRIPT`; a module that starts ranks is an agent."""
    index = start + 1
    hidden: list[int] = []
    while index < len(words):
        word = words[index]
        if word == "-m" and index + 1 < len(words):
            module = words[index + 1]
            if module in MODULES and (with_starters or MODULES[module].kind != "starter"):
                return msgspec.structs.replace(
                    _read(module, MODULES[module], words, index + 1, is_opaque), first=index + 1
                )
            return StartedProgram("python", "python", start, (ReadOption("-m", module, index + 1),), (), index + 2)
        if word == "-c" and index + 1 < len(words):
            return StartedProgram(
                "python", "python", start, (ReadOption("-c", words[index + 1], index + 1),), (), index
            )
        name = looked_up(word).rpartition("/")[2]
        started = PROGRAMS.get(name) if name != word else None
        if started and (started.kind == "agent" or (with_starters and started.launcher)):
            return _read(name, started, words, index, is_opaque)
        if is_opaque(index) and index + 1 < len(words) and words[index + 1].endswith(".py"):
            hidden.append(index)
        elif not word.startswith("-"):
            return StartedProgram("python", "python", start, (), (), index, tuple(hidden))
        index += 2 if word in PYTHON_VALUED else 1
    return StartedProgram("python", "python", start, (), (), index)
