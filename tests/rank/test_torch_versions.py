"""Guards the stated range of torch with real ones: the library's own tests pass on its oldest and on the newest, and
the release below it is told of at the import while a launch needs no library.

Each gets an environment of its own. Where TORCH_INDEX names no index with CPU builds, pip brings 3 GB of CUDA a piece.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from muster.rank.torch_range import OLDEST_TORCH
from muster.runner import checked, run
from plugins.labs import MUSTER, ROOT

pytestmark = [pytest.mark.long, pytest.mark.torch]

OLDEST = "torch=={}.{}.0".format(*OLDEST_TORCH)
BELOW = f"torch=={OLDEST_TORCH[0]}.{OLDEST_TORCH[1] - 1}.*"
TESTS = [ROOT / "tests/rank" / f"test_{name}.py" for name in ("world", "training", "examples")]

Python = Callable[..., str]


@pytest.fixture
def python_with(scratch: Path) -> Iterator[Python]:
    """A function that makes an environment with these packages; the path of its Python."""
    folder = scratch / "torch"

    def make(*packages: str) -> str:
        checked(run([sys.executable, "-m", "venv", str(folder)], timeout_s=120))
        python = str(folder / "bin/python")
        indexes = " ".join(filter(None, [os.environ.get("PIP_EXTRA_INDEX_URL"), os.environ.get("TORCH_INDEX")]))
        environment = {**os.environ, **({"PIP_EXTRA_INDEX_URL": indexes} if indexes else {})}
        words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", *packages]
        done = run(words, env=environment, timeout_s=1800)
        if "No matching distribution found for torch" in done.stderr:
            pytest.skip(f"by design: {packages[0]} was never built for this Python")
        checked(done)
        return python

    yield make
    rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("packages", [(OLDEST, "numpy<2"), ("torch", "numpy")], ids=["oldest", "newest"])
def test_the_librarys_own_tests_pass(python_with: Python, packages: tuple[str, ...]) -> None:
    python = python_with(*packages, "pytest", "hypothesis", "msgspec", "rich", "scikit-learn")
    version = checked(run([python, "-c", "import torch; print(torch.__version__)"])).stdout.strip()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    cache = f"cache_dir={Path(python).parents[1] / 'cache'}"
    words = [python, "-m", "pytest", "-q", "-o", cache, "-o", "filterwarnings=", *map(str, TESTS)]
    done = run(words, env=environment, cwd=ROOT, timeout_s=1800)
    if not done.ok:  # as `make test` does: a busy machine misses a moment now and then
        done = run([*words, "--last-failed"], env=environment, cwd=ROOT, timeout_s=1800)
    assert done.ok, f"torch {version}:\n{done.stdout}"
    assert "skipped" not in done.stdout, f"torch {version}:\n{done.stdout}"
    assert version.startswith(OLDEST.partition("==")[2] if packages[0] == OLDEST else "")


def test_the_release_below_is_told_of_and_trains_without_the_library(python_with: Python, scratch: Path) -> None:
    python = python_with(BELOW, "numpy<2", "scikit-learn")
    refused = run([python, "-c", "import torch, muster"], env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert refused.status == 1
    assert "TorchTooOld: muster's library needs torch 2.3 or newer, but this is 2.2." in refused.stderr
    words = [MUSTER, "run", "--here", "--quiet", "--ntasks-per-node", "2", "--", python]
    done = run([*words, str(ROOT / "examples/train_env.py")], cwd=scratch, timeout_s=300)
    assert done.ok, done.stderr
    assert "loss" in done.stdout
