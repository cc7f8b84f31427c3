"""The files for GitHub and GitLab: their own lines are run here, with the muster of these tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

_FOLDER = Path(__file__).resolve().parents[2] / "packaging/lint"
_SCRIPT = "#!/bin/bash\n#SBATCH -N 2 -t 5 -c 4\nexport MASTER_ADDR=$(hostname)\nsrun --label\npython train.py\n"


def _read(name: str) -> Any:
    return yaml.safe_load((_FOLDER / name).read_text())


def _run(folder: Path, text: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run lines of a workflow as its runner does: bash that ends at the first failure."""
    (folder / "tools").mkdir()
    (folder / "tools/muster").write_text(f'#!/bin/sh\nexec {sys.executable} -m muster "$@"\n')
    (folder / "tools/muster").chmod(0o755)
    (folder / "jobs").mkdir()
    (folder / "jobs/job.sh").write_text(_SCRIPT)
    environment = {**os.environ, "PATH": f"{folder}/tools:{os.environ['PATH']}", **more}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("options", "status"), [("", 1), ("--ignore *", 0)])
def test_the_step_of_github_writes_beside_the_lines(options: str, status: int, tmp_path: Path) -> None:
    step = _read("action.yml")["runs"]["steps"][-1]
    assert set(step["env"]) == {"LINT_PATHS", "LINT_OPTIONS", "LINT_SARIF"}

    done = _run(
        tmp_path, step["run"], {"LINT_PATHS": "jobs", "LINT_OPTIONS": options, "LINT_SARIF": str(tmp_path / "x.sarif")}
    )

    assert done.returncode == status, done.stderr
    assert ("::error file=jobs/job.sh,line=4," in done.stdout) == bool(status)
    assert bool(json.loads((tmp_path / "x.sarif").read_text())["runs"][0]["results"]) == bool(status)


def test_the_job_of_gitlab_leaves_a_report(tmp_path: Path) -> None:
    job = _read("gitlab.yml")["muster-lint"]
    lines = [line for line in job["script"] if line.startswith("muster")]

    done = _run(tmp_path, "\n".join(lines), {"MUSTER_LINT_PATHS": "jobs", "MUSTER_LINT_OPTIONS": ""})

    assert done.returncode == 1
    report = json.loads((tmp_path / job["artifacts"]["reports"]["codequality"]).read_text())
    assert {entry["location"]["path"] for entry in report} == {"jobs/job.sh"}
    assert "jobs/job.sh:4:1: " in done.stdout
