"""Random faults at random times: each is named, the same ranks start again, and the training ends as if nothing was."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from finish.faults import HOST_FAULTS, RANK_FAULTS, TRAINING, Fault, final_of, random_faults
from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab, Person, lab_up

pytestmark = pytest.mark.lab

_RANKS = 4
# The controller is started again by `restore`: only then it counts memory.
_MEMORY_IS_LIMITED = """\
sed -i -E 's/^SelectTypeParameters=.*/SelectTypeParameters=CR_Core_Memory/; /^JobAcctGather/d' /etc/slurm/slurm.conf
cat >>/etc/slurm/slurm.conf <<END
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
END
scontrol reconfigure
controller=$(cat "$(scontrol show config | sed -n 's/^SlurmctldPidFile *= //p')")
kill "$controller"
while kill -0 "$controller" 2>/dev/null; do sleep 0.1; done
"""
_SEED = int(os.environ.get("MUSTER_TEST_SEED", "16"))
_COUNT = int(os.environ.get("MUSTER_TEST_FAULTS", "70"))
_KINDS = tuple(os.environ.get("MUSTER_TEST_KINDS", ",".join((*RANK_FAULTS, *HOST_FAULTS))).split(","))
_AT_ONCE = int(os.environ.get("MUSTER_TEST_AT_ONCE", "3"))
_HEALTHY = int(os.environ.get("MUSTER_TEST_HEALTHY", "250"))


def _run(lab: Lab, folder: Path, fault: Fault, launcher: str, *words: str) -> ProgramResult:
    (folder / "saved").mkdir(parents=True)
    (folder / "train.py").write_text(TRAINING)
    size = ("-N", str(_RANKS), "--ntasks-per-node", "1", "--exclusive", "--launcher", launcher)
    command = (MUSTER, "run", "--quiet", "--restart", "2", "--checkpoint", "saved", *size, *words)
    return lab.exec(
        (*command, "--", "python3", "train.py", *fault.arguments), cwd=folder, env={"PATH": path_with()}, timeout_s=300
    )


def _strike(lab: Lab, folder: Path, fault: Fault, ends: Future[ProgramResult]) -> str:
    """Do the fault to the host of its rank when the rank is there; the host."""
    while not _read(folder / "failed").count(" "):
        if ends.done():
            return ""
        time.sleep(0.02)
    struck = _read(folder / "failed").split()[0]
    checked(lab.muster("fault", fault.kind, struck))
    return struck


def _suffer(lab: Lab, folder: Path, fault: Fault, launcher: str, *words: str) -> tuple[str, float]:
    """One run with one fault: what is wrong with its end, and how long the ranks were away."""
    struck = ""
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(_run, lab, folder, fault, launcher, *words)
        if fault.is_of_host:
            struck = _strike(lab, folder, fault, ends)
        result = ends.result()
    if struck:
        # A busy machine may need longer than the lab waits for it; later runs wait in the queue for the host.
        lab.muster("fault", "restore", struck, timeout_s=300)
    complaints = list(_complaints(folder, fault, struck, result))
    begun = [float(when) for when in re.findall(r"begins 2 [0-9]+ [0-9]+ [a-z0-9]+ ([0-9.]+)", result.stdout)]
    away = max(begun) - float(_read(folder / "failed").split()[1]) if begun else 0.0
    print(f"{launcher} {fault}: {', '.join(complaints) or 'right'}, away {away:.1f} s", flush=True)
    return (f"{complaints}\n{result.stdout}\n{result.stderr}" if complaints else ""), away


def _complaints(folder: Path, fault: Fault, struck: str, result: ProgramResult) -> Iterator[str]:
    """Yield what is wrong with the end of a run."""
    ends = {f"muster: attempt 1 ended: rank {fault.rank} on {_host(folder)}: {fault.words}"}
    if fault.is_of_host:
        ends = {f"{struck} failed; {struck} is lost; the same ranks start again on "}
    if result.status != 0:
        yield f"status {result.status}"
    finals = re.findall(r"\bfinal ([0-9]+) ([0-9]+)", result.stdout)
    if sorted(finals) != [(str(rank), str(final_of())) for rank in range(_RANKS)]:
        yield f"weights {finals}"
    begun = re.findall(r"begins 2 ([0-9]+) ([0-9]+) ", result.stdout)
    if fault.kind == "fill-tmp":
        if begun or "attempt" in result.stderr:
            yield "a full /tmp ended an attempt"
        return
    if not any(end in result.stderr for end in ends) or result.stderr.count("muster: attempt") != 1:
        yield f"none of {ends} is told once"
    # What rank 0 wrote before the others were ended is what they have to begin with: no checkpoint is lost.
    newest = {"0", *(path.stem.removeprefix("step") for path in (folder / "saved").iterdir())}
    if {rank for rank, _ in begun} != {str(rank) for rank in range(_RANKS)} or not {
        step for _, step in begun
    } <= newest:
        yield f"attempt 2 began at {begun}"
    if len({step for _, step in begun}) == 1 and int(begun[0][1]) < fault.step - fault.step % 5 and fault.rank == 0:
        yield f"a checkpoint was lost: {begun[0][1]} after step {fault.step}"


def _host(folder: Path) -> str:
    return _read(folder / "failed").partition(" ")[0]


def _suffer_all(lab: Lab, folder: Path, faults: list[Fault], launcher: str, *words: str, at_once: int = 1) -> None:
    """All faults, some at once; what went wrong is told at the end, all of it."""
    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        runs = [pool.submit(_suffer, lab, folder / str(n), fault, launcher, *words) for n, fault in enumerate(faults)]
        ended = [run.result() for run in runs]
    for kind in sorted({fault.kind for fault in faults}):
        away = sorted(ended[n][1] for n, fault in enumerate(faults) if fault.kind == kind and ended[n][1])
        told = f"away {away[0]:.1f} to {away[-1]:.1f} s, median {away[len(away) // 2]:.1f}" if away else "never away"
        wrong = sum(bool(ended[n][0]) for n, fault in enumerate(faults) if fault.kind == kind)
        print(f"{launcher} {kind}: {sum(fault.kind == kind for fault in faults)} faults, {wrong} wrong, {told}")
    print(f"{launcher}: {len(faults)} faults with seed {_SEED} in {time.monotonic() - began:.0f} s")
    wrong_ends = [f"{faults[n]}: {end[0]}" for n, end in enumerate(ended) if end[0]]
    assert not wrong_ends, "\n".join(wrong_ends)


def test_a_few_random_faults(lab: Lab, shared_directory: Path) -> None:
    _suffer_all(lab, shared_directory, random_faults(4, seed=_SEED), "srun")


@pytest.fixture(scope="module")
def wide_lab(tester: Person, slurm_version: str) -> Iterator[Lab]:
    """Hosts for some jobs of 4 + 1 at once, where some of the hosts are down."""
    with lab_up(tester, "wide", "-N", str(5 * _AT_ONCE + 1), "--slurm", slurm_version) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "mpirun", pytest.param("torchrun", marks=pytest.mark.torch)])
def test_many_random_faults(wide_lab: Lab, shared_directory: Path, launcher: str) -> None:
    """Of ranks and of hosts, rank 0's as often as any, on 4 + 1 hosts; several jobs at once."""
    faults = random_faults(_COUNT, seed=_SEED + len(launcher), kinds=_KINDS)
    _suffer_all(wide_lab, shared_directory, faults, launcher, "--spares", "1", at_once=_AT_ONCE)


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
@pytest.mark.parametrize(("words", "nodes"), [((), 1), (("--spares", "1", "--requeue"), 2)], ids=["watched", "spares"])
def test_healthy_runs_are_never_started_again(
    wide_lab: Lab, shared_directory: Path, launcher: str, words: tuple[str, ...], nodes: int
) -> None:
    """Tasks of one array, twelve at once; each writes down how often its ranks began."""
    (shared_directory / "rank.sh").write_text('echo "$MUSTER_ATTEMPT" >>"began.$SLURM_ARRAY_TASK_ID.$RANK"\n')
    size = ("-N", str(nodes), "--ntasks-per-node", "2", "-t", "10", "--launcher", launcher)
    goes_on = ("--restart", "3", "--hang", "60s", *words, f"--sbatch=--array=1-{_HEALTHY}%12")
    command = (MUSTER, "submit", "--quiet", *goes_on, *size, "--", "sh", "rank.sh")
    job = checked(wide_lab.exec(command, cwd=shared_directory, env={"PATH": path_with()})).stdout.strip()
    (run,) = (shared_directory / "muster-runs").iterdir()
    _wait_for(lambda: not checked(wide_lab.exec(["squeue", "--noheader", "--jobs", job])).stdout, timeout_s=1800)

    tasks = [run / f"task-{task}" for task in range(1, _HEALTHY + 1)]
    assert [task.name for task in tasks if len(_read(task / "attempts").splitlines()) != 1] == []
    assert [task.name for task in tasks if "\tdone\t" not in _read(task / "ends")] == []
    began = [_read(shared_directory / f"began.{task}.{rank}") for task in range(1, _HEALTHY + 1) for rank in range(2)]
    assert began == ["1\n"] * 2 * _HEALTHY


