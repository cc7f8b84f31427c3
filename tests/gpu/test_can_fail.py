"""Every proof can fail: its program is run with a GPU that is not there, well and with a fault, and judged."""

from __future__ import annotations

import json
import os
import pickle
import runpy
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu.conftest import Report
from gpu.fake_torch import FakeGpu, FakeTensor
from gpu.machine import PROGRAMS, ROOT, Machine
from gpu.proofs import MARK, PROOFS, Proof, Seen, Verdict, judge_cost

BY_NAME = {proof.name: proof for proof in PROOFS}


def run_with_fake(program: str, fault: str, capsys: pytest.CaptureFixture[str], words: list[str], size: int) -> Seen:
    """Run a program rank by rank, in this process, with the torch that is none."""
    capsys.readouterr()
    status, output = 0, ""
    for rank in range(size):
        gpu = FakeGpu(fault, rank, size)
        world = SimpleNamespace(device="cuda:0", rank=gpu.rank, size=gpu.size)
        muster = SimpleNamespace(world=lambda world=world: nullcontext(world))
        with pytest.MonkeyPatch.context() as patch:
            for name, module in {**gpu.modules(), "muster": muster}.items():
                patch.setitem(sys.modules, name, module)
            patch.setattr(sys, "path", [str(PROGRAMS), *sys.path])
            patch.setattr(sys, "argv", [program, *words])
            patch.setitem(os.environ, "LOCAL_RANK", str(rank))
            patch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", "" if fault == "all are seen" else str(rank))
            if program == "world":
                gpu.backend = "nccl"
            try:
                runpy.run_path(str(PROGRAMS / f"{program}.py"))
            except RuntimeError as error:
                status, output = 1, f"{output}torch.OutOfMemoryError: {error}\n"
            except SystemExit:
                pass
        output += capsys.readouterr().out
    return Seen(status, output)


PROGRAMS_RUN = [
    ("device", "seen", (), 1, "", "started early"),
    ("device", "seen", (), 1, "", "wrong device"),
    ("device alone", "seen", (), 1, "", "started early"),
    ("device alone", "seen", (), 1, "", "all are seen"),
    ("world", "world", (), 1, "", "wrong backend"),
    ("world", "world", (), 1, "", "a flipped bit"),
    ("two ranks", "share", ("gloo",), 2, "", "a flipped bit"),
    ("collectives", "collectives", (), 1, "", "a flipped bit"),
    ("collectives", "collectives", (), 1, "", "wrong backend"),
]


