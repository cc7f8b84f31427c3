"""What the request makes of a profile's conditions: the stack follows the image or a flag, a trial goes to the queue
for trials, a workload brings what is offered under its name, a proxy comes in both spellings with its exceptions.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import RequestError, UnknownName
from muster.facts import ImageFacts, ScriptFacts
from muster.job.options import parse, request_from
from muster.job.request import Request
from muster.launchers import WIREUPS
from muster.look.nccl import look_at_nccl, nccl_of_environment, nccl_of_modules
from muster.model.plan import Engine, Plan
from muster.plan.build import make_plan
from muster.rank.methods import METHODS
from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.sites.when import OFFLINE, workloads_of
from sites.profiles import HEAD, NAMES, bundled, written

LUMI = ("-A", "project_465000000", "-t", "30")
IMAGE = replace(FACTS, image=ImageFacts(project="/home/ada", package="/opt/venv/muster"))


def request(*words: str) -> Request:
    asked, origins, command = parse(words)
    return request_from({}, asked, origins, command)


def values(made: Plan) -> dict[str, str | None]:
    """The variables of the ranks; None: taken away."""
    return {each.name: None if each.value is None else str(each.value) for each in made.variables}


def directive(made: Plan, name: str) -> str | None:
    return next((each.value for each in made.directives if each.name == name), None)


def flags(made: Plan) -> list[str]:
    return [str(flag.word) for flag in made.step_flags]


# ---------------------------------------------------------------- the software stack


def test_a_flag_that_brings_a_stack_brings_its_variables() -> None:
    bare = values(plan("-N", "2", "-t", "30", "--", "python", "t.py", site="clariden"))
    uenv = values(plan("-N", "2", "-t", "30", "--srun=--uenv=pytorch/v2", "--", "python", "t.py", site="clariden"))

    assert "NCCL_NET" not in bare
    assert uenv["NCCL_NET"] == "AWS Libfabric"
    assert uenv["NCCL_NET_PLUGIN"] is None
    assert uenv["FI_MR_CACHE_MONITOR"] == "userfaultfd"


def test_the_plugin_is_not_forced_on_one_node() -> None:
    assert "NCCL_NET" not in values(plan("-N", "1", "-t", "30", "--stack", "uenv", "--", "x", site="clariden"))


@pytest.mark.parametrize(
    ("image", "psec", "hook"),
    [
        ("docker://quay.io/somebody/torch:2", "^munge", "com.hooks.aws_ofi_nccl.enabled"),
        ("site:ngc-plain", "^munge", "com.hooks.aws_ofi_nccl.enabled"),
        ("site:ngc-pytorch", "native", "com.hooks.cxi.enabled"),
    ],
)
def test_the_image_says_which_stack_it_is(image: str, psec: str, hook: str) -> None:
    made = plan("-N", "2", "-t", "30", "--image", image, "--", "python", "t.py", site="clariden", facts=IMAGE)

    assert values(made)["PMIX_MCA_psec"] == psec
    assert hook in dict(made.image.annotations)
    assert ("--network=disable_rdzv_get" in flags(made)) == (psec == "native")


def test_a_stack_that_the_site_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(UnknownName) as caught:
        plan("-N", "2", "--stack", "uenw", "--", "x", site="clariden")

    assert caught.value.hint == "did you mean 'uenv'?"


def test_a_program_of_mpi_is_started_with_the_words_of_the_stack() -> None:
    words = ("-N", "2", "-t", "30")
    by_mpi = replace(FACTS, script=ScriptFacts("t.py", needs_mpi=True))

    assert plan(*words, "--", "x", site="clariden", facts=by_mpi).mpi == "pmix"
    assert plan(*words, "--stack", "uenv", "--", "x", site="clariden", facts=by_mpi).mpi == "cray_shasta"
    assert plan(*words, "--", "x", site="clariden").mpi is None  # ranks of torch need none


def test_the_methods_of_the_library_are_those_that_can_be_asked_for() -> None:
    known = tuple(method.name for method in METHODS)
    assert known == WIREUPS
    with pytest.raises(RequestError, match="--wireup: 'telepathy' is not a known value"):
        request("--wireup", "telepathy", "--", "x")


# ---------------------------------------------------------------- trials and workloads


@pytest.mark.parametrize(
    ("site", "words", "name", "usual", "trial"),
    [
        ("lumi", ("-N", "2", "-g", "8", *LUMI), "partition", "standard-g", "dev-g"),
        ("clariden", ("-N", "2", "-g", "4", "-t", "30"), "partition", "normal", "debug"),
        ("marenostrum5", ("-N", "2", "-g", "4", "-A", "bsc98", "-t", "30"), "qos", None, "acc_debug"),
        ("perlmutter", ("-N", "2", "-g", "4", "-A", "m1_g", "-C", "gpu", "-t", "30"), "qos", "regular", "debug"),
    ],
)
def test_a_trial_goes_to_the_queue_for_trials(
    site: str, words: tuple[str, ...], name: str, usual: str | None, trial: str
) -> None:
    if usual is not None:
        assert directive(plan(*words, "--", "x", site=site), name) == usual
    assert directive(plan(*words, "--trial", "--", "x", site=site), name) == trial


def test_a_trial_too_large_for_that_queue_goes_where_all_jobs_go() -> None:
    made = plan("-N", "64", "-g", "8", *LUMI, "--trial", "--", "x", site="lumi")

    assert directive(made, "partition") == "standard-g"


def test_a_workload_brings_what_is_offered_under_its_name() -> None:
    bare = values(plan("-N", "2", *LUMI, "--", "x", site="lumi"))
    asked = values(plan("-N", "2", *LUMI, "--workload", "fork", "--", "x", site="lumi"))

    assert set(asked) - set(bare) == {"CXI_FORK_SAFE", "CXI_FORK_SAFE_HP", "FI_CXI_DISABLE_CQ_HUGETLB"}


def test_a_workload_that_is_not_offered_is_refused() -> None:
    with pytest.raises(UnknownName, match="there is no workload of lumi named 'forks'"):
        plan("-N", "2", *LUMI, "--workload", "forks", "--", "x", site="lumi")


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_a_profile_offers_can_be_asked_for(name: str) -> None:
    profile = bundled(name).profile
    offered = [
        *(each.when for each in profile.environment if each.verdict == "offered"),
        *(each.when for each in profile.commands if each.verdict == "offered"),
    ]
    for when in offered:
        assert when is not None
        assert when.workload in workloads_of(profile)


def test_the_offline_variables_are_a_workload_of_sites_without_internet() -> None:
    made = plan("-N", "2", "--workload", OFFLINE, "--", "x", site="supercloud")

    assert values(made)["HF_HUB_OFFLINE"] == "1"


# ---------------------------------------------------------------- proxies and mpirun


def test_the_sites_proxies_come_in_both_spellings_with_the_clusters_own_names_left_out() -> None:
    found = values(plan("-N", "2", "-A", "ABC123", "-t", "30", "--", "x", site="frontier"))

    assert found["http_proxy"] == found["HTTP_PROXY"] == "http://proxy.ccs.ornl.gov:3128/"
    assert found["no_proxy"] == found["NO_PROXY"] == "localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov"


def test_the_users_proxy_comes_in_both_spellings_too() -> None:
    found = values(plan("-N", "2", "--env", "https_proxy=http://p:1", "--", "x", site="generic"))

    assert found["https_proxy"] == found["HTTPS_PROXY"] == "http://p:1"
    assert found["no_proxy"] == "localhost,127.0.0.1,::1"


def test_the_users_no_proxy_wins() -> None:
    found = values(plan("-N", "2", "-A", "ABC123", "-t", "30", "--env", "no_proxy=mine", "--", "x", site="frontier"))

    assert found["no_proxy"] == found["NO_PROXY"] == "mine"


def test_without_a_proxy_none_of_it_is_set() -> None:
    found = values(plan("-N", "2", *LUMI, "--", "x", site="lumi"))

    assert not {name for name in found if "proxy" in name.lower()}


@pytest.mark.parametrize(("how", "wanted"), [("ssh", "rsh"), ("slurm", None)])
def test_mpirun_is_told_how_it_reaches_the_other_hosts_where_slurm_is_not_the_way(
    how: str, wanted: str | None, tmp_path: Path
) -> None:
    text = f'name = "mine"\ntitle = "t"\n[launch]\nmpirun_starts_with = "{how}"\n'
    (tmp_path / "muster").mkdir()
    site = str(written(tmp_path, text))

    assert values(plan("-N", "2", "--", "x", site=site, launcher="mpirun")).get("OMPI_MCA_plm") == wanted
    assert "OMPI_MCA_plm" not in values(plan("-N", "2", "--", "x", site=site, launcher="srun"))


# ---------------------------------------------------------------- what the user overrules


def test_taking_away_what_the_job_needs_is_told() -> None:
    made = plan("-N", "2", *LUMI, "--unset-env", "MIOPEN_USER_DB_PATH", "--", "x", site="lumi")

    assert [note.text for note in made.notes if note.warning and "lumi needs MIOPEN_USER_DB_PATH" in note.text]
    assert values(made)["MIOPEN_USER_DB_PATH"] is None  # the user wins


def test_setting_what_the_site_sets_to_the_same_value_is_nobodys_concern() -> None:
    made = plan("-N", "2", "-t", "30", "--stack", "uenv", "--env", "NCCL_PROTO=^LL128", "--", "x", site="clariden")

    assert not [note for note in made.notes if note.warning]


# ---------------------------------------------------------------- NCCL's version


ROCE = """\
name = "mine"
title = "t"
[[environment]]
name = "NCCL_IB_GID_INDEX"
value = "5"
when = { nodes_min = 2, nccl_below = "2.21" }
reason = "seen by the probe"
"""


@pytest.mark.parametrize(("version", "is_set"), [("2.18.3", True), ("2.21.5", False), (None, False)])
def test_the_gid_is_set_for_an_old_nccl_alone(version: str | None, is_set: bool, tmp_path: Path) -> None:
    site = load(str(written(tmp_path, ROCE)), SearchPath(site_wide=None))
    prefix = tmp_path / "env"
    (prefix / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    if version:
        (prefix / f"lib/python3.11/site-packages/nvidia_nccl_cu12-{version}.dist-info").mkdir()
    given, origins, command = parse(["-N", "2", "--", "x"])
    request = request_from({}, given, origins, command)
    seen = look_at_nccl(request, site, replace(FACTS, python=str(prefix / "bin" / "python")))
    from muster.plan.build import make_plan

    made = make_plan(request, site, seen, typed=(), engine=Engine.SLURM)

    assert seen.nccl == version
    assert values(made).get("NCCL_IB_GID_INDEX") == ("5" if is_set else None)


@pytest.mark.parametrize("venv", ["theirs", "none"])
def test_the_nccl_is_that_of_the_environment_that_the_ranks_get(venv: str, tmp_path: Path) -> None:
    """`--venv none` names no environment: the Python of the shell counts."""
    site = load(str(written(tmp_path, ROCE)), SearchPath(site_wide=None))
    for name, version in (("own", "2.18.3"), ("theirs", "2.21.5")):
        (tmp_path / f"{name}/lib/python3.11/site-packages/nvidia_nccl_cu12-{version}.dist-info").mkdir(parents=True)
    words = str(tmp_path / venv) if venv == "theirs" else venv

    found = look_at_nccl(
        request("-N", "2", "--venv", words, "--", "x"), site, replace(FACTS, python=str(tmp_path / "own/bin/python"))
    )

    assert found.nccl == {"theirs": "2.21.5", "none": "2.18.3"}[venv]


def test_the_version_is_read_from_the_wheel_else_from_the_module(tmp_path: Path) -> None:
    assert nccl_of_environment(None) is None
    assert nccl_of_environment(str(tmp_path / "bin/python")) is None
    assert nccl_of_modules(["cuda/12.1", "NCCL/2.18.3-GCC-12.3", "x/nccl/1"]) == "2.18.3"
    assert nccl_of_modules(["nccl"]) is None


def test_a_site_without_such_a_line_is_not_looked_into(tmp_path: Path) -> None:
    given, origins, command = parse(["-N", "2", "--", "x"])
    request = request_from({}, given, origins, command)

    assert look_at_nccl(request, bundled("lumi"), FACTS) is FACTS


def test_a_flag_of_every_job_gives_way_to_the_users(tmp_path: Path) -> None:
    text = HEAD + '[request]\nsbatch = ["--constraint=big", "--hint=nomultithread"]\n'
    site = str(written(tmp_path, text))

    assert directive(plan("-N", "2", "--", "x", site=site), "constraint") == "big"
    made = plan("-N", "2", "--constraint", "small", "--", "x", site=site)
    assert [each.value for each in made.directives if each.name == "constraint"] == ["small"]
    assert directive(made, "hint") == "nomultithread"


def test_nodes_that_muster_excludes_say_why_and_those_of_the_user_who() -> None:
    def reasons(asked: Request) -> dict[str, str]:
        made = make_plan(asked, bundled("generic"), FACTS, typed=(), engine=Engine.SLURM)
        return {each.name: each.reason.text for each in made.directives}

    asked = request("-N", "2", "--exclude", "n1", "--", "x")
    by_muster = replace(request("-N", "2", "--", "x"), exclude="n1", partition="gpu")

    assert reasons(asked)["exclude"] == "set by you"
    assert reasons(by_muster)["exclude"] == "these nodes failed under earlier jobs (muster nodes)"
    assert reasons(by_muster)["partition"] == ""


# ---------------------------------------------------------------- masks that would be wrong


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-N", "1", "-g", "1"), "part of a node"),
        (("-N", "2", "-g", "8", "--ntasks-per-node", "4"), "there are 4 ranks"),
    ],
)
def test_a_request_that_makes_the_masks_wrong_drops_them_and_says_so(words: tuple[str, ...], why: str) -> None:
    made = plan(*words, *LUMI, "--", "x", site="lumi")

    assert not [flag for flag in flags(made) if "cpu-bind" in flag]
    assert any(note.text.startswith("no CPU masks: ") and why in note.text for note in made.notes)


def test_a_request_with_masks_says_nothing_of_it() -> None:
    made = plan("-N", "2", "-g", "8", *LUMI, "--", "x", site="lumi")

    assert [flag for flag in flags(made) if "mask_cpu" in flag]
    assert not any("masks" in note.text for note in made.notes)


@pytest.mark.parametrize("time", ["0", "00:00", "infinite", "UNLIMITED"])
def test_unlimited_time_is_refused_where_the_queue_has_a_limit(time: str) -> None:
    with pytest.raises(RequestError, match="unlimited time is asked for, but normal allows 12:00:00") as refused:
        plan("-A", "a", "-t", time, "--", "x", site="clariden")
    assert refused.value.hint == "--time 12:00:00"
