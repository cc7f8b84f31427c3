"""Where a task's files come from: how a command is wrapped in an image, or in the launcher's flags.

The registry below is the only list of engines. `register` adds one more, for a site or a test.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from muster.parts import ENGINES, load_point, parts_of_others

if TYPE_CHECKING:
    from muster.images.base import ImageEngine

# What makes each engine: a class, or `module:class`. Where nobody names one, the first that runs an image is taken.
_REGISTRY: dict[str, Callable[[], ImageEngine] | str] = {
    "apptainer": "muster.images.apptainer:Apptainer",
    "singularity": "muster.images.apptainer:Singularity",
    "pyxis": "muster.images.pyxis:Pyxis",
    "cscs": "muster.images.cscs:ContainerEngine",
    "podman-hpc": "muster.images.oci:PodmanHpc",
    "shifter": "muster.images.shifter:Shifter",
    "podman": "muster.images.oci:Podman",
    "docker": "muster.images.oci:Docker",
    "none": "muster.images.base:NoImage",
}

TRIED_CLOSED = frozenset({"apptainer", "podman"})
"""The engines with which the ranks of a closed job were seen to meet, and strangers not (tests/images)."""


def register(engine: type[ImageEngine]) -> None:
    """Add an engine; it may then be named wherever one is named."""
    _REGISTRY[engine.name] = engine


def forget(name: str) -> None:
    """Remove an engine that was registered."""
    del _REGISTRY[name]


def is_engine(name: str) -> bool:
    """Return whether this is an engine of Muster, or of another package, which is registered."""
    point = None if name in _REGISTRY else parts_of_others(ENGINES).get(name)
    if point is not None:
        register(load_point(point))
    return name in _REGISTRY


def engine_named(name: str) -> ImageEngine:
    """Return the engine of a plan, loaded when it is used."""
    is_engine(name)  # that of another package is registered now
    make = _REGISTRY[name]
    if isinstance(make, str):
        module, _, kind = make.partition(":")
        make = getattr(import_module(module), kind)
    engine: ImageEngine = make()
    return engine


def engine_names() -> tuple[str, ...]:
    """Return the name of every engine, also of the one that changes nothing."""
    return tuple(_REGISTRY)


def engines_in_options() -> tuple[str, ...]:
    """Return the engines that run an image."""
    return tuple(name for name in _REGISTRY if name != "none")
