"""--stacks-ready: ranks that show their stacks by themselves, where the kernel lets nobody look into a process.

The kernel really forbids it here: py-spy runs under a filter that refuses it what ptrace_scope refuses.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import muster
from muster.runner import checked, end_group, run, start
from muster_check.stacks.ask import StackQuestion, ask_here, jobs_here
from muster_check.stacks.fold import user_frame
from muster_check.stacks.move import Doing, movements
from muster_check.stacks.own_words import own_words
from muster_check.stacks.pulse import FORBIDDEN
from muster_check.stacks.read import RankStack, read_rounds
from plugins.labs import Lab
from plugins.patience import patient
from stacks.answers import read_answers
from stacks.hanging_jobs import CASES, misses, reports

MUSTER = str(Path(sys.executable).with_name("muster"))
_FORBID = Path(__file__).with_name("forbid.py")
_SCRIPT = """\
import os
import sys
import time

assert "muster/rank/ready" not in "".join(sys.path), sys.path
assert getattr(sys, "marked", "") == "by the environment", "the environment's own sitecustomize did not run"


def count():
    number = 1
    while number:
        number += 1


def load():
    time.sleep(600)


print("begins", flush=True)
count() if os.environ["RANK"] == "1" else load()
"""


def _spy(folder: Path) -> Path:
    """A py-spy that the kernel lets look into no process."""
    spy = folder / "py-spy"
    words = (sys.executable, _FORBID, Path(sys.executable).with_name("py-spy"))
    spy.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
    spy.chmod(0o755)
    return spy


_SERVES = """\
import time

import torch
import torch.distributed as dist
from torch.distributed.debug import start_debug_server

dist.init_process_group("gloo")
start_debug_server(port=0)
one = torch.ones(4)
for _ in range(50):
    dist.all_reduce(one)
if dist.get_rank() == 1:
    print("begins", flush=True)
    time.sleep(600)
print("begins", flush=True)
dist.all_reduce(one)
"""


def _is_of(job: str, folder: Path) -> bool:
    """Return whether a run on this machine is of this folder: other tests start theirs beside it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (process / "environ").read_bytes()
            if f"MUSTER_JOB={job}".encode() in environment.split(b"\0") and bytes(folder / "own") in environment:
                return True
    return False


@contextmanager
def _running(folder: Path, *words: str, script: str = _SCRIPT) -> Iterator[list[str]]:
    """Two ranks on this machine, and the names of their runs as they come."""
    (folder / "own").mkdir()
    (folder / "own/sitecustomize.py").write_text("import sys\n\nsys.marked = 'by the environment'\n")
    (folder / "wait.py").write_text(script)
    command = [MUSTER, "run", "--here", "--ntasks-per-node", "2", *words, "--", sys.executable, "wait.py"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "own")}
    with (folder / "output").open("wb") as output:
        process = start(command, cwd=folder, env=environment, stdout=output, stderr=output, own_group=True)
    try:
        while (folder / "output").read_text().count("begins") < 2:
            assert process.poll() is None, (folder / "output").read_text()
            time.sleep(0.02)
        yield [job for job in jobs_here() if _is_of(job, folder)]
    finally:
        end_group(process, grace_s=20)  # muster ends its ranks; nobody else would


def _ask(jobs: list[str], question: StackQuestion) -> tuple[RankStack, ...]:
    return tuple(each for job in jobs for each in read_answers(ask_here(job, question)))


@pytest.mark.programs
def test_a_rank_shows_its_stack_where_the_kernel_forbids_to_look(tmp_path: Path) -> None:
    with _running(tmp_path, "--stacks-ready") as jobs:
        for spy in (str(_spy(tmp_path)), None):
            stacks = _ask(jobs, StackQuestion(spy))
            assert [stack.trouble for stack in stacks] == [None, None]
            assert [[frame.function for frame in stack.frames] for stack in stacks] == [
                ["load", "<module>"],
                ["count", "<module>"],
            ]
            assert stacks[0].frames[0].line == 16


_RACE = """\
import glob, os, sys, time
names = [name for name in glob.glob("/proc/self/fd/*") if os.path.exists(name)]
(name,) = [name for name in names if "muster-record-" in os.readlink(name)]
asker = int(os.readlink(name).split("muster-record-")[1].split("-")[0])
said = []
for _ in range(2):
    os.write(asker, b".")
    before = said[-1] if said else ""
    while open(name).read() in ("", before):
        time.sleep(0.01)
    said.append(open(name).read())
print(*said, sep="")
"""


def test_an_import_that_fails_once_costs_one_record_and_not_the_others(tmp_path: Path) -> None:
    """Two threads that import the same package at the same time may get it half made."""
    (tmp_path / "race.py").write_text(_RACE)
    fails = "import sys\nif not hasattr(sys, 'failed'):\n    sys.failed = True\n    raise ImportError('half made')\n"
    (tmp_path / "json.py").write_text(f"{fails}def dumps(value, separators):\n    return repr(value)\nloads = eval\n")
    ready = Path(muster.__file__).parent / "rank" / "ready"
    environment = {"PYTHONPATH": f"{ready}:{tmp_path}", "RANK": "0"}
    said = checked(run([sys.executable, "race.py"], cwd=tmp_path, env=environment, timeout_s=60)).stdout.splitlines()
    assert said[0] == '["ImportError"]'
    assert said[1].startswith("[{'main': ")


@pytest.mark.programs
def test_a_rank_that_was_not_made_ready_is_left_alone(tmp_path: Path) -> None:
    with _running(tmp_path) as jobs:
        for _ in range(2):
            assert [stack.trouble for stack in _ask(jobs, StackQuestion(str(_spy(tmp_path))))] == [FORBIDDEN] * 2


