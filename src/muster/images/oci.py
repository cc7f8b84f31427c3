"""Podman, podman-hpc and Docker: `PROGRAM run` around the command of every rank.

They keep the host's variables out, so the prologue names those that a rank has learnt, and binds the run directory.
A virtual environment and the rank library are put on their paths by sh in the image.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from muster.images.base import ImageEngine, activated, names_for_engine
from muster.model.plan import Plan
from muster.model.words import Word


class Podman(ImageEngine):
    """The program, and what its words for a container of a rank are."""

    name = "podman"
    program = "podman"
    runs = frozenset({"registry"})
    separators = ":"
    only_verb = "run"
    gpu_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cuda": ("--device=nvidia.com/gpu=all",),
        "rocm": ("--device=/dev/kfd", "--device=/dev/dri", "--group-add=keep-groups"),
        "xpu": ("--device=/dev/dri", "--group-add=keep-groups"),
    }
    # Ranks of a node reach each other over its network and its shared memory, as without a container.
    own_flags: tuple[str, ...] = ("--rm", "--interactive", "--network=host", "--ipc=host")
    # The script tells a rank's container what user it is where the program does not.
    keeps_user: ClassVar[bool] = True

    def parts(self, plan: Plan) -> tuple[str, ...]:
        gpus = ("gpu_kind", "container_gpus") if plan.image.asks_for_gpus else ()
        return ("image_node", "container", *gpus)

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        image = plan.image
        binds = (f"--volume={mount.words}" for mount in image.mounts)
        flags = (*self.own_flags, *(flag.word for flag in image.flags), *binds)
        inner_command = (image.registry_name, *with_paths_inside(plan, activated(plan, command)))
        return (image.program, image.verb, *flags, f"--workdir={plan.working_directory}", *inner_command)

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        image = plan.image
        bound = (mount.target for mount in image.mounts if mount.source == mount.target)
        names = (*names_for_engine(plan), *(("PYTHONPATH",) if image.library or image.ready else ()))
        lines: list[tuple[str, ...]] = [
            ("muster_image_needs", image.program, image.name),
            ("muster_image_sees", *(mount.source for mount in image.mounts)),
            ("muster_container_binds", *bound),
            ("muster_container_gets", *dict.fromkeys(names)),
        ]
        if image.joins_mpi:
            lines.append(("muster_container_joins",))
        if not self.keeps_user:
            lines.append(("muster_container_user",))
        if image.asks_for_gpus:
            words = (f"{kind}={shlex.join(flags)}" for kind, flags in self.gpu_flags.items())
            lines.append(("muster_container_gpus", *words))
        return (*lines, ("eval", 'eval "$muster_container_words"'))


class PodmanHpc(Podman):
    """Podman for clusters: its modules bring the GPUs and the site's libraries in."""

    name = "podman-hpc"
    program = "podman-hpc"
    gpu_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {**Podman.gpu_flags, "cuda": ("--gpu",)}


class Docker(Podman):
    """Its daemon starts the container, as root unless it is told another user."""

    name = "docker"
    program = "docker"
    gpu_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cuda": ("--gpus=all",),
        "rocm": ("--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"),
        "xpu": ("--device=/dev/dri", "--group-add=video"),
    }
    keeps_user = False


def with_paths_inside(plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
    """Return `command`, where sh of the image first puts a virtual environment and the rank library on their paths."""
    image = plan.image
    sets = []
    if image.venv:
        sets.append(f'VIRTUAL_ENV={shlex.quote(image.venv)} PATH={shlex.quote(image.venv)}/bin:"$PATH"')
    if image.library:
        sets.append(f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(image.library)}')
    if image.ready:
        sets.append(f'PYTHONPATH={shlex.quote(image.ready)}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    if not sets:
        return tuple(command)
    return ("sh", "-c", f'export {" ".join(sets)}; exec "$@"', "muster", *command)
