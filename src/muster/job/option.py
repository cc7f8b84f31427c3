"""One option of a command line: how it is written, what its text becomes, where the value goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from muster.errors import HostlistError, RequestError, UnknownName
from muster.images.reference import ImageReference
from muster.older import StrEnum
from muster.units import Memory, Walltime, shown, whole_number

UNGROUPED = "what to run on"  # the title of the options that name no other group
_LONGEST_S = 3650 * 24 * 3600
_LEAST_SILENCE_S = 5
_LONGEST_LEAD_S = 65_535
_LARGEST_MIB = 1024 * 1024 * 1024


class OriginKind(StrEnum):
    """What kind of place a value of the request comes from."""

    OPTION = "option"  # typed for this launch, or given to a function of Muster's
    ABSENT_OPTION = "absent option"  # a switch that a caller from Python turned off
    SETTINGS = "settings file"
    SYSTEM_SETTINGS = "settings file of the machine"
    VARIABLE = "variable"
    ALLOCATION = "allocation"
    CLUSTER = "cluster"  # what Slurm says here
    PROFILE = "profile"
    VERB = "verb"


class ValueOrigin(msgspec.Struct, frozen=True):
    """Where a value of the request comes from."""

    kind: OriginKind
    where: str
    """The option as it was spelled, the file and its line, the variable."""

    text: str = ""
    """The value, as it was typed behind the option."""

    def words(self) -> str:
        """Return the place in words: -N 4, user.toml:2, the name of a variable."""
        return f"{self.where} {self.text}" if self.text else self.where


def parse_text(value: str) -> str:
    """Return the text; a control character is refused."""
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise RequestError(f"{value!r} holds a line break or another control character", hint="write it on one line")
    return value


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """How a value is written on the command line and in a settings file, and where it goes."""

    flags: tuple[str, ...]
    help: str
    parse: Callable[[str], Any] = parse_text
    metavar: str | None = None
    """What stands for the value in the help; None: a switch, which has none."""

    repeated: bool = False
    group: str = UNGROUPED
    choices: tuple[str, ...] | None = None
    meant: Mapping[str, str] = {}
    """What people give that is none of the choices, and the choice that does its work."""

    default: Any = None
    directive: str | None = None
    """The flag of sbatch's that the value becomes, in the header of the job; None: the plan makes something of it."""

    required: bool = False
    often: bool = False
    """Whether the first page of help shows it."""

    whole_flags: bool = False
    """Whether the value is itself an option, so that it may begin with a dash."""

    begins_role: bool = False
    """Whether all words from here on describe roles of a job."""

    @property
    def is_switch(self) -> bool:
        return self.metavar is None

    @property
    def has_group(self) -> bool:
        """Return whether the option names a group of its own, beside that of the whole command."""
        return self.group not in {UNGROUPED, "output"}

    @property
    def long_names(self) -> tuple[str, ...]:
        """Return the long spellings without their dashes."""
        return tuple(flag[2:] for flag in self.flags if flag.startswith("--"))

    @property
    def head(self) -> str:
        """Return the option as its line of help begins: -N, --nodes N; a third spelling is only understood."""
        return ", ".join(self.flags[:2]) + (f" {self.metavar}" if self.metavar else "")

    def describe(self) -> str:
        """Return the option and its sentence, for an error that asks for its value."""
        return f"{self.flags[-1]} {self.metavar}: {self.help}"


def option(
    spelling: str,
    help: str,  # noqa: A002  # argparse's own word for it
    parse: Callable[[str], Any] = parse_text,
    *,
    group: str = "output",
    is_common: bool = False,
    **more: Any,
) -> Option:
    """Return the option of a spelling as the help shows it: -N --nodes N; without a word for its value, a switch.

    `more`: further fields of the option.
    """
    words = spelling.split()
    flags = tuple(word for word in words if word.startswith("-"))
    metavar = words[-1] if len(words) > len(flags) else None
    return Option(flags=flags, help=help, parse=parse, metavar=metavar, group=group, often=is_common, **more)


