"""Where a task's files come from: how a command is wrapped in an image, or in the launcher's flags."""

from __future__ import annotations

from muster.images.apptainer import Apptainer
from muster.images.base import ImageEngine
from muster.images.cscs import ContainerEngine
from muster.images.none import NoImage
from muster.images.pyxis import Pyxis

__all__ = ["ENGINES", "ImageEngine"]

_ALL: tuple[ImageEngine, ...] = (
    NoImage(),
    Apptainer("apptainer", "APPTAINER"),
    Apptainer("singularity", "SINGULARITY"),
    Pyxis(),
    ContainerEngine(),
)

ENGINES: dict[str, ImageEngine] = {engine.name: engine for engine in _ALL}
