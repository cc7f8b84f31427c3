"""Two things that meet in another order than the usual one: the job goes on, or ends by rule with a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab
from plugins.patience import patient

pytestmark = [pytest.mark.lab, pytest.mark.long]

_SIZE = ("-N", "2", "--ntasks-per-node", "1", "-t", "10")
# The ranks of the first attempt stand, and do not end when they are told to.
_DEAF = """\
import os, signal, time
if os.environ["MUSTER_ATTEMPT"] == "1":
    signal.signal(signal.SIGTERM, lambda *_: None)
    while True:
        time.sleep(600)
"""
# In the first attempt rank 0 loses the connection to rank 1 once the file `dead` is there: Slurm has said nothing yet.
_PEER = """\
import os, time
print("begins", os.environ["MUSTER_ATTEMPT"], flush=True)
if os.environ["MUSTER_ATTEMPT"] == "1":
    while os.environ["RANK"] != "0" or not os.path.exists("dead"):
        time.sleep(0.1)
    raise ConnectionError("Connection reset by peer")
"""
# The ranks of the first attempt stand.
_STANDS = """\
import os, time
open("began.%s.%s" % (os.environ["MUSTER_ATTEMPT"], os.environ["RANK"]), "w").close()
if os.environ["MUSTER_ATTEMPT"] == "1":
    time.sleep(900)
"""
# In the first attempt rank 1 leaves a process in a session of its own, and kills the shell that would end it.
_LEAVES_A_PROCESS = """\
import os, time
if os.environ["MUSTER_ATTEMPT"] == "2":
    open("second.%s" % os.environ["RANK"], "w").write(str(os.path.exists("/proc/" + open("left").read())))
elif os.environ["RANK"] == "0":
    time.sleep(900)
elif os.fork():
    time.sleep(2)
    os.kill(os.getppid(), 9)
    os.kill(os.getpid(), 9)
else:
    os.setsid()
    for number in range(3):
        os.dup2(os.open("/dev/null", os.O_RDWR), number)
    open("left", "w").write(str(os.getpid()))
    time.sleep(900)
"""
# In the first attempt rank 1 leaves, and rank 0 then finds it gone.
_LEAVES = """\
import os, time
if os.environ["MUSTER_ATTEMPT"] == "1" and os.environ["RANK"] == "0":
    time.sleep(3)
    raise ConnectionError("Connection closed by peer")
"""
# Attempts 1 and 2 save and end well when they are told to; the third is done.
_SAVES = """\
echo "$MUSTER_ATTEMPT $SLURM_JOB_ID" >>"began.$RANK"
[ "$MUSTER_ATTEMPT" -lt 3 ] || exit 0
trap 'exit 0' USR1
: >"ready.$MUSTER_ATTEMPT.$RANK"
while :; do sleep 0.2; done
"""


class _Job:
    """A job in a lab of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder

    def muster(self, *words: str) -> ProgramResult:
        environment = ("env", f"XDG_STATE_HOME={self.folder / 'state'}")
        return self.lab.exec((*environment, MUSTER, *words), cwd=self.folder, env={"PATH": path_with()}, timeout_s=400)

    def submit(self, script: str, *words: str) -> str:
        name = "rank.py" if "import" in script else "rank.sh"
        (self.folder / name).write_text(script)
        program = ("python3", "-u", name) if name == "rank.py" else ("sh", name)
        return checked(self.muster("submit", "--quiet", *words, "--", *program)).stdout.strip()

    def run(self) -> Path:
        (found,) = (self.folder / "muster-runs").iterdir()
        return found

    def read(self, name: str) -> str:
        file = self.run() / name
        return file.read_text() if file.exists() else ""

    def logged(self) -> str:
        return "\n".join(file.read_text() for file in sorted((self.run() / "logs").rglob("*.log")))

    def state(self, job: str) -> str:
        return self.lab.exec(["squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T"]).stdout.strip()

    def wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + patient(120)
        while not holds():
            assert time.monotonic() < until, (self.read("attempts"), self.read("ends"), self.logged())
            time.sleep(0.2)

    def kill_host(self, host: str) -> None:
        checked(self.lab.muster("fault", "kill-node", host))


