"""Every variable, flag, module, bind and workaround that the five documents set has a verdict with a reason, and what
is kept stands in the site's profile.
"""

from __future__ import annotations

import contextlib
import re
import shlex

import pytest

from muster.cli.app import main
from muster.sites.site import Site

from .documents import Document, documents
from .profiles import FILLED, bundled

ALL = {each.name: each for each in documents()}

# What was read out of the five documents by hand, independent of the data files.
SAID = {
    "horeka": """NCCL_IB_TIMEOUT SHARP_COLL_LOG_LEVEL OMPI_MCA_coll_hcoll_enable NCCL_SOCKET_IFNAME NCCL_COLLNET_ENABLE
        nccl-slurm-pmi --mpi=pmi2 --label --ntasks-per-node MASTER_ADDR MASTER_PORT DATA_DIR_TRAIN DATA_DIR_VAL
        CHECKPOINT_OUT CONTAINER --nv /scratch /tmp --sandbox --writable comm.py timeout delay read-only purge
        pytorch:22.01-py3""",
    "supercloud": """LLsub LLstat sbatch --job-name -o -N --tasks-per-node --gres=gpu:volta:2 -c OMP_NUM_THREADS -p
        --constraint anaconda/2021a mpi/openmpi-4.0 cuda/10.1 nccl/2.5.6-cuda10.1 MASTER_ADDR MASTER_PORT --tag-output
        --bind-to -map-by openib ob1 PSM2_GPUDIRECT NCCL_NET_GDR_LEVEL NCCL_P2P_LEVEL NCCL_NET_GDR_READ get_dist_env
        init_process_group""",
    "alps": """--job-name --chdir --output --error --nodes --ntasks-per-node --gres --cpus-per-task --time --account
        --qos --contiguous salloc singularity --nv --bind --nproc_per_node --nnodes --node_rank --rdzv_endpoint
        --rdzv_backend --tee MASTER_ADDR MASTER_PORT bsc_queues squeue NCCL image TOML bind GPUs plugin file shared
        shell queues debugging Utilities contact slack squeue scancel""",
    "ml-dist": """APPTAINER_CACHEDIR pull purge python/3.11.2 http_proxy https_proxy USE_CONTAINER GPUS_PER_NODE
        ML_DIST_PATH CONTAINER_NAME TRAIN_SCRIPT --nodes --job-name --partition --constraint --ntasks-per-node
        MASTER_ADDR NCCL_IB_GID_INDEX torchrun mpirun --np --nv -B INSTALL_HOROVOD NCCL_PATH CUDA_VISIBLE_DEVICES
        init_dist DistributedSampler destroy_process_group""",
    "lumi": """rocm-5.6.1 singularity-userfilesystems singularity-CPEbits /pfs /scratch /projappl /project
        /flash /appl /var/spool/slurmd /opt/cray libcxi.so.1 libjansson.so.4 LUMI/23.03 cotainr --system=lumi-g
        --conda-env --account --time --mem --cpus-per-task --partition=debug WITH_CONDA small-g NCCL_SOCKET_IFNAME
        MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR NCCL_DEBUG NCCL_DEBUG_SUBSYS rocm-smi fork proot aws-ofi-rccl
        mask_cpu --output --error --base-image --accept-licenses""",
}


def sites_of(paper: Document) -> list[Site]:
    return [bundled(name) for name in paper.sites]


def test_there_are_five_documents() -> None:
    assert set(ALL) == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_everything_that_the_document_sets_has_a_verdict(name: str) -> None:
    said = [item.says for item in ALL[name].items]
    missing = [word for word in SAID[name].split() if not any(word in line for line in said)]
    assert not missing


@pytest.mark.parametrize("name", SAID)
def test_every_verdict_has_a_reason_and_a_condition_where_it_needs_one(name: str) -> None:
    for item in ALL[name].items:
        assert item.reason, item.says
        assert (item.verdict == "kept when") == (item.when is not None), item.says
        if item.verdict in {"changed", "answered"} and item.kind != "variable":
            assert item.now or item.key or item.reason, item.says
    assert len({item.says for item in ALL[name].items}) == len(ALL[name].items)


@pytest.mark.parametrize("name", SAID)
def test_the_key_that_a_verdict_names_is_in_the_sites_profile(name: str) -> None:
    for site in sites_of(ALL[name]):
        for item in ALL[name].items:
            if item.key is not None:
                known = site.get(item.key) is not None or item.key.split(".")[0] == "network"
                assert known, f"{site.name}: {item.key} ({item.says})"


@pytest.mark.parametrize("name", SAID)
def test_a_variable_is_set_dropped_or_changed_in_the_profile_as_its_verdict_says(name: str) -> None:
    for site in sites_of(ALL[name]):
        entries = {entry.name: entry for entry in site.profile.environment}
        for item in ALL[name].items:
            if item.kind != "variable" or not (item.key or "").startswith("environment."):
                continue
            entry = entries[(item.key or "").removeprefix("environment.")]
            if item.verdict == "dropped":
                assert entry.verdict == "dropped", item.says
            elif item.verdict in {"kept", "kept when"}:
                assert entry.verdict in {"kept", "offered"}, item.says
                assert (entry.when is not None) == (item.verdict == "kept when"), item.says


def test_no_question_of_the_draft_for_alps_is_open() -> None:
    questions = [item for item in ALL["alps"].items if item.kind == "question"]
    assert len(questions) >= 15
    for item in questions:
        assert item.verdict == "answered"
        assert item.now
        assert "?" not in item.now


def test_an_old_name_leads_to_the_new_one() -> None:
    lumi, supercloud, horeka = (bundled(name).profile for name in ("lumi", "supercloud", "horeka"))
    assert {"singularity-userfilesystems", "singularity-CPEbits"} <= set(lumi.modules.renamed)
    assert lumi.images["rocm-5-6-1"].gone
    there = {name for choice in supercloud.modules.load or () for name in choice.split("|")}
    assert set(supercloud.modules.renamed.values()) <= there
    assert set(horeka.queues_renamed.values()) <= set(horeka.partitions)


_COMMANDS = sorted({item.command for each in ALL.values() for item in each.items if item.command})


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_of_the_pages_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    assert words[0] == "muster"
    if words[1] not in {"plan", "site"}:
        _parses(words[1:], capsys)
        return
    status = main(words[1:])
    assert (status, capsys.readouterr().err.count("muster: error")) == (0, 0)


def _parses(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What starts a job or builds is not run: its verb's page has to know every option of it."""
    verb = words[:2] if words[0] == "build" else words[:1]
    with contextlib.suppress(SystemExit):
        main([*verb, "--help", *([] if words[0] == "build" else ["all"])])
    page = capsys.readouterr().out
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    assert options
    for option in options:
        assert re.search(rf"(^|[ ,]){re.escape(option)}\b", page, re.MULTILINE), option


def test_every_page_names_a_command_beside_plan_and_show() -> None:
    for document in ALL.values():
        verbs = {item.command.split()[1] for item in document.items if item.command}
        assert verbs & {"build", "shell", "bench", "check"}, document.name


@pytest.mark.parametrize("name", FILLED)
def test_lists_of_words_exist_for_sbatch_srun_and_mpirun(name: str) -> None:
    profile = bundled(name).profile
    assert profile.request.sbatch is not None
    assert profile.launch.srun is not None
    assert profile.launch.mpirun is not None
    assert "mpirun" in (profile.launch.allowed or ()) or profile.launch.refused["mpirun"]
