"""Several programs in one job: where each runs, what it knows of the others, what is refused before the job waits."""

from __future__ import annotations

import re
import subprocess

import pytest

from launch.plans import FACTS
from muster.act.prepare import request_for
from muster.errors import RequestError
from muster.job.options import read_words, request_from
from muster.job.request import options_of
from muster.model.digest import digest_of
from muster.model.plan import Plan, ReadyKind
from muster.plan.roles import make_job_of_roles
from muster.render.document import plan_as_json
from muster.render.explain import explain, plan_as_text
from muster.render.script import job_script
from muster.sites.load import choose_site, load
from muster.slurm.cluster_facts import ClusterFacts
from slurm.clusters import accounting_text, cluster, kind_line, partition_line

LAYOUT = (
    *("-t", "60", "--role", "serve", "-N", "1", "-g", "4", "--ready", "http://{host}:{port}/health"),
    *("--", "serve", "--port", "{port}", "--role", "data", "--beside", "train", "-c", "2", "--", "data"),
    *("--role", "train", "-N", "3", "-g", "4", "-c", "4", "--after", "serve,data", "--", "train", "{serve.url}"),
)


def job(*words: str, site: str = "generic", known: ClusterFacts | None = None) -> Plan:
    """The plan of a job with roles."""
    typed = read_words(words, options_of())
    request = request_from({}, typed.values, typed.origins, typed.rest)
    here = load(site, None, None, known) if known else choose_site(site, FACTS, {})
    return make_job_of_roles(request, here, lambda _: FACTS, words)


def header(plan: Plan) -> dict[str, str | None]:
    return {directive.name: directive.value for directive in plan.directives}


def flags(plan: Plan, name: str) -> list[str]:
    role = next(role for role in plan.roles if role.name == name)
    return [str(getattr(flag.word, "text", flag.word)) for flag in role.plan.step_flags]


def test_a_path_below_home_is_one_in_a_role_too() -> None:
    typed = read_words(("--role", "a", "--venv=~/env", "--", "x"), options_of())
    _, request = request_for(FACTS, typed.values, typed.origins, typed.rest)
    assert request.roles[0].venv == "/home/ada/env"


def test_what_is_typed_for_the_whole_job_is_said_to_be_of_the_user() -> None:
    reasons = {each.name: each.reason.text for each in job("-J", "both", *LAYOUT).directives}
    assert (reasons["time"], reasons["job-name"]) == ("set by you", "set by you")
    assert reasons["nodes"] != "set by you"


def test_roles_have_nodes_of_their_own_or_those_of_another() -> None:
    plan = job(*LAYOUT)

    assert {role.name: (role.first, role.plan.shape.nodes) for role in plan.roles} == {
        "serve": (0, 1),
        "data": (1, 3),
        "train": (1, 3),
    }
    assert header(plan)["nodes"] == "4"
    assert header(plan)["gpus-per-node"] == "4"
    tasks, cpus = header(plan)["ntasks-per-node"], header(plan)["cpus-per-task"]
    assert int(tasks or 0) * int(cpus or 0) >= 2 + 4 * 4


@pytest.mark.parametrize(("words", "origin"), [((), "the last role"), (("--main",), "--main")])
def test_the_main_role_is_the_last_or_the_one_that_is_named(words: tuple[str, ...], origin: str) -> None:
    plan = job("--role", "a", "--", "x", "--role", "b", *words, "--", "y")
    (reason,) = [reason for role in plan.roles for text, reason in role.reasons if text == "main"]
    assert reason.origin == origin


def test_roles_that_share_nodes_get_parts_and_the_others_do_not() -> None:
    plan = job(*LAYOUT)

    assert {"--exact", "--mem=0", "--gres=none"} <= set(flags(plan, "data"))
    assert {"--exact", "--mem=0"} <= set(flags(plan, "train"))
    assert "--gres=none" not in flags(plan, "train")
    assert "--exact" not in flags(plan, "serve")


def test_a_role_beside_another_may_have_some_of_its_nodes() -> None:
    plan = job("--role", "light", "-N", "1", "--beside", "train", "--", "x", "--role", "train", "-N", "3", "--", "y")

    assert [(role.name, role.first, role.plan.shape.nodes) for role in plan.roles] == [
        ("light", 0, 1),
        ("train", 0, 3),
    ]


