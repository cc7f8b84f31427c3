"""srun: a task per rank. Identity comes from the step's variables; nothing stays between srun and the rank."""

from __future__ import annotations

from collections.abc import Iterator

from muster.launchers.base import (
    Launcher,
    Part,
    Prologue,
    Wrap,
    door_prologues,
    identity_part,
    is_role,
    rank_prologue,
    rank_words,
)
from muster.model.plan import Flag, Output, Plan, Reason
from muster.model.words import Fragment, Word, fold

COUNTED: tuple[Part, ...] = ("ends", "left", "stay", "go_counted_rank")
"""Runs a rank whose end the script counts."""

_OUTPUT_FILES = {
    Output.FILES: '"${muster_output_flags[@]}"',
    Output.MOVED: '"${muster_output_flags[@]}"',
    Output.RANK_FILES: '--output="$muster_logs"/%N.%t.log',
}

_FILES = {
    Output.FILES: Reason("one file for each node, written there; queued by sbatch alone: where sbatch says"),
    Output.MOVED: Reason("where your -o says, standard error too"),
    Output.RANK_FILES: Reason("one file for each rank, written there"),
}


def step_flags(plan: Plan, *, tasks_per_node: str, cpus: str | None, label: bool) -> tuple[Flag, ...]:
    """Return the flags of every step of Muster's; sizes are shell text because the job knows how large it is."""
    per_node = tasks_per_node if tasks_per_node.isdigit() else f"${tasks_per_node}"
    flags = [
        Flag(Fragment('--nodes="$muster_nodes"'), Reason("the nodes of this step; Slurm says how many were granted")),
        Flag(
            Fragment(f'--ntasks="$((muster_nodes * {tasks_per_node}))"'),
            Reason("nodes × tasks per node, never a literal"),
        ),
        Flag(Fragment(f'--ntasks-per-node="{per_node}"'), Reason("the same number on every node")),
        Flag(
            "--kill-on-bad-exit=0",
            Reason(
                "this script ends the step when a rank dies: srun would wait the cluster's KillWait for SIGKILL",
                short="this script ends all ranks when one fails",
            ),
        ),
        Flag("--export=ALL", Reason("the job's header exports nothing; the step gets what this script has set up")),
        Flag(f"--mpi={plan.mpi or 'none'}", _mpi_reason(plan)),
    ]
    if cpus is not None:
        flags.append(
            Flag(
                Fragment(f"--cpus-per-task={cpus}"),
                Reason(
                    "srun does not take it from the job: 22.05 would give one CPU, 24.11 ends on a differing variable"
                ),
            )
        )
    if plan.within and plan.shape.gpus_per_node and not is_role(plan):
        flags.append(
            Flag(f"--gpus-per-node={plan.shape.gpus_per_node}", Reason("part of the allocation's GPUs, as asked"))
        )
    if plan.rendezvous.reserved_ports:
        flags.append(Flag("--resv-ports=1", plan.rendezvous.port_reason))
    if plan.overlap:
        flags.append(Flag("--overlap", Reason("typed inside a step that holds all resources: share them")))
    if label and plan.output is not Output.RANK_FILES:
        flags.append(Flag("--label", Reason("each line begins with its rank")))
    if plan.output in _OUTPUT_FILES:
        flags.append(Flag(Fragment(_OUTPUT_FILES[plan.output]), _FILES[plan.output]))
    return (*flags, *plan.step_flags)


def _mpi_reason(plan: Plan) -> Reason:
    if plan.mpi:
        return Reason("the process management that was asked for")
    return Reason(
        "the ranks read Slurm's step variables and need no PMI; PMIx would cost 20 to 60 ms a start",
        short="the ranks need no PMI",
    )


def step_words(plan: Plan, words: tuple[Word, ...], runner: str = "muster_step") -> Iterator[str]:
    """Yield srun's line as muster_step runs it; the lines before it, where the ranks' errors go to srun's own.

    A socket, or another user's pipe, cannot be opened by its name; srun's words and the ranks' errors then share
    one stream.
    """
    if plan.output is Output.STREAM:
        words = (words[0], Fragment('"${muster_error[@]}"'), *words[1:])
        yield "muster_open_errors"
    yield fold((Fragment(runner), *words), indent=plan.step_indent)


def output_parts(plan: Plan) -> tuple[Part, ...]:
    """Return the shell parts that decide where the tasks of a step write."""
    return () if plan.output is Output.RANK_FILES else ("open_errors",)


class Srun(Launcher):
    """A task per rank."""

    name = "srun"
    wrong_place = ("srun needs a Slurm controller, but none answers here", "--launcher local")
    chosen_because = "the fewest parts: no agent, no second start of Python"
    packs = True
    closes = True

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        rank = rank_prologue(plan, identity_part(plan), after=("jax",), last=COUNTED, looks=True)
        return (rank, *door_prologues(plan))

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        cpus = '"$muster_cpus_per_task"' if plan.shape.cpus_per_task else None
        stdin = Flag("--input=0", Reason("rank 0 reads the standard input, the others read nothing"))
        return (*step_flags(plan, tasks_per_node="muster_ntasks_per_node", cpus=cpus, label=plan.label), stdin)

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        command = rank_words(plan, wrap)
        return ("srun", *(flag.word for flag in self.flags(plan)), *command)

    def parts(self, plan: Plan) -> tuple[Part, ...]:
        return (*output_parts(plan), "watch")

    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        return step_words(plan, words)
