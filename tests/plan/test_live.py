"""A plan on a cluster that said what it is: its partition, its share of a node, its memory, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.errors import MusterError, RequestError
from muster.job.options import parse, request_from
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.plan.live import ask_of
from muster.sites.live import live_layer
from muster.sites.load import load, overrides_from
from muster.slurm.cluster_facts import ClusterFacts
from slurm.clusters import accounting_text, cluster, kind_line, like_site, partition_line


def plan_on(known: ClusterFacts, *words: str, site: str = "generic", limits: dict[str, str] | None = None) -> Plan:
    values, origins, command = parse([*words, "--", "python", "train.py"])
    request = request_from({}, values, origins, command)
    return make_plan(request, load(site, None, limits, known), FACTS, typed=words)


def header(planned: Plan) -> dict[str, str | None]:
    return {directive.name: directive.value for directive in planned.directives}


def warnings(planned: Plan) -> list[str]:
    return [note.text for note in planned.notes if note.warning]


def two(**config: str) -> ClusterFacts:
    """A default partition of CPUs, one of GPUs, and one whose jobs others may take the nodes of."""
    return cluster(
        [
            partition_line("batch", Default="YES", TotalNodes="50"),
            partition_line("gpu", TotalNodes="8", PriorityTier="9", DefMemPerCPU=config.pop("gpu_memory", "4000")),
            partition_line("spot", TotalNodes="8", PreemptMode="REQUEUE"),
        ],
        [
            kind_line("batch", 50, 128, shape="2:32:2", memory="256000"),
            kind_line("gpu", 8, 64, "gpu:a100:4", memory="512000"),
            kind_line("spot", 8, 64, "gpu:a100:4", memory="512000"),
        ],
        PreemptType="preempt/partition_prio",
        **config,
    )


def test_the_partition_that_takes_the_job_is_named_with_the_reason() -> None:
    planned = plan_on(two(), "-N", "2", "-g", "4")
    assert header(planned)["partition"] == "gpu"
    (reason,) = [directive.reason for directive in planned.directives if directive.name == "partition"]
    assert reason.text == "it takes 2 nodes with 4 GPUs; batch, the default partition, does not: batch has no GPUs"
    assert reason.origin == "what Slurm says here"


def test_a_partition_that_was_typed_stays() -> None:
    assert header(plan_on(two(), "-p", "spot", "-g", "1"))["partition"] == "spot"


@pytest.mark.parametrize("words", [("-w", "n1"), ("--sbatch=--reservation=course",)])
def test_what_may_lead_to_another_partition_leaves_the_choice(words: tuple[str, ...]) -> None:
    assert "partition" not in header(plan_on(two(), "-g", "1", *words))


def test_a_profile_that_describes_its_site_keeps_its_way_to_the_queue() -> None:
    known = two(JobSubmitPlugins="lua")
    assert "partition" not in header(plan_on(known, "-A", "def-ada", "-t", "60", "-g", "1", site="narval"))


def test_a_rank_has_its_share_of_the_cores() -> None:
    assert header(plan_on(two(), "-g", "2"))["cpus-per-task"] == "16"
    assert "cpus-per-task" not in header(plan_on(two(), "--ntasks-per-node", "4"))


def test_gpus_that_nobody_asked_for_are_told_and_not_taken() -> None:
    planned = plan_on(cluster([partition_line("main", Default="YES")], [kind_line("main", 4, 8, "gpu:4")]))
    assert planned.shape.gpus_per_node == 0
    assert [note.text for note in planned.notes if "no GPU is asked for" in note.text]


def test_a_job_that_wants_no_gpus_is_not_warned_of_what_it_cannot_change() -> None:
    known = cluster([partition_line("main", Default="YES")], [kind_line("main", 4, 8, "gpu:4")])
    assert warnings(plan_on(known, "-g", "0")) == []
    assert warnings(plan_on(two(), "-g", "0")) == []


def test_a_job_without_gpus_leaves_a_default_partition_of_gpus() -> None:
    known = cluster(
        [partition_line("gpu", Default="YES"), partition_line("cpu")],
        [kind_line("gpu", 4, 8, "gpu:4"), kind_line("cpu", 4, 64)],
    )
    assert header(plan_on(known, "-g", "0"))["partition"] == "cpu"
    planned = plan_on(known, "-g", "0", "-p", "gpu")
    assert "no GPU is asked for, and all nodes of gpu have GPUs: -p cpu has nodes without" in warnings(planned)


def test_a_job_without_gpus_gets_nodes_with_gpus_where_there_are_no_others() -> None:
    known = cluster(
        [partition_line("debug", Default="YES", MaxTime="00:10:00"), partition_line("long")],
        [kind_line("debug", 1, 8, "gpu:4"), kind_line("long", 4, 8, "gpu:4")],
    )
    planned = plan_on(known, "-g", "0", "-t", "60")
    assert header(planned)["partition"] == "long"
    assert warnings(planned) == []


def test_a_job_that_is_preempted_by_requeue_runs_again_unasked() -> None:
    spot = header(plan_on(two(), "-p", "spot", "-g", "1"))
    assert "requeue" in spot
    assert spot["open-mode"] == "append"
    assert "no-requeue" in header(plan_on(two(), "-p", "gpu", "-g", "1"))
    ended = header(plan_on(two(), "-p", "spot", "-g", "1", "--sbatch=--no-requeue"))
    assert "requeue" not in ended
    assert "no-requeue" in ended


def test_memory_is_asked_for_where_a_cpu_brings_little() -> None:
    little = two(gpu_memory="256", DefMemPerCPU="256")
    assert header(plan_on(little, "-g", "1"))["mem"] == "128000M"
    assert header(plan_on(little, "-g", "4"))["mem"] == "512000M"
    assert header(plan_on(little, "-g", "0", "-c", "4"))["mem-per-cpu"] == "2000M"
    assert "mem" not in header(plan_on(two(), "-g", "1")), "4000 MiB are enough"
    typed = header(plan_on(little, "-g", "1", "--sbatch=--mem-per-cpu=1G"))
    assert "mem" not in typed
    assert header(plan_on(little, "-g", "1", "--mem", "7G"))["mem"] == "7G"


def one(words: dict[str, str], *, gpus: int = 7, **config: str) -> ClusterFacts:
    """A cluster of one kind of node: 192 CPUs and 500,000 MiB."""
    return cluster(
        [partition_line("all", Default="YES", TotalNodes="4", **words)],
        [kind_line("all", 4, 192, f"gpu:{gpus}", shape="2:48:2", memory="500000")],
        **config,
    )


@pytest.mark.parametrize(
    ("known", "words", "expected"),
    [
        # Every CPU brings 48 GiB: two of them have more than a GPU's share, 26 more than the node.
        (one({"DefMemPerCPU": "49152"}), ["-g", "1"], {"mem": "71428M"}),
        (one({"DefMemPerCPU": "49152"}), ["-g", "7"], {"mem": "500000M"}),
        (one({"DefMemPerCPU": "49152"}), ["-g", "0", "-c", "2"], {}),
        (one({"DefMemPerCPU": "49152"}), ["-g", "0", "-c", "20"], {"mem-per-cpu": "2604M"}),
        # A limit of the partition, or of the cluster, is below the node's memory.
        (one({"DefMemPerCPU": "4000", "MaxMemPerNode": "131072"}), ["-g", "7"], {"mem": "131072M"}),
        (one({"DefMemPerCPU": "4000"}, MaxMemPerNode="131072"), ["-g", "2"], {"mem": "131072M"}),
        (one({"DefMemPerCPU": "4000"}, MaxMemPerNode="131072"), ["-g", "1"], {}),
        # The default may stand in one number for a node, or for a GPU.
        (one({}, DefMemPerNode="512"), ["-g", "1"], {"mem": "71428M"}),
        (one({}, DefMemPerNode="512"), ["-g", "0", "-c", "4"], {"mem-per-cpu": "2604M"}),
        (one({}, DefMemPerNode="400000"), ["-g", "1"], {}),
        (one({"JobDefaults": "DefMemPerGPU=60000"}, DefMemPerCPU="256"), ["-g", "1"], {}),
        (one({"JobDefaults": "DefMemPerGPU=1000"}), ["-g", "1"], {"mem-per-gpu": "71428M"}),
        (one({}, JobDefaults="DefMemPerGPU=90000"), ["-g", "7"], {"mem-per-gpu": "71428M"}),
        (
            one({"JobDefaults": "DefMemPerGPU=60000"}, DefMemPerCPU="256"),
            ["-g", "0", "-c", "2"],
            {"mem-per-cpu": "2604M"},
        ),
    ],
)
def test_memory_is_asked_for_where_slurm_would_refuse_what_it_gives_unasked(
    known: ClusterFacts, words: list[str], expected: dict[str, str]
) -> None:
    asked = header(plan_on(known, *words))
    assert {name: value for name, value in asked.items() if name.startswith("mem")} == expected


def test_memory_that_nobody_wrote_down_is_not_shared_out() -> None:
    """Slurm shows RealMemory=1 of a node whose memory no slurm.conf names: it is no share of 0 MiB for a GPU."""
    nodes = [kind_line("all", 4, 48, "gpu:4", shape="2:24:1", memory="1")]
    unwritten = cluster([partition_line("all", Default="YES", TotalNodes="4")], nodes)
    too_much = cluster([partition_line("all", Default="YES", TotalNodes="4", DefMemPerNode="3200")], nodes)
    for words in (["-g", "1"], ["-g", "4"], ["-g", "0", "-c", "4"]):
        assert not {"mem", "mem-per-cpu"} & set(header(plan_on(unwritten, *words)))
        with pytest.raises(RequestError, match="3200 MiB a node, where nothing is asked for, but a node of all has 1M"):
            plan_on(too_much, *words)


def test_a_limit_of_a_jobs_memory_is_asked_for_where_slurm_would_give_more() -> None:
    """Slurm 22.05 queues a job without --mem above MaxMemPerNode for ever."""
    for words, expected in ((["-g", "7"], "400000M"), (["-g", "1"], "71428M")):
        assert header(plan_on(one({"MaxMemPerNode": "400000"}), *words))["mem"] == expected
    assert "mem" not in header(plan_on(one({"MaxMemPerNode": "500000"}), "-g", "7"))


@pytest.mark.parametrize(("words", "expected"), [(["-g", "4"], "300000M"), (["-g", "1"], "75000M")])
def test_the_largest_node_of_a_partition_is_held_to_the_limit_whichever_node_the_job_gets(
    words: list[str], expected: str
) -> None:
    kinds = [kind_line("all", 4, 192, "gpu:4", shape="2:48:2", memory="300000")]
    kinds.append(kind_line("all", 1, 192, "gpu:8", shape="2:48:2", memory="1000000"))
    known = cluster([partition_line("all", Default="YES", TotalNodes="5", MaxMemPerNode="400000")], kinds)
    assert header(plan_on(known, *words))["mem"] == expected


def test_the_reason_of_such_memory_has_both_numbers() -> None:
    (reason,) = [
        each.reason for each in plan_on(one({"DefMemPerCPU": "49152"}), "-g", "7").directives if each.name == "mem"
    ]
    text = "a job gets 500000 MiB of a node at most, and 49152 MiB a CPU, where nothing is asked for"
    assert (reason.text, reason.origin) == (text, "what Slurm says here")


def test_the_clusters_own_share_of_cpus_holds_in_each_partition() -> None:
    known = one({}, JobDefaults="DefCpuPerGPU=8,DefMemPerGPU=60000")
    assert header(plan_on(known, "-g", "1"))["cpus-per-task"] == "8"
    assert (
        header(plan_on(one({"JobDefaults": "DefCpuPerGPU=4"}, JobDefaults="DefCpuPerGPU=8"), "-g", "1"))[
            "cpus-per-task"
        ]
        == "4"
    )


def test_a_partition_that_is_down_is_told_and_one_that_takes_nothing_refused() -> None:
    def planned(state: str, *words: str) -> Plan:
        lines = [partition_line("gpu", State=state), partition_line("old")]
        kinds = [kind_line("gpu", 4, 64, "gpu:4"), kind_line("old", 4, 64, "gpu:2")]
        return plan_on(cluster(lines, kinds), "-g", "2", *words)

    assert warnings(planned("UP", "-p", "gpu")) == []
    text = "the job waits: gpu is down (what Slurm said here at 2026-11-23 03:52; --fresh asks again)"
    assert warnings(planned("DOWN", "-p", "gpu")) == [text]
    for state in ("DRAIN", "INACTIVE"):
        with pytest.raises(MusterError) as caught:
            planned(state, "-p", "gpu")
        assert "gpu takes no new jobs now (what Slurm says here)" in caught.value.message
    # A partition that is to be found is one that is up.
    assert header(planned("DOWN"))["partition"] == "old"


def test_the_only_partition_that_is_down_is_still_the_one_of_the_job() -> None:
    lines = [partition_line("gpu", Default="YES", State="DOWN")]
    planned = plan_on(cluster(lines, [kind_line("gpu", 4, 64, "gpu:4")]), "-g", "4")
    assert any("gpu is down" in text for text in warnings(planned))


def test_memory_that_slurm_does_not_give_out_is_not_asked_for() -> None:
    known = two(gpu_memory="256", SelectTypeParameters="CR_CORE")
    assert "mem" not in header(plan_on(known, "-g", "1"))


def test_a_site_whose_cpus_bring_little_asks_for_jobs_without_gpus_too() -> None:
    known = cluster(
        [partition_line("cpubase", Default="YES"), partition_line("gpubase")],
        [kind_line("cpubase", 100, 64, memory="256000"), kind_line("gpubase", 10, 48, "gpu:a100:4", memory="510000")],
        DefMemPerCPU="256",
    )
    asked = header(plan_on(known, "-A", "def-ada", "-t", "60", "-g", "0", "-c", "4", "-p", "cpubase", site="narval"))
    assert asked["mem-per-cpu"] == "4000M"


def sliced() -> ClusterFacts:
    rows = [kind_line("main", 4, 64, "gpu:h100:4"), kind_line("main", 2, 64, "gpu:h100_1g.10gb:28")]
    return cluster([partition_line("main", Default="YES", TotalNodes="6")], rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-g", "29", "--gpu-type", "h100_1g.10gb"], "29 GPUs per node are asked for, but a node of main has 28"),
        (
            ["-g", "1", "--gpu-type", "h100_1g.20gb"],
            "main has no GPUs of type h100_1g.20gb (its types: h100, h100_1g.10gb)",
        ),
        (["-g", "1", "-p", "cpu"], "1 GPU per node is asked for, but a node of cpu has none"),
    ],
)
def test_what_no_node_has_is_refused_with_what_the_nearest_has(words: list[str], message: str) -> None:
    known = replace(
        sliced(),
        partitions=(*sliced().partitions, *cluster([partition_line("cpu")], []).partitions),
        kinds=(*sliced().kinds, *cluster([], [kind_line("cpu", 90, 64)]).kinds),
    )
    with pytest.raises(RequestError) as caught:
        plan_on(known, *words)
    assert message in caught.value.message


def test_a_slice_is_asked_for_by_its_name() -> None:
    planned = plan_on(sliced(), "-g", "1", "--gpu-type", "h100_1g.10gb")
    assert header(planned)["gpus-per-node"] == "h100_1g.10gb:1"
    assert header(planned)["cpus-per-task"] == "2"


def test_a_whole_gpu_is_named_where_there_are_slices() -> None:
    assert header(plan_on(sliced(), "-g", "1"))["gpus-per-node"] == "h100:1"
    assert header(plan_on(two(), "-g", "1"))["gpus-per-node"] == "1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-g", "1", "--gpu-type", "v100"), "main has no GPUs of type v100 (its types: h100, h100_1g.10gb)"),
        (("--gpu-type", "h100"), "says which GPUs are wanted, but no GPU is asked for"),
        (("--gpu-type", "h100", "--gres", "gpu:1"), "both say which GPUs are wanted"),
        (("-p", "gone", "-g", "1"), "this cluster has no partition gone (its partitions: main) (what Slurm says here)"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        plan_on(sliced(), *words)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_trial_goes_to_the_partition_for_trials() -> None:
    known = cluster(
        [partition_line("main", Default="YES"), partition_line("debug", MaxTime="00:30:00")],
        [kind_line("main", 4, gres="gpu:4"), kind_line("debug", 1, gres="gpu:4")],
    )
    planned = plan_on(known, "--trial", "-g", "1", "-t", "10")
    assert header(planned)["partition"] == "debug"
    assert warnings(planned) == []


def test_a_disagreement_is_told_where_the_job_uses_it() -> None:
    known = like_site(load("lumi").profile, **{"standard-g": {"MaxTime": "06:00:00"}})
    words = ("-A", "project_465000000", "-t", "60")
    told = [text for text in warnings(plan_on(known, *words, "-p", "standard-g", site="lumi")) if "Slurm says" in text]
    assert len(told) == 1
    assert told[0].startswith("partitions.standard-g.time_max: 06:00:00 (what Slurm says here), not 2-00:00:00 (")
    other = warnings(plan_on(known, *words, "-p", "dev-g", "-N", "1", site="lumi"))
    assert not [text for text in other if "Slurm says" in text]


def test_a_limit_of_the_cluster_refuses_in_its_name() -> None:
    known = like_site(load("lumi").profile, **{"standard-g": {"MaxTime": "06:00:00"}})
    with pytest.raises(RequestError, match=r"12:00:00, but standard-g allows 06:00:00 \(what Slurm says here\)"):
        plan_on(known, "-A", "project_465000000", "-t", "12:00:00", "-p", "standard-g", site="lumi")


def test_a_partition_of_a_rule_that_is_gone_is_told_with_the_one_that_takes_the_job() -> None:
    profile = load("kempner").profile
    known = like_site(profile)
    kept = [partition for partition in known.partitions if partition.name == "kempner_requeue"]
    assert kept
    kinds = tuple(kind for kind in known.kinds if kind.partition == "kempner_requeue")
    planned = plan_on(
        replace(known, partitions=tuple(kept), kinds=kinds),
        "-A",
        "lab",
        "-t",
        "60",
        "-N",
        "1",
        "-g",
        "1",
        site="kempner",
    )
    assert any("none (what Slurm says here)" in text for text in warnings(planned)), warnings(planned)


def test_a_user_without_an_account_is_told() -> None:
    known = cluster(
        [partition_line("main", Default="YES")], [], accounting_text(""), AccountingStorageEnforce="associations"
    )
    assert any("knows no account of yours" in text for text in warnings(plan_on(known)))


@pytest.mark.parametrize(
    ("scheduler", "parameters", "form"),
    [
        ("select/cons_tres", "CR_CORE_MEMORY", "gpus-per-node"),
        ("select/linear", "CR_MEMORY", "gres"),
        ("select/cons_res", "CR_CPU", "gres"),
        ("select/cray_aries", "CR_CORE_MEMORY,OTHER_CONS_TRES", "gpus-per-node"),
    ],
)
def test_gpus_are_asked_for_in_a_form_that_the_scheduler_knows(scheduler: str, parameters: str, form: str) -> None:
    known = cluster(
        [partition_line("main", Default="YES")],
        [kind_line("main", 4, gres="gpu:4")],
        SelectType=scheduler,
        SelectTypeParameters=parameters,
    )
    assert form in header(plan_on(known, "-g", "1"))


@pytest.mark.parametrize(
    ("words", "cpus"),
    [
        ({}, "16"),
        ({"JobDefaults": "DefCpuPerGPU=6"}, "6"),
        ({"MaxCPUsPerNode": "32"}, "8"),
        ({"MaxCPUsPerNode": "2"}, "1"),
    ],
)
def test_a_rank_gets_the_cores_that_its_partition_gives_with_a_gpu(words: dict[str, str], cpus: str) -> None:
    known = cluster([partition_line("main", Default="YES", **words)], [kind_line("main", 4, 64, "gpu:4")])
    assert header(plan_on(known, "-g", "1"))["cpus-per-task"] == cpus


def test_a_rule_whose_partition_is_gone_with_no_other_says_both() -> None:
    known = cluster([partition_line("cpu", Default="YES")], [kind_line("cpu", 4)], JobSubmitPlugins="lua")
    with pytest.raises(
        RequestError, match=r"is not there, and no other partition of this cluster takes this job \(what"
    ):
        plan_on(known, "-A", "project_465000000", "-t", "60", "-g", "1", site="lumi")


@pytest.mark.parametrize("gpus", ["1", "0"])
def test_a_rule_whose_partition_is_gone_leaves_the_job_to_the_nodes_that_are_there(gpus: str) -> None:
    """Also a job without GPUs, where all nodes have some."""
    known = cluster([partition_line("gpu", Default="YES")], [kind_line("gpu", 4, 64, "gpu:4")], JobSubmitPlugins="lua")
    planned = plan_on(known, "-A", "project_465000000", "-t", "60", "-g", gpus, site="lumi")
    assert header(planned)["partition"] == "gpu"


@pytest.mark.parametrize(("ports", "is_kept"), [("ports=60000-61000", True), ("(null)", False)])
def test_ports_are_reserved_where_the_cluster_has_some(ports: str, is_kept: bool) -> None:
    known = cluster([partition_line("main", Default="YES")], [kind_line("main", 4)], MpiParams=ports)
    profile = load("generic").profile
    profile = replace(profile, rendezvous=replace(profile.rendezvous, reserved_ports=True))
    said = live_layer(profile, known).layer.table.get("rendezvous", {})
    assert said == ({} if is_kept else {"reserved_ports": False})


def test_a_default_partition_that_is_closed_is_told_where_a_plugin_may_send_the_job_elsewhere() -> None:
    known = cluster(
        [partition_line("main", Default="YES", AllowAccounts="rich", QoS="short"), partition_line("other")],
        [kind_line("main", 4), kind_line("other", 4)],
        accounting_text("poor|poor||normal|", "short|00:30:00|\nnormal|"),
        JobSubmitPlugins="lua",
        AccountingStorageEnforce="limits",
    )
    told = warnings(plan_on(known, "-A", "poor", "-t", "60", "-g", "0", site="narval"))
    why = (
        "main, the default partition, is closed to this job: main does not take the account poor (what Slurm says here)"
    )
    assert f"{why}; a plug-in of the site may send it to another one; -p other takes it" in told
    assert not any("the job waits" in text for text in told), "it waits for the QOS of main in main alone"


def test_a_whole_node_stays_one_where_its_partition_is_gone() -> None:
    known = like_site(load("lumi").profile)
    kept = tuple(partition for partition in known.partitions if partition.name != "standard-g")
    kinds = tuple(kind for kind in known.kinds if kind.partition != "standard-g")
    words = ("-A", "project_465000000", "-N", "2", "-g", "8", "-t", "30")
    planned = plan_on(replace(known, partitions=kept, kinds=kinds), *words, site="lumi")
    assert header(planned)["cpus-per-task"] == header(plan_on(known, *words, site="lumi"))["cpus-per-task"]
    assert any(text.startswith("partitions.standard-g: none") for text in warnings(planned))


@pytest.mark.parametrize("binds", [False, None])
def test_masks_are_written_only_where_the_cluster_can_bind(binds: bool | None) -> None:
    """On a cluster with task/none srun warned that it lacks support for binding."""
    known = replace(like_site(load("lumi", None, None, None).profile), binds=binds)
    planned = plan_on(known, "-N", "2", "-g", "8", "-A", "project_1", "-t", "30", site="lumi")
    assert any(str(flag.word).startswith("--cpu-bind=mask_cpu") for flag in planned.step_flags) == (binds is None)
    told = any(note.text.startswith("ranks are not bound to cores") for note in planned.notes)
    assert told == (binds is False)


def test_the_nearest_gpus_are_asked_for_whatever_binds_the_cores() -> None:
    known = replace(like_site(load("lumi", None, None, None).profile), binds=False)
    site = load("lumi", None, overrides_from(["binding.kind=closest"]), known)
    values, origins, command = parse(["-N", "2", "-g", "8", "-A", "project_1", "-t", "30", "--", "true"])
    planned = make_plan(request_from({}, values, origins, command), site, FACTS, typed=())
    assert "--gpu-bind=closest" in [flag.word for flag in planned.step_flags]
    assert not any(note.text.startswith("ranks are not bound") for note in planned.notes)


def test_a_cluster_says_whether_it_binds() -> None:
    assert cluster([partition_line("main")], [], TaskPlugin="task/none").binds is False
    assert cluster([partition_line("main")], [], TaskPlugin="task/affinity,task/cgroup").binds is None
    assert cluster([partition_line("main")], []).binds is None


@pytest.mark.parametrize(
    ("words", "limits", "small", "cpus"),
    [
        ({}, "", 0, "128"),
        ({"MaxCPUsPerNode": "64"}, "", 0, None),
        ({"MaxCPUsPerNode": "256"}, "", 0, "128"),
        ({}, "maxtrespernode=cpu=64", 0, None),
        ({}, "maxtrespu=node=64", 0, "128"),
        ({}, "mintres=cpu=64", 0, "128"),
        ({}, "", 10, None),
        ({"OverSubscribe": "NO"}, "", 0, None),
    ],
)
def test_all_cores_are_asked_for_only_where_each_node_gives_them(
    words: dict[str, str], limits: str, small: int, cpus: str | None
) -> None:
    kinds = [kind_line("cpu", 80, 256, shape="2:64:2", memory="256000")]
    kinds += [kind_line("cpu", small, 64, shape="2:16:2", memory="256000")] if small else []
    known = cluster(
        [partition_line("cpu", **{"Default": "YES", "TotalNodes": "90", "OverSubscribe": "EXCLUSIVE", **words})],
        kinds,
        accounting_text("chem|chem||normal|", f"normal|;{limits}"),
        AccountingStorageEnforce="associations,limits,qos",
    )
    assert header(plan_on(known, "-N", "1", "-t", "60", "-p", "cpu", site="vega")).get("cpus-per-task") == cpus


@pytest.mark.parametrize(
    ("words", "ranks"), [(["-g", "4"], 4), (["-g", "4", "--ntasks-per-node", "2"], 2), (["-N", "2"], 1)]
)
def test_the_ranks_of_a_node_are_those_typed_else_one_for_each_gpu(words: list[str], ranks: int) -> None:
    assert ask_of(request_from({}, *parse([*words, "--", "x"]))).ntasks_per_node == ranks


def test_of_several_kinds_of_node_a_whole_one_may_be_any() -> None:
    kinds = [kind_line("main", 2, 64, "gpu:4"), kind_line("main", 2, 64, "gpu:2"), kind_line("main", 2, 64)]
    known = cluster([partition_line("main", Default="YES", OverSubscribe="EXCLUSIVE", TotalNodes="6")], kinds)
    told = [note.text for note in plan_on(known, "-g", "1").notes if "whole nodes" in note.text]
    assert [text.partition("): ")[2] for text in told] == ["the job has all 2 or 4 GPUs of a node, and uses 1"]
    assert not [note for note in plan_on(known, "-g", "4").notes if "whole nodes" in note.text]


def test_less_memory_for_each_gpu_leaves_the_default_partition() -> None:
    lines = [partition_line("gpu", Default="YES", JobDefaults="DefMemPerGPU=16384"), partition_line("small")]
    known = cluster(lines, [kind_line("gpu,small", 4, 64, gres="gpu:4")])
    assert header(plan_on(known, "-g", "4")).get("partition") == "small"
    less = ("-g", "4", "--sbatch=--mem-per-gpu=4G")
    assert "partition" not in header(plan_on(known, *less))
    # also where a rule of the profile names a partition that is gone
    words = ("-A", "project_465000000", "-t", "60")
    assert header(plan_on(known, *words, *less[:2], site="lumi"))["partition"] == "small"
    assert header(plan_on(known, *words, *less, site="lumi"))["partition"] == "gpu"


def test_a_qos_that_lifts_the_time_of_its_partition_is_held_to_its_own() -> None:
    accounting = accounting_text("chem|chem||long,short|", "long|;flags=PartitionTimeLimit\nshort|")
    lines = [partition_line("gpu", Default="YES", MaxTime="01:00:00")]
    known = cluster(lines, [kind_line("gpu", 8)], accounting, AccountingStorageEnforce="limits,qos")
    limits = {"qos.long.time_max": "02:00:00"}
    assert header(plan_on(known, "-q", "long", "-t", "90", limits=limits))["qos"] == "long"
    for qos, minutes, message in (("long", "180", "long allows 02:00:00"), ("short", "90", "gpu allows 01:00:00")):
        with pytest.raises(RequestError, match=message):
            plan_on(known, "-q", qos, "-t", minutes, limits=limits)


@pytest.mark.parametrize("flags", ["NoReserve", "DenyOnLimit"])
def test_what_slurm_queues_is_told_and_not_refused_by_the_profile(flags: str) -> None:
    accounting = accounting_text("chem|chem||short|", f"short|00:30:00|;flags={flags}")
    lines = [partition_line("gpu", Default="YES", TotalNodes="8")]
    known = cluster(lines, [kind_line("gpu", 8, 64, "gpu:4")], accounting, AccountingStorageEnforce="limits,qos")
    limits = {"partitions.gpu.time_max": "00:30:00"}  # the guide may say of the partition what its QOS has
    if flags == "DenyOnLimit":
        with pytest.raises(RequestError, match="01:00:00, but short allows 00:30:00"):
            plan_on(known, "-g", "1", "-t", "60", "-q", "short", limits=limits)
    else:
        told = warnings(plan_on(known, "-g", "1", "-t", "60", "-q", "short", limits=limits))
        assert any(text.startswith("the job waits: 01:00:00, but the QOS short allows 00:30:00") for text in told)


@pytest.mark.parametrize(
    ("gres", "words", "gpus"),
    [
        ("gpu:h100:2,gpu:h100_1g.10gb:14", ("-g", "1"), "h100:1"),
        ("gpu:h100_1g.10gb:14", ("-g", "1"), "1"),
        ("gpu:h100:4", ("-g", "1"), "1"),
        ("gpu:h100:2,gpu:h100_1g.10gb:14", ("-g", "0"), None),
        ("gpu:h100:2,gpu:h100_1g.10gb:14", ("-g", "1", "--gpu-type", "h100_1g.10gb"), "h100_1g.10gb:1"),
    ],
)
def test_a_gpu_is_asked_for_by_its_type_where_it_might_be_a_slice(
    gres: str, words: tuple[str, ...], gpus: str | None
) -> None:
    known = cluster([partition_line("main", Default="YES")], [kind_line("main", 4, 64, gres)])
    assert header(plan_on(known, *words)).get("gpus-per-node") == gpus


@pytest.mark.parametrize(
    ("shared", "words", "told"),
    [
        ("EXCLUSIVE", ("-g", "1"), True),
        ("EXCLUSIVE", ("-g", "4"), False),
        ("EXCLUSIVE", ("-g", "0"), False),
        ("NO", ("-g", "1"), False),
    ],
)
def test_gpus_of_a_whole_node_that_the_job_does_not_use_are_told(
    shared: str, words: tuple[str, ...], told: bool
) -> None:
    known = cluster([partition_line("main", Default="YES", OverSubscribe=shared)], [kind_line("main", 4, 64, "gpu:4")])
    assert any("main gives whole nodes" in note.text for note in plan_on(known, *words).notes) is told


@pytest.mark.parametrize(("enforced", "told"), [("associations", True), ("limits", False)])
def test_somebody_without_an_account_is_told_where_jobs_need_one(enforced: str, told: bool) -> None:
    known = cluster(
        [partition_line("main", Default="YES")],
        [kind_line("main", 4)],
        accounting_text("", "normal|"),
        AccountingStorageEnforce=enforced,
    )
    assert any("takes no job without one" in text for text in warnings(plan_on(known, "-N", "1"))) is told


def test_a_partition_whose_nodes_are_not_told_is_not_one_of_gpus() -> None:
    known = cluster([partition_line("main", Default="YES")], [])
    assert not any("have GPUs" in text for text in warnings(plan_on(known, "-p", "main", "-g", "0")))


@pytest.mark.parametrize(
    ("queue", "words", "requeues"),
    [
        ("[partitions.main]\npreempted = 'requeue'\n", (), True),
        ("[partitions.main]\npreempted = 'requeue'\n[partitions.other]\n", ("-p", "other"), False),
        ("[partitions.main]\n", (), False),
    ],
)
def test_a_job_of_the_default_queue_is_run_again_where_jobs_of_that_queue_make_room(
    tmp_path: Path, queue: str, words: tuple[str, ...], requeues: bool
) -> None:
    lines = [partition_line("main", Default="YES"), partition_line("other")]
    known = cluster(lines, [kind_line("main", 4), kind_line("other", 4)])
    (tmp_path / "mine.toml").write_text(f"name = 'mine'\ntitle = 't'\n{queue}")
    assert ("requeue" in header(plan_on(known, "-N", "1", *words, site=str(tmp_path / "mine.toml")))) is requeues
