"""One script, one lab, every way of having a Python: an image, a virtual environment, that environment in the image, a
conda environment, a module. Each trains to the weights of one process, with the Python that was asked for.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns, which

import pytest

from launch.lab_runs import muster_run
from muster.runner import checked, run
from plugins.labs import ROOT, Lab

from .conftest import Images, words_with_torch
from .test_training import CLOSE_ENOUGH, distance

pytestmark = [pytest.mark.lab, pytest.mark.torch]

SCRIPT = ROOT / "examples/train_env.py"
STEPS = ("--steps", "60")
_SAYS_WHERE = f"""
import os, runpy, sys
if os.environ["RANK"] == "0":
    print("prefix", sys.prefix, os.environ.get("SEEN_BY_CONDA", ""), flush=True)
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""

_MEETS = """
import os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
number = torch.tensor(float(dist.get_rank() + 1))
dist.all_reduce(number)
if os.environ["RANK"] == "0":
    print("prefix", sys.prefix, os.environ.get("SEEN_BY_CONDA", ""), flush=True)
print("sum", number.item(), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def alone(scratch: Path) -> Path:
    """The weights of one process on this machine."""
    weights = scratch / "alone.pt"
    checked(run([sys.executable, str(SCRIPT), *STEPS, "--out", str(weights)], timeout_s=200))
    return weights


@pytest.fixture(scope="module")
def venv(scratch: Path) -> Path:
    """An environment of this machine's Python that sees the tests' own torch."""
    folder = scratch / "environments/venv"
    checked(run([sys.executable, "-m", "venv", "--without-pip", str(folder)]))
    packages = folder / sysconfig.get_path("purelib", vars={"base": ""}).lstrip("/")
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    return folder


@pytest.fixture(scope="module")
def conda(scratch: Path) -> Path:
    """A prefix as conda lays one out: a Python of its own that knows its place, and what packages bring for a start."""
    folder = scratch / "environments/conda"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix)
    copytree(
        base / "lib" / version,
        folder / "lib" / version,
        ignore=ignore_patterns("*-packages", "test", "config-*"),
        copy_function=_linked,
        ignore_dangling_symlinks=True,
    )
    for library in base.glob("lib/libpython3*.so*"):
        _linked(library, folder / "lib" / library.name)
    # Debian's own Python looks into dist-packages.
    packages = (f"lib/{version}/site-packages", f"lib/{version}/dist-packages", "lib/python3/dist-packages")
    for each in ("bin", "conda-meta", "etc/conda/activate.d", *packages):
        (folder / each).mkdir(parents=True)
    _linked(base / "bin" / version, folder / "bin" / version)
    (folder / "bin/python").symlink_to(version)
    (folder / "conda-meta/history").touch()
    (folder / "etc/conda/activate.d/seen.sh").write_text("export SEEN_BY_CONDA=yes\n")
    for each in packages:
        (folder / each / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def _linked(source: str | Path, target: str | Path) -> None:
    """A file under a second name where the file system allows it, else copied."""
    try:
        os.link(Path(source).resolve(), target)
    except OSError:
        copy2(source, target)


@pytest.fixture(scope="module")
def module(scratch: Path, conda: Path) -> Path:
    """A directory of modulefiles for a real module system; one puts a Python with torch first on PATH."""
    if which("modulecmd") is None:
        pytest.skip("a module system is missing: apt-get install environment-modules")
    folder = scratch / "environments/modulefiles"
    (folder / "pytorch").mkdir(parents=True)
    (folder / "pytorch/2.13").write_text(f"#%Module1.0\nprepend-path PATH {conda}/bin\nsetenv SEEN_BY_CONDA module\n")
    return folder


@pytest.fixture
def ways(images: Images, venv: Path, conda: Path, module: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """Options → what rank 0 says of where its Python stands."""
    own = f"{Path(sys.executable).parents[1]} "
    image = words_with_torch(images.sandbox)
    return {
        "image": (image, own),
        "venv": (("--venv", str(venv)), f"{venv} "),
        "image+venv": ((*image, "--venv", str(venv)), f"{venv} "),
        "conda": (("--conda", str(conda)), f"{conda} yes"),
        "modules": (("--module-use", str(module), "--module", "pytorch/2.13"), f"{conda} module"),
    }


# Two trainings cost ten seconds of a core: `make test` has one in an image and one outside, and lets the others meet.
@pytest.mark.parametrize(
    "way", ["image", "conda", *(pytest.param(way, marks=pytest.mark.long) for way in ("venv", "image+venv", "modules"))]
)
def test_every_way_of_having_a_python_trains_to_the_same_weights(
    lab: Lab,
    images: Images,
    alone: Path,
    shared_directory: Path,
    ways: dict[str, tuple[tuple[str, ...], str]],
    way: str,
) -> None:
    words, where = ways[way]
    weights = shared_directory / "weights.pt"
    (shared_directory / "train.py").write_text(_SAYS_WHERE)
    command = ("python", "train.py", *STEPS, "--out", str(weights))
    more = {"PATH": images.path} if "image" in way else {}
    result = muster_run(lab, shared_directory, "-N", "2", "--no-label", *words, "--", *command, env=more, timeout_s=200)

    assert result.status == 0, result.stderr
    assert f"prefix {where}" in result.stdout
    assert "ranks 2" in result.stdout
    assert distance(alone, weights) <= CLOSE_ENOUGH


@pytest.mark.parametrize("way", ["venv", "image+venv", "modules"])
def test_the_ranks_of_every_way_meet(
    lab: Lab, images: Images, shared_directory: Path, ways: dict[str, tuple[tuple[str, ...], str]], way: str
) -> None:
    words, where = ways[way]
    (shared_directory / "meet.py").write_text(_MEETS)
    more = {"PATH": images.path} if "image" in way else {}
    result = muster_run(lab, shared_directory, "-N", "2", "--no-label", *words, "--", "python", "meet.py", env=more)

    assert result.status == 0, result.stderr
    assert f"prefix {where}" in result.stdout
    assert result.stdout.count("sum 3.0") == 2


def test_one_project_file_holds_them_and_a_word_chooses(
    lab: Lab, images: Images, shared_directory: Path, venv: Path, image_with_torch: tuple[str, ...]
) -> None:
    _, image, *more = image_with_torch
    shared_directory.chmod(0o755)  # settings that others could write are not read
    (shared_directory / "muster.toml").write_text(f'image = "{image}"\nvenv = "{venv}"\n')
    show: Callable[..., str] = lambda *words: muster_run(  # noqa: E731
        lab, shared_directory, "--no-label", *words, "--", "python", "-c", _SHOWS, env={"PATH": images.path}
    ).stdout.strip()

    assert show("--with", "venv") == f"{venv} None"
    assert show("--with", "image", *more) == f"{Path(sys.executable).parents[1]} with_torch"
    assert show("--with", "image+venv", *more) == f"{venv} with_torch"
    refused = muster_run(lab, shared_directory, "--", "python", "-c", _SHOWS, env={"PATH": images.path})
    assert refused.status == 2
    assert "an image and a virtual environment are both named" in refused.stderr
    assert "--with image+venv for both" in refused.stderr


_SHOWS = "import os, sys; print(sys.prefix, os.environ.get('APPTAINER_NAME'))"
