"""What `site check` saw, as one file for an issue: without a user's name, account or paths. Pure.

It is built of named facts only, and then every word of it is held against what must not leave the cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from muster.sites.schema import Profile
from muster.sites.site import Site
from muster.units import toml_text
from muster_check.survey.draft import Survey, seen_profile
from muster_check.survey.verify import WrongFact, unlisted

# The tables of the draft that say something of the cluster; modules and accounts may be a user's own.
_TABLES = (
    "detect",
    "nodes",
    "partitions",
    "qos",
    "launch",
    "rendezvous",
    "fabric",
    "containers",
    "filesystems",
    "network",
)
_PATH = re.compile(r"(?:~|\$[A-Za-z_]\w*)?(?:/[^\s'\"(),;:=]+)+/?")


class Private(msgspec.Struct, frozen=True):
    """What must not leave the cluster."""

    words: tuple[str, ...] = ()
    """Names of the user and of the accounts."""

    paths: tuple[str, ...] = ()
    """Folders of the user's: what lies in them goes too."""


def report(site: Site, survey: Survey, findings: Sequence[WrongFact], version: str, private: Private) -> str:
    """Return the report as TOML."""
    clean = _Cleaner(private)
    table = {
        "report": {
            "of": site.name,
            "day": survey.day,
            "muster": version,
            "asked": "the login node and compute nodes" if survey.node else "the login node alone",
            "holds": not findings,
            "not_answered": sorted(survey.refused),
            "not_in_the_profile": unlisted(site.profile, survey.cluster) if survey.cluster else {},
        },
        "disagrees": {str(number): _disagreement(finding) for number, finding in enumerate(findings, 1)},
        "seen": {key: value for key, value in _seen(seen_profile(survey)).items() if key in _TABLES},
    }
    head = [
        f"# What `muster site report` saw of {site.name}. It holds no user's name, account or path: read it before you",
        "# attach it to an issue.",
    ]
    return "\n".join([*head, *_lines(clean.value(table), ())]) + "\n"


def _disagreement(finding: WrongFact) -> dict[str, str]:
    """Return both values with both origins."""
    return {
        "key": finding.key,
        "profile": finding.says,
        "profile_has_it_from": finding.origin.words() if finding.origin.source else finding.origin.layer,
        "by": finding.by,
        "cluster": finding.seen,
    }


def _seen(measured: Profile) -> dict[str, Any]:
    """Return the draft as plain tables, without what every draft has."""
    builtins: dict[str, Any] = msgspec.to_builtins(measured)
    for filesystem in builtins.get("filesystems", {}).values():
        filesystem.pop("use", None)
    return builtins


class _Cleaner:
    """Takes out of every text, of keys too, what is private."""

    def __init__(self, private: Private) -> None:
        words = sorted(filter(None, private.words), key=len, reverse=True)
        self._paths = tuple(path.rstrip("/") for path in private.paths if path.strip("/"))
        self._word = re.compile(
            "|".join(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])" for word in words) or r"(?!)", re.IGNORECASE
        )

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(child) for key, child in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(child) for child in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        for path in self._paths:
            text = re.sub(re.escape(path) + r"(/[^\s'\"(),;:=]*)?", "PATH", text)
        text = _PATH.sub(lambda match: "PATH" if self._word.search(match[0]) else match[0], text)
        return self._word.sub("NAME", text)


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield a table of TOML, its own values first."""
    plain_values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if plain_values:  # of a table in the document: that has no value of its own
        yield from ("", f"[{'.'.join(map(_key, path))}]")
    yield from (f"{_key(key)} = {_value(value)}" for key, value in plain_values.items())
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _lines(value, (*path, key))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_text(key)


def _value(value: Any) -> str:
    """Return a value as TOML; a table inside a list as an inline one."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_value(child)}' for key, child in value.items())} }}"
    return toml_text(value) if isinstance(value, str) else json.dumps(value)