def test_the_number_of_nodes_for_all_is_not_one_of_its_own() -> None:
    plan = job("-N", "2", "--role", "data", "--beside", "train", "--", "x", "--role", "train", "-N", "3", "--", "y")

    assert [role.plan.shape.nodes for role in plan.roles] == [3, 3]


def test_roles_of_several_kinds_of_nodes_are_parts_of_one_job() -> None:
    words = (
        *(
            "-p",
            "gpu",
            "--role",
            "a",
            "-g",
            "4",
            "--",
            "x",
            "--role",
            "b",
            "-p",
            "cpu",
            "-N",
            "2",
            "-g",
            "0",
            "-c",
            "2",
        ),
        *("--", "y", "--role", "c", "-N", "3", "-g", "2", "--", "z", "--role", "d", "--beside", "b", "--", "w"),
    )
    plan = job(*words)
    script = job_script(plan)

    # Those of one kind lie beside each other, in the first part, whose first node runs the script.
    places = [(role.name, role.part, role.first) for role in plan.roles]
    assert places == [("a", 0, 0), ("b", 1, 4), ("c", 0, 1), ("d", 1, 4)]
    assert header(plan)["nodes"] == "4"
    assert header(plan)["gpus-per-node"] == "4"
    assert header(plan)["partition"] == "gpu"
    (directives,) = plan.parts
    second = {directive.name: directive.value for directive in directives}
    assert (second["nodes"], second["partition"]) == ("2", "cpu")
    assert not {"gpus-per-node", "export", "comment"} & second.keys()
    assert script.count("\n#SBATCH hetjob\n") == 1
    assert [name for name in "abcd" if "--het-group=1" in flags(plan, name)] == ["b", "d"]
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    shown = plan_as_text(plan)
    assert (
        "part 2 of the job, srun --het-group=1\n      a heterogeneous job: the roles ask for nodes of several" in shown
    )
    assert "[-p cpu]" in shown
    other_part = job(*(word if word != "cpu" else "other" for word in words))
    assert digest_of(other_part) != digest_of(plan), "the header of a further part counts"


def test_nodes_of_one_kind_are_one_allocation() -> None:
    plan = job("-p", "gpu", "--role", "a", "-p", "gpu", "--", "x", "--role", "b", "--", "y")

    assert plan.parts == ()
    assert [role.part for role in plan.roles] == [None, None]
    assert "het" not in job_script(plan).partition("# ------")[0]


def test_parts_whose_nodes_the_site_asks_for_alike_are_one_allocation() -> None:
    train = ("--role", "train", "-q", "regular", "-N", "2", "-g", "4", "--", "x")
    plan = job("-A", "m1", "-t", "30", *train, "--role", "data", "-N", "1", "-g", "4", "--", "y", site="perlmutter")

    assert plan.parts == ()
    assert (header(plan)["qos"], header(plan)["constraint"], header(plan)["nodes"]) == ("regular", "gpu", "3")
    other = job(
        "-A", "m1", "-t", "30", *train[:8], "--", "x", "--role", "data", "-x", "n1", "--", "y", site="perlmutter"
    )
    assert len(other.parts) == 1, "the nodes that are left out are asked for"


def test_a_role_says_what_is_for_its_part_alone() -> None:
    words = ("-p", "standard-g", "-t", "30", "-A", "p1", "--role", "train", "-p", "small-g", "-g", "1", "--", "x")
    with pytest.raises(RequestError, match="role data: -p standard-g, but it runs on nodes of train"):
        job(*words, "--role", "data", "-p", "standard-g", "--beside", "train", "--", "y", site="lumi")
    of_all = job(*words, "--role", "data", "--beside", "train", "--", "y", site="lumi")
    assert (of_all.parts, header(of_all)["partition"]) == ((), "small-g")
    count = (
        "-N",
        "2",
        "--role",
        "data",
        "-N",
        "2",
        "--beside",
        "train",
        "--",
        "x",
        "--role",
        "train",
        "-N",
        "3",
        "--",
        "y",
    )
    assert [role.plan.shape.nodes for role in job(*count).roles] == [2, 3], "the number is the role's own"


TWO_KINDS = ("--role", "train", "-p", "gpu", "-g", "4", "-N", "2", "--", "x", "--role", "data", "-p", "cpu", "--", "y")


