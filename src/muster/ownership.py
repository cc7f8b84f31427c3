"""Whose files may decide what runs as you: settings are taken from you and from root, and from nobody else.

git asks the same (safe.directory). A file counts as somebody else's also where somebody else could have written it: the
file itself, or the directory that it lies in, as all directories like /tmp.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from os import path as paths
from typing import Union

import msgspec

from muster.errors import RequestError
from muster.rank import contract

AnyPath = Union[str, "os.PathLike[str]"]

SAFE = "MUSTER_SAFE_DIRECTORY"
"""Directories, with colons between them, whose settings you trust whoever may write them."""


def system_directory(environment: Mapping[str, str]) -> str:
    """Return the administrator's folder: the one that a module file names, else /etc/muster."""
    named = environment.get(contract.SYSTEM_DIRECTORY) or "/etc/muster"
    if not named.startswith("/"):
        raise RequestError(
            f"{contract.SYSTEM_DIRECTORY}={named}: a folder is named from / on",
            hint=f"unset {contract.SYSTEM_DIRECTORY}, or ask whoever wrote the module file that sets it",
        )
    return named


class Trust(msgspec.Struct, frozen=True):
    """Who is trusted: root, this user, and whoever writes in these directories."""

    uid: int = msgspec.field(default_factory=os.geteuid)
    safe: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Trust:
        """Return the trust of whoever typed the command."""
        return cls(safe=tuple(filter(None, environment.get(SAFE, "").split(":"))))

    def refusal(self, path: AnyPath) -> str | None:
        """Return why this file is not to be used, in words; None where nobody else could have written it."""
        own_path, real_path = os.fspath(path), paths.realpath(path)
        folder = paths.dirname(own_path) or "."
        if folder in self.safe:
            return None
        places = dict.fromkeys((own_path, folder, real_path, paths.dirname(real_path)))
        return next((refusal for place in places if (refusal := self.refusal_of_place(place))), None)

    def refusal_of_place(self, place: str) -> str | None:
        """Return why this one file or folder is not to be used; None where nobody else could have written it."""
        try:
            status = os.lstat(place)
        except OSError:
            return None  # what is not there runs nothing
        if status.st_uid not in {self.uid, 0}:
            return f"{place} belongs to {_name_of(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            return None
        if status.st_mode & stat.S_IWOTH:
            return f"{place} can be written by everybody"
        if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid, status.st_uid):
            return f"{place} can be written by its group"
        return None


def nearest(name: str, start: AnyPath, home: AnyPath) -> str | None:
    """Return the nearest file of this name from `start` upward, within its project, your home and its file system."""
    folder, device = os.fspath(start), _device_of(start)
    while _device_of(folder) == device:
        path = paths.join(folder, name)
        if _is_file(path):
            return path
        if folder in {paths.normpath(home), paths.dirname(folder)} or paths.exists(f"{folder}/.git"):
            return None
        folder = paths.dirname(folder)
    return None


def names_in(folder: AnyPath) -> list[str]:
    """Return the names in a folder, in order; none where there is no folder, or where it is closed to us."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def text_of(file: AnyPath) -> str:
    """Return the text of a small file; empty where there is none, or where it is closed to us."""
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _is_file(path: str) -> bool:
    """Return whether there is a file; what has its name and is none is refused: its settings would be missed."""
    folder, name = paths.split(path)
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        raise RequestError(
            f"{folder} is closed to you, so nobody can tell whether a {name} in it holds for you",
            hint="cd to a folder that you can enter",
        ) from None
    except OSError:
        is_file = False
    if not is_file and paths.lexists(path):
        kind = "a link that leads to no file" if paths.islink(path) else "not a file"
        raise RequestError(f"{path} is {kind}", hint=f"remove it: settings are read from {name}")
    return is_file


def _device_of(folder: AnyPath) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None


def _is_own_group(gid: int, uid: int) -> bool:
    """Return whether a group is its owner's alone, as where every user has one of the same name; root's is root's."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return owner.pw_gid == gid and group.gr_name == owner.pw_name and not set(group.gr_mem) - {owner.pw_name}


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
