"""Guards that what was typed is done or refused: every option, wherever and by whatever the ranks start."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from launch.lab_runs import Witness, muster_run
from launch.plans import FACTS, plan
from muster.errors import RequestError, UnknownName
from muster.facts import Facts
from muster.job.option import OriginKind, ValueOrigin
from muster.job.options import parse, request_from
from muster.job.request import options_of
from muster.job.roles import ROLE_OPTIONS
from muster.look.size import sized_by_allocation
from muster.model.plan import Engine, Plan
from muster.plan.build import make_plan
from muster.render.script import job_script
from muster.sites.load import load
from plugins.labs import Lab

FROM_FILE = ValueOrigin(OriginKind.SETTINGS, "muster.toml:1")

# One value for each option; those that only ask where facts or files come from are not about the ranks.
VALUES = {
    "nodes": "3",
    "gpus_per_node": "2",
    "ntasks_per_node": "5",
    "cpus_per_task": "3",
    "mem": "4G",
    "gres": "lustre:1",
    "gpu_type": "a100",
    "exclusive": None,
    "time": "30",
    "account": "other",
    "partition": "other",
    "qos": "other",
    "trial": None,
    "constraint": "big",
    "nodelist": "n2",
    "exclude": "n1",
    "closed": None,
    "distribution": "cyclic",
    "job_name": "named",
    "output": "out.log",
    "error": "err.log",
    "chdir": "sub",
    "snapshot": None,
    "requeue": None,
    "sbatch": "--hold",
    "srun": "--quit-on-interrupt",
    "mpi": "pmi2",
    "wireup": "gloo",
    "visibility": "one",
    "node_prologue": "true",
    "check": None,
    "master_addr": "n7",
    "master_port": "23456",
    "port_range": "23000-23999",
    "grace": "33",
    "hang": "7m",
    "stacks_ready": None,
    "restart": "2",
    "spares": "1",
    "checkpoint": "saved",
    "save_before": "5m",
    "torchrun": "--max-restarts=3",
    "until_done": None,
    "links": "3",
    "save_signal": "USR2",
    "sweep_at_once": "3",
    "sweep_per_node": "2",
    "env": "A=1",
    "unset_env": "B",
    "export": "ALL",
    "module": "gcc",
    "module_use": "/modules",
    "venv": "/home/ada/other",
    "conda": "/home/ada/conda",
    "no_label": None,
    "per_rank_files": None,
}
ELSEWHERE = {"launcher", "stack", "workload", "environment", "image", "engine", "bind", "here", "site", "fresh"}
ELSEWHERE |= {"site_set", "stage_env", "stage", "stage_out", "sweep", *ROLE_OPTIONS}
# What a run does unasked.
ALREADY = {("export", "run"), ("export", "within"), ("export", "here")}

PLACES: dict[str, dict[str, Any]] = {
    "submit": {"engine": Engine.SLURM},
    "run": {"engine": Engine.SLURM, "stream": True},
    "within": {"engine": Engine.SLURM, "stream": True, "within": True},
    "here": {"engine": Engine.HERE, "stream": True},
}
SALLOC = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_ACCOUNT": "phys",
    "SLURM_JOB_QOS": "normal",
    "SLURM_MEM_PER_NODE": "4096",
}


STARTS = [
    *((place, launcher) for place in PLACES for launcher in ("torchrun", "mpirun", "mpirun+torchrun")),
    *((place, "local" if place == "here" else "srun") for place in PLACES),
]


def made(place: str, launcher: str, *words: str) -> Plan:
    environment = SALLOC if place == "within" else {}
    facts = msgspec.structs.replace(
        FACTS, environment=environment, own_python="/opt/muster/bin/python", ready_folder="/opt/ready"
    )
    sizes = ("-N2", "--ntasks-per-node=2")
    return plan(*sizes, *words, "--", "python", "t.py", launcher=launcher, facts=facts, **PLACES[place])


def seen(planned: Plan) -> tuple[str, str]:
    """What the plan says will happen, without the words as they were typed."""
    directives = tuple(each for each in planned.directives if each.name != "comment")
    bare = msgspec.structs.replace(planned, typed=(), directives=directives)
    return job_script(bare), repr(bare)


def outcome(place: str, launcher: str, *words: str) -> tuple[str, str] | str | None:
    """What the plan says, or the hint with which it is refused."""
    try:
        return seen(made(place, launcher, *words))
    except (RequestError, UnknownName) as error:
        return error.hint


@cache
def without_the_option(place: str, launcher: str) -> object:
    """What is seen of the plan in which nothing of this was typed."""
    return seen(made(place, launcher))


@pytest.mark.parametrize(("place", "launcher"), STARTS)
@pytest.mark.parametrize("name", VALUES)
def test_an_option_has_an_effect_that_is_seen_or_is_refused_with_a_hint(name: str, place: str, launcher: str) -> None:
    option, value = options_of()[name], VALUES[name]
    typed = option.flags[-1] if value is None else f"{option.flags[-1]}={value}"

    now = outcome(place, launcher, typed)

    assert now, "refused without a hint"
    assert (name, place) in ALREADY or now != without_the_option(place, launcher), "typed, accepted and without effect"


def test_the_table_has_every_option() -> None:
    assert VALUES.keys() | ELSEWHERE == options_of().keys()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-p", "gpu", "-A", "phys", "-q", "normal"), None),
        (("-p", "cpu"), "this runs inside job 7, whose partition is gpu"),
        (("--sbatch=--hold",), "this runs inside job 7"),
        (("-C", "nofeature"), "whose constraint is settled"),
        (("--mem", "999T"), "this runs inside job 7, which has 4096 MiB on each node"),
        (("--mem", "4G"), None),
    ],
)
def test_inside_an_allocation_its_own_queue_may_be_named(words: tuple[str, ...], sentence: str | None) -> None:
    if sentence is None:
        made("within", "srun", *words)
    else:
        with pytest.raises(RequestError, match=sentence):
            made("within", "srun", *words)


@pytest.mark.parametrize(
    ("variable", "is_refused"),
    [(None, True), ("SLURM_MEM_PER_NODE", False), ("SLURM_MEM_PER_CPU", False), ("SLURM_MEM_PER_GPU", False)],
)
def test_memory_is_refused_inside_an_allocation_for_which_none_was_asked(
    variable: str | None, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(SALLOC, "SLURM_MEM_PER_NODE")
    if variable is not None:
        monkeypatch.setitem(SALLOC, variable, "4096")

    if is_refused:
        with pytest.raises(RequestError, match="for which no memory was asked: Slurm does not say how much it has"):
            made("within", "srun", "--mem", "4G")
    else:
        made("within", "srun", "--mem", "4G")
    made("within", "srun")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("run", "muster run gets its nodes by salloc, which has no "),
        ("here", "it is for Slurm, but this run is on this machine without Slurm"),
        ("within", "this runs inside job 7, and sbatch asks for no other"),
    ],
)
@pytest.mark.parametrize("flag", ["--array=1-3", "--open-mode=append"])
def test_a_flag_that_sbatch_alone_takes_is_refused_in_a_run(flag: str, place: str, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        made(place, "local" if place == "here" else "srun", f"--sbatch={flag}")


def test_what_a_settings_file_says_of_jobs_is_no_mistake_inside_an_allocation_and_here() -> None:
    settings = {name: (VALUES[name], FROM_FILE) for name in ("partition", "account", "mem", "exclude")}
    values, origins, command = parse(["-N2", "--", "python", "t.py"])
    request = request_from(settings, values, origins, command)
    for place in ("within", "here"):
        site = load("laptop" if place == "here" else "generic")
        assert not make_plan(request, site, FACTS, typed=(), **PLACES[place]).step_flags


def test_a_flag_for_sbatch_in_a_settings_file_is_no_mistake_inside_an_allocation() -> None:
    """It was refused as if it had been typed: its origin began with a dash."""
    settings = {"sbatch": (("--nice=5",), FROM_FILE)}
    values, origins, command = parse(["-N2", "--", "python", "t.py"])

    plan = make_plan(request_from(settings, values, origins, command), load("generic"), FACTS, typed=(), within=True)

    assert not plan.step_flags


def test_a_flag_of_sbatch_alone_in_a_settings_file_is_no_mistake_in_a_run() -> None:
    settings = {"sbatch": (("--open-mode=append",), FROM_FILE)}
    values, origins, command = parse(["-N2", "--", "python", "t.py"])
    request = request_from(settings, values, origins, command)

    assert make_plan(request, load("generic"), FACTS, typed=(), stream=True).directives


def test_a_flag_for_sbatch_that_is_typed_inside_an_allocation_is_refused_also_beside_one_of_a_file() -> None:
    values, origins, command = parse(["-N2", "--sbatch=--nice=6", "--", "python", "t.py"])
    request = request_from({"sbatch": (("--hold",), FROM_FILE)}, values, origins, command)

    with pytest.raises(RequestError, match="sbatch asks for no other"):
        make_plan(request, load("generic"), FACTS, typed=(), within=True)


def test_what_is_typed_beside_a_list_of_a_settings_file_is_done_or_refused() -> None:
    """The words of the origin began with the file's name, so the typed flag was dropped without a word."""
    values, origins, command = parse(["--srun=--nice=6", "--launcher", "mpirun", "--", "python", "t.py"])
    request = request_from({"srun": (("--hint=compute_bound",), FROM_FILE)}, values, origins, command)

    with pytest.raises(RequestError, match=r"muster.toml:1, --srun --nice=6: it is for srun"):
        make_plan(request, load("generic"), FACTS, typed=())


