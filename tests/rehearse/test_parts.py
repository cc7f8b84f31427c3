"""The pure parts of a rehearsal: what the probe tells, what is made of it, and where a script insists on a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.facts import ImageFacts
from muster.model.plan import Plan, Reason, Variable
from muster.model.words import Fragment
from muster.probe.judge import _environment, judge, judge_exit
from muster.probe.text import FAILED_WITH, Seen, failing_probe, parse, probe
from muster.render.script import job_script
from muster.runner import run
from muster_lab.rehearse.adapt import few_ranks, for_lab, not_shown
from muster_lab.rehearse.source import insists
from sites.profiles import bundled

_SAID = Reason("set by you")

_SITES = "alvis clariden frontier horeka juwels-booster lumi leonardo snellius vista".split()  # noqa: SIM905
LUMI = ("--site", "lumi", "-A", "project_465000000", "-N", "2", "-t", "30")
WORD = st.text(st.characters(blacklist_characters="\0\r\x1e\x1f", blacklist_categories=["Cs"]), max_size=10)


def seen_of(made: Plan, **changed: str) -> list[Seen]:
    """What the ranks of this plan would tell; `changed` holds for the last of them."""
    per_node, count = made.shape.ntasks_per_node, made.shape.ntasks
    masks = next((str(f.word).partition(":")[2] for f in made.step_flags if "mask_cpu" in str(f.word)), "")
    site = {each.name: str(each.value) for each in made.variables if each.value is not None}
    common = {
        **site,
        "MASTER_ADDR": "n0",
        "MASTER_PORT": "20000",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(made.shape.gpus_per_node))),
        "SLURM_CPU_BIND_LIST": masks,
    }
    argv = tuple(str(word) for word in made.command)
    found = [
        Seen(f"n{rank // per_node}", {**common, "RANK": str(rank), "LOCAL_RANK": str(rank % per_node)}, argv)
        for rank in range(count)
    ]
    found[-1] = replace(found[-1], environment={**found[-1].environment, **changed})
    return found


@settings(max_examples=40, deadline=None)
@given(words=st.lists(WORD, min_size=1, max_size=4), value=WORD)
def test_the_probe_tells_any_argument_and_any_value(words: list[str], value: str) -> None:
    argv = probe(("sh", *words), names=["VALUE", "ABSENT"], files=["/", "/not there"])

    done = run(list(argv), env={"PATH": "/usr/bin:/bin", "RANK": "3", "VALUE": value})
    (told,) = parse(f"0: noise\n{done.stdout}")

    assert done.ok, done.stderr
    assert (told.rank, told.argv, told.missing) == (3, ("sh", *words), None)
    assert told.environment["VALUE"] == value
    assert "ABSENT" not in told.environment
    assert told.unreadable == ("/not there",)


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_program_that_is_not_there_is_told(shell: str) -> None:
    _, flag, text, *rest = probe(("no-such-program", "x"), names=[], files=[])

    (told,) = parse(run([shell, flag, text, *rest], env={"PATH": "/usr/bin:/bin"}).stdout)

    assert told.missing == "no-such-program"


def test_the_failing_probe_fails_in_one_rank() -> None:
    assert run(list(failing_probe(3)), env={"PATH": "/usr/bin:/bin", "RANK": "3"}).status == FAILED_WITH


@pytest.mark.parametrize("name", ["lumi", "clariden"])
def test_a_launch_as_planned_has_no_wrong_point(name: str) -> None:
    words = LUMI[2:] if name == "lumi" else ("-N", "2", "-t", "30")
    made = plan(*words, "--", "python", "train.py", site=name)

    points = judge(made, seen_of(made))

    assert all(point.ok for point in points), points
    assert any("CPU masks" in point.text for point in points)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"RANK": "0"}, "ranks were planned"),
        ({"LOCAL_RANK": "0"}, "places"),
        ({"MASTER_ADDR": "elsewhere"}, "2 places"),
        ({"NCCL_SOCKET_IFNAME": "eth0"}, "NCCL_SOCKET_IFNAME='eth0'"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, "sees 1, 8 GPUs"),
        ({"SLURM_CPU_BIND_LIST": "0x1"}, "CPU masks"),
    ],
)
def test_what_one_rank_has_otherwise_is_found(changed: dict[str, str], said: str) -> None:
    made = plan(*LUMI[2:], "--", "python", "train.py", site="lumi")

    wrong = [point.text for point in judge(made, seen_of(made, **changed)) if not point.ok]

    assert len(wrong) == 1
    assert said in wrong[0]


@pytest.mark.parametrize(
    ("variable", "has", "in_image", "wrong"),
    [
        (Variable("A", "1", _SAID), {"A": "1"}, False, False),
        (Variable("A", "1", _SAID), {"A": "2"}, False, True),
        (Variable("A", "1", _SAID), {}, False, True),
        (Variable("A", Fragment("$B"), _SAID), {"A": "2"}, False, False),
        (Variable("A", Fragment("$B"), _SAID), {}, False, True),
        (Variable("A", "1", _SAID, pass_on=True), {}, False, False),
        (Variable("A", None, _SAID), {}, False, False),
        (Variable("A", None, _SAID), {"A": "1"}, False, True),
        (Variable("A", None, _SAID), {"A": "1"}, True, False),
        (Variable("A", "1", _SAID), {}, True, True),
        (Variable("A*", None, _SAID), {"A*": "1"}, False, False),
    ],
)
def test_a_variable_is_as_planned_or_named(
    variable: Variable, has: dict[str, str], in_image: bool, wrong: bool
) -> None:
    made = plan("-N", "2", "--", "x")
    image = replace(made.image, image="/i.sif" if in_image else None)
    made = replace(made, variables=(variable,), image=image)
    points = [*_environment(made, [Seen("n0", {"RANK": "0", **has})])]
    assert any(not point.ok for point in points) is wrong


def test_a_lost_file_names_the_host() -> None:
    made = plan(*LUMI[2:], "--", "python", "train.py", site="lumi")
    seen = seen_of(made)
    seen[-1] = replace(seen[-1], unreadable=("/data/set",), missing="python")

    wrong = [point.text for point in judge(made, seen) if not point.ok]

    assert wrong == [f"{made.command[0]} is not there on n1", "/data/set cannot be read on n1"]


def test_no_rank_at_all_is_one_point() -> None:
    (point,) = judge(plan(*LUMI[2:], "--", "x", site="lumi"), [])

    assert not point.ok


def test_the_status_of_the_rank_that_failed_has_to_come_out() -> None:
    assert judge_exit(FAILED_WITH).ok
    assert not judge_exit(0).ok


def test_what_the_lab_has_not_is_taken_out_and_said(golden: Callable[[Path, str], None]) -> None:
    """By site: of a lab without programs and folders, then of one with all; and the command of few ranks."""
    lines = []
    for site in _SITES:
        profile = bundled(site).profile
        account = profile.request.account_example or "x"
        made = plan("-N", "2", "-A", account, "-t", "30", "--node-prologue", "cp a b", "--", "x", site=site)
        few = few_ranks(made, 3)
        told = [*for_lab(made, profile, lambda program: False, lambda path: False).taken_out, "here:"]
        told += for_lab(made, profile, lambda program: True, lambda path: True).taken_out
        told += [
            "not shown:",
            *not_shown(made, profile),
            f"few: {few.shape.ntasks} {few.within} {few.label} {few.command}",
        ]
        lines.append(f"{site}: {'; '.join([*told, *(str(flag.word) for flag in few.step_flags)])}")
    golden(Path(__file__).parent.parent / "golden/adapted.txt", "\n".join([*lines, ""]))


def test_a_sites_own_starter_has_a_stand_in_where_it_is_not_here() -> None:
    made = plan("-N", "2", "-t", "30", "--venv", "none", "--", "x", site="vista")
    assert made.launcher == "ibrun"

    rehearsed = for_lab(made, bundled("vista").profile, lambda program: False, lambda path: True)
    there = for_lab(made, bundled("vista").profile, lambda program: program == "ibrun", lambda path: True)

    assert rehearsed.plan.launcher == "mpirun"
    assert any(text.startswith("ibrun itself: ") for text in rehearsed.taken_out)
    assert there.plan.launcher == "ibrun"
    assert "mpirun -np" in job_script(rehearsed.plan)


def test_modules_are_taken_out_and_the_users_environment_stays() -> None:
    made = plan("-N", "2", "-t", "30", "--venv", "/home/ada/env", "--", "x", site="supercloud")

    rehearsed = for_lab(made, bundled("supercloud").profile, lambda program: False, lambda path: True)

    assert [str(each.words[0]) for each in rehearsed.plan.prelude] == ["."]
    (modules,) = rehearsed.taken_out
    assert "load cuda/12.2 or cuda/11.6" in modules


def test_a_conda_environment_stays() -> None:
    """It was taken out as a command of the site: its word for the shell is a function of the script's own."""
    made = plan("--conda", "/home/ada/env", "--", "python", "t.py")

    rehearsed = for_lab(made, bundled("generic").profile, lambda program: False, lambda path: True)

    assert [command.folder for command in rehearsed.plan.prelude] == ["/home/ada/env"]
    assert not rehearsed.taken_out