@pytest.mark.long
def test_a_controller_that_is_away_for_a_minute_ends_nothing(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "2")
    (shared_directory / "rank.sh").write_text(
        'echo "$MUSTER_ATTEMPT" >>"began.$RANK"\nsleep 90\necho done >>"began.$RANK"\n'
    )
    words = ("run", "--quiet", "--restart", "3", "-N", "2", "--ntasks-per-node", "1", "--", "sh", "rank.sh")
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(lab.exec, (MUSTER, *words), cwd=shared_directory, env={"PATH": path_with()}, timeout_s=300)
        _wait_for(lambda: all(_read(shared_directory / f"began.{rank}") for rank in range(2)))
        checked(lab.muster("fault", "stop-controller"))
        time.sleep(60)
        checked(lab.muster("fault", "restore", "controller"))
        result = ends.result()

    assert result.status == 0, result.stderr
    assert [_read(shared_directory / f"began.{rank}") for rank in range(2)] == ["1\ndone\n"] * 2


@pytest.mark.long
@pytest.mark.parametrize("fault", ["kill-node", "pause-node", "cut-link"])
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_node_that_slurm_calls_dead_is_replaced_by_the_spare(
    new_lab: Callable[..., Lab], shared_directory: Path, launcher: str, fault: str
) -> None:
    lab = new_lab("-N", "4")
    (shared_directory / "rank.py").write_text(
        'import os, time\nprint("begins %.3f" % time.time(), flush=True)\n'
        'time.sleep(120 if os.environ["MUSTER_ATTEMPT"] == "1" else 0)\n'
    )

    def muster(*words: str) -> str:
        env = {"PATH": path_with()}
        words = ("env", f"XDG_STATE_HOME={shared_directory / 'state'}", MUSTER, *words)
        return checked(lab.exec(words, cwd=shared_directory, env=env)).stdout

    def begun(logs: str) -> list[float]:
        lines = [line for log in (run / logs).glob("*.log") for line in _read(log).splitlines()]
        return [float(line.split()[-1]) for line in lines if "begins" in line]

    size = ("--spares", "1", "-N", "3", "--ntasks-per-node", "1", "-t", "10", "--launcher", launcher)
    job = muster("submit", "--quiet", *size, "--", "python3", "rank.py").strip()
    (run,) = (shared_directory / "muster-runs").iterdir()
    _wait_for(lambda: len(begun("logs")) == 3)
    checked(lab.muster("fault", fault, "node2"))
    _wait_for(lambda: "node2" in lab.exec(["sinfo", "-h", "-N", "-o", "%N", "-t", "down"]).stdout)
    down = time.time()
    muster("logs", "-f", job)

    story = muster("why", job)
    assert "attempt 1: node2 failed; node2 is lost; the same ranks start again on node1,node3,node4" in story
    began = begun("logs/attempt-2")
    assert len(began) == 3
    print(f"{launcher}, {fault}: spare in use {max(began) - down:.2f} s after Slurm said that the host is down")


