"""`--restart` on a lab: the same ranks start again in the allocation, or a sentence says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

# Rank 2 fails in the first attempt; each rank of each attempt writes down what it was told.
_RANK = """\
env >"told.$MUSTER_ATTEMPT.$RANK"
[ "$MUSTER_ATTEMPT" = 1 ] || exit 0
[ "$RANK" = 2 ] || exec sleep 60
sleep 0.3
"""


def _muster(lab: Lab, folder: Path) -> Callable[..., ProgramResult]:
    def start(*words: str) -> ProgramResult:
        return lab.exec(
            ["env", f"XDG_STATE_HOME={folder / 'state'}", MUSTER, *words], cwd=folder, env={"PATH": path_with()}
        )

    return start


def _told(folder: Path, attempt: int, rank: int) -> dict[str, str]:
    lines = (folder / f"told.{attempt}.{rank}").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def _run(lab: Lab, folder: Path, end: str, *words: str, restarts: int = 2) -> ProgramResult:
    (folder / "rank.sh").write_text(_RANK + end + "\n")
    size = ("-N", "2", "--ntasks-per-node", "2")
    return _muster(lab, folder)("run", "--quiet", "--restart", str(restarts), *size, *words, "--", "sh", "rank.sh")


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
@pytest.mark.parametrize(
    ("end", "cause"), [("exit 7", "exit status 7"), ("kill -9 $$", "ended by SIGKILL")], ids=["exits", "killed"]
)
def test_the_same_ranks_start_again(lab: Lab, shared_directory: Path, launcher: str, end: str, cause: str) -> None:
    result = _run(lab, shared_directory, end, "--launcher", launcher)

    assert result.status == 0, result.stderr
    assert f"muster: attempt 1 ended: rank 2 on node2: {cause}; the same ranks start again (restart 1 of 2)" in (
        result.stderr
    )
    first, second = (_told(shared_directory, attempt, 2) for attempt in (1, 2))
    same = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TORCHELASTIC_MAX_RESTARTS")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}
    assert (first["TORCHELASTIC_RESTART_COUNT"], second["TORCHELASTIC_RESTART_COUNT"]) == ("0", "1")
    assert first["MASTER_PORT"] != second["MASTER_PORT"]
    assert first["TORCHELASTIC_RUN_ID"] != second["TORCHELASTIC_RUN_ID"]
    assert not list(shared_directory.glob("told.3.*"))


@pytest.mark.torch
def test_torchrun_starts_again_as_new_agents(lab: Lab, shared_directory: Path) -> None:
    result = _run(lab, shared_directory, "exit 7", "--launcher", "torchrun")

    assert result.status == 0, result.stderr
    assert "muster: attempt 1 ended: rank 2 on node2: exit status 7; the same ranks start again" in result.stderr
    assert _told(shared_directory, 2, 2)["TORCHELASTIC_RESTART_COUNT"] == "1"


@pytest.mark.parametrize(
    ("end", "status", "sentence"),
    [
        ("echo 'ValueError: bad' >&2; exit 1", 1, "the same first error came twice, and no new checkpoint in between"),
        ("echo \"ModuleNotFoundError: No module named 'x'\" >&2; exit 1", 1, "a module that is missing"),
        ("echo 'train.py: error: unrecognized arguments: --x' >&2; exit 2", 2, "an error of usage"),
        ('echo "python: can\'t open file x" >&2; exit 2', 2, "a file that is missing"),
        ("echo 'SyntaxError: invalid syntax' >&2; exit 1", 1, "an error of syntax"),
        ("exec no-such-program", 127, "there is no such program"),
    ],
)
def test_what_would_fail_again_is_not_started_again(
    lab: Lab, shared_directory: Path, end: str, status: int, sentence: str
) -> None:
    twice = "twice" in sentence
    (shared_directory / "rank.sh").write_text(f'echo "$MUSTER_ATTEMPT" >>began.$RANK\n{end}\n')
    words = ("run", "--quiet", "--restart", "9", "--ntasks-per-node", "1", "--", "sh", "rank.sh")
    result = _muster(lab, shared_directory)(*words)

    assert result.status == status, result.stderr
    assert f"not started again: {sentence}" in result.stderr
    assert (shared_directory / "began.0").read_text() == ("1\n2\n" if twice else "1\n")


def test_each_attempt_keeps_its_logs_and_why_tells_the_story(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "rank.sh").write_text(
        'echo "words of attempt $MUSTER_ATTEMPT"\n[ "$RANK" = 1 ] || exec sleep 60\nsleep 0.3; exit "$MUSTER_ATTEMPT"\n'
    )
    muster = _muster(lab, shared_directory)
    size = ("-N", "2", "--ntasks-per-node", "1")
    job = checked(muster("submit", "--quiet", "--restart", "1", *size, "--", "sh", "rank.sh")).stdout.strip()

    followed = muster("logs", "-f", job)
    assert followed.status == 2
    for attempt in (1, 2):
        assert f"1: words of attempt {attempt}\n" in followed.stdout
        assert f"muster: attempt {attempt} ended" in followed.stdout
    story = muster("why", job).stdout
    assert "attempt 1: rank 1 on node2: exit status 1; the same ranks start again (restart 1 of 1)" in story
    assert "attempt 2: rank 1 on node2: exit status 2; not started again: that was allowed 1 time" in story
    for attempt in (1, 2):
        assert f"1: words of attempt {attempt}\n" in muster("logs", "--attempt", str(attempt), job).stdout
    (told,) = json.loads(muster("why", "--json", job).stdout)
    assert [
        (each["attempt"], each["status"], each["rank"], each["host"], each["decision"]) for each in told["attempts"]
    ] == [
        (1, 1, 1, "node2", "again"),
        (2, 2, 1, "node2", "end"),
    ]


def test_a_job_that_is_cancelled_does_not_start_again(lab: Lab, shared_directory: Path) -> None:
    muster = _muster(lab, shared_directory)
    (shared_directory / "rank.sh").write_text(": >began.$MUSTER_ATTEMPT.$RANK\nexec sleep 60\n")
    job = checked(muster("submit", "--quiet", "--restart", "5", "--", "sh", "rank.sh")).stdout.strip()
    checked(
        lab.exec(
            ["sh", "-c", "for i in $(seq 300); do [ -e began.1.0 ] && exit 0; sleep 0.1; done; exit 1"],
            cwd=shared_directory,
        )
    )

    muster("cancel", job)
    muster("logs", "-f", job)
    assert "not started again: the job" in muster("why", job).stdout
    assert not (shared_directory / "began.2.0").exists()
