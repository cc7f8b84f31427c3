"""What is kept of a script's output: all of it, however slow its reader is."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.rank import agent_keeper
from muster.runner import run, spawn

# A reader that takes its time, as a terminal over a slow line does: all who wrote have ended by then.
SLOW = "{ sleep 1.5; cat; } | tail -n 1"
WRITES = "i=0; while [ $i -lt 9000 ]; do i=$((i + 1)); echo $i of many; done"
KEEP = (
    "import os, sys; from muster.act.keep import keep; "
    "os._exit(keep(sys.argv[1], dict(os.environ), patience_s=1.0).status)"
)
SUPERVISE = (
    "import os, sys; from muster.act.supervise import Member, supervise; "
    "members = [Member(0, ('sh', '-c', sys.argv[1]), dict(os.environ))]; "
    "supervise(members, label=True, grace_s=1.0, working_directory='/')"
)


@pytest.mark.parametrize(("program", "label"), [(KEEP, ""), (SUPERVISE, "0: ")], ids=["keep", "supervise"])
def test_a_slow_reader_gets_the_last_line(program: str, label: str) -> None:
    script = f'"{sys.executable}" -c "$1" "$2" | {SLOW}'
    result = run(["bash", "-c", script, "bash", program, WRITES])

    assert result.stdout == f"{label}9000 of many\n", result.stderr


def test_what_left_the_group_is_not_waited_for() -> None:
    for program in (KEEP, SUPERVISE):
        result = run([sys.executable, "-c", program, "setsid sleep 60 & echo done"], timeout_s=30)
        assert result.stdout.endswith("done\n"), result.stderr


def test_an_agent_that_cannot_write_ends_as_its_ranks_did_and_says_so(tmp_path: Path) -> None:
    """The agent's place is taken by what says that it ended well."""
    (tmp_path / "agent.py").write_text("print('a word')\n")
    words = [sys.executable, str(Path(agent_keeper.__file__)), "plain", "true", "1", "1", "agent", *["--x"] * 6, ""]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    result = run(["sh", "-c", '"$@" >/dev/full', "sh", *words], env=environment)

    assert result.status == 0
    assert "warning: the output could not be written: No space left on device" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("muster-agent")] == []


_AGENT = """\
import os, signal, subprocess, sys, time
rank = 'trap "" TERM; echo 0 $$ >$MUSTER_PIPES/400; echo 0 $$ >$MUSTER_PIPES/401; echo $$ >worker; sleep 600'
subprocess.Popen(["sh", "-c", rank], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
open("agent", "w").write(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.parametrize("told", [True, False])
def test_the_worker_of_an_agent_that_ends_first_is_ended(tmp_path: Path, told: bool) -> None:
    """A second SIGTERM ends torchrun's agent while it waits for a worker that is deaf to the first."""
    (tmp_path / "agent.py").write_text(_AGENT)
    words = [sys.executable, agent_keeper.__file__, "plain", "true", "1", "1", "agent", *["--x"] * 6, ""]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    keeper = subprocess.Popen(words, env=environment, cwd=tmp_path)
    while not all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in ("agent", "worker")):
        time.sleep(0.05)
    worker = int((tmp_path / "worker").read_text())
    time.sleep(0.5)  # the keeper has heard of it
    for pid in (*([keeper.pid] if told else []), int((tmp_path / "agent").read_text())):
        os.kill(pid, signal.SIGTERM)

    assert keeper.wait() == 1
    assert not Path(f"/proc/{worker}/exe").exists()


def test_a_terminal_that_nobody_controls_is_not_given_away(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    written = tmp_path / "written"
    program = "from muster.act.keep import _foreground\nwith _foreground(1): open('written', 'w').write('in')"
    process = spawn(
        ["setsid", "sh", "-c", 'cd "$0" && exec "$@"', str(tmp_path), sys.executable, "-c", program],
        os.environ,
        files={0: theirs},
    )
    os.close(theirs)
    os.waitpid(process, 0)
    os.close(ours)

    assert written.read_text() == "in"


BUSY = "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)"


@pytest.mark.parametrize(("words", "count"), [(BUSY, 1), (f"{BUSY}; {BUSY}", 1), ("srun: Job 7 step created", 0)])
def test_a_run_that_waits_for_another_step_of_its_job_says_so_once(words: str, count: int) -> None:
    program = KEEP.replace("patience_s=1.0", "patience_s=1.0, say=print")
    script = "; sleep 0.1; ".join(f"echo '{line}' >&2" for line in words.split("; "))
    result = run([sys.executable, "-uc", program, script], timeout_s=30)

    assert result.stdout.count("this run waits") == count, result
    assert result.stdout.count("--srun=--exact") == count
