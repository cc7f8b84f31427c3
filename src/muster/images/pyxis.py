"""Pyxis: the image stands in srun's flags, and Enroot makes the container. The prologue runs inside it."""

from __future__ import annotations

import shlex

from muster.images.base import StepEngine, enroot_name, names_set
from muster.model.plan import Flag, Plan, Reason
from muster.model.words import Fragment


class Pyxis(StepEngine):
    """Flags of srun."""

    name = "pyxis"
    step_option = "container-image"
    runs = frozenset({"squashfs", "registry"})

    def step_flags(self, plan: Plan) -> tuple[Flag, ...]:
        image = plan.image
        binds = ",".join(mount.words for mount in image.mounts)
        return (
            Flag(f"--container-image={enroot_name(image)}", image.reason),
            Flag(
                Fragment(f'--container-mounts={shlex.quote(binds)},"$muster_run_dir:$muster_run_dir"'),
                Reason("what the ranks see of the host: " + "; ".join(mount.reason.text for mount in image.mounts)),
            ),
            Flag(f"--container-workdir={plan.working_directory}", Reason("the working directory of the ranks")),
            Flag(
                f"--container-env={','.join(names_set(plan))}",
                Reason("for these, what is set here holds and not what the image says"),
            ),
            *image.flags,
        )
