"""How Enroot, and what builds on it, names an image."""

from __future__ import annotations

from muster.model.plan import ImageUse


def enroot_name(image: ImageUse) -> str:
    """Return a file by its path; docker://nvcr.io/nvidia/pytorch:26.02-py3 as nvcr.io#nvidia/pytorch:26.02-py3."""
    name = image.registry_name
    if not name or "#" in name:
        return name or image.image or ""
    registry, slash, rest = name.partition("/")
    is_host = "." in registry or ":" in registry or registry == "localhost"
    return f"{registry}#{rest}" if slash and is_host else name
