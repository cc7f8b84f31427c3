"""What is told of a command before anything starts: its header, its warnings, its notes, or why it is refused.

Most commands stand in pairs: one that is told of, and one just beside it that is not. They stand in the golden file
itself: write another line that begins with `$` there, and let --update-golden fill in what is told of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import MusterError
from muster.facts import Facts, ImageFacts, VenvFacts
from muster.model.plan import Engine, Plan

GOLDEN = Path(__file__).parent.parent / "golden/told.txt"

AT = {
    "generic with a shell that had another launch": {
        "RANK": "0",
        "PMI_RANK": "0",
        "MASTER_ADDR": "n1:29500",
        "WANDB_MODE": "offline",
        "OMPI_MCA_orte_tmpdir_base": "/tmp",
        "NCCL_DEBUG": "INFO",
        "NCCL_ALGO": "",
        "CONDA_PREFIX": "/home/ada/conda",
        "PATH": "/usr/bin",
    },
    "laptop with a shell that sets what salloc reads": {"SALLOC_ACCOUNT": "proj"},
    "generic with a shell that sets what sbatch reads": {"SBATCH_ACCOUNT": "proj", "SBATCH_EXPORT": "ALL"},
    "generic with a shell that names a host of IPv6": {"MASTER_ADDR": "fe80::1"},
    "generic inside an allocation": {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_MEM_PER_NODE": "10",
        "MASTER_ADDR": "n1",
        "RANK": "0",
    },
}
LOOKED_AT = ImageFacts(
    kind="sif",
    arch="x86_64",
    looked_inside=True,
    has_sh=True,
    made_for="cpu",
    machine="x86_64",
    real_paths={
        each: each
        for each in ("/data", "/data/in.csv", "/home/ada", "/home/ada/project", "/scratch/x.sif", "/usr/lib/x.so")
    },
    inside=frozenset({"/opt/tool"}),
    project="/home/ada/project",
    programs={"singularity": "/usr/bin/singularity"},
    venv=VenvFacts(folder="/home/ada/env", version="3.11", base="/opt/python", glibc=(2, 38)),
    glibc=(2, 31),
)
IN_IMAGE = (
    "/data/in.csv",
    "--out=/opt/tool/x",
    "--log-dir",
    "/var/log/mine",
    "--resume=/ckpt",
    "--out=/data/out",
    "/usr/lib/x.so",
    "--out=/dev/shm/x",
)


def told(place: str, words: list[str]) -> list[str]:
    facts: Facts = replace(FACTS, environment=AT.get(place, {}))
    command = ["--", "python", "train.py"]
    if "image" in place:
        image = replace(LOOKED_AT, made_for="rocm") if "ROCm" in place else LOOKED_AT
        facts, command = replace(facts, image=image), [*command, *(IN_IMAGE if "paths" in place else ())]
    within = "allocation" in place
    site = place.partition(" ")[0]
    engine = Engine.HERE if site == "laptop" else None
    try:
        made = plan(*words, *command, site=site, facts=facts, engine=engine, within=within, stream="terminal" in place)
    except MusterError as error:
        return [f"refused: {error} | {error.hint}"]
    notes = [f"{'warning' if each.warning else 'note'}: {each.text}" for each in made.notes]
    return [
        *_header(made),
        *(each for each in notes if not each.startswith(("note: python is", "warning: the profile"))),
    ]


def _header(made: Plan) -> list[str]:
    words = [each.name if each.value is None else f"{each.name}={each.value}" for each in made.directives]
    flags = [each.word for each in made.step_flags if isinstance(each.word, str) and "mask" not in each.word]
    return [" ".join(words[:-1]) + f" + {' '.join(flags)}" * bool(flags)]  # the last is the digest


def test_what_is_told_of_a_command(golden: Callable[[Path, str], None]) -> None:
    rows, place = [], ""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            place = line[3:]
            rows.append(line)
        elif line.startswith("$ "):
            command = line[2:].partition("  #")[0]
            first, *others = told(place, shlex.split(command))
            rows.append(f"$ {command}  # {first}".rstrip())
            rows += [f"    {each}".replace("\n\nhint:", " |") for each in others]
    golden(GOLDEN, "\n".join([*rows, ""]))
