"""Run many jobs that work in silence, all watched for hangs; print how many hours they ran, and how many alarms came.

    scripts/healthy_hours.py --jobs 24 --minutes 60 --hang 5m

The ranks need no torch, and hardly any processor time: what they do is as little as a healthy job does, so it is harder
to tell from a hang than real work. Ctrl-C ends the jobs; the hours until then count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from muster.cli.output import print_table, say
from muster.runner import checked, run

MUSTER = str(Path(sys.executable).with_name("muster"))
NAME = ("--name", "healthy-hours")
_COMMON = """
import os, subprocess, sys, time

RANK, SECONDS = int(os.environ["RANK"]), float(sys.argv[1])
END = time.monotonic() + SECONDS


def others():
    time.sleep(SECONDS)


"""
# What rank 0 does in silence, while rank 1 waits for it.
_KINDS = {
    "slow data": (
        "def batches():\n"
        "    while time.monotonic() < END:\n"
        "        with open('/dev/zero', 'rb') as file:\n"
        "            file.read(8192)\n"
        "        time.sleep(1)\n"
        "batches() if RANK == 0 else others()\n"
    ),
    "long checkpoint": (
        "def save():\n"
        "    with open('part', 'wb') as file:\n"
        "        while time.monotonic() < END:\n"
        "            file.write(bytes(16384))\n"
        "            file.flush()\n"
        "            if file.tell() > 1 << 20:\n"
        "                file.seek(0)\n"
        "            time.sleep(1)\n"
        "save() if RANK == 0 else others()\n"
    ),
    "evaluation on rank 0": (
        "def evaluate():\n"
        "    while time.monotonic() < END:\n"
        "        begun = time.process_time()\n"
        "        while time.process_time() - begun < 0.04:\n"
        "            sum(range(1000))\n"
        "        time.sleep(1)\n"
        "evaluate() if RANK == 0 else others()\n"
    ),
    "long compilation": (
        "SOURCE = b'int main(void) { return 0; }'\n"
        "def compile_kernels():\n"
        "    while time.monotonic() < END:\n"
        "        subprocess.run(['gcc', '-O2', '-x', 'c', '-', '-o', os.devnull], input=SOURCE, check=True)\n"
        "        time.sleep(0.5)\n"
        "compile_kernels() if RANK == 0 else others()\n"
    ),
}


# Who computes costs processor time: one job of six evaluates, one compiles.
_TURN = ("slow data", "long checkpoint", "slow data", "long checkpoint", "evaluation on rank 0", "long compilation")


class Job(NamedTuple):
    """One job that works in silence."""

    kind: str
    number: str
    directory: Path

    @property
    def alarms(self) -> int:
        """Return how often its watch reported a hang."""
        log = self.directory / "logs/batch.log"
        return log.read_text(errors="replace").count("hang: no rank") if log.is_file() else 0


def main() -> int:
    """Exit status: 1 after an alarm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=24, help="jobs at once (24)")
    parser.add_argument("--minutes", type=float, default=60, help="of each (60)")
    parser.add_argument("--hang", default="5m", help="the time set of their watches (5m)")
    options = parser.parse_args()
    scratch = Path(__file__).resolve().parents[1] / ".cache"
    scratch.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="healthy-", dir=scratch))
    os.environ["XDG_STATE_HOME"] = str(home)
    try:
        size = ["-N", "4", "--cpus-per-node", str(options.jobs)]
        checked(run([MUSTER, "lab", "up", *NAME, *size], timeout_s=120))
        jobs = [submit(home, number, options) for number in range(options.jobs)]
        say(f"{len(jobs)} jobs run for {options.minutes:g} min")
        return watch(jobs, options.minutes * 60)
    finally:
        run([MUSTER, "lab", "down", *NAME], timeout_s=120)
        shutil.rmtree(home, ignore_errors=True)


def submit(home: Path, number: int, options: argparse.Namespace) -> Job:
    """Submit the job with this number."""
    kind = _TURN[number % len(_TURN)]
    place = home / f"job{number}"
    place.mkdir()
    (place / "work.py").write_text(_COMMON + _KINDS[kind])
    asked = [MUSTER, "submit", "--quiet", "-N", "2", "--ntasks-per-node", "1", "-c", "1", "--hang", options.hang]
    words = [MUSTER, "lab", "exec", *NAME, "--", *asked, "--", sys.executable, "work.py", str(options.minutes * 60)]
    job = checked(run(words, cwd=place, timeout_s=120)).stdout.strip()
    (directory,) = (place / "muster-runs").iterdir()
    return Job(kind, job, directory)


def watch(jobs: list[Job], seconds: float) -> int:
    """Wait until the jobs are over, or Ctrl-C; print the table."""
    begun = {job.number: time.monotonic() for job in jobs}
    spent: dict[str, float] = {}
    try:
        while len(spent) < len(jobs):
            time.sleep(5)
            listed = checked(run([MUSTER, "lab", "exec", *NAME, "--", "squeue", "-h", "-o", "%i %T"], timeout_s=60))
            states = dict(line.split() for line in listed.stdout.splitlines())
            for job in jobs:
                if states.get(job.number) == "PENDING":
                    begun[job.number] = time.monotonic()
                elif job.number not in states:
                    spent.setdefault(job.number, min(time.monotonic() - begun[job.number], seconds))
    except KeyboardInterrupt:
        say("the jobs end now")
    now = time.monotonic()
    hours = {job.number: spent.get(job.number, now - begun[job.number]) / 3600 for job in jobs}
    rows = [
        [kind, str(len(same)), f"{sum(hours[job.number] for job in same):.1f}", str(sum(job.alarms for job in same))]
        for kind in sorted(_KINDS)
        if (same := [job for job in jobs if job.kind == kind])
    ]
    alarms = sum(job.alarms for job in jobs)
    rows.append(["in sum", str(len(jobs)), f"{sum(hours.values()):.1f}", str(alarms)])
    print_table("silent and healthy", ["what rank 0 does", "jobs", "hours", "alarms"], rows)
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
