"""Guards that what the plan of the target refuses is repaired by the refusal's values: one case for each repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import Refusal
from muster.sites.load import load
from muster_lint.port.carry import carry
from muster_lint.port.target import Carried
from muster_lint.port.values import Fate
from port.scripts import FACTS, carried, read
from sites.profiles import written

_MINE = """\
muster_site = 1
name = "mine"
title = "a site for a test"

[nodes.gpu]
gpus = 4
cores = 64
memory_mib = 512000
memory_usable = "480G"
NODE

[partitions.prod]
node = "gpu"
gpus = 4
nodes_max = 8
default = true

[partitions.debug]
node = "gpu"
gpus = 4
nodes_max = 2
purpose = "debug"
DEBUG

[[queue_rules]]
when = { trial = true }
partition = "debug"
reason = "trials"

[[queue_rules]]
partition = "prod"
reason = "everything else"
"""


def _script(*flags: str, step: str = "srun python train.py") -> str:
    return "#!/bin/bash\n" + "".join(f"#SBATCH {flag}\n" for flag in flags) + f"{step}\n"


def _carried_to_mine(
    folder: Path, header: str, *, node: str = "", debug: str = "", more: str = "", home: str = ""
) -> Carried:
    """Return the script carried to the site of the test, whose profile says more; `home`: it was written for it."""
    site = load(str(written(folder, _MINE.replace("NODE", node).replace("DEBUG", debug) + more)))
    return carry(read(_script(*header.split()))[1], site, site if home else None, FACTS)


def _verdict(job: Carried, field: str) -> tuple[str | None, Fate, str]:
    """Return the value that a field has now, its verdict, and why."""
    row = next(row for row in job.draft.rows if row.field == field)
    return job.draft.get(field), row.verdict, row.why


_REPAIRED = {
    # rule: header, step, site, the field, its new value, its verdict, words of the reason
    "nodes-max": (
        "--nodes=600 --gpus-per-node=4",
        "srun python t.py",
        "leonardo",
        "nodes",
        "256",
        "asked",
        "boost_qos_bprod takes jobs of at most 256 nodes",
    ),
    "time-max": (
        "--nodes=70 --gpus-per-node=4 --time=2-00:00:00",
        "srun python t.py",
        "leonardo",
        "time",
        "1-00:00:00",
        "changed",
        "allows 1-00:00:00",
    ),
    "cores-max": (
        "--nodes=1 --ntasks-per-node=8 --cpus-per-task=8",
        "srun python t.py",
        "supercloud",
        "cpus_per_task",
        "6",  # the nodes without GPUs have 48 cores
        "changed",
        "a node of MIT SuperCloud has 48 cores",
    ),
    "cores-max of ranks without a number of CPUs": (
        "--nodes=4 --ntasks-per-node=112",
        "srun python t.py",
        "supercloud",
        "ntasks_per_node",
        "48",
        "asked",
        "112 × 1 = 112 CPUs per node, but 48 can be had; the script starts 448 ranks",
    ),
    "ranks-max": (
        "--nodes=1 --gpus-per-node=4 --ntasks-per-node=8",
        "srun python t.py",
        "horeka",
        "ntasks_per_node",
        "4",
        "asked",
        "8 ranks per node need 8 GPUs",
    ),
    "image-pull": (
        "--nodes=1 --gpus-per-node=4",
        "srun apptainer exec docker://ubuntu:22.04 python t.py",
        "leonardo",
        "image",
        "ubuntu.sif",
        "asked",
        "muster build image --from docker://ubuntu:22.04",
    ),
    "idle-option": (
        "--nodes=2 --gpus-per-node=4 --distribution=cyclic",
        "torchrun t.py",
        "horeka",
        "launcher",
        "srun",
        "asked",  # as the script has it, each node is alone
        "one node after the other",
    ),
    "signal": (
        "--nodes=1 --gpus-per-node=4 --signal=USR2@60",
        "torchrun t.py",
        "horeka",
        "launcher",
        "srun",
        "changed",
        "the signal reaches",
    ),
    "required-qos": (
        "--nodes=1 --gpus-per-node=4",
        "srun python t.py",
        "marenostrum5",
        "qos",
        "acc_ehpc",
        "asked",
        "wants a qos: which of",
    ),
    "required-mem": (
        "--nodes=1 --ntasks-per-node=4",
        "srun python t.py",
        "horeka",
        "mem",
        "16G",
        "asked",
        "16G is a guess",
    ),
}


@pytest.mark.parametrize("rule", _REPAIRED)
def test_a_refusal_of_a_known_site_is_repaired(rule: str) -> None:
    header, step, site, field, value, verdict, why = _REPAIRED[rule]

    job = carried(_script(*header.split(), step=step), site)

    assert job.refusal is None
    new_value, new_verdict, reason = _verdict(job, field)
    assert (new_value, str(new_verdict)) == (value, verdict)
    assert why in reason


_ONE = "--nodes=1 --ntasks-per-node=1"
_OF_MINE: dict[str, tuple[str, dict[str, str], str, str | None, str]] = {
    # rule: header, what the profile says besides, the field, its new value, its verdict
    "whole-nodes": (
        "--nodes=1 --gpus-per-node=2 --ntasks-per-node=1 --exclusive=user",
        {"more": '[request]\ngpus = "whole-node"\n'},
        "gpus_per_node",
        "4",
        "changed",
    ),
    "cores-max": (
        "--nodes=1 --ntasks-per-node=4 --cpus-per-task=16",
        {"node": 'reserved_cores = "0-3"'},
        "cpus_per_task",
        "15",
        "changed",
    ),
    "cores-per-gpu": (
        "--nodes=1 --gpus-per-node=4 --ntasks-per-node=2 --cpus-per-task=4",
        {"home": "yes", "node": "cores_per_gpu = 16\ncores_per_gpu_required = true"},
        "cpus_per_task",
        "32",
        "changed",
    ),
    "mem-max": (f"{_ONE} --mem=490G", {"home": "yes"}, "mem", "480G", "changed"),
    "mem-zero": (
        f"{_ONE} --mem=0",
        {"home": "yes", "more": '[memory]\nzero_allowed = false\nmem = "100G"\n'},
        "mem",
        "100G",
        "changed",
    ),
    "mem-zero without another": (
        f"{_ONE} --mem=0",
        {"home": "yes", "more": "[memory]\nzero_allowed = false\n"},
        "mem",
        None,
        "dropped",
    ),
    "a forbidden flag": (
        f"{_ONE} --mem=9G",
        {"home": "yes", "more": '[[request.forbidden]]\nflag = "mem"\nreason = "no"\n'},
        "mem",
        None,
        "dropped",
    ),
    "a forbidden flag with another": (
        f"{_ONE} --mem=9G",
        {
            "home": "yes",
            "more": '[[request.forbidden]]\nflag = "mem"\nvalue = "9G"\nreason = "no"\ninstead = "--mem=450G"\n',
        },
        "mem",
        "450G",
        "changed",
    ),
    "trial": ("--nodes=4 --ntasks-per-node=1 --partition=debug", {}, "trial", None, "changed"),
    "node-minutes": (
        "--nodes=2 --ntasks-per-node=1 --partition=debug --time=60",
        {"debug": "node_minutes_max = 60"},
        "time",
        "00:30:00",
        "changed",
    ),
}


@pytest.mark.parametrize("rule", _OF_MINE)
def test_a_refusal_of_a_site_of_ones_own_is_repaired(rule: str, tmp_path: Path) -> None:
    header, profile, field, value, verdict = _OF_MINE[rule]

    job = _carried_to_mine(tmp_path, header, **profile)

    assert job.refusal is None
    new_value, new_verdict, _ = _verdict(job, field)
    assert (new_value, str(new_verdict)) == (value, verdict)


def test_a_trial_is_no_trial_where_the_queue_for_trials_is_too_small(tmp_path: Path) -> None:
    job = _carried_to_mine(tmp_path, "--nodes=4 --ntasks-per-node=1 --partition=debug")

    assert "--trial" not in job.draft.words()
    assert any("4 nodes, but debug allows 2" in row.why for row in job.draft.rows)


def test_a_trial_stays_where_another_queue_refuses(tmp_path: Path) -> None:
    """The rule of the profile for trials is not this queue's: fewer nodes are what helps."""
    header = "--nodes=600 --ntasks-per-node=1 --partition=debug"
    text = _MINE.replace("when = { trial = true }", "when = { trial = true, nodes_max = 2 }")
    site = load(str(written(tmp_path, text.replace("NODE", "").replace("DEBUG", ""))))

    job = carry(read(_script(*header.split()))[1], site, None, FACTS)

    assert job.refusal is None
    assert "--trial" in job.draft.words()
    assert job.draft.get("nodes") == "8"