@pytest.mark.parametrize(("name", "program", "words", "size", "well", "fault"), PROGRAMS_RUN)
def test_a_program_passes_on_a_gpu_that_is_well_and_fails_on_one_that_is_not(
    name: str,
    program: str,
    words: tuple[str, ...],
    size: int,
    well: str,
    fault: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    proof = BY_NAME[name]
    assert f"{{programs}}/{program}.py" in proof.muster
    good = proof.judge(run_with_fake(program, well, capsys, list(words), size))
    bad = proof.judge(run_with_fake(program, fault, capsys, list(words), size))
    assert (good.good, bad.good) == (True, False), (good, bad)


@pytest.mark.parametrize(
    ("name", "program", "words", "size", "cause", "fault"),
    [
        ("out of memory", "out_of_memory", (), 1, "the GPU's memory is full", "endless memory"),
        ("an illegal address", "illegal_address", (), 1, "a kernel touched memory that is not its own", ""),
        ("two ranks over NCCL", "share", ("nccl",), 2, "two ranks of one node use the same GPU", "two on one"),
    ],
)
def test_an_error_has_to_come_and_its_cause_has_to_be_said(
    name: str,
    program: str,
    words: tuple[str, ...],
    size: int,
    cause: str,
    fault: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    proof = BY_NAME[name]
    well = "illegal address" if name == "an illegal address" else ""
    failed = run_with_fake(program, well, capsys, list(words), size)
    named = failed._replace(output=f"{failed.output}\nmuster: {cause}\n")
    assert proof.judge(named).good
    assert not proof.judge(failed).good, "the error came, but nobody named its cause"
    assert not proof.judge(run_with_fake(program, fault, capsys, list(words), size)).good


def document(**more: Any) -> dict[str, Any]:
    rows = [{"collective": "all_reduce", "wrong": []}]
    return {"rows": rows, "peaks": [{"probe": "gemm", "of_peak": 0.8}], **more}


def flight(state: str, name: str = "nccl:all_reduce") -> dict[str, bytes]:
    return {"flight_0": pickle.dumps({"entries": [{"profiling_name": name, "state": state}]})}


def told(**values: Any) -> str:
    return f"{MARK}{json.dumps(values)}\n"


LOSSES = [1.0, 0.5, 0.25]
STACK = "1 rank: synchronize() in hang_kernel.py:10"
JUDGED: list[tuple[str, Seen, Seen]] = [
    (
        "training",
        Seen(0, told(backend="nccl", gpu=LOSSES, cpu=LOSSES)),
        Seen(0, told(backend="nccl", gpu=[1.0, 0.6, 0.3], cpu=LOSSES)),
    ),
    ("training", Seen(0, told(backend="nccl", gpu=LOSSES, cpu=LOSSES)), Seen(1, "Traceback")),
    (
        "check",
        Seen(0, json.dumps({"ranks": 1, "findings": []})),
        Seen(
            1, json.dumps({"ranks": 1, "findings": [{"what": "GPU health", "status": "broken", "evidence": "Xid 79"}]})
        ),
    ),
    ("check", Seen(0, json.dumps({"ranks": 1, "findings": []})), Seen(0, json.dumps({"ranks": 0, "findings": []}))),
    (
        "rates",
        Seen(0, json.dumps(document())),
        Seen(0, json.dumps(document(peaks=[{"probe": "gemm", "of_peak": 0.1}]))),
    ),
    (
        "rates",
        Seen(0, json.dumps(document())),
        Seen(0, json.dumps(document(rows=[{"collective": "broadcast", "wrong": [1]}]))),
    ),
    ("rates", Seen(0, json.dumps(document())), Seen(0, json.dumps(document(peaks=[])))),
    ("a kernel that hangs", Seen(143, "", STACK), Seen(143, "", "no rank was found")),
    ("a collective that hangs", Seen(134, "", "", flight("started")), Seen(134, "", "", flight("completed"))),
    ("a collective that hangs", Seen(134, "", "", flight("scheduled")), Seen(134, "")),
]


@pytest.mark.parametrize(("name", "well", "ill"), JUDGED)
def test_what_is_only_judged_can_fail_too(name: str, well: Seen, ill: Seen) -> None:
    assert BY_NAME[name].judge(well).good, BY_NAME[name].judge(well)
    assert not BY_NAME[name].judge(ill).good


def test_every_proof_was_shown_to_fail() -> None:
    errors = {"out of memory", "an illegal address", "two ranks over NCCL"}
    assert {name for name, *_ in PROGRAMS_RUN} | {name for name, *_ in JUDGED} | errors == set(BY_NAME)


def test_a_start_that_costs_more_than_the_spread_is_no_pass() -> None:
    def runs(first_s: float, step_s: float) -> list[dict[str, float]]:
        return [{"first_s": first_s + 0.01 * turn, "step_s": step_s * (1 + 0.001 * turn)} for turn in range(5)]

    even = {"plain": runs(3.0, 0.01), "torchrun": runs(3.4, 0.01), "muster": runs(3.1, 0.01)}
    assert judge_cost(even).good
    assert not judge_cost({**even, "muster": runs(5.0, 0.01)}).good
    assert not judge_cost({**even, "muster": runs(3.1, 0.02)}).good


STAND_IN = """
import json, os, pathlib, sys, time
words = sys.argv[1:]
if words[0] == "stacks":
    print("1 rank: synchronize() in hang_kernel.py:10")
elif "hang_kernel" in words[-1]:
    print('gpu-proof {"begun": true}', flush=True)
    time.sleep(60)
else:
    print("gpu-proof " + json.dumps({"cwd": os.getcwd(), "words": words}))
"""


def test_the_machine_runs_a_proof_looks_while_it_hangs_and_ends_it(tmp_path: Path) -> None:
    stand_in = tmp_path / "muster.py"
    stand_in.write_text(STAND_IN)
    machine = Machine(tmp_path, [sys.executable, str(stand_in)])
    seen = machine.prove(BY_NAME["a kernel that hangs"])
    assert BY_NAME["a kernel that hangs"].judge(seen).good
    assert seen.status != 0
    passing = Proof("here", "", ("run", "{programs}/seen.py"), lambda seen: Verdict(True, str(seen.told)))
    assert str(PROGRAMS / "seen.py") in passing.judge(machine.prove(passing)).says


def test_a_fake_tensor_is_a_list() -> None:
    assert (FakeTensor([1.0, 2.0]) * 2).sum().item() == 6.0


def test_without_a_gpu_the_command_says_in_one_sentence_what_is_missing() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    command = [sys.executable, str(ROOT / "scripts" / "test_gpu.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sentence = "test-gpu: there is no NVIDIA GPU here: /dev/nvidiactl does not exist; nothing was tested\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


def test_the_report_is_a_document_and_a_page(tmp_path: Path) -> None:
    report = Report()
    report.add("rates", "matrix products", Verdict(good=True, says="gemm 80 %"), "muster bench")
    report.add("check", "the GPU is well", Verdict(good=False, says="Xid 79 | off"), "muster check")
    report.write(tmp_path, "2026-11-22", "a card")
    page = (tmp_path / "report.md").read_text()
    assert "| matrix products | yes | gemm 80 % |" in page
    assert "| the GPU is well | **no** | Xid 79 \\| off |" in page
    assert json.loads((tmp_path / "report.json").read_text())["proofs"][1]["good"] is False