@pytest.mark.long
@pytest.mark.parametrize(
    ("launcher", "cause"),
    [
        ("srun", r"Slurm ended the ranks: on node2 they used [0-9]+ MiB of memory, and had 200"),
        ("mpirun", "mpirun lost its daemon on node[1-3]"),
    ],
)
def test_ranks_that_take_more_memory_than_slurm_allows(
    new_lab: Callable[..., Lab], shared_directory: Path, launcher: str, cause: str
) -> None:
    """No rank and no node is blamed: Slurm counts the memory of a step on a node, and ends the step."""
    lab = new_lab("-N", "3", "--accounting")
    checked(lab.exec(["sh", "-c", _MEMORY_IS_LIMITED]))
    checked(lab.muster("fault", "restore", "controller"))
    (shared_directory / "saved").mkdir()
    (shared_directory / "train.py").write_text(TRAINING)
    size = ("-N", "3", "--ntasks-per-node", "1", "--mem", "200M", "-t", "5", "-A", "lab", "--launcher", launcher)
    command = (MUSTER, "run", "--quiet", "--restart", "2", "--checkpoint", "saved", *size)
    training = ("python3", "train.py", *Fault("limit", 1, 17, 0).arguments)
    result = lab.exec((*command, "--", *training), cwd=shared_directory, env={"PATH": path_with()})

    assert result.status == 0, result.stderr
    assert re.search(f"muster: attempt 1 ended: {cause}; the same ranks start again", result.stderr), result.stderr
    assert re.findall(r"\bfinal [0-9]+ ([0-9]+)", result.stdout) == [str(final_of())] * 3


