"""Guards what a lab's hosts see of this machine: the folder one stands in, wherever it is, and nobody else's traces."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree, which
from tempfile import TemporaryDirectory, mkdtemp

import pytest

from muster.runner import checked, run
from plugins.labs import MUSTER, Lab, Person, lab_up

pytestmark = pytest.mark.lab


@pytest.fixture(params=["/tmp", "/dev/shm", "/run"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder with a blank in its name, in a place that every host has for itself."""
    if not os.access(request.param, os.W_OK):
        pytest.skip(f"by design: {request.param} is closed to the user who runs the tests")
    made = Path(mkdtemp(dir=request.param, prefix="muster ü "))
    made.chmod(0o777)
    yield made
    rmtree(made)


def test_every_host_sees_the_folder_that_a_command_starts_in(either_lab: Lab, folder: Path) -> None:
    words = ["srun", "-N4", "sh", "-c", "pwd >$SLURMD_NODENAME; ls -A / >/dev/null"]

    checked(either_lab.exec(words, cwd=folder))

    assert {each.name: each.read_text() for each in folder.iterdir()} == {
        f"node{n}": f"{folder}\n" for n in range(1, 5)
    }
    other = Path(mkdtemp(dir=folder.parent))
    try:
        assert not either_lab.exec(["srun", "-N4", "ls", str(other)], cwd=folder).ok
    finally:
        rmtree(other)


def test_from_inside_a_project_all_of_it_is_shown(lab: Lab, folder: Path) -> None:
    (folder / "pyproject.toml").touch()
    inner = folder / "a/b"
    inner.mkdir(parents=True)

    assert checked(lab.exec(["srun", "-N1", "ls", "../.."], cwd=inner)).stdout == "a\npyproject.toml\n"


def test_a_host_that_starts_again_sees_what_the_others_see(new_lab: Callable[..., Lab], folder: Path) -> None:
    lab = new_lab("-N", "2")
    checked(lab.exec(["touch", "here"], cwd=folder))
    checked(lab.muster("fault", "kill-node", "node2"))
    checked(lab.muster("fault", "restore", "node2"))
    assert checked(lab.exec(["ls"], host="node2", cwd=folder)).stdout == "here\n"


def test_a_launch_from_tmp_runs_on_all_hosts_without_a_warning(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "hi.py").write_text("import os; print(os.environ['RANK'], os.getcwd())\n")
    words = [MUSTER, "run", "-N", "2", "--", sys.executable, "hi.py"]

    done = lab.exec(words, cwd=tmp_path, env={"PWD": str(tmp_path)})

    assert sorted(done.stdout.splitlines()) == [f"0: 0 {tmp_path}", f"1: 1 {tmp_path}"]
    assert "every host has for itself" not in done.stderr
    assert "no site profile" not in done.stderr


def test_all_hosts_share_this_machines_var_tmp_and_no_warning_says_otherwise(lab: Lab) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        (Path(folder) / "x.sh").write_text("echo here\n")
        done = lab.exec([MUSTER, "run", "-N", "2", "--", "sh", "x.sh"], cwd=Path(folder), env={"PWD": folder})

    assert sorted(done.stdout.splitlines()) == ["0: here", "1: here"]
    assert "every host has for itself" not in done.stderr


@pytest.mark.skipif(which("mpirun.openmpi") is None, reason="Open MPI is not here")
def test_mpirun_does_not_meet_the_session_folder_of_somebody_elses_lab(ordinary_lab: Lab) -> None:
    theirs = Path("/tmp/ompi.login.0")
    new = not theirs.exists()
    theirs.mkdir(mode=0o700, exist_ok=True)
    try:
        done = ordinary_lab.exec(["salloc", "-N2", "mpirun.openmpi", "--map-by", "node", "hostname"])
        assert sorted(done.stdout.split()) == ["node1", "node2"], done.stderr
    finally:
        if new:
            theirs.rmdir()


def test_an_address_of_either_kind_has_a_name(either_lab: Lab) -> None:
    addresses = "10.77.0.2", "::ffff:10.77.0.3", "::ffff:127.0.0.1"
    script = f"import socket; print(*[socket.getnameinfo((each, 1), 0)[0] for each in {addresses}])"
    said = checked(either_lab.exec([sys.executable, "-c", script], host="node1")).stdout
    assert said == "node1 node2.lab localhost.lab\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="by design: only root can replace /etc/passwd")
def test_a_lab_keeps_its_users_and_hosts_when_the_machine_replaces_its_own(tester: Person, tmp_path: Path) -> None:
    """In a world where /etc is a copy: nothing of the machine changes."""
    script = f"""
        set -eu
        mkdir {tmp_path}/etc
        cp -a /etc/. {tmp_path}/etc/
        mount --bind {tmp_path}/etc /etc
        muster lab up --name replaced -N 1
        trap 'muster lab down --name replaced' EXIT
        for file in passwd group hosts shadow; do
            cp -p /etc/$file /etc/$file+
            mv /etc/$file+ /etc/$file
        done
        muster lab exec --name replaced --user alice -- srun -N1 sh -c 'id -un; getent hosts login'
    """
    environment = tester.environment({"PATH": f"{Path(MUSTER).parent}{os.pathsep}{os.environ['PATH']}"})
    done = run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], env=environment, cwd="/")
    assert done.stdout.split() == ["alice", "10.77.0.1", "login"], done.stderr


def test_a_lab_like_a_site_is_that_site(tester: Person) -> None:
    with lab_up(tester, "sited", "--like", "supercloud", "-N", "2") as made:
        assert checked(made.exec([MUSTER, "site", "detect"])).stdout == "supercloud\n"
        planned = made.exec([MUSTER, "plan", "-N", "1", "-t", "10", "--", "true"])
        assert "this is supercloud: the lab is like supercloud" in planned.stderr


def test_a_command_in_a_closed_home_says_so_to_another_user(lab: Lab, shared_directory: Path) -> None:
    home = shared_directory / "home"
    (home / "bin").mkdir(parents=True)
    program = home / "bin/hello"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    home.chmod(0o700)

    answer = lab.exec([str(program)], user="alice", cwd=home)

    assert answer.status == 126
    assert (
        f"muster: {home} is closed to the lab's user; the command starts in /run/muster-lab/home/alice" in answer.stderr
    )
    assert f"muster: error: {home} is closed to alice, but {program} lies in it" in answer.stderr
    assert f"\n\nhint: `chmod o+x {home}` lets the lab's users pass" in answer.stderr


def test_where_the_state_directory_cannot_be_written_the_lab_is_remembered_elsewhere(tester: Person) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": "/dev/null/state", "HOME": "/nowhere"}
    name = f"elsewhere{os.getpid()}"
    up = run([MUSTER, "lab", "up", "--name", name, "-N", "1"], env=environment)
    try:
        assert up.status == 0, up.stderr
        assert "for /dev/null/state/muster/labs cannot be written" in up.stderr
        said = run([MUSTER, "lab", "exec", "--name", name, "--", "srun", "-N1", "hostname"], env=environment, cwd="/")
        assert (said.stdout, said.status) == ("node1\n", 0)
    finally:
        assert run([MUSTER, "lab", "down", "--name", name], env=environment).status == 0