def convert(option: Option, text: str, origin: str) -> Any:
    """Return the value of an option's text, or raise an error that names the option."""
    if not text.strip():
        raise RequestError(f"{origin} needs a value, but it is empty", hint=option.describe())
    if option.choices is not None and text not in option.choices:
        error = UnknownName(f"value of {origin}", text, option.choices)
        choice = option.meant.get(text.lower())
        hint = error.hint if choice is None else f"{option.flags[0]} {choice} does the work of {text}"
        raise RequestError(f"{origin}: {text!r} is not a known value", hint=hint)
    try:
        return option.parse(text)
    except RequestError as error:
        raise RequestError(f"{origin}: {error.message}", hint=error.hint) from None


def parse_gpu_type(value: str) -> str:
    """Return the type of a GPU as gres names it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise RequestError(f"{shown(value)} is not a type of GPU", hint="as sinfo -o '%G' shows it: a100, h100_1g.10gb")
    return value


def parse_gres(value: str) -> str:
    """Return a list of generic resources that sbatch can read."""
    for item in value.split(","):
        name, *rest = re.split("[:=]", re.sub("^gres[:/]", "", item))
        is_readable = re.fullmatch(r"[A-Za-z_][\w.-]*", name) and all(re.fullmatch(r"[\w./-]+", part) for part in rest)
        counts = len(rest) < 2 or (len(rest) == 2 and re.fullmatch(r"-?\d+[kmgt]?", rest[1], re.IGNORECASE))
        if not is_readable or not counts or (name != "gpu" and re.fullmatch(r"gpus?[-.]?\d*", name.lower())):
            raise RequestError(
                f"{shown(item)} is not a resource that every sbatch reads", hint="gpu:4, or with the type gpu:a100:4"
            )
    return value


def parse_gpus(value: str) -> int:
    """Return the number of GPUs; a type before it belongs into --gres."""
    _, colon, count = value.rpartition(":")
    if colon and whole_number(count) is not None:
        raise RequestError(
            f"{shown(value)} is not a count",
            hint=f"-g {count} --gpu-type {value.removeprefix('gpu:').rpartition(':')[0]} names the type of the GPUs",
        )
    return parse_count(0, 1024)(value)


def parse_count(lowest: int, highest: int) -> Callable[[str], int]:
    """Return the parser of whole numbers from `least` to `most`."""

    def parse(value: str) -> int:
        number = whole_number(value)
        if number is None or number < lowest:
            raise RequestError(f"{shown(value)} is not a count", hint=f"give a whole number from {lowest} up")
        if number > highest:
            raise RequestError(f"{value} is too large", hint=f"give a whole number from {lowest} to {highest}")
        return number

    return parse


def parse_flag(value: str) -> str:
    """Return a word that is itself an option, for another program."""
    if not value.startswith("-") or not value.strip("-"):
        raise RequestError(f"{shown(value)} is not a whole flag", hint=f"for example --{value.strip('-') or 'quiet'}")
    return parse_text(value)


def parse_port(value: str) -> int:
    """Return a port that an ordinary user may open."""
    number = whole_number(value)
    if number is None or not 1024 <= number <= 65535:
        raise RequestError(f"{shown(value)} is not a port", hint="give a number from 1024 to 65535")
    return number


def parse_port_range(value: str) -> tuple[int, int]:
    """Return the first and the last port of LOW-HIGH."""
    low, dash, high = value.partition("-")
    if not dash or parse_port(low) >= parse_port(high):
        raise RequestError(f"{value!r} is not a range of ports", hint="write it as LOW-HIGH, for example 20000-21000")
    return int(low), int(high)


def parse_host(value: str) -> str:
    """Return a host's name or its IP address; a port behind it is for the plan to explain."""
    host, colon, port = value.rpartition(":")
    name = host if colon and port.isdigit() and ":" not in host else value
    if re.fullmatch(r"(?!-)[A-Za-z0-9_-]{1,63}(\.(?!-)[A-Za-z0-9_-]{1,63})*\.?", name) and len(name) <= 253:
        return value
    from ipaddress import ip_address  # costs as much as ten of our modules, and hardly anybody needs it

    try:
        ip_address(name.partition("%")[0].strip("[]"))
    except ValueError:
        raise RequestError(
            f"{value!r} is not a host", hint="a host's name or an IP address: node1, node1.cluster.org, 10.0.0.1"
        ) from None
    return value


def parse_nodes(value: str) -> str:
    """Return a list of nodes that Slurm reads; one with a slash is a file."""
    from muster.rank.hostlist import count  # a launch that names no node does not read lists of them

    try:
        count(value if "/" not in value else "")
    except HostlistError as error:
        raise RequestError(f"{shown(value)} is not a list of nodes: {error.message}", hint="node[1-4,7]") from None
    return value


