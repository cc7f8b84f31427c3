"""Where a task's files come from: how a command is wrapped in an image, or in the launcher's flags."""

from __future__ import annotations

from muster.images.base import ImageEngine

__all__ = ["ImageEngine", "engine_named"]


def engine_named(name: str) -> ImageEngine:
    """The engine of a plan, loaded when it is used."""
    match name:
        case "none":
            from muster.images.none import NoImage

            return NoImage()
        case "apptainer" | "singularity":
            from muster.images.apptainer import Apptainer

            return Apptainer(name, name.upper())
        case "pyxis":
            from muster.images.pyxis import Pyxis

            return Pyxis()
        case "cscs":
            from muster.images.cscs import ContainerEngine

            return ContainerEngine()
    raise KeyError(name)
