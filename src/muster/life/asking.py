"""What the supervisor asks of Slurm and of the nodes of its job: each question has a bound, and no answer is one too.

Standard library only, Python 3.6.
"""

import os
import re
import signal
import subprocess
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from muster.life import told

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def node_text(*names: str) -> str:
    """Return shell texts that run on a node: of render/shell/nodes by their names, others by their paths."""
    texts = []
    for name in names:
        path = name if "/" in name else os.path.join(_PACKAGE, "render", "shell", "nodes", name + ".sh")
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "".join(texts)


class ProgramEnd(NamedTuple):
    """What a program wrote, and how it ended."""

    status: Optional[int]
    """None: it did not end in time, and was killed."""

    out: str
    errors: str


def run(words: Sequence[str], timeout_s: float, env: Optional[Dict[str, str]] = None, cwd: str = "") -> ProgramEnd:
    """Run a program of Slurm's to its end, within so many seconds; it reads nothing."""
    try:
        child = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd or None,
            start_new_session=True,
        )
    except OSError as error:
        return ProgramEnd(127, "", str(error))
    try:
        out, errors = child.communicate(timeout=timeout_s)
        status: Optional[int] = child.returncode
    except subprocess.TimeoutExpired:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:
            pass
        # A process that holds the pipes open is not waited for.
        try:
            out, errors = child.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            out = errors = b""
        status = None
    # A path in the answer goes back to the system as it came, in any locale.
    return ProgramEnd(status, os.fsdecode(out), os.fsdecode(errors))


class JobWords(NamedTuple):
    """Slurm's answer about a job."""

    state: str
    nodes: str
    end: float
    """When its time is over, in seconds since 1970; 0: that is not known."""

    preempted: bool
    """Whether it is being preempted, in this run: one that was put back into the queue may keep that time."""


def ask_job(job: str, timeout_s: float = 10.0) -> Optional[JobWords]:
    """Return what Slurm says of a job; None: it does not answer, or does not know that job."""
    # A user's own format of times could not be read.
    environment = dict(os.environ, SLURM_TIME_FORMAT="%s")
    answer = run(["scontrol", "--oneliner", "show", "job", job], timeout_s, environment)
    # The last task of an array has the number of the whole array: Slurm shows all its tasks.
    text = next((line for line in answer.out.splitlines() if line.startswith("JobId=%s " % job)), "")
    if "JobState=" not in text:
        return None
    fields = dict(word.partition("=")[::2] for word in text.split() if "=" in word)
    began = _seconds(fields.get("StartTime", ""))
    return JobWords(
        fields.get("JobState", ""),
        next((word[9:] for word in text.split() if word.startswith("NodeList=")), ""),
        _seconds(fields.get("EndTime", "")),
        _seconds(fields.get("PreemptTime", "")) >= max(began, 1.0),
    )


def _seconds(text: str) -> float:
    try:
        return float(text) if text.isdigit() else time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def ask_old_job(job: str) -> Optional[str]:
    """Return how a job ended; empty: Slurm does not know it any more; None: it does not answer."""
    if not job:
        return ""  # Slurm would show all jobs
    job_words = run(["scontrol", "--oneliner", "show", "job", job], 30.0)
    if "JobState=" in job_words.out:
        return job_words.out.split("JobState=", 1)[1].split()[0]
    answer = run(["sacct", "-X", "--noheader", "--parsable2", "--format=State", "--jobs=" + job], 30.0)
    if answer.status == 0 and answer.out.strip():
        return answer.out.split()[0]
    # A controller that answers and does not know the job has forgotten it.
    return "" if "nvalid job id" in job_words.errors or answer.status == 0 else None


def ask_down(hosts: Sequence[str], timeout_s: float = 5.0) -> Tuple[str, ...]:
    """Return which of these nodes Slurm calls down; none where it does not answer."""
    words = ["sinfo", "--noheader", "--Node", "--nodes=" + ",".join(hosts), "--states=down,fail,no_respond"]
    down = run([*words, "--format=%N"], timeout_s).out.split() if hosts else []
    return tuple(host for host in hosts if host in down)


def expand(nodes: str) -> Tuple[str, ...]:
    """Return the names of a node list, in its order."""
    if not nodes or nodes == "(null)":
        return ()
    if "[" not in nodes:
        return tuple(nodes.split(","))
    for pause in (1, 4, 0):
        names = run(["scontrol", "show", "hostnames", nodes], 30.0).out.split()
        if names:
            break
        time.sleep(pause)
    return tuple(names)


