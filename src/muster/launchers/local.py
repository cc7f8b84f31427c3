"""local: Muster's own supervisor starts the ranks on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from muster.launchers.base import Launcher, Prologue, Wrap, door_prologues, identity_part, rank_prologue, rank_words
from muster.model.plan import Engine, Flag, Plan
from muster.model.words import Word, line
from muster.rank import contract


def lines_here(plan: Plan, words: tuple[Word, ...], processes: int) -> Iterator[str]:
    """Yield what `muster run` does by itself on this machine; it also labels the lines and ends all ranks together."""
    per_node = processes // plan.shape.nodes
    yield f"export {contract.PORT}=${{{contract.PORT}:-{plan.rendezvous.port_low}}}"
    yield "muster_pids=()"
    yield f"for muster_index in {{0..{processes - 1}}}; do"
    yield f"    export {contract.LOCAL_PROCID}=$muster_index {contract.LOCAL_LOCALID}=$((muster_index % {per_node}))"
    yield f"    export {contract.LOCAL_NODEID}=$((muster_index / {per_node}))"
    yield f"    export {contract.LOCAL_NNODES}={plan.shape.nodes} {contract.LOCAL_NTASKS}={plan.shape.ntasks_per_node}"
    yield f"    {line(words)} <&0 &"
    yield '    muster_pids+=("$!")'
    yield "done"
    yield "muster_status=0"
    yield 'for muster_pid in "${muster_pids[@]}"; do'
    yield '    wait "$muster_pid" || muster_status=$((muster_status ? muster_status : $?))'
    yield "done"


class Local(Launcher):
    """A process per rank, all of them here."""

    name = "local"
    closes = True
    engines = frozenset({Engine.HERE})
    wrong_place = ("the launcher local starts ranks on this machine only", "muster run --here")
    chosen_because = "without Slurm, Muster itself starts the ranks on this machine"

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        return (rank_prologue(plan, identity_part(plan), after=("slurm_names", "jax")), *door_prologues(plan))

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return ()

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return rank_words(plan, wrap)

    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        return lines_here(plan, words, self.processes_here(plan))

    def processes_here(self, plan: Plan) -> int:
        return plan.shape.ntasks