def test_the_shape_of_a_job_with_parts_is_that_of_the_first() -> None:
    assert "shape of part 1" in {section for section, _, _ in explain(job(*TWO_KINDS))}
    assert "shape" in {section for section, _, _ in explain(job(*LAYOUT))}


def test_what_is_said_of_one_part_names_its_roles() -> None:
    kinds = [kind_line("main", 4, gres="gpu:4"), kind_line("cpu", 4, 8)]
    known = cluster([partition_line("main", Default="YES"), partition_line("cpu")], kinds)
    third = ("--role", "c", "--beside", "b", "--", "z")
    others = ("--role", "b", "-p", "main", "-x", "main0", "-g", "0", "-c", "1", "--", "y", *third)
    plan = job("-t", "5", "--role", "a", "-w", "main0", "-g", "2", "--", "x", *others, known=known)
    told = [note.text for note in plan.notes if note.warning and "no GPU" in note.text]
    assert [text.partition(", and")[0] for text in told] == ["role b, c: no GPU is asked for"]
    with pytest.raises(RequestError, match=r"^role b, c: 9 nodes, but main has 4"):
        job("-t", "5", "--role", "a", "-w", "main0", "--", "x", "--role", "b", "-N", "9", *others[2:], known=known)
    with pytest.raises(RequestError, match=r"^9 nodes, but main has 4"):
        job("-t", "5", "--role", "a", "-N", "5", "--", "x", "--role", "b", "-N", "4", "--", "y", known=known)


@pytest.mark.parametrize(("flags", "is_refused"), [("", False), ("DenyOnLimit", True)])
def test_the_parts_of_a_job_are_held_to_a_limit_together(flags: str, is_refused: bool) -> None:
    known = cluster(
        [partition_line("main", Default="YES")],
        [kind_line("main", 8, gres="gpu:4")],
        accounting_text("chem|chem||normal|", f"normal|;maxtrespu=node=3 flags={flags}"),
        AccountingStorageEnforce="associations,limits,qos",
    )
    words = ("-t", "5", "--role", "a", "-N", "2", "--mem", "1G", "--", "x", "--role", "b", "-N", "2", "--", "y")
    said = "2 + 2 = 4 nodes in the parts of the job, but the QOS normal allows a user 3 (what Slurm sa"
    if is_refused:
        with pytest.raises(RequestError, match=re.escape(said)):
            job(*words, known=known)
        return
    told = [note.text for note in job(*words, known=known).notes if note.warning]
    assert f"the job waits: {said}id here at 2026-11-23 03:52; --fresh asks again)" in told


def test_an_array_has_nodes_of_one_kind() -> None:
    one_kind = [word if word != "cpu" else "gpu" for word in TWO_KINDS]
    assert header(job("--sbatch=--array=0-1", *one_kind))["array"] == "0-1"
    with pytest.raises(RequestError, match="--array: a job whose nodes are of several kinds cannot be an array"):
        job("--sbatch=--array=0-1", *TWO_KINDS)


def test_the_last_role_is_the_main_one_unless_another_is_named() -> None:
    assert [role.name for role in job(*LAYOUT).roles if role.is_main] == ["train"]
    named = job("--role", "a", "--main", "--", "x", "--role", "b", "--", "y")
    assert [role.name for role in named.roles if role.is_main] == ["a"]


def test_a_role_that_listens_has_one_rank_on_a_node() -> None:
    ranks = {
        ("--role", "a", "-g", "4", "--", "x"): 4,
        ("--role", "a", "-g", "4", "--", "x", "{port}"): 1,
        ("--role", "a", "-g", "4", "--port", "grpc", "--", "x"): 1,
        ("--role", "a", "-g", "4", "--ready", "port", "--", "x"): 1,
        ("--role", "a", "-g", "4", "--ready", "log:up", "--", "x"): 4,
        ("--role", "a", "-g", "4", "--ntasks-per-node", "2", "--port", "grpc", "--", "x"): 2,
    }
    for words, count in ranks.items():
        assert job(*words).roles[0].plan.shape.ntasks_per_node == count


