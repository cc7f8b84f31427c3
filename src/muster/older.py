"""What newer Pythons bring and Python 3.9 lacks: login nodes have old ones. Each name is the standard library's own
where there is one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = [
    "StrEnum",
    "entry_points_of",
    "options_of_group",
    "pairwise",
    "sha256_of",
    "standard_modules",
    "tomllib",
    "type_hints",
    "zip_equal",
]

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

A = TypeVar("A")
B = TypeVar("B")

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """Members that are text."""

        __str__ = str.__str__

        @staticmethod
        def _generate_next_value_(name: str, *_: object) -> str:
            return name.lower()


if sys.version_info >= (3, 10):
    from itertools import pairwise
else:

    def pairwise(values: Iterable[A]) -> Iterator[tuple[A, A]]:
        """Yield each value with the one after it."""
        whole = iter(values)
        earlier_value = next(whole, whole)
        for value in whole:
            yield earlier_value, value
            earlier_value = value


def __getattr__(name: str) -> Any:
    """Load `tomllib` for whoever names it: it costs a launch as much as twenty modules of Muster."""
    if name != "tomllib":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def zip_equal(first: Iterable[A], second: Iterable[B]) -> Iterator[tuple[A, B]]:
    """Return the pairs of two sequences, which have to be of one length."""
    if sys.version_info >= (3, 10):
        return zip(first, second, strict=True)
    first_list, second_list = list(first), list(second)
    if len(first_list) != len(second_list):
        raise ValueError(f"zip_equal: {len(first_list)} values and {len(second_list)}")
    return zip(first_list, second_list)


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of these bytes, in hexadecimal, by Python's own part: hashlib loads all of OpenSSL with it."""
    from importlib import import_module

    for name in ("_sha2", "_sha256"):  # since Python 3.12, before; a Python may be built without them
        try:
            return str(import_module(name).sha256(data).hexdigest())
        except ImportError:
            continue
    from hashlib import sha256

    return sha256(data).hexdigest()


def standard_modules() -> frozenset[str]:
    """Return the top names of the standard library."""
    if sys.version_info >= (3, 10):
        return sys.stdlib_module_names
    from pkgutil import iter_modules
    from sysconfig import get_path

    built = get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})  # not that of a virtual environment
    places = (get_path("stdlib"), f"{built}/lib-dynload")
    return frozenset({*sys.builtin_module_names, *(module.name for module in iter_modules(places))})


def options_of_group(*, own_group: bool) -> dict[str, Any]:
    """Return what makes `subprocess.Popen` start a process at the head of a group of its own."""
    if not own_group:
        return {}
    if sys.version_info >= (3, 11):
        return {"process_group": 0}
    import os

    return {"preexec_fn": os.setpgrp}


def type_hints(kind: type) -> dict[str, Any]:
    """Return the types of a class's fields, with what is annotated on them."""
    from typing import get_type_hints

    if sys.version_info >= (3, 10):
        return get_type_hints(kind, include_extras=True)
    return {name: _evaluate(value, base) for base in reversed(kind.__mro__) for name, value in _annotations(base)}


def _annotations(base: type) -> Iterable[tuple[str, Any]]:
    annotations: dict[str, Any] = base.__dict__.get("__annotations__", {})  # noqa: RUF063  # Python 3.9's way
    return annotations.items()


def _evaluate(value: Any, base: type) -> Any:
    """Return the type that an annotation means; `int | None` is not of 3.9's grammar of types."""
    if not isinstance(value, str):
        return value
    from typing import ForwardRef

    from eval_type_backport import eval_type_backport

    names = vars(sys.modules[base.__module__])
    return eval_type_backport(ForwardRef(value, is_argument=False), names, names, try_default=False)


def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points that installed packages have in a group."""
    from importlib.metadata import distributions, entry_points  # 15 ms, and most commands need none

    if sys.version_info >= (3, 10):
        return tuple(entry_points(group=group))
    points = [(point, dist) for dist in distributions() for point in dist.entry_points if point.group == group]
    for point, dist in points:
        vars(point)["dist"] = dist  # as Python 3.10 does
    return tuple(point for point, _ in points)
