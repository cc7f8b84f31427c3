"""What a launcher is: one object that answers every question about how the ranks of a plan start. Runs nothing.

A launcher is a subclass of `Launcher` with a name, and a line in the registry (`launchers/__init__`). What most
launchers have in common is written here; a new one says only what is different.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Union

import msgspec

from muster.model.plan import Engine, Flag, Plan, Variable
from muster.model.words import Fragment, Word
from muster.older import StrEnum
from muster.rank import contract

if TYPE_CHECKING:
    from pathlib import Path

    from muster.model.failure import Failure

Part = Union[str, "Path"]
"""A shell text: the name of a file in render/shell, or the path of a file elsewhere."""

# Puts a command into the image.
Wrap = Callable[[Sequence[Word]], tuple[Word, ...]]

# The shell variables of the script that hold a prologue's text.
RANK = "muster_task"
WORKER = "muster_worker"
KEEPER = "muster_keeper"
DOOR = "muster_door"
DOOR_PIECES = ("door_owner.py", "door_store.py", "door.py")


class Starter(StrEnum):
    """Who starts the processes of a launch."""

    STEP = "step"  # Slurm: they are tasks of a step of the job
    PROGRAM = "program"  # a program that the script runs and that reaches the nodes itself, as mpirun does
    MUSTER = "muster"  # Muster's own supervisor, on this machine


class Prologue(msgspec.Struct, frozen=True):
    """What a started process runs before its command, by slots that stand in this order."""

    variable: str
    """The script's variable that holds the text: RANK for what the launcher starts, WORKER for an agent's ranks."""

    common: tuple[Part, ...] = ()
    """Functions that the other slots call."""

    identity: tuple[Part, ...] = ()
    """Who this process is: sets muster_rank, muster_size, muster_local_rank, muster_node_rank, muster_address …"""

    start: tuple[Part, ...] = ()
    """What is checked of the start, and the variables of torch. What runs once on each node stands before it."""

    last: tuple[Part, ...] = ("go_rank",)
    """Becomes the command. The image and staged copies stand before it."""


def rank_prologue(
    plan: Plan,
    identity: Part,
    *,
    after: tuple[Part, ...] = (),
    last: tuple[Part, ...] = ("go_rank",),
    looks: bool = False,
) -> Prologue:
    """Return the prologue of a process that is a rank and learns who it is by `identity`; `after`: its other names.

    `looks`: where the source does not show whether the ranks meet, rank 0 looks at its end.
    """
    one, meeting = plan.visibility == "one", plan.rendezvous
    start: tuple[tuple[Part, bool], ...] = (
        ("size_as_planned", True),
        ("role_port", is_role(plan)),
        ("address_asked", meeting.address is not None or bool(meeting.rule)),
        ("gpus", plan.shape.gpus_per_node > 0 and not one),
        ("cpus", True),
        ("threads", True),
        ("cpus_asked", bool(plan.shape.cpus_per_task)),
        ("publish", True),
        ("one_gpu", one),
        *((part, True) for part in after),
        ("look", looks and plan.may_be_alone),
        ("python", meeting.closed),
        ("door", meeting.closed),
    )
    parts = (*place_parts(plan), *(part for part, is_needed in start if is_needed))
    identities = (*step_parts(plan, identity), *size_parts(plan, identity))
    return Prologue(RANK, ("stop", "meeting"), identities, parts, last)


def is_role(plan: Plan) -> bool:
    """Return whether the plan is that of one role among several."""
    return any(variable.name == contract.ROLE for variable in plan.variables)


def place_parts(plan: Plan) -> tuple[Part, ...]:
    """Return what makes sure that the node has the files that the plan counts on."""
    return ("directory",) if python_of_ranks(plan) is None else ("directory", "python_there")


def python_of_ranks(plan: Plan) -> str | None:
    """Return the Python of the environment that the script activates: a node without it would find another."""
    if plan.image.image is not None or plan.staging is not None:
        return None
    return next((f"{command.folder}/bin/python" for command in plan.prelude if command.folder), None)


def step_parts(plan: Plan, identity: Part) -> tuple[Part, ...]:
    """Return who the process is; before it, the port where Slurm reserves one for the step of these processes."""
    reserved = plan.rendezvous.reserved_ports or plan.mpi not in {None, "none"}
    return ("port_reserved", identity) if reserved and identity == "rank_slurm" else (identity,)


def size_parts(plan: Plan, identity: Part) -> tuple[Part, ...]:
    """Return what counts the tasks of a node where srun may not start as many on each as the plan says."""
    return ("tasks_of_node",) if plan.within and identity == "rank_slurm" else ()


class Launcher(ABC):
    """One way to start ranks."""

    name: str
    """The word for it in plans, in --launcher and in profiles."""

    in_options: ClassVar[bool] = True
    """Whether --launcher may name it."""

    in_profiles: ClassVar[bool] = True
    """Whether a site's profile may name it."""

    engines: frozenset[Engine] = frozenset({Engine.SLURM})
    """Where it works."""

    wrong_place: tuple[str, str] = ("", "")
    """The sentence and the hint where it was asked for and does not work."""

    chosen_because: str = ""
    """The reason where it was not asked for."""

    labels_lines: bool = True
    """Whether it puts the rank before each line, where that is asked for."""

    labels_pieces: bool = False
    """Whether a label may stand before any piece of a line: what passes through Muster is put together again."""

    starts_ranks: bool = True
    """Whether it starts ranks at all: a shell is none."""

    agent: str = ""
    """The program that it starts once on each node and that starts the ranks; empty: it starts the ranks."""

    @property
    def task_of_slurm(self) -> str:
        """Return the name of each task that Slurm starts, where that task is not a rank."""
        return self.agent

    stand_in: ClassVar[str] = ""
    """The launcher of a rehearsal on a machine that lacks this one: it is one site's own program."""

    sets_mpi_variables: bool = False
    """Whether each rank has the variables of an MPI that started it."""

    needs_sh_in_image: str = ""
    """Why the image has to hold sh, where it has to: the end of a sentence."""

    reaches_by_ssh: tuple[tuple[str, str], ...] = ()
    """Variables with which it reaches the other hosts by ssh, at sites where Slurm's own way is closed."""

    keeps_signals: str = ""
    """Who gets the signal of sbatch's --signal in the place of the ranks; empty: the ranks do."""

    tells_failure: str = "srun"
    """By whose words the supervisor of a job finds the first failed rank: srun, torchrun, mpirun (life/told.py)."""

    closes: bool = False
    """Whether the doors of its hosts can stand before the ranks' store: the secret reaches them in no command."""

    signals_ranks: Part = "signal_ranks"
    """The shell text that sends a signal to its ranks on one node, and to none of the processes around them."""

    packs: bool = False
    """Whether several launches of it share one node, each with its own GPUs and CPUs."""

    many_nodes_note: str = ""
    """What the user should know of it where the job has several nodes."""

    def refusal(self, engine: Engine) -> tuple[str, str] | None:
        """Return the sentence and the hint why it does not work there; None: it does."""
        return None if engine in self.engines else self.wrong_place

    @property
    def site_name(self) -> str | None:
        """Return the name by which sites allow or refuse it and set conditions; None: no site is asked."""
        return self.name

    @property
    def rank_tasks(self) -> bool:
        """Return whether each rank is a task of a Slurm step.

        Masks of CPUs fit, and a file of each task is a rank's.
        """
        in_slurm = Engine.SLURM in self.engines and self.starter(Engine.SLURM) is Starter.STEP
        return in_slurm and self.starts_ranks and not self.agent

    @property
    def leaves_daemons(self) -> bool:
        """Return whether something on each node stands between Slurm and the ranks, which Slurm may have numbered."""
        return bool(self.agent) or self.starter(Engine.SLURM) is Starter.PROGRAM

    def starter(self, engine: Engine) -> Starter:
        """Return who starts the processes."""
        return Starter.STEP if engine is Engine.SLURM else Starter.MUSTER

    @abstractmethod
    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        """Return what each started process runs first; that of RANK is run by what the launcher itself starts."""

    @abstractmethod
    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        """Return the launcher's own options, each with its reason, labels and standard input among them."""

    @abstractmethod
    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        """Return the whole line that starts the plan's command; `wrap` goes around what runs in the image."""

    def parts(self, plan: Plan) -> tuple[Part, ...]:
        """Return the shell parts that stand in the script itself: what `prepare` and `step` call."""
        del plan
        return ()

    def prepare(self, plan: Plan, carried: Sequence[str]) -> Iterator[str]:
        """Yield the lines before the first step; `carried` are the variables that the plan sets."""
        del plan, carried
        return iter(())

    @abstractmethod
    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        """Yield the lines that run `words` as one step and leave its status in muster_status.

        The status is that of the first rank that failed. The lines may run again in one job: they then start the
        same ranks as a new step. A launcher whose step becomes the script (a shell) ends in `exec`.
        """

    def processes_here(self, plan: Plan) -> int:
        """Return how many of its lines the supervisor starts on a machine without Slurm."""
        del plan
        return 1

    def labels_here(self, plan: Plan) -> bool:
        """Return whether the supervisor puts the rank before each line: an agent does it itself."""
        return plan.label and not self.agent

    def variables(self) -> tuple[Variable, ...]:
        """Return what the ranks have to be told."""
        return ()

    def first_failure(self, outputs: Iterable[Iterable[str]]) -> Failure | None:
        """Return the first failure that it reports in these texts; Slurm's own messages are read elsewhere."""
        del outputs
        return None

    def rank_by_rank(self, engine: Engine) -> str | None:
        """Return the launcher that stands in for it where every rank is checked alone; None: itself."""
        del engine
        return None


def identity_part(plan: Plan) -> str:
    """Return the part by which a process that Muster or srun starts learns who it is."""
    return "rank_local" if plan.engine is Engine.HERE else "rank_slurm"


def door_prologues(plan: Plan) -> tuple[Prologue, ...]:
    """Return the text of the door, which is Python, where the ranks' store is closed."""
    return (Prologue(DOOR, last=DOOR_PIECES),) if plan.rendezvous.closed else ()


def door_text(plan: Plan) -> tuple[Word, ...]:
    """Return what stands before the command where the ranks' store is closed: the text of the door."""
    return (Fragment(f'"${DOOR}"'),) if plan.rendezvous.closed else ()


def rank_words(plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
    """Return the command of a rank that the launcher itself starts."""
    return prologue_words(RANK, (*door_text(plan), *wrap((*plan.gate, *plan.command))))


def prologue_words(variable: str, command: Sequence[Word]) -> tuple[Word, ...]:
    """Return `command`, started by the prologue that the script keeps in `variable`."""
    return ("sh", "-c", Fragment(f'"${variable}"'), "muster", *command)
