"""The exception tree of the login side. Each carries data and a hint; the words and the exit
status of a verb are made from them in one place, `cli/app.py`.

MusterError (rank/errors.py)
├── RequestError            the request cannot be understood or done as asked        exit 2
│   ├── UnknownName         a name that is none of the known ones                    exit 2
│   ├── MachineLacks        this machine lacks a part; the hint is the command that fixes it   exit 2
│   └── ProfileError        a site profile cannot be read                            exit 2
└── SiteError               the site or the scheduler refused                        exit 3
    ├── NoSlurm             there is no Slurm here, or none that is set up           exit 3
    ├── SchedulerSilent     the controller did not answer in time                    exit 3
    └── CommandFailed       a program was started and failed                         exit 3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from muster.rank.errors import HostlistError, MusterError, WireupError

__all__ = [
    "CommandFailed",
    "HostlistError",
    "MachineLacks",
    "MusterError",
    "NoSlurm",
    "ProfileError",
    "Refusal",
    "RequestError",
    "SchedulerSilent",
    "SiteError",
    "UnknownName",
    "WireupError",
    "refused",
]


class Refusal(NamedTuple):
    """One rule that a request breaks, as data: who decides by it reads these values, and never the sentence."""

    rule: str
    message: str
    hint: str
    key: str = ""
    """The profile's key that says so: its origin is the rule's source."""

    queue: str = ""
    """The partition or the QOS that refuses."""

    limit: int | None = None
    """The most, or the least, that the rule allows, in the rule's own unit."""

    accepted: Mapping[str, str | None] = MappingProxyType({})
    """What the rule would accept: the value of an option, by its long name; None: without the option."""


class RequestError(MusterError):
    """The request cannot be understood, or not be done as asked; `refusals` are the rules that it breaks, if any."""

    def __init__(self, message: str, hint: str | None = None, *, refusals: Sequence[Refusal] = ()) -> None:
        super().__init__(message, hint)
        self.refusals = tuple(refusals)


def refused(*refusals_and_origins: tuple[Refusal, str]) -> RequestError:
    """Return the error of these broken rules: each sentence with its origin, and all hints."""
    return RequestError(
        "; ".join(
            f"{refusal.message} ({origin})" if origin else refusal.message for refusal, origin in refusals_and_origins
        ),
        "; ".join(refusal.hint for refusal, _ in refusals_and_origins),
        refusals=[refusal for refusal, _ in refusals_and_origins],
    )


class UnknownName(RequestError):
    """`name` is none of `known`: the hint offers `meant` or the nearest, else lists them, or names what lists them."""

    def __init__(
        self, kind: str, name: str, known_names: Iterable[str], *, listed_by: str = "", meant: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known_names)
        if meant:
            hint = f"did you mean {' or '.join(map(repr, meant))}?"
        elif listed_by and nearest_name(name, self.known) is None:
            hint = f"{listed_by} lists them"
        else:
            hint = nearest_hint(name, self.known)
        super().__init__(f"there is no {kind} named {name!r}", hint)


class MachineLacks(RequestError):
    """This machine lacks `part`."""

    def __init__(self, part: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.part = part


class ProfileError(RequestError):
    """A site profile cannot be read: which file, which line, which key."""

    def __init__(
        self, message: str, file: str, *, line: int | None = None, key: str | None = None, hint: str | None = None
    ) -> None:
        self.file = file
        self.line = line
        self.key = key
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {message}" if key is None else f"{place}: {key}: {message}", hint)


class SiteError(MusterError):
    """The site or its scheduler refused."""


class NoSlurm(SiteError):
    """There is no Slurm here (`program` is not on PATH), or one whose cluster cannot be found."""

    def __init__(self, program: str, *, is_installed: bool) -> None:
        self.program = program
        if is_installed:
            sentence = f"Slurm is installed here, but no cluster is set up: {program} finds no configuration"
            hint = "type it on the cluster's login node"
        else:
            sentence = f"there is no Slurm here: {program} is not on PATH"
            hint = "load the module that has it"
        super().__init__(sentence, f"{hint}, or: muster run --here, muster lab for a cluster of your own")


class SchedulerSilent(SiteError):
    """The controller did not answer within the time we gave it."""


class CommandFailed(SiteError):
    """A program was started and failed; carries what it was and what it said."""

    def __init__(
        self, argv: Sequence[str], status: int, stderr: str, message: str | None = None, hint: str | None = None
    ) -> None:
        self.argv = tuple(argv)
        self.status = status
        self.stderr = stderr
        error_lines = stderr.strip().splitlines()
        words = f": {error_lines[-1].strip()}" if error_lines else ""
        super().__init__(message or f"{self.argv[0]} ended with status {status}{words}", hint)


def nearest_hint(name: str, known_names: Sequence[str]) -> str:
    """Return 'did you mean …?' when a name begins like it or is close, else the list of what there is."""
    near_name = nearest_name(name, known_names)
    if near_name is not None:
        return f"did you mean {near_name!r}?"
    return "known: " + ", ".join(known_names) if known_names else "there are none"


def nearest_name(name: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that begins like this one or is close to it; None: there is none."""
    from difflib import get_close_matches  # only needed once something is wrong

    by_spelling = {name_as_known.casefold(): name_as_known for name_as_known in known_names}
    typed_name = name.casefold()
    longer_names = [spelling for spelling in by_spelling if len(typed_name) > 1 and spelling.startswith(typed_name)]
    close = longer_names if len(longer_names) == 1 else get_close_matches(typed_name, by_spelling, n=1)
    return by_spelling[close[0]] if close else None
