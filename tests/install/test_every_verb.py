"""A new environment with nothing but what `pip install .` brings: every verb is there and does its work.

The packages come from the network. `make test` tries the Python of the tests, `make test-long` each other one that
this machine has, or can fetch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bench.results import MIB, round_of, row, start
from muster.cli.verbs import VERBS
from muster_bench.results import MARK, SeriesEnd
from muster_check.stacks.pulse import FORBIDDEN, NO_SPY

from .test_installs import FETCHED, ask, fetched

pytestmark = pytest.mark.wide

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHERS = tuple(version for version in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14") if version != OWN)

TRAIN = 'import os\n\nprint("hello", os.environ["RANK"], os.environ["WORLD_SIZE"], flush=True)\n'
WAIT = 'import time\n\nprint("waits", flush=True)\ntime.sleep(600)\n'
BATCH = Path(__file__).with_name("job.sbatch").read_text(encoding="utf-8")

# Each verb: words, exit status, what it says. Where Slurm is missing the sentence with the way out is the use.
USES = {
    "run": ("run --here --ntasks-per-node 2 python3 train.py", 0, r"1: hello 1 2\n"),
    "submit": ("submit -N 2 python3 train.py", 3, r"error: .*\n\nhint: .*muster lab"),
    "plan": ("plan --site lumi -A project_465000000 -N 2 -t 30 -- python3 train.py", 0, r"#SBATCH --nodes=2"),
    "shell": ("shell 1", 3, r"error: .*\n\nhint: "),
    "jobs": ("jobs", 3, r"error: .*\n\nhint: .*muster lab"),
    "status": ("status 1", 3, r"error: .*\n\nhint: "),
    "logs": ("logs", 2, r"no job is named"),
    "url": ("url", 2, r"error: .*\n\nhint: "),
    "why": ("why", 2, r"no job is named"),
    "report": ("report", 2, r"no job is named"),
    "stacks": ("stacks 1", 3, r"error: .*\n\nhint: "),
    "top": ("top", 2, r"no job is named"),
    "cancel": ("cancel 1", 3, r"error: .*\n\nhint: .*muster lab"),
    "nodes": ("nodes", 3, r"error: .*\n\nhint: "),
    "clean": ("clean", 0, r"nothing is left"),
    "queues": ("queues", 3, r"error: .*\n\nhint: .*muster lab"),
    "site": ("site show lumi", 0, r"LUMI"),
    "check": ("check --log job.log", 1, r"the GPU's memory is full"),
    "bench": ("bench --site clariden --read bench.jsonl --html page.html", 1, r"broken"),
    "lint": ("lint job.sbatch", 1, r"job\.sbatch:5:6: hangs"),
    "port": ("port job.sbatch --site lumi -A project_465000000", 0, r"#SBATCH --gres=gpu:4 +kept +-g 4"),
    "stage": ("stage nothere", 2, r"error: .*\n\nhint: "),
    "build": ("build lock", 2, r"error: .*\n\nhint: "),
    "lab": ("lab status", 2, r"error: .*\n\nhint: "),
    "docs": ("docs", 0, r"first-job +Your first distributed job"),
    "completion": ("completion bash", 0, r"complete -o default"),
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this source."""
    folder = tmp_path_factory.mktemp("wheel")
    ask(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    return next(folder.glob("*.whl"))


def python_of(version: str) -> str:
    """Return a Python of this version: one on PATH that runs, or a fetched one."""
    name = sys.executable if version == OWN else shutil.which(f"python{version}")
    # A name that pyenv puts on PATH may be switched off.
    if name is not None and subprocess.run([name, "-c", ""], check=False, capture_output=True).returncode == 0:
        return name
    if version not in FETCHED or shutil.which("apt-get") is None or shutil.which("patchelf") is None:
        pytest.skip(f"there is no Python {version} here, and no package of Debian for it")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return fetched(version, cache / "muster" / "pythons")


@pytest.fixture(scope="session", params=[OWN, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)])
def muster(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `muster` of a new environment that holds the wheel and what pip brings with it."""
    folder = tmp_path_factory.mktemp("environment")
    pip = tmp_path_factory.mktemp("pip")
    ask(python_of(request.param), "-m", "venv", "--without-pip", folder)
    ask(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", pip, "pip<26")
    ask(folder / "bin/python", next(pip.glob("*.whl")) / "pip", "install", "--quiet", wheel)
    return folder / "bin/muster"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with what a person has there."""
    rows = [row(rate, 2, 8, size) for rate, size in ((3.0, 16 * MIB), (5.4, 128 * MIB))]
    records = (start(), *rows, round_of(0, {(0, 1): 22.0}), SeriesEnd())
    lines = "".join(f"{MARK}{msgspec.json.encode(record).decode()}\n" for record in records)
    contents = {"train.py": TRAIN, "wait.py": WAIT, "job.sbatch": BATCH, "bench.jsonl": lines}
    contents["job.log"] = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    """Return the environment of a person who has no cluster and no setting."""
    return {"HOME": str(place), "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def said(muster: Path, place: Path, words: str) -> tuple[int, str]:
    """Return the exit status, and all that is written."""
    done = subprocess.run(
        [muster, *words.split()], cwd=place, env=environment(place), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_every_verb_is_in_a_plain_installation(muster: Path, place: Path) -> None:
    assert list(USES) == [verb.name for verb in VERBS]
    wrong = []
    for name, (words, status, text) in USES.items():
        helped = said(muster, place, f"{name} --help")
        if helped[0] or "usage: muster" not in helped[1]:
            wrong.append((name, "--help", helped))
        used = said(muster, place, words)
        if used[0] != status or re.search(text, used[1]) is None or "Traceback" in used[1]:
            wrong.append((name, words, used))
    assert wrong == []


def test_the_server_for_editors_needs_what_pip_does_not_bring_and_says_how_to_add_it(muster: Path, place: Path) -> None:
    status, text = said(muster, place, "lint --server")
    assert status == 2
    assert "hint: " + str(muster.with_name("python")) + " -m pip install pygls" in text


@pytest.fixture
def waiting(muster: Path, place: Path) -> Iterator[str]:
    """Yield where two ranks of a run on this machine wait."""
    words = [*map(str, (muster, "run", "--here", "--ntasks-per-node", 2, "--", muster.with_name("python"), "wait.py"))]
    process = subprocess.Popen(
        words, cwd=place, env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        for _ in range(2):
            assert "waits" in process.stdout.readline()
        yield r"wait\.py:[34] "  # it has written, and sleeps or is about to
    finally:
        process.terminate()
        process.communicate()


def test_the_line_of_a_rank_is_seen(waiting: str, muster: Path, place: Path) -> None:
    status, text = said(muster, place, "stacks --here")
    assert status == 0, text
    assert NO_SPY not in text
    assert re.search(waiting, text) or FORBIDDEN in text  # this machine's kernel may forbid to look
    assert "2 ranks (0-1)" in text