def test_the_account_of_an_example_is_asked_and_not_taken(tmp_path: Path) -> None:
    more = '[request]\naccount_pattern = "p[0-9]+"\naccount_example = "p123"\n'

    job = _carried_to_mine(tmp_path, "--nodes=1 --ntasks-per-node=1 --account=abc", home="yes", more=more)

    assert job.refusal is None
    assert _verdict(job, "account")[:2] == ("p123", Fate.ASKED)


def test_a_launcher_that_the_site_refuses_repairs_nothing() -> None:
    job = carried(_script("--nodes=2", "--gpus-per-node=1", "--distribution=cyclic"), "vista")

    assert job.refusal is not None
    assert "ibrun can only fill one node after the other" in job.refusal.message


def test_a_time_limit_is_asked_where_the_ranks_save_before_it(tmp_path: Path) -> None:
    site = load(str(written(tmp_path, _MINE.replace("NODE", "").replace("DEBUG", ""))))
    draft = read(_script("--nodes=1", "--ntasks-per-node=1"))[1]
    draft.values["save_before"] = ["5m"]

    job = carry(draft, site, None, FACTS)

    assert job.refusal is None
    assert _verdict(job, "time")[:2] == ("01:00:00", Fate.ASKED)


@pytest.mark.parametrize("rule", ["nodes-max", "image-pull", "time-max"])
def test_no_repair_reads_a_sentence(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sentence and every hint of a refusal is another one: the repairs are the same."""
    header, step, site, field, value, verdict, _ = _REPAIRED[rule]
    made = Refusal.__new__

    def silent(cls: type[Refusal], rule: str, message: str, hint: str, *rest: object, **more: object) -> Refusal:
        return made(cls, rule, "x", "x", *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Refusal, "__new__", silent)
    job = carried(_script(*header.split(), step=step), site)

    assert job.refusal is None
    assert _verdict(job, field) == (job.draft.get(field), Fate(verdict), _verdict(job, field)[2])
    assert job.draft.get(field) == value


@pytest.mark.parametrize(
    ("asked", "value", "verdict"),
    [
        ("UNLIMITED", "4-00:00:00", Fate.CHANGED),
        ("5-00:00:00", "4-00:00:00", Fate.CHANGED),
        ("4-00:00:00", "4-00:00:00", Fate.KEPT),
    ],
)
def test_a_time_without_end_becomes_the_longest_of_a_site_that_has_one(asked: str, value: str, verdict: Fate) -> None:
    job = carried(_script("--nodes=2", "--gpus-per-node=4", f"--time={asked}"), "leonardo")

    assert _verdict(job, "time")[:2] == (value, verdict)