def test_the_ways_to_be_ready() -> None:
    ways = {
        "port": ReadyKind.PORT,
        "joined": ReadyKind.JOINED,
        "https://{host}/x": ReadyKind.ADDRESS,
        "log:serving at": ReadyKind.LOG,
        "command:test -e up": ReadyKind.COMMAND,
    }
    for way, kind in ways.items():
        (role,) = job("--role", "a", "--ready", way, "--", "x").roles
        assert role.ready.kind is kind


def test_addresses_stand_in_the_words_of_the_command_and_of_env() -> None:
    plan = job("--role", "a", "--", "x", "--role", "b", "--env", "U={a.url}/v1", "--", "y", "{a.host}", "$HOME{port}")
    script = job_script(plan)

    assert """U="$MUSTER_A_URL"/v1""" in script
    assert """muster y "$MUSTER_A_HOST" '$HOME'"$MUSTER_B_PORT\"""" in script


def test_a_gap_of_the_shell_stays() -> None:
    script = job_script(job("--role", "a", "--", "sh", "-c", "echo ${port} {other}"))

    assert "'echo ${port} {other}'" in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--role", "a", "--after", "b", "--", "x"), "no role is called so"),
        (("--role", "a", "--", "x", "{a.prot}"), "{a.prot} is not an address of role a"),
        (("--role", "a", "--ready", "http://{hots}:{port}/", "--", "x"), "{hots} is not an address of a role"),
        (("--role", "a", "--beside", "b", "--", "x"), "no role is called so"),
        (("--role", "a", "--after", "a", "--", "x"), "names the role itself"),
        (("--role", "a", "--", "x", "{bb.url}"), "names bb"),
        (("--role", "a"), "role a has no command"),
        (("--role", "a", "--after", "b", "--", "x", "--role", "b", "--after", "a", "--", "y"), "wait for each other"),
        (("--role", "a", "--main", "--", "x", "--role", "b", "--main", "--", "y"), "two roles are the main one"),
        (("--role", "a", "--on-failure", "note", "--", "x"), "its end is the job's, --on-failure note or not"),
        (("--role", "a", "-t", "9", "--", "x"), "-t 9 is for the whole job"),
        (("--role", "a", "-p", "gpu", "--beside", "b", "--", "x", "--role", "b", "--", "y"), "runs on nodes of b"),
        (("-w", "n1", "--role", "a", "-p", "gpu", "--", "x", "--role", "b", "--", "y"), "-w n1 names nodes for all"),
        (("--role", "a", "-p", "p", "--launcher", "mpirun", "--", "x", "--role", "b", "--", "y"), "several kinds"),
        (("--role", "a", "--until-done", "--", "x"), "is not known to a job with roles"),
        (("--spares", "1", "--role", "a", "--", "x"), "is not known to a job with roles"),
        (("--role", "a", "--ready", "soon", "--", "x"), "does not say when it is ready"),
        (("--role", "a", "--ready", "log:", "--", "x"), "does not say when it is ready"),
        (("--role", "a", "-N", "3", "--beside", "b", "--", "x", "--role", "b", "-N", "2", "--", "y"), "which has 2"),
        (("--role", "a", "--launcher", "mpirun", "--beside", "b", "--", "x", "--role", "b", "--", "y"), "whole nodes"),
        (("--role", "a", "-N", "2", "--", "torchrun", "x.py"), "role a: "),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        job(*words)
    assert caught.value.hint


def test_roles_that_need_more_than_a_node_has_are_refused() -> None:
    words = ("-A", "x", "-t", "30", "--role", "a", "-g", "7", "--beside", "b", "--", "x", "--role", "b", "-g", "2")

    with pytest.raises(RequestError, match=r"7 \(a\) \+ 2 \(b\) = 9 GPUs, but a node has 8"):
        job(*words, "--", "y", site="karolina")


def test_a_role_has_the_gpus_that_those_beside_it_leave() -> None:
    words = ("-A", "x", "-t", "30", "--role", "a", "-g", "1", "--beside", "b", "--", "x", "--role", "b", "--", "y")

    assert [role.plan.shape.gpus_per_node for role in job(*words, site="karolina").roles] == [1, 7]


def test_where_slurm_gives_whole_nodes_roles_cannot_share_gpus() -> None:
    words = ("-A", "x", "-t", "30", "--role", "a", "-g", "{}", "--beside", "b", "--", "x", "--role", "b", "--", "y")

    with pytest.raises(RequestError, match="does not give out single GPUs"):
        job(*(word.format(1) for word in words), site="meluxina")
    plan = job(*(word.format(0) for word in words), site="meluxina")
    assert not [flag for flag in flags(plan, "b") if "gpus" in flag or "gres" in flag]


