"""Inside a lab: submit every script below a folder with plain sbatch, and write down what became of each job.

A folder that holds `how.json` is one script. It gets `seen.json`: what sbatch said, and what Slurm showed of each job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HANGS_S = 5.0
LONGEST_S = 240.0


def output_of(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def submit(folder: Path) -> None:
    """Submit one script as often as it asks for."""
    how = json.loads((folder / "how.json").read_text())
    home = {"HOME": str(folder), "MODULEPATH": str(folder / "modules")}
    environment = {**os.environ, **home}
    subprocess.run(["sh", "-ec", how["prepare"] or ":"], cwd=folder, env=environment, check=True)
    words = ["sbatch", "--parsable", *how["options"], "job.sh"]
    done = [
        subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        for _ in range(how["copies"])
    ]
    seen = {"refused": done[0].stderr if done[0].returncode else "", "jobs": [each.stdout.strip() for each in done]}
    (folder / "seen.json").write_text(json.dumps(seen))


def states() -> dict[str, tuple[str, float]]:
    """Return the state of each job that has not ended, and how long it runs."""
    lines = [line.split() for line in output_of("squeue", "--noheader", "--format=%A %T %M").splitlines()]
    return {job: (state, seconds(ran)) for job, state, ran in lines}


def seconds(clock: str) -> float:
    total = 0
    for part in clock.rsplit("-", maxsplit=1)[-1].split(":"):
        total = total * 60 + int(part)
    return total


def wait(jobs: set[str], *, hanging: bool) -> None:
    """Wait until these jobs have ended; those that hang, until they have hung for a while."""
    for _ in range(int(2 * LONGEST_S)):
        left = {job: state for job, state in states().items() if job in jobs}
        if hanging and all(state == "RUNNING" and ran >= HANGS_S for state, ran in left.values()):
            return
        if not hanging and not left:
            return
        time.sleep(0.5)
    print("still there:", output_of("squeue"), file=sys.stderr)


def show(folder: Path) -> None:
    """Write down what Slurm shows of the jobs of a script."""
    seen = json.loads((folder / "seen.json").read_text())
    seen["shown"] = [output_of("scontrol", "--oneliner", "show", "job", job) for job in seen["jobs"] if job]
    (folder / "seen.json").write_text(json.dumps(seen))


def main(top: Path) -> None:
    """Submit, wait, show; what hangs is ended at last."""
    folders = sorted(path.parent for path in top.glob("*/*/how.json"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, folders))
    hanging = [folder for folder in folders if json.loads((folder / "how.json").read_text())["hangs"]]
    jobs = {
        folder: {job for job in json.loads((folder / "seen.json").read_text())["jobs"] if job} for folder in folders
    }
    wait({job for folder in folders if folder not in hanging for job in jobs[folder]}, hanging=False)
    wait({job for folder in hanging for job in jobs[folder]}, hanging=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(show, folders))
    subprocess.run(["scancel", "--user", str(os.getuid())], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
