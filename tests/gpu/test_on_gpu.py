"""What one real GPU proves: `make test-gpu`. Each row goes into the report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpu.conftest import Report
from gpu.machine import STARTS, STARTS_IN_LAB, Machine
from gpu.proofs import PROOFS, Proof, Verdict, judge_cost

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_it_is_so(proof: Proof, report: Report, tmp_path: Path) -> None:
    seen = Machine(tmp_path).prove(proof)
    verdict = proof.judge(seen)
    report.add(proof.name, proof.proves, verdict, "muster " + " ".join(proof.muster))
    assert verdict.good, f"{verdict.says}\n{seen.output}\n{seen.looked}"


def test_muster_costs_no_more_than_the_spread(report: Report, tmp_path: Path) -> None:
    verdict = judge_cost(Machine(tmp_path).time(STARTS, rounds=7))
    report.add("cost", "Muster against torchrun and a plain start, in turns", verdict, "python cost.py under each")
    assert verdict.good, verdict.says


def test_a_lab_hands_out_the_real_gpu(report: Report, tmp_path: Path) -> None:
    """Slurm's gres, CUDA_VISIBLE_DEVICES and a real context meet."""
    if shutil.which("slurmctld") is None:
        pytest.skip("Slurm's daemons are not on this machine")
    machine = Machine(tmp_path)
    up = ("lab", "up", "--name", "gpu", "--nodes", "1", "--gpus-per-node", "1")
    down = ("lab", "down", "--name", "gpu")
    inside = ("lab", "exec", "--name", "gpu", "--", "python", "-m", "muster", "run", "-N", "1", "-g", "1")
    try:
        began = machine.prove(Proof("up", "", up, lambda _: Verdict(True, "")))
        assert began.status == 0, began.output
        proof = Proof("lab", "", (*inside, "--", "python", "{programs}/seen.py"), PROOFS[0].judge)
        verdict = proof.judge(machine.prove(proof))
        cost = judge_cost(machine.time(STARTS_IN_LAB, rounds=3))
    finally:
        machine.prove(Proof("down", "", down, lambda _: Verdict(True, "")))
    report.add("lab", "a lab's host owns the GPU, and Slurm hands it out", verdict, "muster " + " ".join(inside))
    costs = "a job of Slurm with --hang and --restart against a bare srun, in turns"
    report.add("cost in a job", costs, cost, "python cost.py under each")
    assert verdict.good, verdict.says
    assert cost.good, cost.says