def test_the_script_is_bash_and_holds_each_role_once() -> None:
    script = job_script(job(*LAYOUT))

    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    for name in ("serve", "data", "train"):
        assert script.count(f"\nrole_{name}() {{\n") == 1
    assert "    muster_run_roles python3 /opt/muster/muster/life ports=" in script
    assert script.count("muster_count_ends() {") == 1, "what all roles call stands once"


def test_roles_with_other_launchers_keep_their_own_text() -> None:
    script = job_script(job("--role", "a", "--launcher", "torchrun", "--", "x.py", "--role", "b", "--", "y"))

    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    a, b = script.index("\nmuster_own_a() {"), script.index("\nmuster_own_b() {")
    assert "muster_torchrun_status()" in script[a:b]
    assert "muster_torchrun_status()" not in script[b:]


def test_the_explanation_tells_of_each_role() -> None:
    text = plan_as_text(job(*LAYOUT))

    for line in ("role serve:", "nodes 2-4 of the job", "after serve, data", "its failure ends the job", "main"):
        assert line in text
    assert "step of train:" in text
    assert '"roles"' in plan_as_json(job(*LAYOUT))


def test_another_division_is_another_job() -> None:
    other = [word.replace("serve,data", "serve") for word in LAYOUT]

    assert digest_of(job(*LAYOUT)) == digest_of(job(*LAYOUT))
    assert digest_of(job(*LAYOUT)) != digest_of(job(*other))


@pytest.mark.parametrize(
    ("rule", "outlives"), [(("--on-failure", "note"), True), (("--restart", "1"), False), ((), False)]
)
def test_a_job_outlives_a_node_only_where_a_role_may_fail(rule: tuple[str, ...], outlives: bool) -> None:
    plan = job("-g", "0", "-t", "5", "--role", "serve", *rule, "--", "true", "--role", "train", "--", "true")

    assert ("no-kill" in header(plan)) is outlives


RAY = ("-t", "60", "--role", "ray", "--preset", "ray", "-N", "3", "-c", "4", "-g", "2", "--", "--object-store-memory=9")
DRIVER = ("--role", "driver", "--beside", "ray", "-N", "1", "--after", "ray", "--", "python", "driver.py")


def test_the_others_find_the_ray_of_the_job_and_know_its_secret() -> None:
    ray, driver = job(*RAY, *DRIVER).roles
    variables = {variable.name: variable for variable in driver.plan.variables}

    assert (ray.ports, ray.scheme, ray.ready.kind, ray.ready.text) == (9, "ray", ReadyKind.LOG, "Ray runtime started.")
    assert ray.plan.shape.ntasks_per_node == 1
    assert str(getattr(variables["RAY_ADDRESS"].value, "text", None)) == "{ray.host}:{ray.port}"
    assert str(getattr(variables["RAY_AUTH_TOKEN"].value, "text", None)) == "{ray.key}"
    assert variables["MUSTER_RAY_KEY"].pass_on
    assert {"MUSTER_ROLE_KEY", "MUSTER_RAY_KEY"} <= {variable.name for variable in ray.plan.variables}
    assert not {"MUSTER_ROLE_KEY", "MUSTER_DRIVER_KEY"} & set(variables), "it has none"
    assert "RAY_ADDRESS" not in {variable.name for variable in ray.plan.variables}


def test_replica_groups_find_their_lighthouse() -> None:
    groups = [word for name in ("left", "right") for word in ("--role", name, "--after", "light", "--", "train")]
    script = job_script(job("--role", "light", "--preset", "torchft", "--", "--min_replicas", "1", *groups))

    assert """exec torchft_lighthouse --bind "[::]:$MUSTER_ROLE_PORT" "$@"\n' torchft --min_replicas 1""" in script
    assert script.count('TORCHFT_LIGHTHOUSE="$MUSTER_LIGHT_URL"') == 2


def test_a_preset_has_one_process_on_each_node() -> None:
    with pytest.raises(RequestError, match="ray has one process on each node"):
        job(*RAY[:4], "--ntasks-per-node", "2", *RAY[4:], *DRIVER)
