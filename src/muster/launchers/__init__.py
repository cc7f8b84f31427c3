"""How tasks start inside an allocation: one short file per launcher, loaded when it is used. Runs nothing.

The registry below is the only list of launchers. `register` adds one more, for a site or a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from muster.parts import LAUNCHERS, load_point, parts_of_others

if TYPE_CHECKING:
    from muster.launchers.base import Launcher
    from muster.model.plan import Engine


class _Row(msgspec.Struct, frozen=True):
    """What is known of a launcher before its module is loaded."""

    make: Callable[[], Launcher] | str
    """What makes it: a class, or `module:class`."""

    in_options: bool = True
    """Whether --launcher may name it."""

    in_profiles: bool = True


_REGISTRY: dict[str, _Row] = {
    "srun": _Row("muster.launchers.srun:Srun"),
    "torchrun": _Row("muster.launchers.torchrun:Torchrun"),
    "ft": _Row("muster.launchers.ft:Ft", in_profiles=False),
    "mpirun": _Row("muster.launchers.mpirun:Mpirun"),
    "ibrun": _Row("muster.launchers.ibrun:Ibrun"),
    "mpirun+torchrun": _Row("muster.launchers.torchrun:MpirunTorchrun"),
    "local": _Row("muster.launchers.local:Local"),
    "shell": _Row("muster.launchers.shell:Shell", in_options=False, in_profiles=False),
}
_ANY = "auto"
# Where nobody names one: what needs nothing else, by the place.
_DEFAULTS = {"slurm": "srun", "here": "local"}


class _TypedNames(tuple[str, ...]):
    """The words that --launcher takes; what is registered later is among them."""

    __slots__ = ()

    def __contains__(self, word: object) -> bool:
        return word == _ANY or (_is_known(str(word)) and _REGISTRY[str(word)].in_options)


TYPED_NAMES = _TypedNames((_ANY, *(name for name, row in _REGISTRY.items() if row.in_options)))

WIREUPS = ("auto", "env", "gloo", "dummy")
"""The methods of muster.world(), by which a rank joins the others; this side does not load it."""


def register(launcher: type[Launcher]) -> None:
    """Add a launcher; it may then be named wherever one is named."""
    _REGISTRY[launcher.name] = _Row(launcher, launcher.in_options, launcher.in_profiles)


def forget(name: str) -> None:
    """Remove a launcher that was registered."""
    del _REGISTRY[name]


def _is_known(name: str) -> bool:
    """Return whether there is a launcher of this name; one that another package brings is registered."""
    point = None if name in _REGISTRY else parts_of_others(LAUNCHERS).get(name)
    if point is not None:
        register(load_point(point))
    return name in _REGISTRY


def launcher_named(name: str) -> Launcher:
    """Return the launcher of a plan; a name that the registry lacks may be that of another package."""
    _is_known(name)  # that of another package is registered now
    make = _REGISTRY[name].make
    if isinstance(make, str):
        module, _, kind = make.partition(":")
        make = getattr(import_module(module), kind)
    launcher: Launcher = make()
    return launcher


def known_launcher(name: str | None) -> Launcher | None:
    """Return the launcher of that name; None where there is none, as in the record of another version."""
    if name is None or name == _ANY or not _is_known(name):
        return None
    return launcher_named(name)


def launcher_names() -> tuple[str, ...]:
    """Return the name of every launcher."""
    return tuple(_REGISTRY)


def names_in_profiles() -> tuple[str, ...]:
    """Return the launchers that a site's profile may name."""
    return tuple(name for name, row in _REGISTRY.items() if row.in_profiles)


def is_in_profiles(name: str) -> bool:
    """Return whether a site's profile may name this launcher: one of Muster, or one of another package."""
    return _is_known(name) and _REGISTRY[name].in_profiles


def default_launcher(engine: Engine) -> str:
    """Return the launcher where neither the user nor the site names one."""
    return _DEFAULTS[engine.value]


def by_agents_first() -> Iterator[Launcher]:
    """Yield every launcher: those first whose agents are Slurm's tasks and know the ranks.

    Agents that mpirun starts come behind mpirun itself, whose report may be of a rank.
    """
    launchers = map(launcher_named, _REGISTRY)
    yield from sorted(launchers, key=lambda each: not each.agent or each.task_of_slurm != each.agent)
