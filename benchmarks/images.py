"""What a rank pays for starting in an image through Muster, beyond a bare `apptainer exec` of the same image.

The bare start, the same again, and the rank's whole line of a planned script (the prologue, the binds, the
variables) are started in turns, in an order that changes; medians are compared. The bar is on what is added.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from muster.cli.output import print_table
from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.launchers import launcher_named
from muster.look.image_facts import look_at_image
from muster.look.probe import look
from muster.model.plan import Plan
from muster.model.words import Fragment
from muster.plan.build import make_plan
from muster.render.image import step_words
from muster.render.own_text import prologue_text
from muster.runner import checked, run
from muster.sites.load import load
from muster_lab.apptainer import apptainer_cache, prepared_apptainer, relocated

ADDED_MS = 10.0
# What slurmstepd tells a task, and the batch script its tasks.
_STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_STEP_NODELIST": "node1",
    "MUSTER_NTASKS": "2",
    "MUSTER_NTASKS_PER_NODE": "2",
    "MUSTER_GPUS": "0",
    "MUSTER_CPUS": "0",
    "MUSTER_PORT": "20000",
    "MUSTER_JOB": "4711",
    "MUSTER_GRACE": "10",
}


def main() -> int:
    """Exit status: 1 if more is added than the bar allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=61, help="starts of each (61)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        program, image = _image(Path(folder))
        starts = {
            "apptainer exec": (str(program), "exec", str(image), "/bin/true"),
            "apptainer exec, again": (str(program), "exec", str(image), "/bin/true"),
            "a rank of muster's": _rank(program, image),
        }
        environment = {**os.environ, **_STEP, "MUSTER_RUN_DIR": folder}
        middle_ms = {name: median(spent) * 1000 for name, spent in _measure(starts, environment, rounds).items()}
    bare = middle_ms["apptainer exec"]
    rows = []
    for name, spent in middle_ms.items():
        limit = f"≤ {ADDED_MS:g}" if name.startswith("a rank") else ""
        verdict = "over" if limit and spent - bare > ADDED_MS else ""
        rows.append([name, f"{spent:.1f}", f"{spent - bare:+.1f}", limit, verdict])
    print_table(f"start in an image, median of {rounds}", ["start", "ms", "added ms", "limit", ""], rows)
    return int(any(row[-1] for row in rows))


def _image(folder: Path) -> tuple[Path, Path]:
    """An Apptainer and a sandbox that holds one static program."""
    packages = prepared_apptainer(apptainer_cache(os.environ), lambda text: print(text, file=sys.stderr))
    program = relocated(packages, folder / "apptainer")
    base, image = folder / "base", folder / "image"
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "usr", "opt"):
        (base / name).mkdir(parents=True)
    for name in ("busybox", "true", "sh"):
        shutil.copy2(packages / "usr/bin/busybox", base / "bin" / name)
    checked(run([str(program), "--quiet", "build", "--sandbox", str(image), str(base)]))
    return program, image


def _rank(program: Path, image: Path) -> tuple[str, ...]:
    """What srun would start for each rank of a plan, with its prologue in place of the script's variable."""
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    facts = look(environment)
    words = ("-N", "1", "--ntasks-per-node", "2", "--image", str(image), "--", "/bin/true")
    plan = _plan(words, facts)
    line = step_words(plan)
    texts = {Fragment('"$muster_task"'): prologue_text(plan, launcher_named(plan.launcher).prologues(plan)[0])}
    return tuple(texts[word] if isinstance(word, Fragment) else str(word) for word in line[line.index("sh") :])


def _plan(words: tuple[str, ...], facts: Facts) -> Plan:
    values, origins, command = parse(words)
    request = request_from({}, values, origins, command)
    site = load("generic")
    return make_plan(request, site, look_at_image(request, site, facts), typed=words)


def _measure(
    starts: Mapping[str, tuple[str, ...]], environment: Mapping[str, str], rounds: int
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in starts}
    for turn in range(-1, rounds):  # the first turn fills the caches and is not counted
        for name in random.sample(list(starts), len(starts)):
            begun = time.perf_counter()
            checked(run(starts[name], env=environment))
            if turn >= 0:
                seconds[name].append(time.perf_counter() - begun)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