@pytest.mark.torch
def test_the_server_of_torch_is_asked_where_the_script_has_started_one(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed.debug", reason="by design: an older torch has no such server")
    with _running(tmp_path, script=_SERVES) as jobs:
        deadline = time.monotonic() + patient(30)
        records: tuple[str, ...] = ()
        while not records and time.monotonic() < deadline:  # rank 0 says that it begins, and then it begins
            stacks = _ask(jobs, StackQuestion(None, records=True))
            records = own_words(stacks)
            time.sleep(0.1)
        assert records == (
            "torch's record: rank 1 has not come to collective 51, all_reduce of 4, which rank 0 has begun",
        )
        assert [stack.trouble for stack in stacks] == [None, None]
        places = [frame for frame in (user_frame(stack) for stack in stacks) if frame is not None]
        assert [(frame.name, frame.line) for frame in places] == [("wait.py", 16), ("wait.py", 14)]
        assert max(len(stack.record) for stack in stacks) < 41 * 700


_AT_ONE_LINE = """\
import hashlib
import os

print("begins", flush=True)
if os.environ["RANK"] == "1":
    while True: pass
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


@pytest.mark.wide  # four seconds of a core: the loop spins, and C computes
def test_a_loop_of_one_line_is_told_from_a_long_call_of_c(tmp_path: Path) -> None:
    with _running(tmp_path, "--stacks-ready", script=_AT_ONE_LINE) as (job,):
        rounds = read_rounds(ask_here(job, StackQuestion(None, rounds=3, gap_s=0.5, records=True)))
        in_c, loop = movements(rounds)
        # On a slow machine the looks take long enough to see that it is one call.
        assert in_c.doing in {Doing.MOVES, Doing.CALLS}
        assert (loop.doing, loop.stack.frames[0].line) == (Doing.SPINS, 6)


@pytest.fixture
def forbidden(shared_directory: Path) -> str:
    """The Python of an installation like this one, whose py-spy may look into no process."""
    home = shared_directory / "installed"
    (home / "bin").mkdir(parents=True)
    own = Path(sys.prefix)
    (home / "pyvenv.cfg").write_text((own / "pyvenv.cfg").read_text())
    (home / "lib").symlink_to(own / "lib")
    (home / "bin/python").symlink_to(Path(sys.executable).resolve())
    _spy(home / "bin")
    return str(home / "bin/python")


@pytest.mark.lab
@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["srun", pytest.param("torchrun", marks=pytest.mark.long)])
def test_a_hang_is_named_where_the_kernel_forbids_to_look(
    lab: Lab, shared_directory: Path, forbidden: str, launcher: str
) -> None:
    names = ("left_out", "file_lock")
    found = reports(
        lab, shared_directory, names, launcher=launcher, after_s=8, at_once=2, patience_s=200,
        muster=(forbidden, "-m", "muster"), more=("--stacks-ready",),
    )  # fmt: skip
    assert {name: list(misses(CASES[name], found[name])) for name in names} == {name: [] for name in names}, found
    report = found["left_out"]
    assert report is not None
    assert re.search(r"torch's record: collective \d+: rank 1 calls barrier, rank 0 broadcast of 4", report.sentence)


@pytest.mark.lab
def test_without_py_spy_there_is_a_sentence_and_what_to_do(lab: Lab, shared_directory: Path, forbidden: str) -> None:
    Path(forbidden).with_name("py-spy").unlink()
    (shared_directory / "wait.py").write_text("import time\n\nprint('hello', flush=True)\ntime.sleep(600)\n")
    path = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    muster = [forbidden, "-m", "muster"]
    for more, said in (((), "warning: py-spy is not on this host"), (("--stacks-ready",), "")):
        asked = [*muster, "submit", *more, "-N", "1", "--", sys.executable, "wait.py"]
        submitted = checked(lab.exec(asked, cwd=shared_directory, env=path))
        job = submitted.stdout.strip()
        unknown = "the line will not be known: py-spy is not on this host; --stacks-ready shows it"
        assert (unknown in submitted.stderr) is not bool(more)
        try:
            while "hello" not in lab.exec([MUSTER, "logs", job]).stdout:
                time.sleep(0.3)
            why = checked(lab.exec([*muster, "why", job], env=path)).stdout
            assert ("the line is not known: py-spy is not on this host" in why) is not bool(more), why
            assert ("look at that line" in why, "wait.py:4" in why) == (bool(more), bool(more)), why
            done = checked(lab.exec([*muster, "stacks", job], env=path))
            assert (said in done.stderr, "wait.py:4" in done.stdout) == (True, bool(more)), done.stdout + done.stderr
            assert ("-m pip install py-spy, where the nodes see it" in done.stderr) is not bool(more)
        finally:
            checked(lab.exec(["scancel", job]))


@pytest.mark.lab
def test_a_site_that_forbids_to_look_is_a_sentence(lab: Lab, shared_directory: Path, forbidden: str) -> None:
    (shared_directory / "wait.py").write_text("import time\n\nprint('hello', flush=True)\ntime.sleep(600)\n")
    asked = ["submit", "-N", "2", "--ntasks-per-node", "1", "--", sys.executable, "wait.py"]
    job = checked(lab.exec([forbidden, "-m", "muster", *asked], cwd=shared_directory)).stdout.strip()
    try:
        while lab.exec([MUSTER, "logs", job]).stdout.count("hello") < 2:
            time.sleep(0.3)
        done = lab.exec([forbidden, "-m", "muster", "stacks", job])
        assert "warning: the kernel forbids to look into the process" in done.stderr
        assert re.search("hint: start the job with --stacks-ready", done.stderr)
        assert json.loads(lab.exec([MUSTER, "stacks", job, "--json"]).stdout)["groups"][0]["line"] == 4
    finally:
        checked(lab.exec(["scancel", job]))
