"""What a shell beside a rank takes from it: its environment and directory, without the mark by which it is ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from muster.act import attach
from muster.runner import run


def test_a_shell_beside_a_rank_has_the_environment_of_the_rank_but_for_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def become(words: list[str], _: object) -> None:
        started.extend(words)
        raise SystemExit

    monkeypatch.setattr(attach, "become", become)
    job = f"of-test-{os.getpid()}"
    own = {"PATH": os.environ["PATH"], "RANK": "3", "A_VALUE": "of two\nlines", "MUSTER_MARKED": "1"}
    own["MUSTER_JOB"] = job
    for part, groups in ((None, []), (0, ["--het-group=0"])):
        with pytest.raises(SystemExit):
            attach.attach(job, "node1", "", 3, ("true",), {}, part)
        assert [word for word in started if word.startswith("--het-group")] == groups
    started.clear()
    with subprocess.Popen(["sleep", "600"], env={**own, "MUSTER_MARK": "/ends/1.0"}, cwd=tmp_path) as rank:
        with pytest.raises(SystemExit):
            attach.attach(job, "node1", "", 3, ("sh", "-c", "pwd -P; env -0"), {}, None)
        done = run(started[started.index("bash") :])
        rank.kill()

    place, _, text = done.stdout.partition("\n")
    seen = dict(variable.split("=", 1) for variable in text.split("\0") if variable)
    assert (place, done.stderr) == (str(tmp_path), "")
    assert {name: value for name, value in seen.items() if name in own} == own
    assert "MUSTER_MARK" not in seen
