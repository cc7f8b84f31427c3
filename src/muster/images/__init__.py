"""Where a task's files come from: how a command is wrapped in an image, or in the launcher's flags."""

from __future__ import annotations

from muster.images.base import ImageEngine
from muster.images.none import NoImage

__all__ = ["ENGINES", "ImageEngine"]

ENGINES: dict[str, ImageEngine] = {engine.name: engine for engine in (NoImage(),)}
