"""Which site is this? Decided by evidence that is handed in. Pure.

A cluster's name, a variable, a file or a full host name may decide; a node's name (nid001234) never does, because
several sites number their nodes alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from muster.errors import ProfileError

LAB_SITE = "MUSTER_LAB_SITE"
"""What `muster lab exec` sets: the site that the lab is like; empty where it is like none."""


class Evidence(msgspec.Struct, frozen=True):
    """What a host shows of where it stands."""

    cluster_name: str | None = None
    hostname: str = ""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    files: frozenset[str] = frozenset()

    @property
    def in_lab(self) -> bool:
        """Return whether this is a lab, where no profile is missing."""
        return LAB_SITE in self.environment


class SiteMatch(msgspec.Struct, frozen=True):
    """The site that the evidence shows; `name` None: none."""

    name: str | None
    evidence: tuple[str, ...] = ()


def decide(
    evidence: Evidence, profiles: Mapping[str, Mapping[str, Any]], place_of: Callable[[str], str] | None = None
) -> SiteMatch:
    """Return the one profile with a certain sign. Raise an error that names both where there are two."""
    like = evidence.environment.get(LAB_SITE)
    if like in profiles:
        return SiteMatch(like, (f"the lab is like {like}",))
    signs_by_name = {name: tuple(signs(evidence, detect)) for name, detect in profiles.items()}
    certain = {name: own_signs for name, own_signs in signs_by_name.items() if own_signs}
    if len(certain) > 1:
        places = {name: f"{place_of(name)}: " if place_of else "" for name in certain}
        candidates = "; ".join(f"{name} ({places[name]}{', '.join(own_signs)})" for name, own_signs in certain.items())
        raise ProfileError(
            f"{len(certain)} site profiles match this host: {candidates}",
            "site profiles",
            hint=f"choose with --site {next(iter(certain))}, or correct the [detect] of one of them",
        )
    for name, matching_signs in certain.items():
        return SiteMatch(name, matching_signs)
    return SiteMatch(None)


def signs(evidence: Evidence, detect: Mapping[str, Any]) -> Iterator[str]:
    """Yield the certain signs of a profile that are there, in words."""
    names = detect.get("cluster_names", ())
    if evidence.cluster_name and names and evidence.cluster_name not in names:
        return  # the cluster says who it is, and it is another
    if evidence.cluster_name in names:
        yield f"the cluster is called {evidence.cluster_name}"
    for variable, pattern in detect.get("environment", {}).items():
        value = evidence.environment.get(variable)
        if value is not None and re.fullmatch(pattern, value):
            yield f"{variable} is {value}"
    for pattern in detect.get("hosts", ()):
        if _fits(evidence.hostname, pattern):
            yield f"the host is called {evidence.hostname}"
    for path in detect.get("files", ()):
        if path in evidence.files:
            yield f"{path} is here"


def _fits(name: str, pattern: str) -> bool:
    """Return whether the pattern fits the whole name. Each pattern that is compiled costs a launch 0.1 ms.

    The profiles have 40: a name that begins with other letters than its pattern is not compared with it.
    """
    letters = re.match(_LETTERS, pattern) if "|" not in pattern else None
    return name.startswith(letters[0] if letters else "") and re.fullmatch(pattern, name) is not None


_LETTERS = r"(?:[A-Za-z0-9-](?![?*{]))*"
"""The letters with which all names begin that a pattern without alternatives fits."""


def weak_signs(evidence: Evidence, detect: Mapping[str, Any]) -> Iterator[str]:
    """Yield the signs that fit, and would fit elsewhere too."""
    for pattern in detect.get("nodes", ()):
        if _fits(evidence.hostname, pattern):
            yield f"the node is called {evidence.hostname}"