@pytest.mark.parametrize(
    ("words", "nodes"), [((), 4), (("-w", "n2,n4"), 2), (("-x", "n[1-2,9]"), 2), (("-x", "n1", "-N1"), 1)]
)
def test_nodes_that_were_named_are_counted(words: tuple[str, ...], nodes: int) -> None:
    values, origins, command = parse([*words, "--", "true"])
    facts = Facts(environment=SALLOC)

    sized = sized_by_allocation(request_from({}, values, origins, command), facts)
    assert sized.nodes == nodes
    unsaid = [name for name, origin in sized.origins.items() if str(origin.where) == "the allocation"]
    assert all(getattr(sized, name) is not None for name in unsaid)


@pytest.mark.parametrize(
    ("words", "more", "sentence"),
    [
        (("-w", "n9"), {}, "n9 is not in this allocation"),
        (("-x", "n[1-4]"), {}, "excludes every node"),
        ((), {"SLURM_HET_SIZE": "2"}, "heterogeneous"),
    ],
)
def test_an_allocation_that_cannot_be_what_is_asked_is_refused(
    words: tuple[str, ...], more: dict[str, str], sentence: str
) -> None:
    values, origins, command = parse([*words, "--", "true"])

    with pytest.raises(RequestError, match=sentence):
        sized_by_allocation(request_from({}, values, origins, command), Facts(environment={**SALLOC, **more}))


