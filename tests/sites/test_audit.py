"""What an audit of the profiles against the sites' own documentation found wrong, each with the line that is right.

The lab's half of it, where the wrong script fails and the right one runs, is in test_like_labs.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.cli.app import main
from muster.errors import RequestError
from muster.facts import ImageFacts
from muster.look.image_facts import look_at_image
from muster.model.plan import Plan
from muster.policy.masks import bind_ranks, spell_cores
from muster.render.script import job_script
from plan.test_site_terms import directive, flags, request, values

from .profiles import SITES, bundled

IMAGE = replace(FACTS, image=ImageFacts(project="/home/ada", package="/opt/venv/muster"))
JEAN_ZAY = ("-N", "2", "-t", "1:00:00")
LEONARDO = ("-A", "abc", "-g", "4")
TRAIN = ("--", "python", "train.py")


def warnings(made: Plan) -> list[str]:
    return [note.text for note in made.notes if note.warning]


# ---------------------------------------------------------------- JUPITER, JUWELS Booster


@pytest.mark.parametrize("site", ["jupiter", "juwels-booster"])
def test_all_gpus_are_named_before_srun_where_the_site_cuts_them_down(site: str) -> None:
    made = plan("-A", "abc", "-N", "2", "-g", "4", "-t", "30", *TRAIN, site=site)
    text = job_script(made)

    assert text.index("export CUDA_VISIBLE_DEVICES=0,1,2,3") < text.rindex("srun ")
    assert bundled(site).profile.devices.cut_by_site


def test_no_core_of_juwels_booster_is_idle() -> None:
    profile = bundled("juwels-booster").profile
    bound = bind_ranks(profile, profile.nodes["booster"], ranks=4, whole_node=True)

    assert spell_cores(core for rank in bound.cores for core in rank) == "0-47"
    assert spell_cores(bound.cores[0]) == "12-23"  # its own domain, 18-23, among them


def test_a_stage_is_asked_for_in_the_job_and_the_newest_is_first() -> None:
    text = job_script(plan("-A", "abc", "-N", "2", "-t", "30", *TRAIN, site="juwels-booster"))

    assert "muster_load 'Stages/2026|Stages/2025|Stages/2024'" in text


def test_a_trial_of_100_nodes_does_not_go_to_the_nodes_for_trials() -> None:
    made = plan("-A", "abc", "-N", "100", "-t", "30", "--trial", *TRAIN, site="juwels-booster")
    assert directive(made, "partition") == "booster"


# ---------------------------------------------------------------- Jean Zay


@pytest.mark.parametrize("site", SITES)
def test_a_step_that_asks_for_cores_has_a_header_that_allows_as_many(site: str) -> None:
    """The rule that refuses such a profile is in consistency.py; here it is seen that every profile keeps it."""
    profile = bundled(site).profile
    of_step = {"--hint=nomultithread", "--threads-per-core=1"} & set(profile.launch.srun or ())
    of_header = {"--hint=nomultithread", "--threads-per-core=1"} & set(profile.request.sbatch or ())
    smt = any((node.threads_per_core or 1) > 1 for node in profile.nodes.values())

    assert not (of_step and smt) or of_header


@pytest.mark.parametrize("site", ["jean-zay", "marenostrum5"])
def test_the_header_says_nomultithread_as_the_step_does(site: str) -> None:
    words = ("-A", "abc@h100") if site == "jean-zay" else ("-A", "bsc98", "-q", "acc_ehpc")
    made = plan(*words, *JEAN_ZAY, *TRAIN, site=site)

    assert directive(made, "hint") == "nomultithread"
    assert "--hint=nomultithread" in flags(made)


@pytest.mark.parametrize(
    ("words", "qos", "constraint", "shape", "module"),
    [
        (("-A", "abc@h100"), "qos_gpu_h100-t3", "h100", (4, 24), "arch/h100"),
        (("-A", "abc@a100"), "qos_gpu_a100-t3", "a100", (8, 8), "arch/a100"),
        (("-A", "abc@a100", "-C", "a100"), "qos_gpu_a100-t3", "a100", (8, 8), "arch/a100"),
        (("-A", "abc@a100", "-q", "qos_gpu_a100-t3"), "qos_gpu_a100-t3", "a100", (8, 8), "arch/a100"),
        (("-A", "abc@a100", "--trial"), "qos_gpu_a100-dev", "a100", (8, 8), "arch/a100"),
        (("-A", "abc@v100"), "qos_gpu-t3", None, (4, 10), None),
        (("-A", "abc@v100", "-C", "v100-32g"), "qos_gpu-t3", "v100-32g", (4, 10), None),
        (("-A", "abc@v100", "-q", "qos_gpu-t4"), "qos_gpu-t4", None, (4, 10), None),
        (("-A", "abc@v100", "--trial"), "qos_gpu-dev", None, (4, 10), None),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) and isinstance(each[0], str) else None,
)
def test_each_kind_of_node_has_its_own_shape_queue_and_modules(
    words: tuple[str, ...], qos: str, constraint: str | None, shape: tuple[int, int], module: str | None
) -> None:
    gpus, cpus = shape
    made = plan(*words, "-g", str(gpus), *JEAN_ZAY, *TRAIN, site="jean-zay")
    loads = [str(each.shown[2]) for each in made.prelude if each.of_modules and len(each.shown) > 2]

    assert (directive(made, "qos"), directive(made, "constraint")) == (qos, constraint)
    assert (directive(made, "gres"), made.shape.cpus_per_task) == (f"gpu:{gpus}", cpus)
    assert [name for name in loads if name.startswith("arch/")] == ([module] if module else [])


def test_100_hours_are_not_for_every_kind_of_node() -> None:
    long = ("-N", "2", "-t", "100:00:00")
    assert directive(plan("-A", "abc@h100", *long, *TRAIN, site="jean-zay"), "qos") == "qos_gpu_h100-t4"
    assert directive(plan("-A", "abc@v100", *long, *TRAIN, site="jean-zay"), "qos") == "qos_gpu-t4"
    with pytest.raises(RequestError, match="qos_gpu_a100-t3 allows 20:00:00"):
        plan("-A", "abc@a100", *long, *TRAIN, site="jean-zay")


def test_a_queue_and_a_constraint_of_different_nodes_are_refused() -> None:
    with pytest.raises(RequestError, match="qos_gpu_a100-t3 has nodes of kind a100, but --constraint=h100 selects"):
        plan("-A", "abc@a100", "-q", "qos_gpu_a100-t3", "-C", "h100", *JEAN_ZAY, *TRAIN, site="jean-zay")


def test_the_sites_torch_is_not_loaded_over_an_environment_of_the_users() -> None:
    words = ("-A", "abc@h100", *JEAN_ZAY)
    assert "pytorch-gpu" in job_script(plan(*words, *TRAIN, site="jean-zay"))
    assert "pytorch-gpu" not in job_script(plan(*words, "--venv", "/home/ada/env", *TRAIN, site="jean-zay"))


# ---------------------------------------------------------------- Perlmutter


def test_a_bare_job_asks_for_no_plugin_that_nothing_brings_and_is_told() -> None:
    made = plan("-A", "m1_g", "-N", "2", "-g", "4", "-t", "30", *TRAIN, site="perlmutter")

    assert "NCCL_NET" not in values(made)
    assert any(
        "nothing of this job brings the plugin" in text and "NCCL would go over TCP" in text for text in warnings(made)
    )
    assert directive(made, "constraint") == "gpu"


def test_a_module_that_brings_the_plugin_is_enough() -> None:
    made = plan("-A", "m1_g", "-N", "2", "-g", "4", "-t", "30", "--module", "pytorch/2.6.0", *TRAIN, site="perlmutter")
    assert not any("plugin" in text for text in warnings(made))


def test_nothing_is_said_of_perlmutter_that_the_script_does_not_do() -> None:
    profile = bundled("perlmutter").profile
    says = {quirk.id: quirk.muster or "" for quirk in profile.quirks}

    assert profile.nodes["gpu"].nodes == 1536 + 256
    assert "sets it" not in says["gpu-order"]
    assert "writes -q regular" in says["default-debug"]
    assert directive(plan("-A", "m1_g", "-N", "2", "-g", "4", *TRAIN, site="perlmutter"), "qos") == "regular"


# ---------------------------------------------------------------- Vega, Leonardo, Snellius, Karolina


def test_vega_gets_its_partition_and_its_cores() -> None:
    made = plan("-N", "2", "-g", "4", "-t", "30", *TRAIN, site="vega", launcher="srun")

    assert directive(made, "partition") == "gpu"
    assert (made.shape.cpus_per_task, directive(made, "hint")) == (32, "nomultithread")


@pytest.mark.parametrize(
    ("words", "qos"),
    [
        (("-N", "64", "-t", "1:00:00"), None),
        (("-N", "65", "-t", "1:00:00"), "boost_qos_bprod"),
        (("-N", "100", "-t", "1:00:00"), "boost_qos_bprod"),
        (("-N", "2", "-t", "30:00", "--trial"), "boost_qos_dbg"),
        (("-N", "4", "-t", "30:00", "--trial"), None),
        (("-N", "2", "-t", "3-00:00:00"), "boost_qos_lprod"),
    ],
)
def test_the_qos_of_leonardo_follows_size_and_time(words: tuple[str, ...], qos: str | None) -> None:
    assert directive(plan(*LEONARDO, *words, *TRAIN, site="leonardo"), "qos") == qos


def test_a_script_for_64_nodes_of_leonardo_stops_where_sbatch_made_it_larger() -> None:
    made = plan(*LEONARDO, "-N", "65", "-t", "1:00:00", *TRAIN, site="leonardo")
    assert "the QOS boost_qos_bprod takes jobs of at least 65 nodes" in job_script(made)


@pytest.mark.parametrize(("partition", "interface"), [("gpu_h100", "eno2np0"), ("gpu_a100", "eno1np0")])
def test_the_interface_of_snellius_follows_the_kind_of_node(partition: str, interface: str) -> None:
    made = plan("-p", partition, "-N", "2", "-g", "4", "-t", "30", *TRAIN, site="snellius")

    assert values(made)["NCCL_SOCKET_IFNAME"] == values(made)["GLOO_SOCKET_IFNAME"] == interface
    assert "muster_load '2025|2024|2023'" in job_script(made)


def test_a_trial_of_16_nodes_of_karolina_does_not_go_to_the_queue_for_8() -> None:
    words = ("-A", "eu-26-17", "-g", "8", "-t", "30:00", "--trial")
    assert directive(plan(*words, "-N", "16", *TRAIN, site="karolina"), "partition") == "qgpu"
    assert directive(plan(*words, "-N", "8", *TRAIN, site="karolina"), "partition") == "qgpu_exp"


# ---------------------------------------------------------------- Alps, LUMI


def test_the_entrypoint_of_an_extended_image_runs_and_that_of_others_does_not() -> None:
    words = ("-N", "2", "-g", "4", "-t", "30")
    extended = job_script(plan(*words, "--image", "site:ngc-pytorch", *TRAIN, site="clariden", facts=IMAGE))
    plain = job_script(plan(*words, "--image", "site:ngc-plain", *TRAIN, site="clariden", facts=IMAGE))

    assert "'entrypoint = true'" in extended
    assert "entrypoint = true" not in plain


@pytest.mark.parametrize(
    ("site", "words", "library"),
    [("clariden", (), "NCCL"), ("daint", (), "NCCL"), ("lumi", ("-A", "project_465000000"), "RCCL")],
)
def test_a_job_whose_collectives_would_go_over_tcp_is_told(site: str, words: tuple[str, ...], library: str) -> None:
    told = warnings(plan(*words, "-N", "2", "-g", "4", "-t", "30", *TRAIN, site=site))
    assert any(f"{library} would go over TCP" in text for text in told)
    alone = warnings(plan(*words, "-N", "1", "-g", "4", "-t", "30", *TRAIN, site=site))
    assert not any("over TCP" in text for text in alone)


def test_frontiers_module_brings_the_plugin() -> None:
    made = plan("-A", "abc123", "-N", "2", "-g", "8", "-t", "30", *TRAIN, site="frontier")
    assert not warnings(made)


def test_a_uenv_has_a_python_of_its_own() -> None:
    made = plan("-N", "2", "-g", "4", "-t", "30", "--srun=--uenv=pytorch/v2", *TRAIN, site="clariden")
    assert made.command[0] == "python"


def test_lumis_images_are_started_without_rocm() -> None:
    words = ("-A", "project_465000000", "-N", "2", "-g", "8", "-t", "30", "--image", "site:multitorch")
    assert "--rocm" not in job_script(plan(*words, *TRAIN, site="lumi", facts=IMAGE))


def test_the_sites_image_is_the_newest_that_is_there(tmp_path: Path) -> None:
    site = bundled("lumi")
    kept = replace(
        site.profile.images["multitorch"], path=str(tmp_path / "latest.sif"), newest=str(tmp_path / "lumi-*/full-*.sif")
    )
    here = replace(site, profile=replace(site.profile, images={"multitorch": kept}))
    asked = request("--image", "site:multitorch", "--", "true")
    for day in ("20260415", "20260807", "20260513"):
        (tmp_path / f"lumi-{day}").mkdir()
        (tmp_path / f"lumi-{day}" / f"full-{day}.sif").write_bytes(b"")

    image = look_at_image(asked, here, FACTS).image
    assert image is not None
    assert image.kept == str(tmp_path / "lumi-20260807" / "full-20260807.sif")
    (tmp_path / "latest.sif").symlink_to(tmp_path / "lumi-20260513" / "full-20260513.sif")
    image = look_at_image(asked, here, FACTS).image
    assert image is not None
    assert image.kept == str(tmp_path / "lumi-20260513" / "full-20260513.sif")


# ---------------------------------------------------------------- all sites


@pytest.mark.parametrize("site", SITES)
def test_a_profile_that_is_not_the_sites_own_word_says_so_where_it_is_used(
    site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["site", "show", site]) == 0
    said = capsys.readouterr().err
    assert ("the profile of" in said) == (bundled(site).profile.trust != "own")


def test_the_plan_says_on_what_its_profile_rests(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--site", "vega", "-N", "2", "-g", "4", "-t", "30", "--", "python", "train.py"]
    assert main(["plan", *words]) == 0
    assert "warning: the profile of vega rests partly on the documents of the site" in capsys.readouterr().err


@pytest.mark.parametrize("site", SITES)
def test_a_resolver_may_lose_a_packet(site: str) -> None:
    gpus = str(next(iter(bundled(site).profile.nodes.values())).gpus)
    page = Path(__file__).resolve().parents[2] / "docs" / "sites" / f"{site}.md"
    line = next(line for line in page.read_text().splitlines() if line.startswith("muster plan "))
    words = line.split()[4 : line.split().index("--as")]
    assert gpus in words
    assert values(plan(*words, *TRAIN, site=site))["RES_OPTIONS"] == "timeout:1 attempts:3"


# ---------------------------------------------------------------- the second audit: rules that stood as prose


@pytest.mark.parametrize(
    ("site", "words", "said"),
    [
        ("trillium", "-N 1 -g 2 -t 60", "2 GPUs of a node, but compute gives 1 or 4"),
        ("trillium", "-N 2 -g 1 -t 60", "compute gives several nodes whole only"),
        ("trillium", "-N 1 -g 1 -t 5", "compute wants 00:15:00 or more"),
        ("trillium", "-N 1 -g 4 -t 60 -p compute", "its scheduler picks the partition"),
        ("trillium", "-N 2 -g 4 -t 60 -p debug", "debug allows 00:30:00 for 2 nodes"),
        ("kempner", "-A k -N 8 -g 4 -t 60", "8 × 4 = 32 GPUs, but kempner_h100 allows 16"),
        ("kempner", "-A k -N 1 -g 0 -c 4 -t 60", "no GPU, but kempner_h100 is for jobs with 1 or more"),
        ("roihu", "-A project_2001234 -p gpumedium -N 2 -g 4 -t 60", "2 × 4 = 8 GPUs, but gpumedium allows 4"),
        ("mila", "-p main -N 1 -g 4 -t 60", "4 GPUs, but main allows 2"),
        ("mila", "-p unkillable -N 1 -g 4 -t 60", "4 GPUs, but unkillable allows 1"),
        ("olivia", "-A x -N 9 -g 4 -t 60", "9 × 4 = 36 GPUs, but accel allows 32"),
        ("fir", "-N 2 -g 4 -t 8-00:00:00", "fir allows 7-00:00:00"),
        ("rorqual", "-N 2 -g 4 -t 4", "rorqual wants 00:05:00 or more"),
    ],
)
def test_a_rule_of_the_sites_page_is_a_rule(site: str, words: str, said: str) -> None:
    with pytest.raises(RequestError, match=re.escape(said)):
        plan(*words.split(), *TRAIN, site=site)


@pytest.mark.parametrize(
    ("site", "words", "partition"),
    [
        ("trillium", "-N 2 -g 4 -t 60", None),
        ("trillium", "-N 1 -g 1 -t 1:30:00 --trial", "debug"),
        ("olivia", "-A x -N 16 -g 1 -t 60", "accel"),
        ("lonestar6", "-N 1 -g 1 -t 60", "gpu-a100-small"),
        ("roihu", "-A project_2001234 -N 4 -g 1 -t 60", "gpumedium"),
        ("horeka", "--trial -N 2 -g 4 -c 16 -t 60", "gpu-h100"),
        ("delta", "-A x -N 1 -g 0 -c 4 -t 60", "cpu"),
        ("delta", "-A x -N 1 -g 0 -c 4 -t 30 --trial", "cpu-interactive"),
        ("vista", "-N 2 -g 0 -t 60", "gg"),
        ("lonestar6", "-N 2 -g 0 -t 60", "normal"),
        ("mila", "-N 1 -g 0 -c 2 -t 60", "long-cpu"),
        ("roihu", "-A project_2001234 -N 1 -g 0 -c 8 -t 60", "small"),
        ("roihu", "-A project_2001234 -N 3 -g 0 -c 8 -t 60", "medium"),
        ("olivia", "-A x -N 1 -g 0 -c 4 -t 60", "small"),
        ("vega", "-N 1 -g 0 -c 4 -t 60", "cpu"),
        ("snellius", "-N 1 -g 0 -c 4 -t 60", "rome"),
        ("karolina", "-A x -N 1 -g 0 -c 4 -t 60", "qcpu"),
        ("lumi", "-A project_465000001 -N 1 -g 0 -c 4 -t 60", "small"),
    ],
)
def test_a_job_goes_where_the_sites_page_sends_it(site: str, words: str, partition: str | None) -> None:
    made = plan(*words.split(), *TRAIN, site=site)
    assert directive(made, "partition") == partition
    assert not any("-g 0" in text for text in warnings(made))


@pytest.mark.parametrize("site", ["fir", "narval", "nibi", "rorqual"])
def test_a_job_without_gpus_asks_for_the_memory_of_its_cores(site: str) -> None:
    made = plan("-N", "1", "-g", "0", "-c", "4", "-t", "60", *TRAIN, site=site)
    assert directive(made, "mem-per-cpu") in {"4000M", "3989M"}
    assert directive(plan("-N", "1", "-g", "1", "-t", "60", *TRAIN, site=site), "mem-per-cpu") is None


@pytest.mark.parametrize(
    ("site", "gres", "cpus", "memory"),
    [
        ("rorqual", "gpu:h100_1g.10gb:1", 2, "15G"),
        ("nibi", "gpu:h100_3g.40gb:1", 6, "124G"),
        ("narval", "gpu:a100_2g.10gb:1", 3, "31G"),
        ("fir", "gpu:nvidia_h100_80gb_hbm3_1g.10gb:1", 1, "35G"),
    ],
)
def test_a_slice_of_a_gpu_has_its_own_share(site: str, gres: str, cpus: int, memory: str) -> None:
    made = plan("-N", "1", "--gres", gres, "-t", "60", *TRAIN, site=site)
    assert (made.shape.cpus_per_task, directive(made, "mem-per-gpu")) == (cpus, memory)
    assert not warnings(made)


@pytest.mark.parametrize("site", ["isambard-ai", "leonardo", "alvis"])
def test_a_job_without_gpus_is_told_where_no_queue_without_gpus_is_known(site: str) -> None:
    account = {"alvis": "NAISS2024-22-219"}.get(site, "abc")
    made = plan("-A", account, "-N", "1", "-g", "0", "-c", "4", "-t", "60", *TRAIN, site=site)
    assert any("-g 0: the job" in text for text in warnings(made))
    unsaid = plan("-A", account, "-N", "1", "--ntasks-per-node", "3", "-c", "4", "-t", "60", *TRAIN, site=site)
    assert not any("-g 0: the job" in text for text in warnings(unsaid)), "nobody typed it"


@pytest.mark.parametrize(("gpus", "visible"), [(1, None), (2, "0,1"), (3, "0,1,2"), (4, "0,1,2,3")])
@pytest.mark.parametrize("site", ["jupiter", "juwels-booster"])
def test_part_of_a_node_is_seen_whole_by_each_rank(site: str, gpus: int, visible: str | None) -> None:
    made = plan("-A", "abc", "-N", "1", "-g", str(gpus), "-t", "30", *TRAIN, site=site, launcher="srun")
    assert values(made).get("CUDA_VISIBLE_DEVICES") == visible


def test_a_queue_that_puts_jobs_back_makes_requeue_the_default() -> None:
    long = plan("-A", "k", "-N", "2", "-g", "4", "-t", "3-00:00:00", *TRAIN, site="kempner")
    assert "--requeue" in job_script(long)
    assert "--no-requeue" in job_script(plan("-A", "k", "-N", "2", "-g", "4", "-t", "60", *TRAIN, site="kempner"))
    assert "--requeue" in job_script(plan("-N", "1", "-g", "4", "-t", "60", *TRAIN, site="mila"))


def test_a_queue_that_cancels_jobs_and_one_that_wants_more_of_a_project_are_warnings() -> None:
    words = ("-A", "x", "-N", "1", "-g", "4", "-t", "60")
    (told,) = warnings(plan(*words, "-p", "gpuA100x4-preempt", *TRAIN, site="delta"))
    assert "cancels a job that has to make room" in told
    assert not warnings(plan(*words, "-p", "gpuA100x4", *TRAIN, site="delta"))
    (told,) = warnings(plan("-A", "project_1", "-N", "2", "-g", "4", "-t", "60", *TRAIN, site="roihu"))
    assert "gpularge is for projects that have a scalability test" in told


def test_the_job_of_the_cluster_toolkit_loads_its_plugin_and_an_image_is_told_how() -> None:
    words = ("-N", "2", "-g", "8", "-t", "60")
    text = job_script(plan(*words, *TRAIN, site="clustertoolkit"))
    assert text.index(". /usr/local/gib/scripts/set_nccl_env.sh ||") < text.index("export NCCL_NET=gIB")
    assert 'LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"' in text
    made = plan(*words, "--image", "docker://a/b:1", *TRAIN, site="clustertoolkit", facts=IMAGE)
    assert "NCCL_NET" not in values(made)
    assert any("nothing of this job brings the plugin" in told for told in warnings(made))
    assert "set_nccl_env" not in job_script(plan("-N", "1", "-g", "8", "-t", "60", *TRAIN, site="clustertoolkit"))


def test_isambards_module_brings_the_plugin() -> None:
    made = plan("-N", "2", "-g", "4", "-t", "60", *TRAIN, site="isambard-ai")
    assert not any("plugin" in text for text in warnings(made))
    assert "muster_load brics/nccl" in job_script(made)


@pytest.mark.parametrize(
    ("site", "word"),
    [
        ("jean-zay", "-C h100"),
        ("perlmutter", "-C gpu"),
        ("fir", "--gpus-per-node=h100:1"),
        ("narval", "--gpus-per-node=a100:1"),
        ("nibi", "--gpus-per-node=h100:1"),
        ("rorqual", "--gpus-per-node=h100:1"),
        ("alvis", "--gpus-per-node=A100:1"),
    ],
)
def test_the_line_for_a_shell_names_type_and_constraint(site: str, word: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "sites" / f"{site}.md"
    (line,) = [line for line in page.read_text().splitlines() if line.startswith("srun ")]
    assert word in line


@pytest.mark.parametrize("site", SITES)
def test_each_profile_says_whether_a_script_of_it_has_run_there(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bundled(site).profile.ran == "never"
    assert main(["site", "show", site]) == 0
    assert f"no script of Muster's has run at {site} yet" in capsys.readouterr().err
