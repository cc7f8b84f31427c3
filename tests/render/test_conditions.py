"""Lines of a job that stand there for some plans and not for others: one row for each condition that decides it."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.launchers import launcher_named
from muster.model.plan import Flag, Reason, Variable
from muster.model.words import Fragment, Template, Word
from muster.render.explain import plan_as_text
from muster.render.own_text import chooses_port, path_of_command
from muster.render.script import _notes, _variables, job_part
from plan.test_roles import LAYOUT, job

_SAID = Reason("set by you")


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ({"A": "1", "B": "2"}, ["export A=1 B=2"]),
        ({"A": "1", "B": None}, ["unset B", "export A=1"]),
        ({"AB": "1", "A*": None}, ["export AB=1", 'unset "${!A@}"']),
        ({"A": "1", "A_B": Fragment('"$A"')}, ["export A=1", 'export A_B="$A"']),
        ({"A": "1", "B": Fragment('"$C"')}, ['export A=1 B="$C"']),
        ({"TMPDIR": "/t", "B": Template("{node_tmp}/b", ("node_tmp",))}, 2),
        ({"A": "1", "B": Template("{node_tmp}/b", ("node_tmp",))}, 1),
        ({"TMPDIR": "/t", "B": "/t/b"}, 1),
    ],
)
def test_variables_share_a_line_where_none_speaks_of_one_before_it(
    values: dict[str, Word | None], lines: list[str] | int
) -> None:
    written = list(_variables(Variable(name, value, _SAID) for name, value in values.items()))
    assert (len(written) if isinstance(lines, int) else written) == lines


@pytest.mark.parametrize(
    ("words", "facts", "launcher", "part", "there"),
    [
        (("--restart", "1"), {"own_python": "/m/python"}, "srun", "muster_supervise /m/python ", True),
        (("--restart", "1"), {}, "srun", "muster_supervise python3 ", True),
        (("--restart", "1", "--venv", "/e"), {}, "srun", "muster_supervise /e/bin/python ", True),
        (("--requeue", "--env", "A_TOKEN=secretvalue"), {}, "srun", "\n    muster_passed_on\n", True),
        (("--requeue",), {}, "srun", "\n    muster_passed_on\n", False),
        (("--requeue", "--restart", "1", "--env", "A_TOKEN=secretvalue"), {}, "srun", "muster_passed_on\n", False),
    ],
)
def test_a_line_of_the_job(
    words: tuple[str, ...], facts: dict[str, str], launcher: str, part: str, there: bool
) -> None:
    made = plan("-N", "2", *words, "--", "python", "t.py", facts=replace(FACTS, **facts), launcher=launcher)
    assert (part in job_part(made)) is there


@pytest.mark.parametrize(
    ("meeting", "flag", "looks"),
    [
        ({}, "--mem=1", True),
        ({}, "--nodelist=n1", False),
        ({}, "--exclude=n1", False),
        ({"port": 29500}, "--mem=1", False),
        ({"reserved_ports": True}, "--mem=1", False),
    ],
)
def test_a_port_is_looked_for_where_nobody_has_one(meeting: dict[str, object], flag: str, looks: bool) -> None:
    made = plan("-N", "2", "--", "x")
    made = replace(made, rendezvous=replace(made.rendezvous, **meeting), step_flags=(Flag(flag, _SAID),))
    assert chooses_port(made, launcher_named("srun")) is looks


@pytest.mark.parametrize(("image", "is_set"), [(None, True), ("/i.sif", False)])
def test_the_commands_own_path_is_set_outside_of_images(image: str | None, is_set: bool) -> None:
    made = plan("-N", "2", "--env", "PATH=/x:/bin", "--", "y")
    assert path_of_command(plan("-N", "2", "--", "y")) is None
    made = replace(made, image=replace(made.image, image=image))
    assert (path_of_command(made) is not None) is is_set


@pytest.mark.parametrize("lengths", [(60, 60, 60), (118, 9), (9, 118), (130,)])
def test_the_reasons_of_the_flags_stand_in_as_few_lines_as_hold_them(lengths: tuple[int, ...]) -> None:
    flags = tuple(Flag(f"--a{number}", Reason("why", short="x" * length)) for number, length in enumerate(lengths))
    made = replace(plan("-N", "2", "--", "x"), step_flags=flags)
    lines = [line for line in _notes(made, launcher_named("srun")) if "x" in line]
    assert all(len(line.removeprefix("# ")) > 9 for line in _notes(made, launcher_named("srun")))
    assert all(len(line) <= 120 - made.step_indent or line.count("--a") == 1 for line in lines)
    assert [len(text) for text in re.findall(r"--a\d: (x+)", " ".join(lines))] == list(lengths)


def test_roles_are_written_with_what_becomes_of_their_failure_and_where_they_are_reached() -> None:
    made = job(*LAYOUT[:-13], *("--role", "watch", "-N", "1", "--on-failure", "note", "--", "w"), *LAYOUT[-13:])
    roles = {line.split()[1]: line for line in job_part(made).splitlines() if line.lstrip().startswith("muster_role ")}
    assert sorted(roles) == ["data", "serve", "train", "watch"]
    assert [name for name, line in roles.items() if "fails=noted" in line] == ["watch"]
    assert "muster_run_roles python3 " in job_part(made)
    assert "muster_run_roles /m/python " in job_part(replace(made, own_python="/m/python"))
    passed = re.findall(r"^  pass on (\S+)$", plan_as_text(made), re.MULTILINE)
    assert {"MUSTER_ROLE_PORT", "MUSTER_SERVE_URL"} <= set(passed)


@pytest.mark.parametrize(("own", "of_image"), [("/r", None), (None, "/r"), (None, None)])
def test_why_names_the_folder_by_which_a_rank_shows_its_stack(own: str | None, of_image: str | None) -> None:
    made = plan("-N", "2", "--", "x")
    made = replace(made, ready=own, image=replace(made.image, ready=of_image))
    assert ("PYTHONPATH = /r:…" in plan_as_text(made)) is bool(own or of_image)