def of_part(part: str) -> List[str]:
    """Return the option by which srun finds a part of a heterogeneous job, else that of this role, if it has one."""
    number = part or os.environ.get("muster_part", "")  # noqa: SIM112  # the runner of the roles sets it
    return ["--het-group=" + number] if number else []


def on_nodes(hosts: Sequence[str], *words: str, name: str = "sh", part: str = "") -> List[str]:
    """Return the words of a step beside that of the ranks, once on each of these nodes, which are in one part."""
    count = str(len(hosts))
    return [
        "srun", "--overlap", *of_part(part),
        "--job-name=" + name, "--nodes=" + count,
        "--nodelist=" + ",".join(hosts), "--ntasks=" + count, "--ntasks-per-node=1",
        "--cpus-per-task=1", "--mem=0", "--gres=none", "--mpi=none",
        "--quiet", "--export=NONE", "--chdir=/", *words,
    ]  # fmt: skip


# A disk that hangs counts as one that is not there.
_SEES = 'timeout 9 test -d "$2" || echo "muster: $SLURMD_NODENAME is blind" >&2\n'


class NodeWords(NamedTuple):
    """What a step over the nodes shows."""

    dead: Tuple[str, ...]
    """Those that start no step."""

    blind: Tuple[str, ...] = ()
    """Those that do not see the folder."""


def ask_nodes(hosts: Sequence[str], timeout_s: float = 30.0, mark: str = "", folder: str = "") -> Optional[NodeWords]:
    """Return which nodes start no step, or do not see a folder, by one step over all of them; None: it did not end.

    Ranks and mpirun lose a node before Slurm does, and srun waits on after its words about a dead one. With a mark, the
    step ends the processes that have it: on a node without cgroups those may outlive their own step.
    """
    text = (node_text("end_left") if mark else "") + (_SEES if folder else "true")
    words = on_nodes(hosts, "/bin/sh", "-c", text, "muster", mark, folder)
    words.insert(1, "--input=none")
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError:
        return None
    try:
        return _read_dead(child, hosts, time.monotonic() + timeout_s)
    finally:
        _kill(child)
        if child.stderr is not None:
            child.stderr.close()


def _read_dead(child: "subprocess.Popen[bytes]", hosts: Sequence[str], until: float) -> Optional[NodeWords]:
    assert child.stderr is not None
    os.set_blocking(child.stderr.fileno(), False)
    text = ""
    while time.monotonic() < until:
        ended = child.poll() is not None
        text += (child.stderr.read() or b"").decode("utf-8", "replace")
        dead = told.dead_node(text)
        blind = tuple(host for host in hosts if "muster: %s is blind\n" % host in text)
        if dead:
            return NodeWords(tuple(host for host in hosts if host == dead) or (dead,), blind)
        if ended:
            # Without the controller no step starts anywhere, which says nothing of the nodes.
            is_unheard = child.returncode and re.search("ontact slurm|Socket timed out", text)
            return None if is_unheard else NodeWords((), blind)
        time.sleep(0.05)
    return None


def _kill(child: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    child.wait()


# Processes and steps of this host


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0: there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def descendants(of: int) -> List[int]:
    """Return the processes below one, parents first."""
    parents = {int(name): parent_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    below, last = [], [of]
    while last:
        last = [pid for pid, parent in parents.items() if parent in last]
        below += last
    return below


def command_of(pid: int) -> str:
    """Return the name of a process; empty: it has ended."""
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def send(pid: int, number: int) -> None:
    """Send a signal; a process that has ended gets none."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


def find_steps(job: str, own: str, starters: Sequence[int]) -> List[str]:
    """Return the steps whose srun is among these processes: others may run steps in the same allocation.

    The last task of an array has the number of the whole array, so the steps of all its tasks are shown.
    """
    text = run(["scontrol", "--oneliner", "show", "step", job], 30.0).out
    here = os.uname().nodename.partition(".")[0]
    steps = []
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].startswith("StepId=") or " Name=muster-deputy " in line:
            continue
        owner = words[0][len("StepId=") :].rpartition(".")[0]
        if "_" in owner and owner != own:
            continue
        starter = next((word.partition("=")[2] for word in words if word.startswith("SrunHost:Pid=")), "")
        host, _, pid = starter.rpartition(":")
        is_ours = host.partition(".")[0] == here and pid.isdigit() and int(pid) in starters
        if is_ours and words[0].rpartition(".")[2].isdigit():
            steps.append(words[0][len("StepId=") :])
    return steps