def parse_walltime(value: str) -> Walltime:
    """Return the time limit; a decade is taken for a mistake."""
    limit = Walltime.parse(value)
    if limit.seconds is not None and limit.seconds > _LONGEST_S:
        raise RequestError(f"{value!r} is more than ten years", hint="write days-hours:minutes:seconds, 90m, 12h or 2d")
    return limit


def parse_image(value: str) -> ImageReference:
    """Return the image that the text names."""
    return ImageReference.parse(parse_text(value))


def parse_silence(value: str) -> int:
    """Return the seconds after which a job without a sign of life hangs; 0: never."""
    if value in {"off", "0"}:
        return 0
    seconds = parse_walltime(value).seconds
    if seconds is None or seconds < _LEAST_SILENCE_S:
        raise RequestError(
            f"{value!r} is not a time after which a job hangs", hint="write 5m, 1h or 90s, at least 5s; or off"
        )
    return seconds


def parse_lead(value: str) -> int:
    """Return the seconds before the time limit at which the ranks are told; Slurm counts to 65,535."""
    seconds = parse_walltime(value).seconds
    if not seconds or seconds > _LONGEST_LEAD_S:
        raise RequestError(f"{value!r} is not a time before the limit", hint="write 5m, 90s or 1h, at most 18h")
    return seconds


def parse_seconds(value: str) -> int:
    """Return a time in seconds, at least one."""
    seconds = parse_walltime(value).seconds
    if not seconds:
        raise RequestError(f"{value!r} is not a time to wait", hint="write 90s, 10m or 1h")
    return seconds


def parse_names(value: str) -> tuple[str, ...]:
    """Return the names of a list with commas."""
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise RequestError(f"{value!r} is not a list of names", hint="names with commas between them: serve,data")
    return names


def parse_role_port(value: str) -> str:
    """Return what a role's port speaks, its number, or both."""
    scheme, colon, number = value.rpartition(":")
    if not colon and not value.isdigit():
        scheme, number = value, ""
    if number:
        parse_port(number)
    if (scheme or colon) and not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        raise RequestError(
            f"{shown(value)} is not a port", hint="what it speaks, its number, or both: grpc, 8000, http:8000"
        )
    if colon and not number:
        raise RequestError(f"{shown(value)} names no number behind the colon", hint=f"{scheme}, or {scheme}:8000")
    return value


def parse_signal(value: str) -> str:
    """Return the name of a signal that a program can handle, without SIG."""
    import signal  # hardly anybody needs it

    names = {signal_number.name.removeprefix("SIG"): int(signal_number) for signal_number in signal.Signals}
    name = next((name for name, number in names.items() if value == str(number)), value.upper().removeprefix("SIG"))
    if name not in names:
        raise RequestError(f"{value!r} is not a signal", hint="use USR1, USR2, TERM, INT or HUP")
    if name in {"KILL", "STOP"}:
        raise RequestError(f"no program can handle the signal {name}", hint="use USR1, USR2, TERM, INT or HUP")
    return name


def parse_memory(value: str) -> Memory:
    """Return the memory of a node; a pebibyte is taken for a mistake."""
    size = Memory.parse(value)
    if size.mib > _LARGEST_MIB:
        raise RequestError(f"{value!r} is more than 1024T", hint="write a number and K, M, G or T, for example 64G")
    return size


def parse_assignment(value: str) -> str:
    """Return KEY=VALUE or KEY, whose key is a variable's name."""
    name, _, _ = value.partition("=")
    if not name.isidentifier() or not name.isascii():
        raise RequestError(f"{value!r} does not begin with a variable's name", hint="write KEY=VALUE, or KEY alone")
    return value


def parse_site_fact(value: str) -> str:
    """Return KEY=VALUE, whose key is one of a profile's."""
    key, equals, _ = value.partition("=")
    if not equals or not all(key.split(".")):
        raise RequestError(f"{value!r} is not KEY=VALUE", hint="a key as muster site show prints it: memory.mem=400G")
    return value


def parse_variable(value: str) -> str:
    """Return the name of a variable."""
    if not value.isidentifier() or not value.isascii():
        raise RequestError(f"{value!r} is not a variable's name", hint="letters, digits and _ only")
    return value