@pytest.mark.lab
@pytest.mark.parametrize(
    ("words", "hosts"), [(("-w", "node2,node4"), {"node2", "node4"}), (("-x", "node1,node2"), {"node3", "node4"})]
)
def test_inside_an_allocation_the_ranks_run_on_the_nodes_that_were_named(
    lab: Lab, shared_directory: Path, words: tuple[str, ...], hosts: set[str]
) -> None:
    witness = Witness.at(shared_directory / words[1])

    result = muster_run(
        lab, shared_directory, *words, "--", *witness.command(), before=("salloc", "-N4", "--ntasks-per-node=1")
    )

    assert result.ok, result.stderr
    assert {rank.host for rank in witness.ranks().values()} == hosts
    assert witness.ranks()[0].host == witness.ranks()[1].environment["MASTER_ADDR"]


@pytest.mark.lab
def test_a_port_range_that_was_asked_for_comes_before_the_ports_that_slurm_reserves(
    lab: Lab, shared_directory: Path
) -> None:
    witness = Witness.at(shared_directory / "ports")

    result = muster_run(lab, shared_directory, "-N2", "--port-range=40000-40010", "--", *witness.command())

    assert result.ok, result.stderr
    assert all(40000 <= rank.ints("MASTER_PORT")[0] <= 40010 for rank in witness.ranks().values())
