"""flux: `flux run` inside an instance of Flux that Slurm started. In the tests only: it shows what a launcher takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from muster.launchers.base import RANK, Launcher, Prologue, Starter, Wrap, prologue_words, rank_prologue
from muster.model.plan import Engine, Flag, Plan, Reason
from muster.model.words import Fragment, Word, fold

HERE = Path(__file__).parent


class Flux(Launcher):
    """A task per rank, which Flux starts and labels; it passes the environment on."""

    name = "flux"

    def starter(self, engine: Engine) -> Starter:
        del engine
        return Starter.PROGRAM

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        return (rank_prologue(plan, HERE / "rank_flux.sh"),)

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        label = (Flag("--label-io", Reason("each line begins with its rank")),) if plan.label else ()
        return (
            Flag(Fragment('--nodes="$muster_nodes"'), Reason("the nodes of this job")),
            Flag(Fragment('--ntasks="$((muster_nodes * muster_ntasks_per_node))"'), Reason("nodes × ranks of a node")),
            Flag("--setopt=exit-timeout=none", Reason("how a rank ended is read before the others are ended")),
            *label,
        )

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        command = prologue_words(RANK, wrap((*plan.gate, *plan.command)))
        return ("flux", "run", *(flag.word for flag in self.flags(plan)), *command)

    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        """Flux ends with the highest status of its tasks."""
        del plan
        yield fold(words)
        yield "muster_status=$?"
