"""Guards where ranks meet: never localhost over several hosts, never somebody else's port by a slip of arithmetic."""

from __future__ import annotations

import pytest

from muster.rank.address import Meeting, interface_towards, meeting
from muster.rank.errors import WireupError
from muster.rank.identity import identify

from .environments import PMI2, batch_script, horovod, hydra, muster, open_mpi, pals, slurm_step, torchrun

DRIVER = {"HOROVOD_GLOO_RENDEZVOUS_PORT": "41000"}


def under_mpirun(rank: int) -> dict[str, str]:
    """Of two ranks a host: the first host runs mpirun itself, the others a daemon each, started by srun."""
    return slurm_step(rank // 2 - 1, "1(x3)") if rank > 1 else batch_script(8)


def met(environment: dict[str, str]) -> Meeting:
    return meeting(environment, identify(environment))


def test_the_first_host_of_the_step_where_no_address_is_published() -> None:
    assert met(slurm_step(5))[:1] == ("n1",)
    assert met(slurm_step(5)).host_from == "SLURM_STEP_NODELIST"
    assert met({**batch_script(8), **open_mpi(1, 8, 1, 2, "n1")}).host == "n1"


def test_a_published_address_is_kept() -> None:
    point = met({**slurm_step(5), "MASTER_ADDR": "n1i.cluster", "MASTER_PORT": "24000"})
    assert (point.host, point.port, point.host_from, point.port_from) == (
        "n1i.cluster",
        24000,
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    assert str(met({**muster("srun", 5, 8, 1, 2), "MASTER_ADDR": "fe80::1"})) == "fe80::1:29400"


def test_ranks_of_one_host_meet_on_its_loopback() -> None:
    assert met(open_mpi(1, 2, 1, 2)).host == "127.0.0.1"
    assert met(slurm_step(0, "1")).host == "127.0.0.1"
    simulated = {**muster("local", 5, 8, 1, 2), "MASTER_ADDR": "127.0.0.1", "MUSTER_LOCAL_NNODES": "4"}
    simulated["MUSTER_NODES"] = "here here here here"
    assert met(simulated).host == "127.0.0.1"


@pytest.mark.parametrize(
    ("environment", "words", "hint"),
    [
        ({**slurm_step(5), "MASTER_ADDR": "n1:29401"}, "holds host:port", "=n1 and MASTER_PORT=29401"),
        ({**slurm_step(5), "MASTER_ADDR": "localhost"}, "each would wait for itself", "unset MASTER_ADDR"),
        ({**slurm_step(5), "MASTER_ADDR": "127.0.0.1"}, "each would wait for itself", "unset MASTER_ADDR"),
        ({**slurm_step(5), "MASTER_ADDR": "n[1-4]"}, "not a host name", "host of rank 0"),
        ({**slurm_step(5), "MASTER_ADDR": "$(hostname)"}, "not a host name", "host of rank 0"),
        ({**slurm_step(5), "SLURM_DISTRIBUTION": "arbitrary"}, "arbitrary", "MASTER_ADDR"),
        (hydra(2, 4, 0, 2), "no variable says on which host rank 0 is", "set MASTER_ADDR"),
        ({**slurm_step(5), "MASTER_PORT": "http"}, "MASTER_PORT holds 'http'", "number"),
        ({**slurm_step(5), "MASTER_PORT": "65536"}, "'65536'", "number"),
        ({**slurm_step(5), "MUSTER_PORT": "-1"}, "MUSTER_PORT", "number"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_meeting_point_is_named(environment: dict[str, str], words: str, hint: str) -> None:
    with pytest.raises(WireupError) as refused:
        met(environment)
    assert words in refused.value.message
    assert hint in (refused.value.hint or "")


def test_the_order_of_ports() -> None:
    step = {**slurm_step(5), "SLURM_STEP_RESV_PORTS": "12000-12007"}
    assert met(step)[1] == 12000
    assert met({**step, "MUSTER_PORT": "21000"})[1] == 21000
    assert met({**step, "MUSTER_PORT": "21000", "MASTER_PORT": "22000"})[1] == 22000
    assert met({"PMI_RANK": "0", "PMI_SIZE": "1"})[1] == 29500


def test_jobs_and_steps_that_follow_each_other_do_not_meet() -> None:
    points = [
        met({**slurm_step(0), "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)})
        for job in range(7_000_000, 7_000_500)
        for step in range(4)
    ]
    assert len({point.port for point in points}) == len({point.scope for point in points}) == len(points)
    assert all(15_000 <= point.port < 32_000 for point in points)


@pytest.mark.parametrize(
    "ranks",
    [
        [slurm_step(rank) for rank in range(8)],
        [{**slurm_step(rank), **PMI2, "PMI_RANK": str(rank), "PMI_SIZE": "8"} for rank in range(8)],
        [{**slurm_step(rank), "PMIX_RANK": str(rank), "PMIX_NAMESPACE": "slurm.pmix.71.0"} for rank in range(8)],
        [{**under_mpirun(rank), **open_mpi(rank, 8, rank % 2, 2, "")} for rank in range(8)],
        [{**batch_script(8), **DRIVER, **horovod(rank, 8, rank % 2, 2)} for rank in range(8)],
        [{**batch_script(8), **pals(rank, 8, rank % 2, 2)} for rank in range(8)],
        [torchrun(rank, 8, rank % 2, 2) for rank in range(8)],
    ],
    ids=["srun", "pmi2", "pmix", "mpirun in sbatch", "horovodrun", "pals", "torchrun"],
)  # fmt: skip
def test_all_ranks_of_a_start_name_the_same_point(ranks: list[dict[str, str]]) -> None:
    assert len({(point.host, point.port, point.scope) for point in map(met, ranks)}) == 1


def test_the_interface_of_an_address_of_this_host() -> None:
    assert interface_towards("127.0.0.1") == "lo"
    assert interface_towards("::1") == ""
    assert interface_towards("no address") == ""
