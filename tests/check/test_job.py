"""A launch that brings no ranks is told of by what it said itself."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.errors import RequestError
from muster_check import job as jobs
from muster_check.job import look_at_job
from muster_check.ranks.lines import END, line_of_place


@pytest.mark.parametrize(
    ("said", "what", "hosts"),
    [
        ("node3: Communication connection failure", "meeting", "node3"),
        ("n7: Socket timed out on send/recv operation", "meeting", "n7"),
        ("node3: Job credential expired", "start", ""),
    ],
)
def test_a_node_that_srun_cannot_reach_is_named(tmp_path: Path, said: str, what: str, hosts: str) -> None:
    line = f"srun: error: Task launch for StepId=6.0 failed on node {said}"
    launch = ["sh", "-c", f"echo '{line}' >&2; exit 137", "sh"]

    looked = look_at_job(launch, {}, tmp_path / "check.pyz", host="login", job_name=None, image=False)

    assert [finding.what for finding in looked.findings] == [what]
    assert " ".join(looked.findings[0].hosts) == hosts


def test_one_refusal_of_the_launch_is_the_answer_and_of_several_each_is_a_finding(tmp_path: Path) -> None:
    def look(*said: str) -> list[str]:
        lines = "; ".join(f"printf 'muster: error: {each}\\n\\nhint: more\\n' >&2" for each in said)
        launch = ["sh", "-c", f"{lines}; exit 2", "sh"]
        looked = look_at_job(launch, {}, tmp_path / "check.pyz", host="login", job_name=None, image=False)
        return [finding.evidence for finding in looked.findings]

    assert look("no port", "no memory") == ["no port", "no memory"]
    with pytest.raises(RequestError, match="no port"):
        look("no port", "no port")


@pytest.mark.parametrize(
    ("lines", "alive", "whole", "knocked", "waited"),
    [
        ((), 3, True, 0, 3),
        ((), 500, True, 0, 500),
        (("PLACE",), 500, True, 1, 500),
        (("PLACE", "PLACE"), 500, False, 1, 61),
        (("srun: error: n1: task 1: Exited",), 500, False, 0, 61),
        (("srun: job 7 queued",), 500, True, 0, 500),
        (("a word",), 500, True, 0, 500),
        (("PLACE", "END"), 500, False, 1, 7),
        (("PLACE", "END"), 3, True, 1, 3),
    ],
)
def test_a_launch_is_heard_until_its_ranks_have_said_all(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], alive: int, whole: bool, knocked: int, waited: int
) -> None:
    now, knocks = [100.0], []

    def knock(*words: object, closed: bool) -> Any:
        knocks.append(words)
        return "stranger"

    def join(_: float) -> None:
        now[0] += 1

    monkeypatch.setattr(jobs, "knock", knock)
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for name, value in (("_PATIENCE_S", 60.0), ("_AFTER_THE_END_S", 5.0)):
        monkeypatch.setattr(jobs, name, value)
    hearing = jobs._Hearing("login", io.BytesIO(), closed=True)
    for line in lines:
        hearing.facts({"PLACE": line_of_place("10.0.0.1", 7), "END": END}.get(line, line))
    ear: Any = SimpleNamespace(is_alive=lambda: now[0] < 100 + alive, join=join)
    assert hearing.wait([ear]) is whole
    assert knocks == [("login", "10.0.0.1", 7)] * knocked
    assert now[0] - 100 == waited


@pytest.mark.parametrize("image", [True, False])
@pytest.mark.parametrize("job_name", [None, "mine"])
def test_the_ranks_of_a_check_are_started_by_name_and_with_the_python_of_their_image(
    tmp_path: Path, image: bool, job_name: str | None
) -> None:
    launch = ["sh", "-c", f'echo "$@" >{tmp_path}/words; exit 1', "sh"]
    look_at_job(launch, {}, tmp_path / "check.pyz", host="login", job_name=job_name, image=image)
    name = [] if job_name is None else ["--job-name", "mine"]
    python = "python3" if image else "python"
    expected = ["--no-label", *name, "--", python, str(tmp_path / "check.pyz"), "facts", "{}"]
    assert (tmp_path / "words").read_text().split() == expected
