"""A launch that brings no ranks is told of by what it said itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import RequestError
from muster_check.job import look_at_job


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
