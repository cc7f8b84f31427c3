"""Guards that the rank side works copied out alone: bound into an image that has neither us nor any package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .paths import PACKAGE, module_names

RANK_MODULES = module_names(PACKAGE / "rank")


def run_bare(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` with the standard library and `path`, and nothing else: no site, no user, no environment."""
    start = f"import sys; sys.path.insert(0, {str(path)!r}); "
    return subprocess.run(
        [sys.executable, "-S", "-I", "-B", "-W", "error", "-c", start + code],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(PACKAGE / "rank", tmp_path / "rank")
    return tmp_path


@pytest.fixture
def thin_package(tmp_path: Path) -> Path:
    """What a rank is given where its environment has no Muster: the first file, and `rank`."""
    shutil.copytree(PACKAGE / "rank", tmp_path / "muster" / "rank")
    shutil.copy(PACKAGE / "__init__.py", tmp_path / "muster")
    return tmp_path


_EACH_ALONE = """
import importlib, os
for module in {modules!r}:
    child = os.fork()
    if child == 0:
        importlib.import_module(module)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(module)
"""


def test_each_module_of_the_ranks_imports_alone(copied: Path) -> None:
    modules = [module.removeprefix("muster.") for module in RANK_MODULES]
    done = run_bare(_EACH_ALONE.format(modules=modules), copied)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_public_names_resolve_with_the_rank_folder_alone(thin_package: Path) -> None:
    done = run_bare("import muster; [getattr(muster, name) for name in muster.__all__]", thin_package)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_muster_in_a_rank_loads_neither_torch_nor_the_ranks_modules(thin_package: Path) -> None:
    code = "import muster; print(sorted(name for name in sys.modules if name.startswith(('muster', 'torch'))))"
    assert run_bare(code, thin_package).stdout == "['muster']\n"
