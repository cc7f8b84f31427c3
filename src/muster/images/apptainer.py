"""Apptainer and SingularityCE: a program around the command. The wire-up is done before it starts, so the image
needs no sh, no Python and nothing of Muster; under torchrun the agent is that command, and its ranks need sh.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from muster.images.base import ImageEngine, activated, names_for_engine
from muster.model.plan import Mount, Plan
from muster.model.words import Word


class Apptainer(ImageEngine):
    """The program; `prefix` is what its own variables begin with."""

    name = "apptainer"
    program = "apptainer"
    prefix = "APPTAINER"
    runs = frozenset({"sif", "sandbox", "squashfs", "registry"})
    gpu_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {"cuda": ("--nv",), "rocm": ("--rocm",)}
    """By kind; it shows all of /dev by itself, which is what Intel's need."""

    gpu_variables: ClassVar[Mapping[str, str]] = {"cuda": "NV", "rocm": "ROCM"}
    """The same as variables: their ends, by kind."""

    @property
    def bind_variable(self) -> str:
        return f"{self.prefix}_BIND"

    def unpacks(self, kind: str) -> bool:
        return kind in {"sif", "squashfs"}

    def parts(self, plan: Plan) -> tuple[str, ...]:
        image = plan.image
        optional_parts = (
            ("image_unpack", image.may_be_unpacked),
            ("gpu_kind", image.compare_gpus or image.asks_for_gpus),
            ("image_gpus", image.asks_for_gpus),
            ("stack", image.compare_gpus),
            ("image_asks", image.compare_gpus or image.venv),
            ("ready", image.ready),
        )
        return ("image_node", "image", *(name for name, is_needed in optional_parts if is_needed))

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        image = plan.image
        binds = [word for mount in image.mounts for word in ("--bind", _bind(mount))]
        # Quiet: it would tell of every variable that it finds under its other name.
        start = (image.program, "--quiet", image.verb, *(flag.word for flag in image.flags))
        place = ("--pwd", plan.working_directory, image.name)
        return (*start, *binds, *place, *activated(plan, command))

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        image = plan.image
        lines: list[tuple[str, ...]] = [("muster_image_needs", image.program, image.name)]
        if image.may_be_unpacked:
            lines.append(("muster_image_opens", image.program, self.prefix, image.name))
        if image.ranks_start_inside:
            lines.append(("muster_image_has_sh", image.program, image.name, self.prefix))
        if image.compare_gpus:
            lines.append(("muster_image_made_for", image.program, image.name, self.prefix, image.compare_gpus))
        if image.asks_for_gpus:
            lines.append(
                ("muster_image_gpus", self.prefix, *(f"{kind}={end}" for kind, end in self.gpu_variables.items()))
            )
        lines += [
            ("muster_image_sees", *(mount.source for mount in image.mounts)),
            (
                "muster_image_takes",
                self.prefix,
                *(mount.target for mount in image.mounts if mount.source == mount.target),
            ),
            ("muster_image_gets", f"{self.prefix}ENV_", *names_for_engine(plan)),
        ]
        libraries = [mount.source for mount in image.mounts if ".so" in mount.source]
        if libraries and image.kind != "sandbox":
            lines.append(("muster_image_loads", image.program, image.name, self.prefix, *libraries))
        if image.joins_mpi:
            lines.append(("muster_image_joins", f"{self.prefix}ENV_"))
        if image.venv is not None:
            if image.venv_python is not None:
                image_arguments = (image.program, image.name, image.venv, image.venv_python, self.prefix)
                lines.append(("muster_image_runs_venv", *image_arguments))
            lines.append(("muster_image_venv", f"{self.prefix}ENV_", image.venv))
        if image.library:
            lines.append(("muster_image_library", f"{self.prefix}ENV_PYTHONPATH", image.library))
        if image.ready:
            lines.append(("muster_image_ready", f"{self.prefix}ENV_PYTHONPATH", image.ready))
        if image.may_be_unpacked:
            lines.append(("eval", 'eval "$muster_image_words"'))
        return tuple(lines)


class Singularity(Apptainer):
    """The same engine under its other name."""

    name = "singularity"
    program = "singularity"
    prefix = "SINGULARITY"


def _bind(mount: Mount) -> str:
    source, target = (re.sub(r"([\\,:])", r"\\\1", path) for path in (mount.source, mount.target))
    if mount.read_only:
        return f"{source}:{target}:ro"
    return source if source == target else f"{source}:{target}"
