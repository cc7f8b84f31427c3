"""What is said of an environment file before anything is built from it; the pinned files in examples/environments."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from muster.errors import RequestError
from muster.runner import ProgramResult, run
from muster_build.lock import look_at_pins, notes_on
from muster_build.pins import pins_of_conda
from plugins.forked import run_muster
from plugins.labs import ROOT

EXAMPLES = sorted((ROOT / "examples/environments").iterdir())


def lock(folder: Path, *words: str) -> ProgramResult:
    return run_muster(["build", "lock", *words], env=os.environ, cwd=folder)


def test_there_is_a_file_of_each_form_for_each_kind_of_gpu() -> None:
    assert [file.name for file in EXAMPLES] == [
        *("cpu-env.yml", "cpu-requirements.txt", "cuda-env.yml", "cuda-requirements.txt"),
        *("rocm-env.yml", "rocm-requirements.txt"),
    ]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_pinned_to_the_build_and_made_for_its_gpus_alone(file: Path) -> None:
    kind = file.name.partition("-")[0]

    pins = look_at_pins(file, kind)
    assert {pin.level for pin in pins} == {"build"}
    assert any(pin.name in {"torch", "pytorch"} for pin in pins)
    assert not list(notes_on(pins))
    for other in {"cpu", "cuda", "rocm"} - {kind}:
        with pytest.raises(RequestError, match=f"made for other GPUs than {other}"):
            look_at_pins(file, other)
    text = file.read_text()
    assert re.search(r"(looked up|Written on) 2026-\d\d-\d\d|on 2026-\d\d-\d\d", text), "a pin has a source and a day"


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("torch==2.7.1\n", "rocm", "torch==2.7.1: no build for ROCm is named"),
        ("--extra-index-url https://download.pytorch.org/whl/rocm6.3\ntorch==2.7.1\n", "rocm", None),
        ("torch==2.7.1+cu126\n", "rocm", "made for other GPUs than rocm"),
        ("torch==2.7.1+rocm6.3\n", "rocm", None),
        ("torch==2.7.1+rocm6.3\n", "cuda", "made for other GPUs than cuda"),
        ("torch==2.7.1\nnvidia-ml-py==13.0\n", "cpu", None),
        ("numpy==2.3.5\n", "rocm", None),
    ],
)
def test_packages_for_other_gpus_are_refused(tmp_path: Path, text: str, kind: str, says: str | None) -> None:
    (tmp_path / "r.txt").write_text(text)
    done = lock(tmp_path, "--requirements", "r.txt", "--gpu-kind", kind)

    assert done.status == (0 if says is None else 2), done.stderr
    assert says is None or says in done.stderr


@pytest.mark.parametrize(
    ("build", "kind", "fits"),
    [
        ("cuda129_generic_py313_hb8e8477_203", "cuda", True),
        ("cuda129_generic_py313_hb8e8477_203", "rocm", False),
        ("cpu_mkl_py314_hf0508d8_102", "cuda", False),
        ("cpu_mkl_py314_hf0508d8_102", "cpu", True),
    ],
)
def test_a_conda_build_says_its_gpus(tmp_path: Path, build: str, kind: str, fits: bool) -> None:
    (tmp_path / "env.yml").write_text(f"dependencies:\n  - pytorch=2.10.0={build}\n")

    assert lock(tmp_path, "--requirements", "env.yml", "--gpu-kind", kind).ok == fits


def test_the_target_may_be_a_site(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("torch==2.7.1\n")
    refused = lock(tmp_path, "--requirements", "r.txt", "--site", "lumi")

    assert refused.status == 2
    assert "no build for ROCm is named" in refused.stderr
    assert lock(tmp_path, "--requirements", "r.txt", "--site", "clariden").ok


def test_a_hash_in_an_address_is_no_comment() -> None:
    (pin,) = pins_of_conda("dependencies:\n  - pip:\n    - a @ https://x/a-1.whl#sha256=00  # why\n")

    assert (pin.name, pin.level) == ("a", "build")


@pytest.mark.wide
def test_a_build_says_what_is_loose_and_refuses_what_is_for_others(tmp_path: Path) -> None:
    (tmp_path / "loose.txt").write_text("nobody-has-this\n")
    (tmp_path / "other.txt").write_text("torch==2.7.1+cu126\n")
    words = [sys.executable, "-m", "muster", "build", "venv", "--python", sys.executable, "--offline"]
    (tmp_path / "house").mkdir()
    said = run([*words, "--wheelhouse", "house", "--requirements", "loose.txt", "v"], cwd=tmp_path)
    refused = run(
        [*words, "--wheelhouse", "house", "--requirements", "other.txt", "--gpu-kind", "rocm", "v"], cwd=tmp_path
    )

    assert (
        "loose.txt: warning: not pinned, so the next build may install other versions: nobody-has-this" in said.stderr
    )
    assert refused.status == 2
    assert "made for other GPUs than rocm" in refused.stderr
    assert not (tmp_path / "v").exists()


def test_a_conda_file_is_judged_and_not_locked(tmp_path: Path) -> None:
    (tmp_path / "env.yml").write_text("dependencies:\n  - python=3.12\n  - numpy\n")

    judged = lock(tmp_path, "--requirements", "env.yml")
    refused = lock(tmp_path, "--requirements", "env.yml", "-o", "lock.yml")
    assert "warning: not pinned" in judged.stderr
    assert (refused.status, (tmp_path / "lock.yml").exists()) == (2, False)
    assert "conda env export" in refused.stderr
    built = run_muster(["build", "venv", "--requirements", "env.yml", "v"], env=os.environ, cwd=tmp_path)
    assert (built.status, (tmp_path / "v").exists()) == (2, False)
    assert "hint: conda env create --prefix DIR --file env.yml" in built.stderr