def test_what_an_image_would_see_of_the_site_is_taken_out_where_it_is_not_here() -> None:
    facts = replace(FACTS, image=ImageFacts(kind="sif", project="/home/ada", package="/opt/venv/muster"))
    made = plan(*LUMI[2:], "--image", "/images/x.sif", "--", "x", site="lumi", facts=facts)

    rehearsed = for_lab(made, bundled("lumi").profile, lambda program: True, lambda path: path.startswith("/home"))

    assert {mount.source for mount in rehearsed.plan.image.mounts} == {"/home/ada"}
    assert any("/pfs" in text and "no such path" in text for text in rehearsed.taken_out)


@pytest.mark.parametrize(("nodes", "most", "ranks"), [(2, 4, 4), (2, 1, 1), (8, 4, 4), (2, 100, 16), (3, 4, 3)])
def test_the_command_itself_gets_few_ranks(nodes: int, most: int, ranks: int) -> None:
    made = plan("-A", "project_465000000", "-N", str(nodes), "-t", "30", "--", "python", "train.py", site="lumi")

    few = few_ranks(made, most)

    assert few.shape.ntasks == ranks
    assert few.command[:2] == ("env", "CUDA_VISIBLE_DEVICES=")
    assert "mask_cpu" not in job_script(few)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('import torch\ntorch.distributed.init_process_group("nccl")', [(2, 'init_process_group("nccl")')]),
        ('dist.init_process_group(backend="nccl")', [(1, 'init_process_group("nccl")')]),
        ("model.cuda()", [(1, ".cuda()")]),
        ("torch.cuda.set_device(rank)", [(1, "torch.cuda.set_device")]),
        ('x.to(f"cuda:{rank}")', [(1, 'to("cuda")')]),
        ('device = torch.device("cuda", rank)', [(1, 'device("cuda")')]),
        ('dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")', []),
        ("if torch.cuda.is_available():\n    model.cuda()", []),
        ("if ready:\n    model.cuda()", [(2, ".cuda()")]),
        ('dist.init_process_group("gloo")', []),
        ("this is not Python (", []),
        ("", []),
    ],
)
def test_a_script_insists_where_it_does_not_ask_first(source: str, found: list[tuple[int, str]]) -> None:
    assert [(each.line, each.what) for each in insists(source)] == found


def test_the_shipped_examples_insist_on_nothing() -> None:
    examples = Path(__file__).resolve().parents[2] / "examples"
    for script in examples.rglob("*.py"):
        assert not insists(script.read_text()), shlex.quote(str(script))