def test_ranks_that_hang_and_are_deaf_start_again(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    """`scancel --signal=KILL JOB` cancels the job: only its step may be signalled."""
    job = _Job(new_lab("-N", "2"), shared_directory)
    number = job.submit(_DEAF, *_SIZE, "--restart", "1", "--hang", "10s", "--grace", "3")
    job.wait(lambda: job.state(number) not in {"PENDING", "RUNNING", "COMPLETING"})

    assert job.state(number) == "COMPLETED"
    assert [line.split("\t")[6] for line in job.read("ends").splitlines()] == ["again", "done"]
    assert "the same ranks start again (restart 1 of 1)" in job.muster("why", number).stdout


@pytest.mark.parametrize("launcher", ["srun", pytest.param("torchrun", marks=pytest.mark.torch)])
def test_a_spare_is_taken_where_a_peer_fails_before_slurm_says_that_the_node_is_down(
    new_lab: Callable[..., Lab], shared_directory: Path, launcher: str
) -> None:
    """The step of the dead node stands until the node is back: it must not hold the next attempt up."""
    lab = new_lab("-N", "3")
    checked(lab.exec(["sh", "-c", "sed -i '/^SlurmdTimeout/d; $aSlurmdTimeout=600' /etc/slurm/slurm.conf"]))
    checked(lab.exec(["scontrol", "reconfigure"]))
    job = _Job(lab, shared_directory)
    number = job.submit(_PEER, *_SIZE, "--spares", "1", "--restart", "1", "--launcher", launcher)
    job.wait(lambda: job.logged().count("begins 1") == 2)
    job.kill_host("node2")
    (shared_directory / "dead").touch()
    # The job stays COMPLETING until Slurm calls the node down.
    job.wait(lambda: len(job.read("ends").splitlines()) == 2)

    assert [line.split("\t")[6] for line in job.read("ends").splitlines()] == ["again", "done"]
    story = job.muster("why", number).stdout
    assert "attempt 1: node2 failed; node2 is lost; the same ranks start again on node1,node3" in story


def test_a_rank_whose_slurmstepd_was_killed_starts_again(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    """No daemon reports its end, and srun waits for that, whatever signal the step gets."""
    job = _Job(new_lab("-N", "2"), shared_directory)
    number = job.submit(_STANDS, *_SIZE, "--restart", "1", "--hang", "10s", "--grace", "3")
    job.wait(lambda: all((shared_directory / f"began.1.{rank}").exists() for rank in (0, 1)))
    checked(job.lab.exec(["pkill", "-KILL", "-f", f"^slurmstepd: .{number}.0"], host="node2"))
    job.wait(lambda: len(job.read("ends").splitlines()) == 2)

    assert [line.split("\t")[6] for line in job.read("ends").splitlines()] == ["again", "done"]
    # On the lab nobody ends what the slurmstepd has left.
    left = job.lab.exec(["pgrep", "-f", "python3 -u rank.py"], host="node2").stdout
    assert not left


def test_what_an_attempt_has_left_ends_before_the_next_one(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    """A worker of torchrun is such a process, where its keeper gets SIGKILL first; on the lab there is no cgroup."""
    job = _Job(new_lab("-N", "2"), shared_directory)
    job.submit(_LEAVES_A_PROCESS, *_SIZE, "--restart", "1", "--grace", "3")
    job.wait(lambda: len(job.read("ends").splitlines()) == 2)

    assert [(shared_directory / f"second.{rank}").read_text() for rank in (0, 1)] == ["False", "False"]


def test_a_rank_that_leaves_early_is_named_before_the_one_that_misses_it(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    job = _Job(new_lab("-N", "2"), shared_directory)
    number = job.submit(_LEAVES, *_SIZE, "--restart", "1")
    job.wait(lambda: len(job.read("ends").splitlines()) == 2)

    words = "attempt 1: rank 1 on node2 ended with status 0, and then rank 0 on node1: exit status 1"
    assert words in job.muster("why", number).stdout


def test_a_link_whose_host_dies_after_a_saved_one_goes_on(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    """It looks at the link before it, not at its own first run, which could write nothing down."""
    job = _Job(new_lab("-N", "4"), shared_directory)
    first = job.submit(_SAVES, *_SIZE[:-1], "2", "--until-done", "--save-before", "50s")
    job.wait(lambda: all((shared_directory / f"ready.1.{rank}").exists() for rank in (0, 1)))
    checked(job.lab.exec(["scancel", "--signal=USR1", first]))  # to the ranks, past the script
    job.wait(lambda: all((shared_directory / f"ready.2.{rank}").exists() for rank in (0, 1)))
    second = job.read("links").splitlines()[1].split("\t")[1]
    host = job.lab.exec(["squeue", "--noheader", "--jobs", second, "--format=%B"]).stdout.strip()
    job.kill_host(host)
    job.wait(lambda: job.state(second) == "PENDING")
    checked(job.lab.exec(["scontrol", "update", f"JobId={second}", "StartTime=now"]))
    job.wait(lambda: bool(job.read("over")))

    assert job.read("over") == "the script is done\n"
    begun = (shared_directory / "began.0").read_text().splitlines()
    assert [line.split()[0] for line in begun] == ["1", "2", "3"]
