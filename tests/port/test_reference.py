"""The scripts of the five reference documents, carried to the sites of the others: complete tables, accepted plans."""

from __future__ import annotations

import pytest

from .scripts import HOMES, REFERENCE, carried, lacking, origin_of, read

PAIRS = [(name, site) for name in REFERENCE for site in HOMES if name != site]


@pytest.mark.parametrize("name", REFERENCE)
def test_everything_of_a_reference_script_is_in_the_table(name: str) -> None:
    job, draft = read(REFERENCE[name])
    assert lacking(job, draft) == []
    assert all(row.why or row.now for row in draft.rows)


@pytest.mark.parametrize(("name", "site"), PAIRS)
def test_a_reference_script_becomes_a_plan_of_another_site(name: str, site: str) -> None:
    made = carried(REFERENCE[name], site, name if name in HOMES else None)
    assert made.refusal is None
    job, _ = read(REFERENCE[name])
    assert lacking(job, made.draft) == []
    assert all(row.why or row.now for row in made.draft.rows)


@pytest.mark.parametrize("name", [name for name in REFERENCE if name in HOMES and name != "clariden"])
def test_a_reference_script_says_where_it_comes_from(name: str) -> None:
    found = origin_of(REFERENCE[name])
    assert found is not None
    assert found.name == name


def test_a_script_of_no_known_site_is_of_none() -> None:
    assert origin_of(REFERENCE["ml-dist"]) is None


@pytest.mark.parametrize(
    ("name", "site", "what", "now", "why"),
    [
        ("marenostrum5", "lumi", "--qos acc_bsccs", "", "a QOS of MareNostrum 5 ACC; LUMI-G selects by partition"),
        ("marenostrum5", "clariden", "--account bsc98", "", "bills your default one"),
        ("marenostrum5", "clariden", "--cpus-per-task 80", "", "Clariden has 72 cores for each GPU"),
        ("marenostrum5", "clariden", "module load singularity", "", "the container engine"),
        ("marenostrum5", "clariden", "singularity exec", "--image site:", "does not run image.sif"),
        ("marenostrum5", "clariden", "--node_rank", "", "every node finds out which one it is"),
        ("lumi", "horeka", "--nodes=4", "-N 8", "4 × 8 = 32 GPUs: 8 × 4 of HoreKa 2"),
        ("lumi", "horeka", "--partition=standard-g", "", "a partition of LUMI-G"),
        ("lumi", "horeka", "NCCL_SOCKET_IFNAME=hsn", "", "HoreKa 2: ib0"),
        ("lumi", "horeka", "minimal_pytorch.sif", "--image minimal_pytorch.sif", "it is made for rocm"),
        ("supercloud", "horeka", "module load cuda/10.1", "--module CUDA/12.9.1", "CUDA: cuda/10.1"),
        ("supercloud", "lumi", "mpirun", "--launcher srun", ""),
        ("horeka", "supercloud", "NCCL_IB_TIMEOUT", "", "for the network and the nodes of HoreKa 2"),
        ("horeka", "marenostrum5", "(no -q)", "-q acc_ehpc", "wants a qos: which of"),
        ("lumi", "supercloud", "--nodes=4", "-N 4", "gives a job more than 4"),
        ("ml-dist", "lumi", "http_proxy", "", "a proxy of"),
        ("ml-dist", "lumi", "TMPDIR_SHM", "in the command", "set outside the script"),
    ],
)
def test_a_change_says_what_and_why(name: str, site: str, what: str, now: str, why: str) -> None:
    rows = carried(REFERENCE[name], site, name if name in HOMES else None).draft.rows
    assert [row for row in rows if what in row.what and row.now.startswith(now) and why in row.why], [
        row for row in rows if what in row.what
    ]


def test_what_is_bound_of_the_site_itself_stays_there_and_a_folder_of_ones_own_is_asked_for() -> None:
    step = "srun singularity exec -B /opt/cray:/opt/cray,/mydata image.sif python a.py\n"
    rows = carried("#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\n" + step, "horeka", "lumi").draft.rows
    assert [(row.now, row.why) for row in rows if row.field == "bind"] == [
        ("", "a part of LUMI-G itself; the profile of HoreKa 2 binds what is needed"),
        ("--bind /mydata", "is the path there at HoreKa 2?"),
    ]


def test_at_home_a_script_keeps_its_own_settings() -> None:
    made = carried(REFERENCE["lumi"], "lumi", "lumi")
    assert made.refusal is None
    assert "NCCL_SOCKET_IFNAME=hsn" in made.draft.values["env"]
    assert made.draft.values["module"] == ["lumi-aif-singularity-bindings"]
