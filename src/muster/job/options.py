"""Words of a command line → values. One reader for all verbs; a command that is to be run is never parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError, nearest_name
from muster.job.option import Option, OriginKind, ValueOrigin, convert
from muster.slurm.flags import instead_of, is_flag, name_of_letter

if TYPE_CHECKING:
    from muster.job.request import Request


class TypedRole(msgspec.Struct, frozen=True):
    """What stood behind one --role."""

    name: str
    values: Mapping[str, Any]
    origins: Mapping[str, ValueOrigin]
    command: tuple[str, ...]


class Typed(msgspec.Struct, frozen=True):
    """What stood on a command line."""

    values: dict[str, Any]
    """By the name of the option, of those that were typed."""

    origins: dict[str, ValueOrigin]
    rest: tuple[str, ...]
    """The command, or the operands."""

    pieces: tuple[tuple[str | None, tuple[str, ...]], ...]
    """All words in their order, each with the name of its option; None: a part of the rest."""


def parse(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, ValueOrigin], tuple[str, ...]]:
    """Return (values by field, origins by field, the command) of words that hold options of the request only."""
    from muster.job.request import options_of

    typed_words = read_words(words, options_of())
    return typed_words.values, typed_words.origins, typed_words.rest


def read_words(words: Sequence[str], options: Mapping[str, Option], *, mixed: bool = False) -> Typed:
    """Return the values of `options` in these words, and the rest.

    The rest begins at the first word that is not an option, or after `--`. If `mixed`, options may stand behind and
    between its words too, but for those after `--`.
    """
    by_flag = {flag: (name, option) for name, option in options.items() for flag in option.flags}
    values: dict[str, Any] = {}
    origins: dict[str, ValueOrigin] = {}
    pieces: list[tuple[str | None, tuple[str, ...]]] = []
    rest: list[str] = []
    words_left = list(words)
    while words_left:
        word = words_left.pop(0)
        if word == "--":
            pieces.append((None, (word,)))
            break
        if not word.startswith("-") or word == "-":
            pieces.append((None, (word,)))
            rest.append(word)
            if mixed:
                continue
            break
        flag, text = _split(word, by_flag, words_left)
        name, option = by_flag[flag]
        if option.begins_role:
            values["roles"] = _read_roles((word, *words_left), options)
            pieces += ((None, (each,)) for each in (word, *words_left))
            return Typed(values, origins, (), tuple(pieces))
        if option.is_switch:
            if text is not None:
                raise RequestError(f"{flag} takes no value", hint=f"write {flag} alone")
            values[name], origins[name] = True, ValueOrigin(OriginKind.OPTION, flag)
            pieces.append((name, (word,)))
            continue
        spelling: tuple[str, ...] = (word,)
        if text is None:
            text = _next_word(flag, option, words_left)
            spelling = (word, text)
        value = convert(option, text, flag)
        values[name] = (*values.get(name, ()), value) if option.repeated else value
        origins[name] = ValueOrigin(OriginKind.OPTION, flag, text)
        pieces.append((name, spelling))
    pieces += ((None, (word,)) for word in words_left)
    return Typed(values, origins, (*rest, *words_left), tuple(pieces))


def _read_roles(words: Sequence[str], options: Mapping[str, Option]) -> tuple[TypedRole, ...]:
    """Return what was typed for each role; options before the first hold for all, and stand elsewhere."""
    from muster.job.roles import split_roles

    roles: list[TypedRole] = []
    options_of_roles = {name: option for name, option in options.items() if name not in {"role", "file"}}
    for name, role_words in split_roles(words):
        try:
            typed = read_words(role_words, options_of_roles)
        except RequestError as error:
            raise RequestError(f"role {name}: {error.message}", hint=error.hint) from None
        roles.append(TypedRole(name, typed.values, typed.origins, typed.rest))
    return tuple(roles)


def _next_word(flag: str, option: Option, words_left: list[str]) -> str:
    """Take the value of an option from the words behind it; an option is not a value."""
    if not words_left:
        raise RequestError(f"{flag} needs a value", hint=option.describe())
    word = words_left[0]
    is_option = word.startswith("-") and word != "-" and not re.fullmatch(r"-[0-9]+", word)
    if word == "--" or (is_option and not option.whole_flags):
        raise RequestError(
            f"{flag} needs a value, but {word} follows",
            hint=f"{option.describe()}; a value that begins with a dash is written {flag}=VALUE",
        )
    return words_left.pop(0)


def _split(word: str, by_flag: Mapping[str, tuple[str, Option]], words_left: Sequence[str]) -> tuple[str, str | None]:
    """Return the flag and the value written into the same word: --nodes=2, -N2, -N=2."""
    if word.startswith("--"):
        flag, equals, text = word.partition("=")
        value = text if equals else None
    else:
        flag, value = word[:2], word[2:] or None
        if value is not None and value.startswith("="):
            value = value[1:]
    if flag not in by_flag and flag.replace("_", "-") in by_flag:
        flag = flag.replace("_", "-")  # torchrun's spelling: --nproc_per_node
    if flag not in by_flag:
        raise _unknown(flag, value, tuple(by_flag), words_left)
    return flag, value


# What people type who come from another tool, and what it is called here.
_MEANT = {
    "--cpus": "-c N: the CPUs of each rank",
    "--dry-run": "muster plan shows what would happen, and starts nothing",
    "--gpu": "-g N: the GPUs of each node",
    "--np": "-N NODES with --ntasks-per-node RANKS",
    "--num-nodes": "-N NODES",
    "--node-rank": "omit it: every rank finds out which rank it is",
    "--rdzv-endpoint": "omit it, or give --master-addr HOST --master-port PORT",
    "--rehearse": "muster run --rehearse -- COMMAND rehearses one launch; then type it with submit",
    "--tasks-per-node": "--ntasks-per-node N: the ranks of each node",
    "--standalone": "omit it, or give --here: all ranks run on this machine",
}


_FEW = 8
"""So many options of a verb are listed in a hint."""


def _unknown(flag: str, value: str | None, flags: Sequence[str], words_left: Sequence[str]) -> RequestError:
    """Return the error for an option that is not there, with what to type instead."""
    message = f"there is no option {flag}"
    meant = _MEANT.get(flag.replace("_", "-"))
    if meant is not None:
        return RequestError(message, hint=meant)
    name = name_of_letter(flag[1]) if not flag.startswith("--") else flag[2:]
    if name is not None and is_flag(name) and "--sbatch" in flags:
        advice = instead_of(name)
        if advice is not None:
            return RequestError(f"{message}, because --{name} {advice[0]}", hint=f"use {advice[1]}")
        if value is None and words_left and not words_left[0].startswith("-"):
            value = words_left[0]
        return RequestError(
            f"{message}, but sbatch has --{name}", hint=f"--sbatch=--{name}{f'={value}' if value else ''}"
        )
    near_name = nearest_name(flag.lstrip("-"), sorted(name[2:] for name in flags if name.startswith("--")))
    if near_name is not None:
        return RequestError(message, hint=f"did you mean '--{near_name}'?")
    slurms = "; a flag of Slurm's goes in --sbatch=FLAG" if "--sbatch" in flags else ""
    if len(flags) <= _FEW:
        return RequestError(message, hint=f"there are {', '.join(flags)}")
    return RequestError(message, hint=f"--help lists the options{slurms}")


def request_from(
    settings: Mapping[str, tuple[Any, ValueOrigin]],
    values: Mapping[str, Any],
    origins: Mapping[str, ValueOrigin],
    command: Sequence[str],
) -> Request:
    """Return the request: what was typed, over what the settings files say. Lists add up, single values replace."""
    from muster.job.request import Request, options_of

    if values.get("roles"):
        return _job_of_roles(settings, values, origins)
    merged: dict[str, Any] = {}
    origin_of: dict[str, ValueOrigin] = {}
    table = options_of()
    for name, (value, origin) in settings.items():
        merged[name], origin_of[name] = value, origin
    for name, value in values.items():
        if table[name].repeated and name in merged:
            both_places = f"{origin_of[name].words()}, {origins[name].words()}"
            merged[name], origin_of[name] = (*merged[name], *value), ValueOrigin(origins[name].kind, both_places)
        else:
            merged[name], origin_of[name] = value, origins[name]
    return Request(command=tuple(command), origins=origin_of, **merged)


def _job_of_roles(
    settings: Mapping[str, tuple[Any, ValueOrigin]], values: Mapping[str, Any], origins: Mapping[str, ValueOrigin]
) -> Request:
    """Return the request of a job with roles: each role has what holds for all, and over it what is its own."""
    common = {name: value for name, value in values.items() if name != "roles"}
    job = request_from(settings, common, origins, ())
    for_all = {name: (getattr(job, name), origin) for name, origin in job.origins.items()}
    roles = tuple(
        replace(request_from(for_all, role.values, role.origins, role.command), role=role.name)
        for role in values["roles"]
    )
    return replace(job, roles=roles)
