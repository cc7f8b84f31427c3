"""Words of a command line → request. The command begins at the first word that is no option, or after `--`,
and is never parsed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.errors import RequestError, UnknownName, nearest_hint
from muster.job.request import Option, Request, options_of

__all__ = ["help_page", "parse", "request_from"]


def parse(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str], tuple[str, ...]]:
    """(values by field, origins by field, the command) of the words after the verb."""
    by_flag = {flag: (name, option) for name, option in options_of().items() for flag in option.flags}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    rest = list(words)
    while rest:
        if rest[0] == "--":
            rest.pop(0)
            break
        if not rest[0].startswith("-") or rest[0] == "-":
            break
        flag, text = _split(rest.pop(0), by_flag)
        name, option = by_flag[flag]
        if option.is_switch:
            if text is not None:
                raise RequestError(f"{flag} takes no value", hint=f"write {flag} alone")
            values[name], origins[name] = True, flag
            continue
        if text is None:
            if not rest:
                raise RequestError(f"{flag} needs a value", hint=f"{flag} {option.metavar}: {option.help}")
            text = rest.pop(0)
        value = convert(option, text, flag)
        values[name] = (*values.get(name, ()), value) if option.repeated else value
        origins[name] = f"{flag} {text}"
    return values, origins, tuple(rest)


def _split(word: str, by_flag: Mapping[str, tuple[str, Option]]) -> tuple[str, str | None]:
    """The flag and the value written into the same word: --nodes=2, -N2, -N=2."""
    if word.startswith("--"):
        flag, equals, text = word.partition("=")
        found, value = flag, text if equals else None
    else:
        found, value = word[:2], word[2:] or None
        if value is not None and value.startswith("="):
            value = value[1:]
    if found not in by_flag:
        known = sorted(flag for flag in by_flag if flag.startswith("--"))
        close = nearest_hint(found, known)
        hint = (
            close
            if close.startswith("did you mean")
            else "--help lists the options; a flag of Slurm's goes in --sbatch=FLAG"
        )
        raise RequestError(f"there is no option {found}", hint=hint)
    return found, value


def convert(option: Option, text: str, where: str) -> Any:
    """The value of an option's text, or an error that names the option."""
    if option.choices is not None and text not in option.choices:
        error = UnknownName(f"value of {where}", text, option.choices)
        raise RequestError(f"{where}: {text!r} is none of {', '.join(option.choices)}", hint=error.hint)
    try:
        return option.parse(text)
    except RequestError as error:
        raise RequestError(f"{where}: {error.message}", hint=error.hint) from None


def request_from(
    settings: Mapping[str, tuple[Any, str]],
    values: Mapping[str, Any],
    origins: Mapping[str, str],
    command: Sequence[str],
) -> Request:
    """The request: what was typed, over what the settings files say. Lists add up, single values replace."""
    merged: dict[str, Any] = {}
    where: dict[str, str] = {}
    table = options_of()
    for name, (value, origin) in settings.items():
        merged[name], where[name] = value, origin
    for name, value in values.items():
        if table[name].repeated and name in merged:
            merged[name], where[name] = (*merged[name], *value), f"{where[name]}, {origins[name]}"
        else:
            merged[name], where[name] = value, origins[name]
    return Request(command=tuple(command), origins=where, **merged)


def help_page(usage: str, summary: str, *, leave_out: Sequence[str] = ()) -> str:
    """What `muster VERB --help` prints: the options in their groups, each with its one line."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, option in options_of().items():
        if name not in leave_out:
            head = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
            groups.setdefault(option.group, []).append((head, option.help.replace("%%", "%")))
    lines = [f"usage: {usage}", "", summary]
    for title, rows in groups.items():
        lines += ["", f"{title}:"]
        for head, text in rows:
            lines += [f"  {head:<30}  {text}"] if len(head) <= 30 else [f"  {head}", f"{'':34}{text}"]
    return "\n".join(lines) + "\n"
