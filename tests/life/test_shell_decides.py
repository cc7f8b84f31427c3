"""The script of a job decides at the end of each attempt of the random orders as the machine of `muster.life` does."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from life.simulated import World
from muster.life import machine
from muster.life.machine import LifePhase, LifeState, LifeTerms, decide
from muster.render.parts import compose
from muster.runner import checked, run

_COUNT = int(os.environ.get("MUSTER_TEST_ORDERS", "150"))


class _Ends:
    """The end of each attempt: the facts as the script has them, and what the machine has decided."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.seeds: list[int] = []
        self.seed = 0
        self._facts = ""

    def play(self, count: int) -> None:
        for self.seed in range(count):
            World(self.seed, self._decide).play()

    def _decide(self, terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
        after, actions = decide(terms, state, event, now)
        closes = state.phase != LifePhase.CLOSES and after.phase in {LifePhase.CLOSES, LifePhase.OVER}
        again = any(isinstance(action, machine.NoteEnd) and action.decision == "again" for action in actions)
        if state.phase in {LifePhase.RUNS, LifePhase.ENDS_STEP, LifePhase.JUDGES} and (closes or again):
            self._facts = _facts(terms, state, event)
        notes = [action for action in actions if isinstance(action, machine.NoteEnd)]
        if notes and self._facts:
            cancelled = isinstance(event, machine.OutputSays) and event.is_cancelled
            if not (isinstance(event, machine.OutputSays) and event.over):
                over = "over" if any(isinstance(action, machine.CloseJob) for action in actions) else ""
                has_next = terms.link < terms.links
                gone = (
                    "yes" if has_next and any(isinstance(action, machine.WithdrawNext) for action in actions) else "no"
                )
                self.rows.append((f"{self._facts}|{'yes' if cancelled else ''}", f"{notes[-1].decision}|{over}|{gone}"))
                self.seeds.append(self.seed)
            self._facts = ""
        return after, actions


def _facts(terms: LifeTerms, state: LifeState, event: Any) -> str:
    """Return the facts as the driver reads them; empty where the script has no such decision."""
    slurm = event if isinstance(event, machine.SlurmSays) else state.slurm
    dead = event.dead if isinstance(event, machine.NodesSay) else state.dead
    newest = event.checkpoint if isinstance(event, machine.Newest) else state.newest
    told = event.status if isinstance(event, machine.ToldToEnd) else state.told
    status = event.status if isinstance(event, machine.StepEnded) else state.status
    silent = status == 0 and len(state.said) < terms.ranks  # the script counts that elsewhere (rank/ends.sh)
    unanswered = state.phase == LifePhase.JUDGES and (
        isinstance(event, machine.TimePassed) or (not told and slurm is None)
    )
    if silent or unanswered:
        return ""
    first = state.first or machine.FirstCause("")
    signature = machine.signature_of(state._replace(status=status))
    fields = (
        terms.link, terms.links, terms.nodes, terms.spares, terms.restarts, state.restarts, status,
        told or "", state.saved, "" if first.rank is None else first.rank, first.host, first.words,
        slurm.state if slurm else "", "yes" if slurm and slurm.is_late else "",
        ",".join(slurm.hosts if slurm else state.pool), dead[0] if dead else "", newest or "", state.checkpoint,
        "saved" if terms.checkpoints else "", "yes" if signature == state.signature else "",
    )  # fmt: skip
    return "|".join(str(field) for field in fields)


def test_the_script_decides_as_the_machine_does(tmp_path: Path) -> None:
    ends = _Ends()
    ends.play(_COUNT)
    told = _decided(tmp_path, [facts for facts, _ in ends.rows])

    assert len(told) == len(ends.rows)
    wrong = [
        f"seed {seed}: {facts}: the script decides {said}, the machine {right}"
        for seed, (facts, right), said in zip(ends.seeds, ends.rows, told)
        if said != right
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(told)}", *wrong[:12]])
    kinds = Counter(right.partition("|")[0] for _, right in ends.rows)
    assert set(kinds) == {"again", "done", "end", "next", "saved"}


def test_a_controller_that_is_away_ends_no_job_with_spare_nodes(tmp_path: Path) -> None:
    unanswered = "0|0|2|1|2|0|1|||0|node1|ValueError: 7|||node1,node2,node3||||||"

    assert _decided(tmp_path, [unanswered]) == ["again||no"]


def _decided(folder: Path, facts: list[str]) -> list[str]:
    """Return what the shell parts of a job decide, for each line of facts."""
    driver = compose(("again", "spares", "chain")) + (Path(__file__).parent / "decide.sh").read_text()
    lines = "".join(f"{line}\n" for line in facts)
    return checked(run(["bash", "-c", driver, "bash", str(folder)], stdin=lines, timeout_s=3000)).stdout.splitlines()
