"""A virtual environment that runs with other parts than it was built with is named before the ranks start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.images.reference import ImageReference, Scheme
from muster.job.request import Request
from muster.look.venv_record import read_record
from muster.plan.build import _find_cpu_flags
from muster.plan.built_with import RunsOn, cpu_flags_needed, differences
from muster.runner import run

RECORD = {"modules": ["gcc/12"], "python": "3.11.7", "torch": "2.3.0", "arch": "x86_64", "cuda": "12.1", "hip": None}
RECORD |= {"nccl": "2.20.5", "cpu_flags": ["avx2", "fma"], "with": []}
SAME = RunsOn(("gcc/12",), "x86_64", "cuda", gpus=True)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "lib/python3.11/site-packages/torch-2.3.0.dist-info").mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr\nversion = 3.11.7\n")
    (tmp_path / "muster.json").write_text(json.dumps(RECORD))
    return tmp_path


def test_the_same_parts_are_no_finding(venv: Path) -> None:
    assert list(differences(read_record(venv), SAME)) == []


def test_other_parts_are_findings(venv: Path) -> None:
    (venv / "lib/python3.11/site-packages/torch-2.3.0.dist-info").rename(venv / "torch-gone")
    (venv / "pyvenv.cfg").write_text("version = 3.12.1\n")
    found = list(differences(read_record(venv), RunsOn()))
    assert len(found) == 3
    assert "the modules gcc/12, and will run with no modules" in found[0]
    assert "has 3.12.1 now" in found[1]
    assert "has none now" in found[2]


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (RunsOn(("gcc/12",), "aarch64"), "was built for x86_64, but the nodes are aarch64"),
        (RunsOn(("gcc/12",), "x86_64", "rocm", gpus=True), "is built for CUDA, and the nodes have ROCm GPUs"),
        (RunsOn(("gcc/12",), "x86_64", "rocm", gpus=False), None),
        (RunsOn(("gcc/12",), None, None, gpus=True), None),
    ],
)
def test_another_kind_of_node_is_a_finding(venv: Path, node: RunsOn, says: str | None) -> None:
    found = list(differences(read_record(venv), node))
    assert len(found) == (says is not None)
    assert all(says in text for text in found if says)


def test_a_torch_for_cpus_where_gpus_are_asked_for_is_a_finding(venv: Path) -> None:
    (venv / "muster.json").write_text(json.dumps(RECORD | {"cuda": None, "nccl": None}))
    (found,) = differences(read_record(venv), SAME)
    assert "is built for CPUs, and the nodes have CUDA GPUs" in found


@pytest.mark.parametrize(
    ("built_with", "has", "says"),
    [
        ("2.20.5", "2.27.3", "was built with NCCL 2.20.5, and has 2.27.3 now"),
        ("2.20.5", "2.20.5", None),
        (None, "2.20.5", None),
    ],
)
def test_another_nccl_is_a_finding(venv: Path, built_with: str | None, has: str, says: str | None) -> None:
    (venv / f"lib/python3.11/site-packages/nvidia_nccl_cu12-{has}.dist-info").mkdir()
    (venv / "muster.json").write_text(json.dumps(RECORD | {"nccl": built_with}))
    found = list(differences(read_record(venv), SAME))
    assert len(found) == (says is not None)
    assert all(says in text for text in found if says)


@pytest.mark.parametrize("key", ["modules", "python", "torch", "arch", "cuda", "nccl"])
def test_what_a_record_does_not_hold_is_no_finding(venv: Path, key: str) -> None:
    (venv / "muster.json").write_text(json.dumps({name: value for name, value in RECORD.items() if name != key}))
    other = RunsOn((), "aarch64", "rocm")
    node = {"modules": other, "arch": other, "torch": RunsOn(("gcc/12",), "x86_64", "rocm", gpus=True)}.get(key, SAME)
    found = " ".join(differences(read_record(venv), node))
    assert {"modules": "modules", "arch": "was built for"}.get(key, key) not in found.replace("python3", "")


def test_a_cpu_counts_where_something_was_compiled(venv: Path) -> None:
    assert cpu_flags_needed(read_record(venv)) == ()
    (venv / "muster.json").write_text(json.dumps(RECORD | {"with": ["horovod"]}))
    assert cpu_flags_needed(read_record(venv)) == ("avx2", "fma")
    facts = replace(FACTS, venv=read_record(venv))
    for image, flags in ((None, ("avx2", "fma")), (ImageReference(Scheme.PATH, "/i/x.sif"), ())):
        asked: Any = SimpleNamespace(request=Request(command=(), image=image))
        assert _find_cpu_flags(asked, facts) == flags


def test_a_node_that_lacks_what_was_compiled_for_says_so(tmp_path: Path) -> None:
    made = run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")])
    assert made.ok
    argv = [sys.executable, "-m", "muster", "run", "--here", "-g", "0", "--venv", str(tmp_path / "v"), "--", "true"]
    for flags, says in ((["sve9"], 1), ([], 0)):
        (tmp_path / "v/muster.json").write_text(json.dumps({"with": ["horovod"], "cpu_flags": flags}))
        done = run([*argv[:4], "--ntasks-per-node", "2", *argv[4:]], cwd=tmp_path)
        assert done.ok, done.stderr
        assert done.stderr.count("was compiled on a CPU with sve9") == says


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_record_that_cannot_be_read_is_no_finding(venv: Path, text: str) -> None:
    (venv / "muster.json").write_text(text)
    assert list(differences(read_record(venv), RunsOn())) == []


def test_muster_run_says_it(tmp_path: Path) -> None:
    made = run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")])
    assert made.ok
    (tmp_path / "v/muster.json").write_text(json.dumps({"modules": ["gcc/12"]}))
    argv = [sys.executable, "-m", "muster", "run", "--here", "-g", "0", "--venv", str(tmp_path / "v"), "--", "true"]
    done = run(argv, cwd=tmp_path)
    assert "warning: " in done.stderr
    assert "was built with the modules gcc/12" in done.stderr
