"""On a real cluster: a script that `plan` printed, queued with bare sbatch, writes where Slurm's words say."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import MUSTER, Lab

from .lab_runs import path_with, wait_until_ended

pytestmark = pytest.mark.lab

WORDS = "echo out of $RANK; echo err of $RANK >&2; [ $RANK = 0 ] || [ $1 = 0 ] || { echo boom >&2; exit $1; }"
LAUNCHERS = ["srun", "mpirun", pytest.param("torchrun", marks=pytest.mark.torch)]


def queue(lab: Lab, folder: Path, sbatch: list[str], status: int, *words: str) -> str:
    """Print the plan of two ranks that end with this status, queue it by sbatch alone, and wait for its end."""
    command = ["--ntasks-per-node", "1", "-t", "5", *words, "--", "sh", "-c", WORDS, "sh", str(status)]
    argv = [MUSTER, "plan", "-N", "2", "--job-name", "bare", *command]
    script = checked(lab.exec(argv, cwd=folder, env={"PATH": path_with()})).stdout
    (folder / "p.sh").write_text(script)
    job = checked(lab.exec(["sbatch", "--parsable", *sbatch, "p.sh"], cwd=folder, env={"PATH": path_with()})).stdout
    assert wait_until_ended(lab, job.strip()) == ("FAILED" if status else "COMPLETED")
    return job.strip()


def logs(lab: Lab, folder: Path, job: str) -> str:
    return checked(lab.exec([MUSTER, "logs", job], cwd=folder, env={"PATH": path_with()})).stdout


# That a rank's words under an agent lie there too is seen below, where one fails.
@pytest.mark.parametrize(
    "launcher", [*LAUNCHERS[:2], pytest.param("torchrun", marks=[pytest.mark.torch, pytest.mark.long])]
)
def test_the_output_of_a_bare_script_lies_where_slurm_says(lab: Lab, shared_directory: Path, launcher: str) -> None:
    job = queue(lab, shared_directory, [], 0, "--launcher", launcher)
    text = (shared_directory / f"slurm-{job}.out").read_text()

    for said in ("out of 0", "out of 1", "err of 0", "err of 1"):
        assert text.count(said) == 1
        assert said in logs(lab, shared_directory, job)


@pytest.mark.parametrize(("option", "name"), [("mine.out", "mine.out"), ("%x-%j.txt", "bare-{job}.txt")])
def test_a_bare_script_heeds_sbatchs_own_output_option(
    lab: Lab, shared_directory: Path, option: str, name: str
) -> None:
    job = queue(lab, shared_directory, ["-o", option], 0)
    text = (shared_directory / name.format(job=job)).read_text()

    assert {"0: out of 0", "1: out of 1", "0: err of 0", "1: err of 1"} <= set(text.splitlines())
    assert "1: out of 1" in logs(lab, shared_directory, job)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_last_words_of_a_rank_that_failed_are_in_a_bare_scripts_output(
    lab: Lab, shared_directory: Path, launcher: str
) -> None:
    job = queue(lab, shared_directory, [], 7, "--launcher", launcher)
    why = checked(lab.exec([MUSTER, "why", job], cwd=shared_directory, env={"PATH": path_with()})).stdout

    assert "boom" in (shared_directory / f"slurm-{job}.out").read_text()
    assert "boom" in logs(lab, shared_directory, job)
    assert "rank 1 on node2" in why
    assert "exit status 7" in why


def test_files_of_single_ranks_are_named_by_a_bare_script(lab: Lab, shared_directory: Path) -> None:
    job = queue(lab, shared_directory, [], 0, "--per-rank-files")
    first, *_ = (shared_directory / f"slurm-{job}.out").read_text().splitlines()

    assert first == f"muster: the output of the ranks lies below {shared_directory}/muster-runs/{job}"
    assert (shared_directory / "muster-runs" / job / "logs" / "node2.1.log").read_text().splitlines()[0] == "out of 1"


def test_the_run_directory_of_a_bare_script_says_where_its_output_lies(lab: Lab, shared_directory: Path) -> None:
    job = queue(lab, shared_directory, [], 0)

    assert (shared_directory / "muster-runs" / job / "output").read_text() == f"{shared_directory}/slurm-{job}.out\n"