@pytest.mark.long
def test_the_host_of_the_script_dies_and_the_job_goes_back_into_the_queue(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    """With spare nodes Slurm lets the job stand without its script: a deputy on another node puts it back."""
    lab = new_lab("-N", "4")
    fault = Fault("kill-node", 0, 17, 0)
    (shared_directory / "saved").mkdir()
    (shared_directory / "train.py").write_text(TRAINING)

    def muster(*words: str) -> str:
        words = ("env", f"XDG_STATE_HOME={shared_directory / 'state'}", MUSTER, *words)
        return checked(lab.exec(words, cwd=shared_directory, env={"PATH": path_with()}, timeout_s=300)).stdout

    goes_on = ("--spares", "1", "--requeue", "--checkpoint", "saved", "-t", "20")
    size = ("-N", "2", "--ntasks-per-node", "1")
    job = muster("submit", "--quiet", *goes_on, *size, "--", "python3", "train.py", *fault.arguments).strip()
    _wait_for(lambda: _read(shared_directory / "failed").count(" ") == 1)
    checked(lab.muster("fault", "kill-node", "node1"))
    _wait_for(lambda: "PENDING" in lab.exec(["squeue", "--noheader", "--format=%T"]).stdout, timeout_s=300)
    checked(lab.exec(["scontrol", "update", f"JobId={job}", "StartTime=now"]))
    output = muster("logs", "-f", job)

    assert "muster: node1, the host of the script, is lost: the job goes back into the queue" in output
    assert re.findall(r"begins 2 ([0-9]+) 15 (node[0-9])", output) == [("0", "node2"), ("1", "node3")]
    assert re.findall(r"final [0-9]+ ([0-9]+)", output) == [str(final_of())] * 2
    story = muster("why", job)
    print(story)
    assert "is COMPLETED" in story


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _wait_for(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
