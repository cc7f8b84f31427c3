"""Guards `muster logs` on a real cluster: followed to the end, moved, per rank, foreign, and in a silence."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.runner import PIPE, ProgramResult, checked, end_group, start
from plugins.labs import MUSTER, Lab
from plugins.patience import patient

pytestmark = pytest.mark.lab

# Every rank prints as many numbered lines as it was told, in POSIX sh.
_TALK = "i=0; while [ $i -lt {lines} ]; do echo $i; i=$((i+1)); done; {then}"


def submit(lab: Lab, folder: Path, *words: str, lines: int = 20, then: str = "true") -> str:
    """Queue ranks that talk; the job id."""
    command = ["sh", "-c", _TALK.format(lines=lines, then=then)]
    argv = [MUSTER, "submit", "--quiet", *words, "--", *command]
    result = lab.exec(argv, cwd=folder)
    if not result.ok:
        pytest.fail(lab.exec(["sinfo", "-N", "-o", "%N %T %c %m %E %H"]).stdout + result.stderr)
    return result.stdout.strip()


def logs(lab: Lab, *words: str, timeout_s: float = 120) -> ProgramResult:
    """`muster logs` in the lab."""
    return lab.exec([MUSTER, "logs", *words], timeout_s=timeout_s)


def wait_until_over(lab: Lab, job: str) -> None:
    """Wait until the job has ended and its nodes are clean."""
    for _ in range(300):
        said = lab.exec(["squeue", "--noheader", f"--jobs={job}", "--format=%T"])
        if not said.stdout.strip():
            return
        time.sleep(0.2)
    raise AssertionError(f"job {job} has not ended")


def by_rank(stdout: str) -> dict[int, list[str]]:
    """The labelled lines, rank by rank."""
    found: dict[int, list[str]] = defaultdict(list)
    for line in stdout.splitlines():
        rank, colon, text = line.partition(": ")
        if colon and rank.strip().isdigit():
            found[int(rank)].append(text)
    return found


def test_a_job_is_followed_from_the_queue_to_its_last_line(lab: Lab, shared_directory: Path) -> None:
    job = submit(lab, shared_directory, "-N", "2", "--ntasks-per-node", "4", lines=2000, then="sleep 1; echo last")
    said = checked(logs(lab, "-f", job))
    assert by_rank(said.stdout) == {rank: [*map(str, range(2000)), "last"] for rank in range(8)}


def test_one_who_follows_a_job_that_waits_is_told_why(lab: Lab, shared_directory: Path) -> None:
    job = submit(lab, shared_directory, "-N", "1", "--sbatch=--hold", lines=1)
    process = start(lab.argv([MUSTER, "logs", "-f", job]), env=lab.person.environment(), stdout=PIPE, stderr=PIPE)
    assert process.stderr is not None
    first_line = process.stderr.readline().decode()
    checked(lab.exec(["scontrol", "release", job]))
    out = process.communicate(timeout=120)[0]

    assert first_line.startswith(f"muster: job {job} waits for its nodes: JobHeldUser: ")
    assert (process.returncode, out) == (0, b"0: 0\n")


def test_one_rank_is_shown_byte_for_byte(lab: Lab, shared_directory: Path) -> None:
    then = r"printf '  two  spaces\t\303\274 3: x\n'"
    job = submit(lab, shared_directory, "-N", "2", "--ntasks-per-node", "2", lines=2, then=then)
    wait_until_over(lab, job)
    assert checked(logs(lab, "--rank", "3", job)).stdout == "0\n1\n  two  spaces\tü 3: x\n"
    refused = logs(lab, "--rank", "4", job)
    assert (refused.status, "its ranks are 0 to 3" in refused.stderr) == (2, True)


def test_json_has_an_object_for_every_line(lab: Lab, shared_directory: Path) -> None:
    job = submit(lab, shared_directory, "-N", "1", "--ntasks-per-node", "2", lines=3)
    wait_until_over(lab, job)
    said = [json.loads(line) for line in checked(logs(lab, job, "--json")).stdout.splitlines()]
    assert sorted((line["rank"], line["text"]) for line in said if line["rank"] is not None) == [
        (rank, str(number)) for rank in range(2) for number in range(3)
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--per-rank-files",),
        ("-o", "out/%x-%j.txt"),
        ("-o", "out/a[1] %j.txt", "-e", "out/%j.err"),
        ("--launcher", "mpirun"),
    ],
    ids=" ".join,
)
def test_output_is_found_wherever_it_went(lab: Lab, shared_directory: Path, words: tuple[str, ...]) -> None:
    (shared_directory / "out").mkdir()
    job = submit(lab, shared_directory, "-N", "2", "--ntasks-per-node", "1", "-J", "na*me", *words, lines=5)
    wait_until_over(lab, job)
    said = logs(lab, "--rank", "1", job)
    assert (said.status, said.stdout) == (0, "0\n1\n2\n3\n4\n"), said.stderr


def test_the_output_of_a_job_that_muster_did_not_make_is_shown(lab: Lab, shared_directory: Path) -> None:
    words = [
        "sbatch",
        "--wait",
        "--parsable",
        "-J",
        "two\nlines|ü",
        "--output=%j-%u.txt",
        "--wrap=echo here; echo 3: there",
    ]
    job = checked(lab.exec(words, cwd=shared_directory)).stdout.strip()
    assert checked(logs(lab, job)).stdout == "here\n3: there\n"


def test_a_job_that_has_not_begun_says_so_and_nothing_is_printed(lab: Lab, shared_directory: Path) -> None:
    job = submit(lab, shared_directory, "-N", "1", "--sbatch=--hold")
    said = logs(lab, job)
    checked(lab.exec(["scancel", job]))
    assert (said.status, said.stdout) == (0, "")
    assert "has written nothing yet" in said.stderr


@pytest.mark.parametrize(("words", "complaint"), [(("999999",), "Slurm knows no job 999999"), (("x",), "not a job id")])
def test_a_job_that_does_not_exist_is_refused(lab: Lab, words: tuple[str, ...], complaint: str) -> None:
    refused = logs(lab, *words)
    assert (refused.status, complaint in refused.stderr) == (2, True)
    assert "\n\nhint: " in refused.stderr


def test_a_silent_controller_hides_no_output_and_loses_none(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "2")
    job = submit(lab, shared_directory, "-N", "2", "--ntasks-per-node", "1", lines=3, then="sleep 6; echo last")
    for _ in range(100):
        if len(list(shared_directory.glob("muster-runs/*/logs/node*.log"))) == 2:
            break
        time.sleep(0.1)
    argv = lab.argv([MUSTER, "logs", "-f", job])
    process = start(argv, env=lab.person.environment(), stdout=PIPE, stderr=PIPE, own_group=True)
    try:
        checked(lab.muster("fault", "stop-controller"))
        shown = logs(lab, job)
        assert shown.status == 0, shown.stderr
        assert set(by_rank(shown.stdout)) == {0, 1}
        time.sleep(8)
        checked(lab.muster("fault", "restore", "controller"))
        # A node that had no answer reports the end of its job again only some time later.
        out, err = process.communicate(timeout=patient(300))
    finally:
        end_group(process)
    assert process.returncode == 0, err.decode()
    assert by_rank(out.decode()) == {rank: ["0", "1", "2", "last"] for rank in range(2)}
