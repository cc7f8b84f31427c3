"""The parts beside the core, by name: those of Muster in a table, those of other packages by their entry points.

The core imports none of them. A part of Muster is loaded by the place that the table names. Entry points are looked up
only for a name that the table lacks, and for `--help`, since a search costs more than most commands.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from muster.errors import MachineLacks

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENGINES = "muster.engines"
LAUNCHERS = "muster.launchers"
LINT_RULES = "muster.lint_rules"
SITES = "muster.sites"
VERBS = "muster.verbs"

_SERVICES = {
    "gate": "muster_check.pack:place_check",
    "hang-watch": "muster_check.stacks.watch:main",
    "labs": "muster_lab.registry:names_of_labs",
    "rehearsal": "muster_lab.rehearse.verb:rehearse",
    "running-ranks": "muster_check.stacks.why:explain_running",
    "running-ranks-json": "muster_check.stacks.why:as_json",
    "unseen-line": "muster_check.stacks.ask:why_unseen_here",
    "site-verbs": "muster_check.verbs.site:COMMANDS",
}


def service(name: str) -> Any:
    """Return the function that a package beside the core does for the core."""
    return load_place(_SERVICES[name])


def is_there(name: str) -> bool:
    """Return whether the package that does this for the core is installed."""
    return find_spec(_SERVICES[name].partition(".")[0]) is not None


def service_if_there(name: str, otherwise: Any) -> Any:
    """Return what a package beside the core offers, or `otherwise` where that package is not installed."""
    try:
        return service(name)
    except MachineLacks:
        return otherwise


def load_place(place: str) -> Any:
    """Return what stands at `module:name`; a package of Muster that is not installed is named."""
    module, _, name = place.partition(":")
    package = module.partition(".")[0]
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        distribution = package.replace("_", "-")
        # No name for pip: on an index the name might be a stranger's.
        raise MachineLacks(
            distribution,
            f"this needs {distribution}, which is not installed",
            hint="install the whole of Muster from its folder: pip install .",
        ) from None
    return getattr(loaded, name)


def parts_of_others(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group that installed packages bring, by name."""
    return {point.name: point for point in _entry_points(group)}


def load_point(point: EntryPoint) -> Any:
    """Return the part of another package; a package whose part cannot be loaded is named."""
    refuse_two(point.group, point.name)
    try:
        return point.load()
    except Exception as error:  # noqa: BLE001  # whatever a stranger's module raises as it is imported
        raise _broken(point, error) from None


def refuse_two(group: str, name: str) -> None:
    """Raise where several packages bring a part of one name: the order of folders would choose."""
    brought_by = sorted({package_of(point) for point in _entry_points(group) if point.name == name})
    if len(brought_by) > 1:
        message = f"the packages {' and '.join(brought_by)} both bring {name}: which is meant is not known"
        raise MachineLacks(group, message, hint=f"remove one of them: pip uninstall {brought_by[-1]}")


def broken_verb(name: str, error: Exception) -> MachineLacks:
    """Return the error for a verb of another package that cannot be loaded."""
    return _broken(parts_of_others(VERBS)[name], error)


def _broken(point: EntryPoint, error: Exception) -> MachineLacks:
    package = package_of(point)
    message = f"{point.name}, a part of the package {package}, cannot be loaded: {type(error).__name__}: {error}"
    return MachineLacks(package, message, hint=f"repair that package, or remove it: pip uninstall {package}")


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that brings an entry point."""
    return point.dist.metadata["Name"] if point.dist else point.value.partition(".")[0]


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    if not any(_brings(folder, group) for folder in sys.path):
        return ()
    from muster.older import entry_points_of

    return entry_points_of(group)


def _brings(folder: str, group: str) -> bool:
    """Return whether an installed package of the folder has entry points of the group."""
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith(".dist-info")]
    except OSError:
        return False
    return any(f"[{group}]" in _text_of(f"{folder or '.'}/{name}/entry_points.txt") for name in names)


def _text_of(file: str) -> str:
    # That of muster.ownership would load msgspec for each page of help.
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
