"""How the commands of a definition become root of the image: the way that is there, said before it is gone.

An ordinary user has one of four, the best first: subordinate ids (all users of the image are real), fakeroot (their
owners are pretended, by a library that has to fit the image), proot (the same without a library and without a user
namespace, by watching every call), or a user namespace in which root is the only user there is.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

import msgspec

from muster.errors import MachineLacks, RequestError
from muster.runner import run


class Way(Enum):
    """What stands behind root in the image."""

    ROOT = "root's own power"
    OWN_NAMESPACE = "a user namespace of their own: this root lacks capabilities, as in a container"
    SUBORDINATE_IDS = "a user namespace with your subordinate ids"
    FAKEROOT = "fakeroot: you have no subordinate ids here"
    PROOT = "proot: you have no subordinate ids here"
    ROOT_ALONE = "a user namespace without other users: chown to one of them fails"


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine, its engine and its user have for it."""

    uid: int
    lacks_capabilities: bool = False
    namespaces: bool = True
    subordinate_ids: bool = False
    fakeroot: bool = False
    proot: bool = False
    is_singularity_ce: bool = False


def choose_way(abilities: Means) -> Way:
    """Return the best way that is there."""
    if abilities.uid == 0:
        return Way.OWN_NAMESPACE if abilities.lacks_capabilities else Way.ROOT
    if abilities.namespaces and abilities.subordinate_ids:
        return Way.SUBORDINATE_IDS
    if abilities.namespaces and abilities.fakeroot and not abilities.is_singularity_ce:
        return Way.FAKEROOT
    if abilities.proot:
        return Way.PROOT
    if abilities.namespaces and not abilities.is_singularity_ce:
        return Way.ROOT_ALONE
    raise MachineLacks(
        "proot",
        "the commands of a definition need to be root in the image, and nothing here makes an ordinary user that: "
        + ("no subordinate ids" if abilities.namespaces else "no user namespaces")
        + " and no proot on PATH",
        hint="load the module that has proot (Debian: the package proot), or build on a node that has more: --job",
    )


def look_for_means(environment: Mapping[str, str], *, version: str, lacks_capabilities: bool) -> Means:
    """Ask the machine. `version`: what the engine says it is."""
    uid = os.geteuid()
    path = environment.get("PATH")
    if uid == 0:
        return Means(uid=0, lacks_capabilities=lacks_capabilities)
    return Means(
        uid=uid,
        namespaces=run(["unshare", "--user", "--map-root-user", "true"], env=environment).ok,
        subordinate_ids=_has_subordinate_ids(uid) and shutil.which("newuidmap", path=path) is not None,
        fakeroot=shutil.which("fakeroot", path=path) is not None,
        proot=shutil.which("proot", path=path) is not None,
        is_singularity_ce="singularity-ce" in version,
    )


def _has_subordinate_ids(uid: int, folder: Path = Path("/etc")) -> bool:
    try:
        names = {str(uid), pwd.getpwuid(uid).pw_name}
        return all(
            any(line.partition(":")[0] in names for line in (folder / file).read_text().splitlines())
            for file in ("subuid", "subgid")
        )
    except (OSError, KeyError):
        return False


_SECTION = re.compile(r"^%([a-z]+)\b(.*)$", re.MULTILINE)


def without_commands(definition: str) -> tuple[str, list[str], str]:
    """Return the definition without %post, the words that run %post beside the engine, and its text."""
    heads = list(_SECTION.finditer(definition))
    names = [head[1] for head in heads]
    if names.count("post") != 1 or "setup" in names or re.search(r"^Stage:|\{\{", definition, re.MULTILINE):
        raise RequestError(
            "proot runs one %post, without %setup, stages and {{ }} in the definition",
            hint="omit them, or build where you have subordinate ids: --job",
        )
    at = names.index("post")
    end = heads[at + 1].start() if at + 1 < len(heads) else len(definition)
    shell = re.fullmatch(r"\s*-c\s+(\S.*?)\s*", heads[at][2])
    text = definition[heads[at].end() : end]
    words = shell[1].split() if shell else ["/bin/sh", "-e"]
    return definition[: heads[at].start()] + definition[end:], words, text
