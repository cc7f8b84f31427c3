"""On a real cluster: a server and trainers in one job, in order, on their own nodes or sharing them, to their end."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import MUSTER, Lab

from .lab_runs import path_with, wait_until_ended

pytestmark = pytest.mark.lab

SERVER = """
import http.server, os, sys
print("serves", os.environ["MUSTER_ROLE"], os.uname().nodename, flush=True)
handler = http.server.SimpleHTTPRequestHandler
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), handler).serve_forever()
"""
TRAINER = """
import os, sys, time, urllib.request
from pathlib import Path
import muster
assert urllib.request.urlopen(sys.argv[1]).status == 200
assert muster.role("serve").url == sys.argv[1]
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "at", os.environ["MASTER_ADDR"], flush=True)
Path("spoken-" + os.environ["RANK"]).touch()
# The first rank that ends with another status than 0 ends the others.
while sys.argv[2] != "0" and len(list(Path().glob("spoken-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.05)
sys.exit(int(sys.argv[2]))
"""


RAY_DRIVER = """
import socket
import ray
ray.init()
@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where():
    return socket.gethostname()
hosts = ray.get([where.remote() for _ in range(8)])
counts = ray.cluster_resources()
print("cpus", counts["CPU"], "gpus", counts["GPU"], "hosts", *sorted(set(hosts)), flush=True)
"""


def submit(lab: Lab, folder: Path, *words: str) -> str:
    """Queue a job of roles and return its id."""
    (folder / "server.py").write_text(SERVER)
    (folder / "trainer.py").write_text(TRAINER)
    argv = [MUSTER, "submit", "--quiet", "-g", "0", "-t", "5", *words]
    return checked(lab.exec(argv, cwd=folder, env={"PATH": path_with()})).stdout.strip()


def said(lab: Lab, verb: str, *words: str) -> str:
    return checked(lab.exec([MUSTER, verb, *words])).stdout


def events(folder: Path) -> str:
    (path,) = folder.glob("muster-runs/*/roles/events")
    return path.read_text()


@pytest.mark.parametrize(("status", "state"), [("0", "COMPLETED"), ("3", "FAILED")])
def test_trainers_ask_a_server_and_their_end_is_the_jobs(
    lab: Lab, shared_directory: Path, status: str, state: str
) -> None:
    serve = ("--role", "serve", "--ready", "http://{host}:{port}/", "--", "python3", "server.py", "{port}")
    train = ("--role", "train", "-N", "2", "--after", "serve", "--", "python3", "trainer.py", "{serve.url}", status)
    job = submit(lab, shared_directory, *serve, *train)

    assert wait_until_ended(lab, job) == state
    logs = said(lab, "logs", job)
    assert "serve.0: serves serve node1" in logs
    assert "train.0: rank 0 of 2 at node2" in logs
    assert "train.1: rank 1 of 2 at node2" in logs
    assert said(lab, "logs", job, "--role", "serve").startswith("0: serves serve node1")
    if status == "3":
        assert "first: role train, rank " in said(lab, "why", job)
    order = [line for line in events(shared_directory).splitlines() if '"starts"' in line or '"ready"' in line]
    assert [line.split('"role": "')[1].split('"')[0] for line in order[:3]] == ["serve", "serve", "train"]


def test_roles_on_nodes_of_several_kinds_are_one_heterogeneous_job(lab: Lab, shared_directory: Path) -> None:
    serve = (
        "--role",
        "serve",
        "--mem",
        "1G",
        "--ready",
        "http://{host}:{port}/",
        "--",
        "python3",
        "server.py",
        "{port}",
    )
    asks = "python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1])' {serve.url} || exit 9; "
    waits = "[ $RANK = 1 ] || sleep 600; until [ -e looked ]; do sleep 0.2; done; exit 3"
    train = ("--role", "train", "--mem", "2G", "-N", "2", "--after", "serve", "--restart", "1", "--", "sh", "-c")
    job = submit(lab, shared_directory, *serve, *train, asks + waits)
    while '"train", "what": "ready"' not in "".join(
        path.read_text() for path in shared_directory.glob("*/*/roles/events")
    ):
        time.sleep(0.3)
    beside = said(
        lab, "shell", job, "--role", "train", "--rank", "1", "--", "sh", "-c", "echo $MUSTER_ROLE $(hostname)"
    )
    stacks = said(lab, "stacks", job)
    (shared_directory / "looked").touch()

    assert beside.split() == ["train", "node3"]
    assert stacks.startswith("role serve\n1 rank (0) on node1")
    assert wait_until_ended(lab, job) == "FAILED"
    assert "first: role train, rank 1 on node3: exit status 3" in said(lab, "why", job)
    assert "3 nodes on node1,node[2-3]" in said(lab, "status", job)
    assert lab.exec(["scontrol", "--oneliner", "show", "job", job]).stdout.count("HetJobId=" + job) == 2
    assert not lab.exec(["squeue", "--noheader"]).stdout.split()


def test_a_job_that_goes_on_without_a_role_names_it_all_the_same(lab: Lab, shared_directory: Path) -> None:
    serve = ("--role", "serve", "--on-failure", "note", "--", "sh", "-c", "exit 5")
    train = ("--role", "train", "--", "sh", "-c", "until grep -q noted muster-runs/*/roles/events; do sleep 0.2; done")
    job = submit(lab, shared_directory, *serve, *train)

    assert wait_until_ended(lab, job) == "COMPLETED"
    told = said(lab, "why", job)
    assert "but role serve failed, and the job went on: first: role serve, rank 0 on node1: exit status 5" in told


def test_a_server_that_dies_ends_the_job_and_is_the_named_cause(lab: Lab, shared_directory: Path) -> None:
    serve = ("--role", "serve", "--", "sh", "-c", "sleep 1; exit 5")
    deaf = "trap '' TERM; setsid sleep 4242 & while :; do sleep 1; done"
    train = ("--role", "train", "-N", "2", "--", "sh", "-c", deaf)
    job = submit(lab, shared_directory, "--grace", "2", *serve, *train)

    assert wait_until_ended(lab, job) == "FAILED"
    assert "first: role serve, rank 0 on node1: exit status 5" in said(lab, "why", job)
    for node in ("node1", "node2", "node3"):
        left = lab.exec(["srun", "-N1", "-w", node, "sh", "-c", "pgrep -fx 'sleep 4242' | wc -l"])
        assert left.stdout.strip() == "0", "a deaf role and what left its group are gone"


def test_roles_beside_each_other_have_other_gpus(lab: Lab, shared_directory: Path) -> None:
    says = "echo $MUSTER_ROLE on $(hostname) gpus $CUDA_VISIBLE_DEVICES; sleep 2"
    serve = ("--role", "serve", "-g", "1", "--beside", "train", "--ntasks-per-node", "1", "--", "sh", "-c", says)
    train = ("--role", "train", "-N", "2", "-g", "3", "--ntasks-per-node", "1", "--", "sh", "-c", says)
    job = submit(lab, shared_directory, *serve, *train)

    assert wait_until_ended(lab, job) == "COMPLETED"
    gpus = {
        tuple(line.split()[1:4:2]): line.split()[-1].split(",")
        for line in said(lab, "logs", job).splitlines()
        if " gpus " in line
    }
    for node in ("node1", "node2"):
        assert len(gpus["serve", node]) == 1
        assert len(gpus["train", node]) == 3
        assert not set(gpus["serve", node]) & set(gpus["train", node])


def test_stacks_and_top_tell_the_rank_0_of_each_role(lab: Lab, shared_directory: Path) -> None:
    waits = "import time\nprint('hello', flush=True)\ntime.sleep(600)\n"
    (shared_directory / "wait.py").write_text(waits)
    serve = ("--role", "serve", "--ready", "http://{host}:{port}/", "--", "python3", "server.py", "{port}")
    train = ("--role", "train", "-N", "2", "--after", "serve", "--", "python3", "wait.py")
    job = submit(lab, shared_directory, *serve, *train)
    while said(lab, "logs", job).count("hello") < 2:
        time.sleep(0.3)
    stacks, top = said(lab, "stacks", job), said(lab, "top", job)
    checked(lab.exec(["scancel", job]))

    assert stacks.startswith("role serve\n1 rank (0) on node1: ")
    assert "\n\nrole train\n2 ranks (0-1) on 2 hosts: <module> at " in stacks
    assert "3 of 3 ranks on 3 nodes" in top
    rows = [line.split()[:3] for line in top.splitlines() if " node" in line and "wait.py:3" in line]
    assert rows == [["train", "0", "node2"], ["train", "1", "node3"]]
    assert "role train: ranks 0-1 on 2 hosts sleep at wait.py:3" in " ".join(top.split())


def test_a_role_that_may_start_again_does_so_and_the_others_stay(lab: Lab, shared_directory: Path) -> None:
    once = 'echo start of $MUSTER_ROLE; [ -e "$0/seen" ] || { touch "$0/seen"; exit 5; }; touch "$0/again"; sleep 300'
    data = ("--role", "data", "--restart", "1", "--", "sh", "-c", once, str(shared_directory))
    waits = f"until [ -e {shared_directory}/again ]; do sleep 0.2; done"
    job = submit(lab, shared_directory, *data, "--role", "main", "-N", "2", "--", "sh", "-c", waits)

    assert wait_until_ended(lab, job) == "COMPLETED"
    assert said(lab, "logs", job, "--role", "data").count("start of data") >= 1


def test_mpirun_starts_the_ranks_of_a_role_on_its_own_nodes(lab: Lab, shared_directory: Path) -> None:
    first = ("--role", "first", "--", "sleep", "300")
    says = "echo rank $RANK on $(hostname)"
    by_mpirun = ("--role", "main", "-N", "2", "--ntasks-per-node", "2", "--launcher", "mpirun", "--", "sh", "-c", says)
    job = submit(lab, shared_directory, *first, *by_mpirun)

    assert wait_until_ended(lab, job) == "COMPLETED"
    lines = {line.strip() for line in said(lab, "logs", job, "--role", "main").splitlines() if " on node" in line}
    assert {line.rpartition(": ")[2] for line in lines} == {
        *("rank 0 on node2", "rank 1 on node2"),
        *("rank 2 on node3", "rank 3 on node3"),
    }


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="by design: Ray is not installed")
def test_a_ray_has_what_was_granted_before_its_driver_begins(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "driver.py").write_text(RAY_DRIVER)
    small = "--object-store-memory=100000000"
    ray = ("--role", "ray", "--preset", "ray", "-N", "2", "-c", "2", "-g", "1", "--", small)
    driver = ("--role", "driver", "--beside", "ray", "-N", "1", "--after", "ray", "--", "python", "driver.py")
    job = submit(lab, shared_directory, *ray, *driver)

    assert wait_until_ended(lab, job) == "COMPLETED"
    assert "cpus 4.0 gpus 2.0 hosts node1 node2" in said(lab, "logs", job, "--role", "driver")
    left = lab.exec(["srun", "-N2", "-w", "node1,node2", "sh", "-c", "pgrep -c raylet"])
    assert left.stdout.split() == ["0", "0"], "no process is left"
