"""What an image engine is: it wraps the command of a task, or it adds flags to the step, or both. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.model.plan import Flag, Plan
from muster.model.words import Word

__all__ = ["ImageEngine", "activated", "lines_inside", "names_set", "parts_inside"]


class ImageEngine(Protocol):
    """One way to give a task its files."""

    @property
    def name(self) -> str:
        """The word for it in --engine and in profiles."""
        ...

    def parts(self, plan: Plan) -> tuple[str, ...]:
        """The parts of render/shell that `prologue` calls."""
        ...

    def step_flags(self, plan: Plan) -> tuple[Flag, ...]:
        """Flags of the step, for engines that live in the launcher (Pyxis, the CSCS Container Engine)."""
        ...

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        """The command as it runs inside the image, for engines that are programs (Apptainer)."""
        ...

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        """Commands of sh, as words, that every started process runs last before its command."""
        ...

    def definition(self, plan: Plan) -> tuple[Word, ...] | None:
        """The lines of the file that the batch script writes to RUN/image.toml; None: the engine wants none."""
        ...


def activated(plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
    """`command`, after the image's own words that make its environment ready."""
    if not plan.image.activation:
        return tuple(command)
    return ("bash", "-c", f'{" ".join(plan.image.activation)} && exec "$@"', "muster", *command)


def names_set(plan: Plan) -> tuple[str, ...]:
    """The variables that user and site set: what an image says of them does not hold."""
    return tuple(each.name for each in plan.variables if each.value is not None or each.pass_on)


def parts_inside(plan: Plan) -> tuple[str, ...]:
    """The parts that `lines_inside` calls."""
    image = plan.image
    wanted = (("stack", image.compare_gpus), ("stack_inside", image.compare_gpus), ("venv_inside", image.venv))
    return (*(name for name, why in wanted if why), "library")


def lines_inside(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Where the prologue itself runs in the image: what it compares there, and what it puts on the paths of Python."""
    image = plan.image
    fits = (("muster_stack_here", image.image or "", image.compare_gpus),) if image.compare_gpus else ()
    venv = (("muster_venv_inside", image.image or "", image.venv),) if image.venv else ()
    library = (("muster_add_library", image.library),) if image.library else ()
    return (*fits, *venv, *library)
