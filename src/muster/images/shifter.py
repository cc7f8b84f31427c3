"""Shifter: a program around the command, which keeps the host's variables and asks the site's gateway for images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from muster.images.base import ImageEngine, activated
from muster.images.oci import with_paths_inside
from muster.model.plan import Plan
from muster.model.words import Word


class Shifter(ImageEngine):
    """`shifter --image=NAME` around the command. Its own modules, `--module=gpu,…`, are the site's flags."""

    name = "shifter"
    program = "shifter"
    runs = frozenset({"registry"})
    separators = ":;"
    only_verb = ""
    gpu_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    kept_outside = ("LD_LIBRARY_PATH",)

    def parts(self, plan: Plan) -> tuple[str, ...]:
        del plan
        return ("image_node",)

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        image = plan.image
        # The site mounts its own file systems; what lies elsewhere is bound where it is bound to another name.
        binds = (f"--volume={mount.source}:{mount.target}" for mount in image.mounts if mount.source != mount.target)
        flags = (f"--image=docker:{image.registry_name}", *(flag.word for flag in image.flags), *binds)
        inner_command = with_paths_inside(plan, activated(plan, command))
        return (image.program, *flags, f"--workdir={plan.working_directory}", *inner_command)

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        image = plan.image
        return (
            ("muster_image_needs", image.program, image.name),
            ("muster_image_sees", *(mount.source for mount in image.mounts)),
        )
