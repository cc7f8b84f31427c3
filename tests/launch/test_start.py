"""Every way to a job does the same steps: what the ranks look for is in its place when Slurm is asked for nodes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from getpass import getuser
from pathlib import Path
from tempfile import mkdtemp

import pytest

from api.stubs import Stub

MUSTER = Path(sys.executable).with_name("muster")
OPTIONS = ("--site=generic", "--nodes=2", "--check", "--stage=data")
COMMAND = ("python", "train.py")
SUBMIT = "import sys, muster.api as m; m.submit(sys.argv[1:], site='generic', nodes=2, check=True, stage=['data'])"

WAYS: Mapping[str, Callable[[], tuple[str | Path, ...]]] = {
    "muster submit": lambda: (MUSTER, "submit", *OPTIONS, "--", *COMMAND),
    "muster.submit": lambda: (sys.executable, "-W", "ignore", "-c", SUBMIT, *COMMAND),
    "muster run": lambda: (MUSTER, "run", *OPTIONS, "--", *COMMAND),
    "muster bench --submit": lambda: (MUSTER, "bench", "--submit", *OPTIONS),
}


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    """Slurm's clients; sbatch and salloc note which files and links there are at the moment when they are asked."""
    made = Stub.at(tmp_path / "slurm")
    note = 'cd "$ROOT" && find "$PWD" "$HERE" -path "$stub" -prune -o ! -type d -print | sort >"$stub/there"'
    (made.folder / "bin/scontrol").write_text("#!/bin/sh\necho 'Slurmctld(primary) at head is UP'\n")
    (made.folder / "bin/salloc").write_text("#!/bin/sh\n")
    (made.folder / "bin/salloc").chmod(0o755)
    for client in ("sbatch", "salloc"):
        program = made.folder / "bin" / client
        first, *rest = program.read_text().split("\n")
        program.write_text("\n".join([first, f"stub='{made.folder}'", note, *rest]))
    return made


def go(way: str, stub: Stub, root: Path, here: Path) -> subprocess.CompletedProcess[str]:
    """Go one way to a job from the folder `here`, with everything of the user's below `root`."""
    (here / "data").mkdir()
    (here / "data/file").write_text("text")
    environment = {
        **os.environ,
        "PATH": f"{stub.folder}/bin:{os.environ['PATH']}",
        "ROOT": str(root),
        "HERE": str(here),
        **{name: str(root / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")},
    }
    return subprocess.run(WAYS[way](), cwd=here, env=environment, capture_output=True, text=True, check=False)


def parts_there(way: str, stub: Stub, tmp_path: Path, scratch: Path) -> set[str]:
    """Go one way to a job in a folder of its own; return the parts that were there, without the names of chance."""
    here = Path(mkdtemp(dir=scratch))
    (here / "train.py").touch()
    root = tmp_path / "home"
    root.mkdir()
    done = go(way, stub, root, here)
    noted = stub.folder / "there"
    assert noted.exists(), done.stderr
    text = noted.read_text().replace(str(here), "HERE").replace(str(root), "HOME")
    text = re.sub(r"\b[0-9a-f]{16}\b|\b[0-9a-f]{8}\b", "KEY", text).replace(getuser(), "USER")
    return set(re.findall(r".*(?:/rank-library/|/muster-runs/(?:check-|stage/)).*", text))


PLACED = {
    "HERE/muster-runs/check-USER.pyz",
    *(
        f"HERE/muster-runs/stage/data-KEY/{name}"
        for name in ("latest", *(f"data-KEY/{part}" for part in ("000000", "chunks", "kind")))
    ),
    "HOME/XDG_DATA_HOME/muster/rank-library/KEY/muster",
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_a_job_puts_the_same_parts_into_their_places(
    way: str, stub: Stub, tmp_path: Path, scratch: Path
) -> None:
    assert parts_there(way, stub, tmp_path, scratch) == PLACED


@pytest.mark.parametrize("way", list(WAYS)[:3])
def test_each_way_to_a_job_looks_for_what_would_fail_before_slurm_is_asked(
    way: str, stub: Stub, tmp_path: Path, scratch: Path
) -> None:
    done = go(way, stub, tmp_path, Path(mkdtemp(dir=scratch)))
    assert "there is no file train.py" in done.stderr
    assert stub.asked("sbatch") == []
    assert not (stub.folder / "there").exists()


def test_a_misspelt_module_is_told_before_the_job_is_queued(stub: Stub, tmp_path: Path) -> None:
    program = tmp_path / "modulecmd"
    program.write_text("#!/bin/sh\n[ \"$4\" ] || printf '/mf:\\nPyTorch/2.4\\n' >&2\n")
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{stub.folder}/bin:{os.environ['PATH']}",
        "MODULES_CMD": str(program),
        **{name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")},
    }
    words = [str(MUSTER), "submit", "--site=generic", "-g0", "--module", "pytroch", "--", "true"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    warning, _, queued = done.stderr.partition("muster: job ")
    assert "muster: warning: the module 'pytroch' is not on this host: did you mean 'PyTorch'?" in warning
    assert queued
