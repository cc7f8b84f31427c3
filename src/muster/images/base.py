"""What an image engine is: it wraps the command of a task, or it adds flags to the step, or both. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from muster.model.plan import Flag, ImageUse, Plan
from muster.model.words import Word
from muster.rank import contract
from muster.rank.vendors import VISIBLE

# What a rank has learnt before its image starts.
_LEARNT = (
    *contract.PUBLISHED,
    *(contract.NODE_RANK, contract.OMP_NUM_THREADS, contract.JOB, contract.RUN_DIRECTORY, contract.LAUNCHER),
    *(contract.AGENTS, contract.LOCAL_NNODES, contract.PORT_LOW, contract.PORT_COUNT),
    *(contract.NODES, contract.METHOD, contract.GRACE, contract.EXPECTED_CPUS, "MUSTER_OMP"),
    *VISIBLE,
    *("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
)
# Where the ranks' store is closed. The secret of the doors stays outside.
_OF_CLOSED = ("TORCHELASTIC_USE_AGENT_STORE", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "MUSTER_DOOR")


class ImageEngine:
    """One way to give a task its files. What most engines have in common is written here."""

    name: ClassVar[str]
    """The word for it in --engine and in profiles."""

    runs: frozenset[str] = frozenset()
    """The kinds of image that it runs: sif, squashfs, sandbox, registry, edf."""

    program: ClassVar[str] = ""
    """The program that stands around the command; empty: the engine lives in the flags of the step."""

    step_option: ClassVar[str] = ""
    """The option of srun by which an engine without a program is known to be there."""

    gpu_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Kind of GPUs → the flags that bring them in."""

    only_verb: str | None = None
    """The word before its flags where it has one way to start a command; None: exec or run, as the site says."""

    needs_sh: bool = False
    """Whether the image has to hold sh."""

    separators: str = ""
    """Characters that a path which is bound must not hold."""

    kept_outside: tuple[str, ...] = ()
    """Variables of the host that it would bring in and that belong outside."""

    @property
    def bind_variable(self) -> str:
        """Return the variable in which it is told to bind one more path; empty: it has none."""
        return ""

    @property
    def in_step(self) -> bool:
        """Return whether it lives in the flags of a Slurm step: without one it does not work."""
        return bool(self.runs) and not self.program

    def can_be_asked(self, kind: str) -> bool:
        """Return whether a node may look into such an image before the ranks start: nothing is pulled for that."""
        return kind != "registry" or self.in_step

    def unpacks(self, kind: str) -> bool:
        """Return whether a node that may not mount such an image would unpack it."""
        del kind
        return False

    def parts(self, plan: Plan) -> tuple[str, ...]:
        """Return the parts of render/shell that `prologue` calls."""
        del plan
        return ()

    def step_flags(self, plan: Plan) -> tuple[Flag, ...]:
        """Return flags of the step, for engines that live in the launcher (Pyxis, the CSCS Container Engine)."""
        del plan
        return ()

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        """Return the command as it runs inside the image, for engines that are programs (Apptainer)."""
        return activated(plan, command)

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        """Return commands of sh, as words, that every started process runs last before its command."""
        del plan
        return ()

    def definition(self, plan: Plan) -> tuple[Word, ...] | None:
        """Return the lines of the file that the batch script writes to RUN/image.toml; None: there is no such file."""
        del plan
        return None


def activated(plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
    """Return `command` after the image's own words that make its environment ready."""
    if not plan.image.activation:
        return tuple(command)
    return ("bash", "-c", f'{" ".join(plan.image.activation)} && exec "$@"', "muster", *command)


def names_set(plan: Plan) -> tuple[str, ...]:
    """Return the variables that user and site set: what an image says of them does not hold."""
    return tuple(variable.name for variable in plan.variables if variable.value is not None)


def names_for_engine(plan: Plan) -> tuple[str, ...]:
    """Return the variables that reach the command where an engine keeps the others out."""
    closed = _OF_CLOSED if plan.rendezvous.closed else ()
    return tuple(dict.fromkeys([*_LEARNT, *closed, *names_set(plan)]))


class NoImage(ImageEngine):
    """The engine that changes nothing: the command runs on the node's own files."""

    name = "none"


def enroot_name(image: ImageUse) -> str:
    """Return a file by its path; docker://nvcr.io/nvidia/pytorch:26.02-py3 as nvcr.io#nvidia/pytorch:26.02-py3.

    Enroot, and what builds on it, names images so.
    """
    name = image.registry_name
    if not name or "#" in name:
        return name or image.name
    registry, slash, rest = name.partition("/")
    is_host = "." in registry or ":" in registry or registry == "localhost"
    return f"{registry}#{rest}" if slash and is_host else name


class StepEngine(ImageEngine):
    """An engine in the flags of the step: the prologue itself runs in the image."""

    needs_sh = True
    separators = ":,"
    kept_outside = ("LD_LIBRARY_PATH",)

    def parts(self, plan: Plan) -> tuple[str, ...]:
        image, compare = plan.image, plan.image.compare_gpus
        optional = (("gpu_kind", compare), ("stack", compare), ("stack_inside", compare), ("venv_inside", image.venv))
        return (*(name for name, is_needed in optional if is_needed), "library", *(("ready",) if image.ready else ()))

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        image = plan.image
        fits = (("muster_stack_here", image.name, image.compare_gpus),) if image.compare_gpus else ()
        venv = (("muster_venv_inside", image.name, image.venv),) if image.venv else ()
        library = (("muster_add_library", image.library),) if image.library else ()
        ready = (("muster_add_ready", image.ready),) if image.ready else ()
        return (*fits, *venv, *library, *ready)
