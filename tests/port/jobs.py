"""A batch script before and the job after: both run with stub programs, and what the ranks got is written down."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from muster.render.script import job_script
from muster.runner import run
from muster_lint.port.carry import carry
from muster_lint.port.target import Carried, facts_of
from sites.profiles import bundled

from .scripts import read

__all__ = [
    "Job",
    "Ranks",
    "after",
    "before",
    "carried_here",
    "folder_of_header",
    "sizes_of",
    "slurm_variables",
    "write_tools",
]

_STUB = Path(__file__).parent / "stubs" / "program"
_NAMES = ["srun", "mpirun", "mpiexec", "torchrun", "accelerate", "python", "python3", "singularity", "apptainer"]
_LOOKS_AT = "DATA DATA_PATH BATCH GREETING WANDB_API_KEY ACCELERATE_MIXED_PRECISION NCCL_DEBUG DIST_URL"

Ranks = list[dict[str, Any]]


class Job(NamedTuple):
    """A script, and how a person would submit it."""

    text: str
    arguments: tuple[str, ...] = ()
    shell: tuple[tuple[str, str], ...] = ()
    """The variables of the submitting shell, which sbatch hands on."""


def before(job: Job, folder: Path) -> Ranks:
    """Return what the ranks of the script get, as sbatch would start it."""
    sizes = sizes_of(job.text)
    script = folder / "job.sbatch"
    script.write_text(job.text)
    ranks = _run([str(script), *job.arguments], folder, {**dict(job.shell), **sizes})
    for path in folder.iterdir():  # what the script wrote, the new job does not find
        if path.is_file():
            path.unlink()
    return ranks


def carried_here(job: Job, folder: Path) -> Carried:
    """Return how the script is carried to the same site."""
    _, draft = read(job.text)
    generic = bundled("generic")
    return carry(draft, generic, generic, facts_of(str(folder), str(folder / "home"), "ada"))


def after(job: Job, folder: Path) -> tuple[Ranks | None, Carried]:
    """Return what the ranks of the ported job get, and how it was carried; None where there is no job to run."""
    carried = carried_here(job, folder)
    if carried.plan is None:
        return None, carried
    script = folder / "new.sbatch"
    script.write_text(job_script(carried.plan))
    return _run([str(script)], folder, sizes_of(script.read_text())), carried


def _run(words: list[str], folder: Path, more: dict[str, str]) -> Ranks:
    tools, record, home = folder / "tools", folder / f"{Path(words[0]).stem}.ranks", folder / "home"
    tools.mkdir(exist_ok=True)
    write_tools(tools)
    (home / "venv/bin").mkdir(parents=True, exist_ok=True)
    (home / "venv/bin/activate").write_text('VIRTUAL_ENV="$HOME/venv"; export VIRTUAL_ENV\n')
    shutil.copy(tools / "python", home / "venv/bin/python")
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(home), "USER": "ada", "STUB_RECORD": str(record),
        "STUB_LOOKS_AT": _LOOKS_AT, "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_ID": "4711", **more,
    }  # fmt: skip
    run(["bash", *words], env=environment, cwd=folder, timeout_s=60)
    lines = record.read_text().splitlines() if record.exists() else []
    return sorted((ast.literal_eval(line) for line in lines), key=lambda rank: (rank["words"], rank["rank"]))


def write_tools(tools: Path, more: Iterable[str] = ()) -> None:
    """Write the programs that stand in for those of a cluster into a folder; `more` names others of the same stub."""
    (tools / "scontrol").write_text('#!/bin/sh\n[ "$1" != show ] || printf "node%s\\n" $(seq $SLURM_JOB_NUM_NODES)\n')
    (tools / "scontrol").chmod(0o755)
    # Functions of a login shell, and looks at a node: nothing of them matters here.
    for name in ("module", "ml", "conda", "nvidia-smi", "rocm-smi", "pip", "pip3", "activate"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    text = _STUB.read_text().replace("/usr/bin/env python3", f"{sys.executable} -IS", 1)
    for name in (*_NAMES, *more):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)


def sizes_of(text: str) -> dict[str, str]:
    """Return the variables that Slurm makes of the header."""
    flags = _header_flags(text)
    nodes, total, each = (_first_number(flags, *names) for names in (("--nodes", "-N"), ("--ntasks", "-n"), _EACH))
    nodes = nodes or (-(-total // each) if total and each else 1)
    sizes = slurm_variables(nodes, total or nodes * (each or 1), each)
    return {**sizes, **_named_by_header(flags)}


def folder_of_header(text: str) -> str:
    """Return the folder in which Slurm starts a script that names one."""
    flags = _header_flags(text)
    return next((flags[name] for name in ("--chdir", "--workdir", "-D") if name in flags), "")


def _header_flags(text: str) -> dict[str, str]:
    comments = takewhile(lambda line: line.startswith("#") or not line.strip(), text.splitlines())
    header = " ".join(re.sub(r"\s#.*", "", line[8:]) for line in comments if re.match(r"#SBATCH\s", line))
    words = header.split() if header.count('"') % 2 or header.count("'") % 2 else shlex.split(header)
    return dict(re.split("[= ]", flag, maxsplit=1) for flag in _joined(words) if re.search("[= ]", flag))


def _named_by_header(flags: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the batch host that the script's own words may hold: GPUs, CPUs, names, the array."""
    gpus = [re.search(r"(?:^|:|gpu:)(\d+)(?:\(|,|$)", flags.get(name, "")) for name in ("--gres", "--gpus-per-node")]
    count = next((match[1] for match in gpus if match), "4")
    named = {"SLURM_GPUS_ON_NODE": count, "SLURM_JOB_NAME": flags.get("--job-name", flags.get("-J", "job.sh"))}
    cpus = _first_number(flags, "--cpus-per-task", "-c")
    if cpus:
        named["SLURM_CPUS_PER_TASK"] = str(cpus)
    if flags.keys() & {"--array", "-a"}:
        named |= {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_COUNT": "9"}
        named |= {"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_ARRAY_TASK_STEP": "1"}
    return named


_EACH = ("--ntasks-per-node", "--tasks-per-node")


def _first_number(flags: Mapping[str, str], *names: str) -> int:
    found = [re.match(r"\d+", flags[name].strip()) for name in names if name in flags]
    return next((int(each[0]) for each in found if each), 0)


def _joined(words: list[str]) -> list[str]:
    """Return flags with their values: -N 2 is one."""
    flags: list[str] = []
    for word in words:
        if word.startswith("-"):
            flags.append(re.sub(r"^(-[A-Za-z])(?=\w)", r"\1 ", word))
        elif flags:
            flags[-1] += f" {word}"
    return flags


def slurm_variables(nodes: int, tasks: int, each: int) -> dict[str, str]:
    return {
        "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NNODES": str(nodes), "SLURM_NTASKS": str(tasks),
        "SLURM_JOB_NODELIST": f"node[1-{nodes}]" if nodes > 1 else "node1",
        "SLURM_NODELIST": f"node[1-{nodes}]" if nodes > 1 else "node1",
        **({"SLURM_NTASKS_PER_NODE": str(each)} if each else {}),
        "SLURM_GPUS_ON_NODE": "4", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
    }  # fmt: skip
