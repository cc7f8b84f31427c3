"""What every verb says of its command line, and the one reader for all of them.

A verb's file ends in its `COMMAND`: the sentence, the options, the operands, what starts it. Help (`help_page.py`) and
completion (`completion.py`) are made from the same value, so that no verb has a parser, a page or a list of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from muster.errors import RequestError, UnknownName
from muster.job.option import Option, ValueOrigin, option
from muster.job.options import Typed, read_words

JSON = option("--json", "print one JSON document with stable keys")
QUIET = option("--quiet", "show warnings only, no progress")
HELP = option("-h --help", "show this page")


class TypedLaunch(msgspec.Struct, frozen=True):
    """The options of a launch that were typed, and the command."""

    values: Mapping[str, Any]
    """By field of the request."""

    origins: Mapping[str, ValueOrigin]
    command: tuple[str, ...]
    typed: tuple[str, ...]
    """The words as they were typed, without a verb's own options."""


class Words:
    """What was typed behind a verb. Each of its own options is an attribute: `words.json`, `words.job_option`."""

    def __init__(self, verb: str, own_values: Mapping[str, Any], launch: TypedLaunch, typed_words: Typed) -> None:
        self.verb = verb
        self._own = own_values
        self.operands = typed_words.rest
        self.launch = launch
        self.typed = typed_words

    def __getattr__(self, name: str) -> Any:
        try:
            return self._own[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def first(self) -> str | None:
        """Return the first operand; None where there is none."""
        return self.operands[0] if self.operands else None

    def form(self, name: str, default: str) -> str:
        """Return the form to print, which an option names, or --json; two of them are refused."""
        form: str | None = self._own[name]
        if self.json and form not in {None, "json"}:
            raise RequestError(f"--json and --{name} {form} are two forms", hint="give one of them")
        return form or ("json" if self.json else default)

    def without(self, *names: str) -> list[str]:
        """Return the words as they were typed, but for these options."""
        return [word for name, piece in self.typed.pieces if name not in names for word in piece]


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of one verb, or of a verb of a verb."""

    name: str
    """All of its words after `muster`: lab up."""

    summary: str
    """Paragraphs, the first in one or two lines; an indented line keeps its shape."""

    start: Callable[[Words], int] | None = None
    options: tuple[Option, ...] = ()
    fields: Collection[str] = ()
    """The fields of the request whose options it takes too."""

    operands: str = ""
    """As the usage line shows them: JOB…, [SITE], [--] COMMAND…"""

    least: int = 0
    most: int | None = 0
    """How many operands there may be; None: any number."""

    choices: tuple[str, ...] | None = None
    """What the first operand may be."""

    hint: str = ""
    """What to do where an operand is missing, or is one too many."""

    runs: bool = False
    """Whether its operands are a command, which begins at the first word that is not an option."""

    verbs: tuple[CommandLine, ...] = ()
    examples: tuple[str, ...] = ()
    more: str = ""
    """What stands below the options, as it is."""

    @property
    def own(self) -> dict[str, Option]:
        """Return the command's own options by name."""
        return {option.long_names[0].replace("-", "_"): option for option in (*self.options, HELP)}

    @property
    def launch_options(self) -> dict[str, Option]:
        """Return the options of the request that it takes, by field."""
        return (
            {name: option for name, option in _launch_options().items() if name in self.fields} if self.fields else {}
        )


def _launch_options() -> dict[str, Option]:
    """Return the options of the request; a verb that has none of them does not load it."""
    from muster.job.request import options_of

    return options_of()


def fields_but(*names: str, has_roles: bool = False) -> tuple[str, ...]:
    """Return the fields of the request without these; `has_roles`: with those of a job of several programs."""
    from muster.job.roles import ROLE_OPTIONS

    others = names if has_roles else (*names, *ROLE_OPTIONS)
    return tuple(name for name in _launch_options() if name not in others)


def read_typed(command: CommandLine, words: Sequence[str]) -> Typed:
    """Return what was typed, if it is what the verb takes."""
    launch = _launch_options() if command.fields else {}
    if "file" in command.fields:
        words = _with_file(words)
    typed_words = read_words(words, {**launch, **command.own}, mixed=not command.runs)
    if "roles" in typed_words.values and "role" not in command.fields and command.fields:
        message = f"muster {command.name} starts one program, and takes no --role"
        raise RequestError(message, hint="muster submit queues a job of several programs, muster plan shows it")
    for name in typed_words.values:
        if name in launch and name not in (*command.fields, *command.own) and "help" not in typed_words.values:
            hint = f"muster {'run' if name in {'here', 'no_label'} else 'submit'} takes it"
            if name in {"output", "error"}:
                hint = "its output comes here: > FILE behind the command keeps it"
            raise RequestError(f"muster {command.name} does not take {typed_words.origins[name].where}", hint=hint)
    return typed_words


def _with_file(words: Sequence[str]) -> Sequence[str]:
    """Return the words with those of the job's file: its options first, so that those typed hold, its roles last."""
    own_words = words[: words.index("--")] if "--" in words else words
    place = next((place for place, word in enumerate(own_words) if word.partition("=")[0] == "--file"), None)
    if place is None:
        return words
    _, equals, name = own_words[place].partition("=")
    behind = place + (1 if equals else 2)
    if not equals:
        name = next(iter(own_words[place + 1 : place + 2]), "")
    if not name:
        return words  # the reader of options says what is missing
    from pathlib import Path

    from muster.job.job_file import words_of_file

    try:
        text = Path(name).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise RequestError(
            f"--file {name} cannot be read: {reason}", hint="muster docs roles shows such a file"
        ) from None
    options, rest = words_of_file(text, name)
    typed_beside = [*words[:place], *words[behind:]]
    return [*options, *typed_beside, *rest]


def read_command(command: CommandLine, words: Sequence[str]) -> Words:
    """Return what was typed behind a verb that has no verbs of its own."""
    return words_of(command, read_typed(command, words))


def words_of(command: CommandLine, typed_words: Typed) -> Words:
    """Return the values behind the words that were typed; raises RequestError for a wrong number of operands."""
    own_values = {name: _value(name, option, typed_words) for name, option in command.own.items()}
    fields = {
        name: value
        for name, value in typed_words.values.items()
        if (name in command.fields or name == "roles") and name not in own_values
    }
    _check_operands(command, typed_words.rest)
    pieces = [
        piece for name, piece in typed_words.pieces if name not in own_values and (command.runs or piece != ("--",))
    ]
    plain = tuple(word for piece in pieces for word in piece)
    return Words(
        command.name, own_values, TypedLaunch(fields, typed_words.origins, typed_words.rest, plain), typed_words
    )


def _value(name: str, option: Option, typed_words: Typed) -> Any:
    if name in typed_words.values:
        return typed_words.values[name]
    if option.required:
        raise RequestError(f"{option.flags[0]} is missing", hint=option.describe())
    return False if option.is_switch else () if option.repeated else option.default


def _check_operands(command: CommandLine, operands: Sequence[str]) -> None:
    usage, page = f"muster {command.name}", f"muster {command.name} --help"
    if len(operands) < command.least:
        kind = command.operands.strip("[]….- ").split()[len(operands) :][:1] or ["word"]
        raise RequestError(f"{usage} needs {_ARTICLES.get(kind[0].strip('[]…'), kind[0])}", hint=command.hint or page)
    if command.choices is not None and operands and operands[0] not in command.choices:
        raise UnknownName(command.operands.split()[0].strip("[]…").lower(), operands[0], command.choices)
    if command.most is not None and len(operands) > command.most:
        first = operands[command.most]
        takes = f"at most {command.most} of {command.operands.strip('[]… ')}" if command.most else "no words of its own"
        raise RequestError(f"{usage} takes {takes}, but {first!r} is one too many", hint=command.hint or page)


_ARTICLES = {
    "JOB": "a job id",
    "COMMAND": "a command",
    "CMD": "a command",
    "DIR": "a directory",
    "PATH": "a path",
    "SHELL": "a shell's name",
    "FAULT": "the name of a fault",
}


def read_launch(words: Sequence[str]) -> TypedLaunch:
    """Return the options of a launch and the command in words that hold nothing else."""
    typed_words = read_words(words, _launch_options())
    return TypedLaunch(typed_words.values, typed_words.origins, typed_words.rest, tuple(words))
