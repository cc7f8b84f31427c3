"""Guards muster report in a lab: a job that runs, one that failed, one of another tool, one that is not there."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

_VALUE = "s3cr3t-V4lue"
_FAIL = 'echo "logged in with $HF_TOKEN"; echo "cannot go on" >&2; exit 7'


def test_a_job_is_packed_whatever_became_of_it(lab: Lab, shared_directory: Path) -> None:
    def muster(*words: str) -> ProgramResult:
        environment = {"XDG_STATE_HOME": str(shared_directory / "state"), "HF_TOKEN": _VALUE}
        inside = ["env", *(f"{name}={value}" for name, value in environment.items()), MUSTER, *words]
        return lab.exec(inside, cwd=shared_directory)

    words = ("submit", "--quiet", "-N1", "--ntasks-per-node=1", "-t", "2")
    failed = checked(muster(*words, "--env", "HF_TOKEN", "--", "sh", "-c", _FAIL)).stdout.strip()
    running = checked(muster(*words, "--", "sleep", "100")).stdout.strip()
    other = checked(
        lab.exec(["sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap", "true"], cwd=shared_directory)
    ).stdout.strip()
    assert muster("logs", "-f", failed).status == 7

    packed = checked(muster("report", failed)).stdout
    listed = checked(muster("report", "--list", running)).stdout
    foreign = checked(muster("report", "--list", other)).stdout
    unknown = muster("report", "99999")
    muster("cancel", running, other)

    archive = shared_directory / f"muster-report-{failed}.tar.gz"
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with tarfile.open(archive) as opened:
        texts = {
            each.name.partition("/")[2]: stream.read().decode()
            for each in opened
            if (stream := opened.extractfile(each)) is not None
        }
    assert not any(_VALUE in text for text in texts.values())
    assert any("logged in with …" in text for name, text in texts.items() if name.startswith("logs/"))
    assert "cannot go on" in texts["why.txt"]
    assert json.loads(texts["why.json"])["first_failure"]["status"] == 7
    assert f"JobId={failed}" in texts["slurm.txt"]
    assert json.loads(texts["versions.json"])["slurm"]
    assert {"job.sh", "plan.json", "record.json", "site.json", "attempts.json", "README.txt"} <= set(texts)
    assert str(archive.name) in packed
    assert "why.txt" in listed
    assert "no record of this job" in foreign
    assert unknown.status == 2
    assert "Slurm knows no job 99999" in unknown.stderr
    assert [path.name for path in shared_directory.glob("muster-report-*")] == [archive.name]
