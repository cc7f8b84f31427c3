"""Installs the wheels of single packages as `make dist` cuts them: lint and lab work with the core alone."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from part_wheels import PARTS, write_part_wheels  # noqa: E402

pytestmark = pytest.mark.wide
# What the wheels require, as it lies beside these tests.
REQUIRED = ("msgspec", "rich", "markdown_it", "mdurl", "pygments", "tomli", "eval_type_backport")
OF_LINT = ("tree_sitter", "tree_sitter_bash")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheel of each part by its name."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (whole,) = folder.glob("muster_hpc-*.whl")
    return dict(zip([part.name for part in PARTS], write_part_wheels(whole, folder)))  # 3.9


def installed(folder: Path, wheels: list[Path], required: tuple[str, ...]) -> Path:
    """Return `muster` of a new environment with these wheels, and what they require."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for name in required:
        place = Path(sysconfig.get_path("purelib"), name)
        if not place.exists():
            place = next((Path(path, name) for path in sys.path if Path(path, name).is_dir()), place)
        if place.exists():
            (packages / name).symlink_to(place)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "--disable-pip-version-check"]
    words = ["install", "--quiet", "--no-deps", "--no-index", *map(str, wheels)]
    subprocess.run([*pip, *words], check=True)
    return folder / "bin/muster"


def say(muster: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([muster, *words], cwd=muster.parent, capture_output=True, text=True, check=False)


def test_lint_and_the_core(wheels: dict[str, Path], tmp_path: Path) -> None:
    muster = installed(tmp_path, [wheels["muster-core"], wheels["muster-lint"]], (*REQUIRED, *OF_LINT))
    (tmp_path / "bin/job.sh").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    assert "srun" in say(muster, "lint", "job.sh").stdout
    assert "muster submit" in say(muster, "port", "job.sh").stdout
    planned = say(muster, "plan", "-N", "2", "--", "hostname")
    assert (planned.returncode, "#SBATCH --nodes=2" in planned.stdout) == (0, True), planned.stderr
    assert "muster_watch_silence" not in planned.stdout
    ranks = say(muster, "run", "--here", "--ntasks-per-node", "2", "--", "echo", "hi").stdout.splitlines()
    assert sorted(ranks) == ["0: hi", "1: hi"]
    for verb in ("lab", "check", "bench", "build", "stacks"):
        lacking = say(muster, verb, "--help")
        assert lacking.returncode == 2
        assert "which is not installed" in lacking.stderr


def test_lab_and_the_core(wheels: dict[str, Path], tmp_path: Path) -> None:
    muster = installed(tmp_path, [wheels["muster-core"], wheels["muster-lab"]], REQUIRED)
    assert say(muster, "lab", "--help").returncode == 0
    assert say(muster, "lint", "x.sh").returncode == 2


def test_a_wheel_says_what_it_needs(wheels: dict[str, Path]) -> None:
    import zipfile

    with zipfile.ZipFile(wheels["muster-lint"]) as archive:
        name = next(name for name in archive.namelist() if name.endswith("METADATA"))
        lines = archive.read(name).decode().splitlines()
    required = [line.split(": ", 1)[1] for line in lines if line.startswith("Requires-Dist")]
    needs = {need.split(">")[0].split("=")[0]: "extra ==" in need for need in required}
    assert needs == {"muster-core": False, "tree-sitter": False, "tree-sitter-bash": False, "pygls": True}
    assert [line for line in lines if line.startswith("Provides-Extra")] == ["Provides-Extra: lsp"]
