"""The faults that the audit found, seen on a real Slurm that behaves like the site: the script as Muster wrote it
before fails there, and the one of today runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.render.script import RULE
from plugins.labs import Lab, Person, lab_up

pytestmark = pytest.mark.lab

SEES = ("sh", "-c", 'echo "rank $RANK of $WORLD_SIZE sees ${CUDA_VISIBLE_DEVICES-all}"')

# Software that this machine has not: what a site's modules would bring.
_MODULES = r"(?m)^ *(module (load|purge|use)|muster_modules|muster_use|muster_load) .*\n"


def script_of(lab: Lab, folder: Path, *words: str) -> str:
    """Return the script that Muster writes for this request today, without the site's modules."""
    done = lab.person.muster("plan", *words, "--chdir", str(folder), "--as", "script", "--", *SEES)
    assert done.ok, done.stderr
    job, rule, own = done.stdout.partition(RULE)
    unfolded = re.sub(r" \\\n +", " ", job)
    return re.sub(_MODULES, "", unfolded) + rule + own


def without(script: str, line: str) -> str:
    """Return the script as it was before: this line, this word of an export, or of the header, was not in it."""
    if line.startswith("#SBATCH "):
        older, count = re.subn(rf"(?m)^(#SBATCH .*){re.escape(line[7:])}(?=\s)", r"\1", script)
        assert count == 1, line
        return older
    older, count = re.subn(rf"(?m)^ *(export )?{re.escape(line)}\n|(?<= ){re.escape(line)} ", "", script)
    assert count == 1, line
    return older


def run_it(lab: Lab, folder: Path, script: str) -> tuple[int, str]:
    """Queue the script and wait for its end: (status, what the job, its step and its ranks said)."""
    out = folder / "said.txt"
    out.unlink(missing_ok=True)
    done = lab.batch(f"--output={out}", stdin=script, cwd=folder)
    logs = sorted((folder / "muster-runs").glob(f"{done.stdout.strip() or 'none'}/logs/*.log"))
    texts = [path.read_text() for path in (*([out] if out.exists() else []), *logs)]
    return done.status, "\n".join((done.stderr, *texts))


def takes(lab: Lab, words: list[str]) -> tuple[int, str]:
    """Ask sbatch whether it would take this header."""
    done = lab.exec(["sbatch", "--test-only", *words, "--wrap=true"], user="alice")
    return done.status, done.stderr


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ("jean-zay", ("-A", "abc@h100", "-N", "2", "-g", "4", "-t", "5")),
        ("marenostrum5", ("-A", "bsc98", "-q", "acc_ehpc", "-N", "2", "-g", "4", "-t", "5", "--launcher", "srun")),
    ],
)
def test_a_step_of_cores_in_a_job_of_threads_fails_as_at_the_site(
    site: str, words: tuple[str, ...], tester: Person, shared_directory: Path
) -> None:
    with lab_up(tester, f"hint-{site}", "--like", site, "-N", "2") as lab:
        today = script_of(lab, shared_directory, "--site", site, *words)
        status, said = run_it(lab, shared_directory, without(today, "#SBATCH --hint=nomultithread"))
        assert status != 0
        assert "More processors requested than permitted" in said
        status, said = run_it(lab, shared_directory, today)
        assert status == 0, said
        assert "rank 7 of 8" in said


@pytest.mark.parametrize("site", ["jupiter", "juwels-booster"])
def test_each_task_sees_one_gpu_unless_all_are_named_before_srun(
    site: str, tester: Person, shared_directory: Path
) -> None:
    with lab_up(tester, f"cut-{site}", "--like", site, "-N", "1") as lab:
        words = ("--site", site, "-A", "lab", "-N", "1", "-g", "4", "-t", "5")
        today = script_of(lab, shared_directory, *words)
        status, said = run_it(lab, shared_directory, without(today, "CUDA_VISIBLE_DEVICES=0,1,2,3"))
        assert status != 0
        assert re.search(r"rank \d sees only the devices '\d', but its node has 4 ranks", said), said
        status, said = run_it(lab, shared_directory, today)
        assert status == 0, said
        assert "rank 3 of 4 sees 0,1,2,3" in said


@pytest.mark.parametrize(
    ("site", "nodes", "older", "today"),
    [
        (
            "jean-zay",
            2,
            ["-A", "abc@a100", "-N2", "-C", "a100", "-q", "qos_gpu_h100-t3", "--gres=gpu:4", "-t", "60"],
            ["-A", "abc@a100", "-N2", "-C", "a100", "-q", "qos_gpu_a100-t3", "--gres=gpu:8", "-t", "60"],
        ),
        (
            "jean-zay",
            2,
            ["-A", "abc@v100", "-N2", "-q", "qos_gpu_h100-t3", "--gres=gpu:4", "-t", "60"],
            ["-A", "abc@v100", "-N2", "-q", "qos_gpu-t4", "--gres=gpu:4", "-t", "60"],
        ),
        (
            "vega",
            2,
            ["-A", "lab", "-N2", "--ntasks-per-node=4", "--gpus-per-node=4"],
            ["-A", "lab", "-N2", "-p", "gpu", "--ntasks-per-node=4", "-c32", "--hint=nomultithread", "--gres=gpu:4"],
        ),
        (
            "leonardo",
            4,
            ["-A", "lab", "-N4", "-p", "boost_usr_prod", "-q", "boost_qos_dbg", "--gres=gpu:4", "-t", "30"],
            ["-A", "lab", "-N4", "-p", "boost_usr_prod", "--gres=gpu:4", "-t", "30"],
        ),
        (
            "karolina",
            9,
            ["-A", "eu-26-17", "-N9", "-p", "qgpu_exp", "--gpus-per-node=8", "-t", "30"],
            ["-A", "eu-26-17", "-N9", "-p", "qgpu", "--gpus-per-node=8", "-t", "30"],
        ),
    ],
    ids=["jean-zay-a100", "jean-zay-v100", "vega", "leonardo-trial", "karolina-trial"],
)
def test_the_header_of_before_is_refused_and_todays_is_taken(
    site: str, nodes: int, older: list[str], today: list[str], tester: Person
) -> None:
    with lab_up(tester, f"header-{site}", "--like", site, "-N", str(nodes)) as lab:
        status, said = takes(lab, older)
        assert status != 0, said
        status, said = takes(lab, today)
        assert status == 0, said


@pytest.mark.long
def test_66_nodes_of_leonardo_need_the_qos_for_large_jobs(tester: Person) -> None:
    with lab_up(tester, "large-leonardo", "--like", "leonardo", "-N", "66") as lab:
        words = ["-A", "lab", "-N66", "-p", "boost_usr_prod", "--gres=gpu:4", "-t", "60"]
        status, said = takes(lab, words)
        assert status != 0, said
        status, said = takes(lab, [*words, "-q", "boost_qos_bprod"])
        assert status == 0, said
