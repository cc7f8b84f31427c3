"""Faults made for real on four hosts: each is named, with its host, in seconds; a healthy lab is healthy."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.runner import ProgramResult
from plugins.labs import Lab

from .catalogue import FAULTS, Fault

pytestmark = pytest.mark.lab

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
QUICK = {
    "slow-link",
    "cut-link",
    "name-only-local",
    "resolver-silent",
    "port-taken",
    "clock-ahead",
    "one-core-mask",
    "full-tmp",
    "two-ranks-on-one-gpu",
    "variable-on-one-host",
    "python-broken",
}
LIMIT_S = 20.0


@pytest.fixture(scope="module")
def broken_lab(lab_factory: Callable[..., Lab]) -> Lab:
    """One lab for all faults of this module; each fault is mended."""
    return lab_factory("-N", "4")


@pytest.fixture(scope="module")
def lab_factory(tester: object, slurm_version: str) -> Iterator[Callable[..., Lab]]:
    from contextlib import ExitStack

    from plugins.labs import lab_up

    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(lab_up(tester, "faults", *words, "--slurm", slurm_version))  # type: ignore[arg-type]


def check(lab: Lab, directory: Path, *options: str, around: str = "") -> ProgramResult:
    shape = [] if "-N" in options else ["-N", "4"]
    words = [sys.executable, "-m", "muster", "check", *shape, "--ntasks-per-node", "2", "--quiet", "--json", *options]
    argv = ["sh", "-c", f'{around} exec "$@"', "sh", *words] if around else words
    return lab.exec(argv, cwd=directory, env={"PATH": PATH})


def at(lab: Lab, steps: tuple[tuple[str, str], ...], shared: Path) -> None:
    for host, script in steps:
        done = lab.exec(["sh", "-c", script.replace("{shared}", str(shared))], host=host)
        assert done.ok, f"{host}: {script}: {done.stderr}"


def named(fault: Fault, done: ProgramResult) -> str:
    """What is wrong with the answer; empty: nothing."""
    try:
        found = json.loads(done.stdout)["findings"]
    except ValueError:
        return f"status {done.status}: {done.stderr}" if fault.says not in done.stderr or done.status != 2 else ""
    right = [each for each in found if each["what"] == fault.what and fault.says in each["evidence"]]
    if not right:
        return f"not found: {found}"
    if fault.hosts and set(right[0]["hosts"]) != set(fault.hosts):
        return f"other hosts: {right[0]}"
    others = [each for each in found if each["status"] == "broken" and each["what"] != fault.what]
    if right[0]["status"] == "broken" and others:
        return f"and more is said to be broken: {others}"
    return ""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, id=each.name, marks=() if each.name in QUICK else pytest.mark.long) for each in FAULTS],
)
def test_a_fault_is_named_with_its_host(broken_lab: Lab, shared_directory: Path, fault: Fault) -> None:
    (shared_directory / "here").mkdir()
    options = tuple(word.replace("{shared}", str(shared_directory)) for word in fault.options)
    try:
        if fault.fault:
            assert broken_lab.muster("fault", *fault.fault).ok
        at(broken_lab, fault.make, shared_directory)
        began = time.monotonic()
        done = check(broken_lab, shared_directory, *options, around=fault.around)
        spent_s = time.monotonic() - began
    finally:
        at(broken_lab, fault.mend, shared_directory)
        if fault.fault:
            assert broken_lab.muster("fault", "restore").ok
    assert not named(fault, done), named(fault, done)
    # Bounded by the ranks' own patience, on any machine; how fast it is on a good one is a figure of the benchmark.
    assert spent_s < 3 * LIMIT_S


@pytest.mark.parametrize("times", [1, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("says", ["any user can join", "was refused at node1"])
def test_a_healthy_lab_has_no_findings_but_what_a_stranger_saw(
    broken_lab: Lab, shared_directory: Path, times: int, says: str
) -> None:
    for _ in range(times):
        done = check(broken_lab, shared_directory, *(["--closed"] if says.startswith("was") else []))
        assert done.ok, done.stderr or done.stdout
        # how long a look at a file takes is this machine's, which other tests keep busy
        found = [each for each in json.loads(done.stdout)["findings"] if each["what"] != "import time"]
        assert [each["what"] for each in found] == ["strangers"], found
        assert says in found[0]["evidence"]


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_the_gate_of_a_closed_job_lets_a_healthy_one_pass(
    broken_lab: Lab, shared_directory: Path, launcher: str
) -> None:
    words = [
        "run",
        "--check",
        "--closed",
        "--quiet",
        "-N",
        "2",
        "--launcher",
        launcher,
        "--",
        sys.executable,
        "-c",
        "0",
    ]
    done = broken_lab.exec([sys.executable, "-m", "muster", *words], cwd=shared_directory, env={"PATH": PATH})
    assert done.ok, done.stderr


def test_the_gate_before_a_run_names_the_host_and_the_command_never_starts(
    broken_lab: Lab, shared_directory: Path
) -> None:
    words = [sys.executable, "-m", "muster", "run", "--check", "--quiet", "-N", "4", "--ntasks-per-node", "2"]
    run = [*words, "--", "touch", "started"]
    assert broken_lab.muster("fault", "slow-link", "node3", "20mbit").ok
    try:
        stopped = broken_lab.exec(run, cwd=shared_directory, env={"PATH": PATH})
    finally:
        assert broken_lab.muster("fault", "restore").ok
    assert stopped.status == 1, stopped.stderr
    assert "broken: links: node3: the way to node1 carries" in stopped.stderr
    assert not (shared_directory / "started").exists()
    done = broken_lab.exec(run, cwd=shared_directory, env={"PATH": PATH})
    assert done.ok, done.stderr
    assert (shared_directory / "started").exists()


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "mpirun+torchrun"])
@pytest.mark.torch
def test_every_launcher_checks_before_it_starts(broken_lab: Lab, shared_directory: Path, launcher: str) -> None:
    words = [sys.executable, "-m", "muster", "run", "--check", "--quiet", "-N", "2", "--ntasks-per-node", "2"]
    command = ["--", sys.executable, "-c", "import os; os.write(1, f'rank {os.environ[\"RANK\"]}\\n'.encode())"]
    run = [*words, "--launcher", launcher, "--no-label", *command]
    done = broken_lab.exec(run, cwd=shared_directory, env={"PATH": PATH})
    assert done.ok, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank")) == [
        f"rank {number}" for number in range(4)
    ]
    broken = [*words, "--env", "GLOO_SOCKET_IFNAME=none0", "--launcher", launcher, "--no-label", *command]
    stopped = broken_lab.exec(broken, cwd=shared_directory, env={"PATH": PATH})
    assert stopped.status == 1, stopped.stderr
    assert "none0 is not there" in stopped.stderr + stopped.stdout
    assert "rank 0" not in stopped.stdout


def test_a_submitted_job_is_checked_and_its_script_runs_with_sbatch_alone(
    broken_lab: Lab, shared_directory: Path
) -> None:
    words = [sys.executable, "-m", "muster", "submit", "--check", "--quiet", "-N", "2", "--ntasks-per-node", "1"]
    queued = broken_lab.exec([*words, "--", "hostname"], cwd=shared_directory, env={"PATH": PATH})
    assert queued.ok, queued.stderr
    script = next((shared_directory / "muster-runs").glob("*/job.sh"))
    again = broken_lab.exec(["sbatch", "--wait", str(script)], cwd=shared_directory, env={"PATH": PATH})
    assert again.ok, again.stderr
    (program,) = (shared_directory / "muster-runs").glob("check*.pyz")
    os.chown(program, 1001, 1001)  # as another member of the project might put one there
    foreign = broken_lab.exec(["sbatch", "--wait", str(script)], cwd=shared_directory, env={"PATH": PATH})
    assert foreign.status == 2, foreign.stderr
    program.unlink()
    alone = broken_lab.exec(["sbatch", "--wait", str(script)], cwd=shared_directory, env={"PATH": PATH})
    assert alone.status == 2, alone.stderr
