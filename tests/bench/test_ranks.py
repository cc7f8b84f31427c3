"""The whole way on this machine: ranks measure, the verb collects, keeps, compares; what cannot be is refused first."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.runner import run

pytestmark = pytest.mark.torch

ONE_ROW = ("--parts", "nodes", "--collective", "all_reduce", "--sizes", "64KiB", "--trials", "3")


def bench(tmp_path: Path, *words: str) -> "subprocess.Popen[str]":
    """`muster bench --here` in a directory of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "muster", "bench", "--here", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # the ranks' python has torch
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
    )


def finished(tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    process = bench(tmp_path, *words)
    out, told = process.communicate(timeout=240)
    return subprocess.CompletedProcess(words, process.returncode, out, told)


def test_every_collective_is_measured_right_and_kept_for_comparison(tmp_path: Path) -> None:
    sizes = ("--sizes", "8B,64KiB", "--trials", "1", "--dtype", "float32,bfloat16", "--pair-size", "64KiB")
    first = finished(tmp_path, "-N", "2", "--ntasks-per-node", "2", *sizes, "--json", "--log", "ranks.log")
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert {each["collective"] for each in document["rows"]} == {
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv",
    }  # fmt: skip
    assert {each["scope"] for each in document["rows"]} == {"nodes", "intra", "inter"}
    assert all(not each["wrong"] for each in document["rows"])
    assert {each["place"] for each in document["rows"] if each["collective"] == "all_gather"} == {"in", "out"}
    assert {each["name"] for each in document["probes"]} >= {"gemm", "memory_copy", "import_torch", "rendezvous"}
    assert document["pairs"]
    again = finished(tmp_path, "--read", "ranks.log", "--compare", "--json")
    assert {each["judged_against"] for each in json.loads(again.stdout)["rows"]} == {"history"}


def test_one_rank_has_no_bus_bandwidth_and_says_why(tmp_path: Path) -> None:
    done = finished(tmp_path, "--ntasks-per-node", "1", *ONE_ROW)
    assert done.returncode == 0, done.stderr
    assert "all_reduce: n/a, there is one rank only" in done.stderr


def test_a_torch_without_gpus_is_told_in_a_sentence() -> None:
    code = "import sys; from muster_bench.ranks.series import main; sys.exit(main(['{}']))"
    done = run([sys.executable, "-c", code], env={**os.environ, "MUSTER_GPUS": "1", "CUDA_VISIBLE_DEVICES": ""})
    assert done.stderr.startswith("muster: error: GPUs were asked for (MUSTER_GPUS=1), but ")
    assert (done.status, "Traceback" in done.stderr) == (2, False)


def test_more_bytes_than_memory_are_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    done = finished(tmp_path, "--ntasks-per-node", "2", *ONE_ROW[:4], "--sizes", "8B..1024GiB")
    assert done.returncode == 2
    assert "needs 1099511627776 bytes on each rank" in done.stderr
    assert "hint: give smaller --sizes" in done.stderr


def test_a_rank_that_dies_in_the_middle_is_named_and_the_table_so_far_is_kept(tmp_path: Path) -> None:
    process = bench(tmp_path, "--ntasks-per-node", "2", *ONE_ROW[:4], "--sizes", "8B..64MiB", "--trials", "100")
    assert process.stderr is not None
    told = ""
    while "64 B" not in told:
        told += process.stderr.readline()
    os.kill(_rank(process.pid, 1), signal.SIGKILL)
    out, rest = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGKILL
    assert re.search(r"rank 1 ended with status 137", rest)
    assert "the series was cut short after all_reduce" in rest
    assert "64 B" in out


def _rank(parent: int, rank: int) -> int:
    """The process below `parent` that is this rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        started_here = f"MUSTER_LOCAL_PROCID={rank}".encode() in environment
        if b"/muster-bench.pyz" in words and started_here and _is_below(int(folder.name), parent):
            return int(folder.name)
    raise AssertionError(f"no rank {rank} below {parent}")


def _is_below(process: int, parent: int) -> bool:
    while process > 1:
        if process == parent:
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False
