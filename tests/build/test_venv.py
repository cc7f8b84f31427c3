"""Virtual environments and locks are made by the real pip; what fails leaves what was there before."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runner import ProgramResult, run
from muster_build.pins import for_other_gpus, pins_of_conda, pins_of_requirements
from plugins.forked import run_muster

_CONDA = """\
name: x
dependencies:
  - python=3.11.7=h1234_0
  - conda-forge::numpy=1.26.4  # a comment
  - scipy
  - pandas>=2
  - pip
  - pip:
    - torch==2.3.0+cu121
    - einops
"""


def muster(folder: Path, *words: str) -> ProgramResult:
    return run_muster(["build", *words], env={**os.environ, "PIP_NO_CACHE_DIR": "1"}, cwd=folder, timeout_s=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with wheels of two packages that exist nowhere else, and a file that asks for both."""
    (tmp_path / "wheels").mkdir()
    for name in ("muster_one", "muster_two"):
        with zipfile.ZipFile(tmp_path / f"wheels/{name}-1.0-py3-none-any.whl", "w") as wheel:
            about = f"{name}-1.0.dist-info"
            wheel.writestr(f"{name}.py", "word = 'here'\n")
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    (tmp_path / "wanted.txt").write_text("muster-one==1.0\nmuster-two\n")
    return tmp_path


@pytest.mark.wide
def test_a_lock_a_wheelhouse_and_an_environment_without_a_way_out(folder: Path) -> None:
    words = ("--requirements", "wanted.txt", "--offline", "--find-links", "wheels", "-o", "lock.txt")
    locked = muster(folder, "lock", *words, "--wheelhouse", "house", "--arch", "aarch64", "--python-version", "3.12")
    assert locked.status == 0, locked.stderr
    assert (folder / "lock.txt").read_text().count("--hash=sha256:") == 2
    assert len(list((folder / "house").glob("*.whl"))) == 2

    offline = ("venv", "--python", sys.executable, "--requirements", "lock.txt", "--offline", "--wheelhouse", "house")
    built = muster(folder, *offline, "v")
    assert (built.status, built.stdout) == (0, "v\n"), built.stderr
    assert run([str(folder / "v/bin/python"), "-c", "import muster_one, muster_two"]).ok
    record = json.loads((folder / "v/muster.json").read_text())
    assert record["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "up to date" in muster(folder, *offline, "v").stderr

    next((folder / "house").glob("muster_two*")).unlink()
    lacking = muster(folder, *offline, "w")
    assert lacking.status == 2
    assert "the wheelhouse lacks muster-two==1.0" in lacking.stderr
    assert not (folder / "w").exists()

    # What is there stays as it is until the new one is proved.
    (folder / "lock.txt").write_text("muster-one==1.0\nmuster-two==1.0\n")
    assert "built from something else" in muster(folder, *offline, "v").stderr
    assert muster(folder, *offline, "v", "--replace").status == 2
    assert run([str(folder / "v/bin/python"), "-c", "import muster_two"]).ok
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("venv", "v", "--offline"), "--offline needs a place"),
        (("venv", "v", "--wheelhouse", "no-such"), "the wheelhouse no-such is not there"),
        (("venv", "v", "--python", "python0"), "there is no Python python0"),
        (("venv", "no/such/v"), "is not there"),
        (("venv", "v", "--requirements", "missing.txt"), "missing.txt is not there"),
        (("lock", "--requirements", "missing.txt"), "cannot be read"),
        (("lock", "--requirements", "empty.txt"), "names no package"),
        (("lock", "--requirements", "cuda.txt", "--gpu-kind", "rocm"), "made for other GPUs than rocm"),
        (("lock", "--requirements", "cuda.txt", "-o", "l", "--arch", "x86_64", "--glibc", "two"), "is not a version"),
    ],
)
def test_a_wrong_order_is_one_sentence_and_builds_nothing(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "cuda.txt").write_text("torch==2.3.0+cu121\n")
    before = sorted(tmp_path.iterdir())
    refused = muster(tmp_path, *words)
    assert (refused.status, sentence in refused.stderr) == (2, True), refused.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.wide
def test_an_environment_that_was_left_half_built_is_built_anew(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v/muster-is-building").touch()
    built = muster(tmp_path, "venv", "--python", sys.executable, "v")
    assert built.status == 0, built.stderr
    assert "was left half-built" in built.stderr
    assert not (tmp_path / "v/muster-is-building").exists()


def test_pins_of_a_requirements_file() -> None:
    text = "a\nb==1.0\nc==1.*\nd>=2,<3\n-r x\n# e\nf==1 \\\n  --hash=sha256:00\ng[x]==2 ; python_version > '3'\n"
    found = {pin.name: pin.level for pin in pins_of_requirements(text)}
    assert found == {"a": "unpinned", "b": "version", "c": "unpinned", "d": "unpinned", "f": "build", "g": "version"}


def test_pins_of_a_conda_file() -> None:
    pins = list(pins_of_conda(_CONDA))
    assert {pin.name: (pin.level, pin.from_pip) for pin in pins} == {
        "python": ("build", False),
        "numpy": ("version", False),
        "scipy": ("unpinned", False),
        "pandas": ("unpinned", False),
        "pip": ("unpinned", False),
        "torch": ("version", True),
        "einops": ("unpinned", True),
    }
    assert [pin.name for pin in for_other_gpus(pins, "rocm")] == ["torch"]
    assert for_other_gpus(pins, "cuda") == []


@given(st.text())
def test_any_text_has_pins_or_none(text: str) -> None:
    for pin in [*pins_of_requirements(text), *pins_of_conda(text)]:
        assert pin.level in {"unpinned", "version", "build"}


@pytest.mark.wide
def test_an_environment_is_built_under_the_modules_that_its_jobs_will_load(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text('module() { echo "module $*" >>"$HOME/seen"; }\n')
    (tmp_path / "site.toml").write_text(
        'name = "here"\ntitle = "Here"\n[modules]\nsystem = "lmod"\nload = ["cuda/12"]\n'
    )
    words = ["venv", "--site", str(tmp_path / "site.toml"), "--module", "openmpi", "--python", sys.executable, "v"]

    built = run(
        [sys.executable, "-m", "muster", "build", *words], env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path
    )

    assert built.ok, built.stderr
    assert (tmp_path / "seen").read_text().splitlines() == [
        "module purge",
        "module load cuda/12",
        "module load openmpi",
    ]
    assert json.loads((tmp_path / "v" / "muster.json").read_text())["modules"] == ["cuda/12", "openmpi"]


@pytest.mark.parametrize(
    "text",
    [
        "name: x\ndependencies: [python=3.11, pip, {pip: [torch==2.1, six]}]\n",
        "dependencies: [ 'python=3.11',\n  pip,\n  {'pip': ['torch==2.1', six]},\n]\nprefix: [a]\n",
    ],
)
def test_dependencies_in_the_short_form_of_yaml_are_read(text: str) -> None:
    long_form = "dependencies:\n  - python=3.11\n  - pip\n  - pip:\n    - torch==2.1\n    - six\n"

    assert list(pins_of_conda(text)) == list(pins_of_conda(long_form))
    assert [pin.name for pin in pins_of_conda("channels: [a]\ndependencies: [python]\n")] == ["python"]
