"""What is told of a command before anything starts: its header, its warnings, its notes, or why it is refused.

Most commands stand in pairs: one that is told of, and one just beside it that is not. `tests/golden/told.txt` is read.
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

COMMANDS = {
    "generic": """
        -N 2 -g 4
        -N 2 -g 4 -t 0
        -N 2 -g 4 -t 0:59
        -N 2 -g 4 -t 1:00
        -N 2 -g 4 --trial
        -N 2 -g 4 --visibility one
        -g 4 --gpu-type a100
        --gpu-type a100
        -g 0 --gpu-type a100
        --gres gpu:2
        --gres gpu:2 --gpu-type a100
        --gres license:1 -g 2 --gpu-type a100
        -N 2 --requeue
        -N 2 --sbatch=--no-requeue
        -N 2 --requeue --sbatch=--no-requeue
        -N 2 --sbatch=--nodes=3
        -N 2 --sbatch=--nodes=2
        -N 2 --sbatch=--hint=nomultithread
        -N 2 --sbatch=--nosuchflag
        -N 2 --mem 10G --sbatch=--mem-per-cpu=1G
        -N 2 --export ALL
        -N 2 --export NONE
        -N 2 -o out.txt -e /tmp/err.txt --job-name me
        -N 2 --exclude n1 -C big -q long -A chem -p gpu
        -N 2 --env RANK=3
        -N 2 --env MASTER_PORT=3
        -N 2 --env MASTER_ADDR
        -N 2 --env NOBODY_HAS_IT
        -N 2 --env WANDB_MODE
        -N 2 --env A=1 --unset-env A
        -N 2 --launcher torchrun --torchrun=--max-restarts=3
        -N 2 --launcher torchrun --torchrun=--nnodes=3
        -N 2 --launcher torchrun --torchrun=--log_dir=x
        -N 2 --launcher torchrun --torchrun=max-restarts=3
        -N 2 --launcher srun --torchrun=--max-restarts=3
        -N 2 --launcher mpirun --srun=--label
        -N 2 --launcher mpirun --mpi pmix
        -N 2 --launcher mpirun --distribution cyclic
        -N 2 --launcher mpirun --distribution block:cyclic
        -N 2 --launcher torchrun --per-rank-files
        -N 2 --wireup nccl-openmpi
        -N 2 --wireup nccl-openmpi --launcher mpirun
        -N 2 --wireup nccl-slurm-pmi
        -N 2 --wireup nccl-slurm-pmi --mpi pmi2
        -N 2 --wireup mpi --mpi none
        -N 2 --restart 2 --spares 1
        -N 2 --spares 1 --nodelist n1
        -N 2 --spares 1 --stage-out x
        -N 2 --links 3
        -N 2 -t 60 --until-done --links 3
        -N 2 --until-done
        -N 2 -t 0 --until-done
        -N 2 --save-signal USR2
        -N 2 --save-before 10m
        -N 2 -t 10 --save-before 10m
        -N 2 -t 11 --save-before 10m --save-signal USR2
        -N 2 --checkpoint ckpt
        -N 2 --checkpoint ckpt/%a
        -N 2 --checkpoint ckpt --sbatch=--array=1-4
        -N 2 --checkpoint ckpt --sbatch=--array=1-4%1
        -N 2 --checkpoint ckpt/%a --sbatch=--array=1-4
        -N 2 --hang 5m
        -N 2 --bind /x
        -N 2 --engine apptainer
        -N 2 --snapshot
        -N 2 --sweep-per-node 2
        -N 2 --master-port 99999
        -N 2 --module nccl/2 --module-use /m""",
    "generic with a shell that had another launch": """
        -N 2
        -N 2 --export ALL
        -N 2 --conda /home/ada/conda
        -N 2 --master-addr n9
        -N 2 --env WANDB_MODE --env PATH=/bin
        -N 2 --venv none""",
    "generic inside an allocation": """
        -N 2
        -N 2 -p gpu
        -N 2 -p other
        -N 2 --mem 10M
        -N 2 --mem 11M
        -N 2 -t 5 --nodelist n2 --job-name me
        -N 2 --gres gpu:2,license:1
        -N 2 --exclusive
        -N 2 --sbatch=--hint=nomultithread
        -N 2 --launcher mpirun --nodelist n2
        -N 2 --launcher mpirun --gres license:1
        -N 2 --spares 1
        -N 2 --snapshot""",
    "generic at a terminal": """
        -N 2 -o out.txt
        -N 2 --requeue
        -t 60 --until-done
        -N 2 --export NONE
        -N 2 --export ALL
        -t 60 --save-before 5m""",
    "laptop": """
        -N 2 --ntasks-per-node 1
        -N 2 --ntasks-per-node 2
        -N 1 --ntasks-per-node 2
        -N 2 --mem 1G
        -N 2 -t 30
        -N 2 --hang 5m
        -N 2 --gres license:1
        -N 2 --module a --module b
        -N 2 --restart 1
        -N 2 --wireup nccl-slurm
        -N 2 --snapshot""",
    "lumi": """
        -N 2 -A project_465000000 -t 30
        -N 2 -A project_465000000 -t 30 -g 8 --image site:multitorch
        -N 1 -A project_465000000 -t 30 -g 8
        -N 2 -A project_465000000 -t 30 -g 0
        -N 2 -A project_465000000 -t 30 -p standard
        -N 2 -A project_465000000 -t 30 -p standard -g 0
        -N 2 -A project_465000000 -t 30 -g 8 --ntasks-per-node 4
        -N 2 -A project_465000000 -t 30 -g 8 --trial
        -N 2 -A project_465000000 -t 30 -g 8 --workload fork
        -N 2 -A project_465000000 -t 30 -g 8 --mem 100G
        -N 2 -A project_465000000 -t 30 -g 8 --unset-env MIOPEN_USER_DB_PATH
        -N 2 -A nobody -t 30 -g 8
        -N 2 -A project_465000000 -t 30 -g 9""",
    "perlmutter": """
        -N 2 -A m1_g -C gpu -t 30 -q regular -g 4
        -N 2 -A m1_g -C gpu -t 30 -q preempt -g 4
        -N 2 -A m1_g -C cpu -t 30 -q regular -g 4
        -N 2 -A m1_g -C gpu -t 30 -q regular -g 4 --requeue
        -N 2 -A m1 -C cpu -t 30 -q regular -g 0
        -N 1 -A m1_g -C gpu -t 30 -q shared -g 1""",
    "clariden": """
        -N 2 -t 30 -g 4 --env NCCL_NET_PLUGIN=ofi --stack uenv
        -N 2 -t 30 -g 4 --env NCCL_NET_PLUGIN=ofi
        -N 2 -t 30 -g 4 --env NCCL_PROTO=LL --stack uenv
        -N 2 -t 30 -g 4 --gpu-type gh200
        -N 2 -t 30 -g 4 --module aws-ofi-nccl""",
    "jean-zay": """
        -N 2 -A abc@h100 -t 30 -g 4
        -N 2 -A abc@a100 -t 30 -g 8
        -N 2 -A abc@h100 -C a100 -t 30 -g 4
        -N 2 -A abc@v100 -t 30 -g 4 --qos qos_gpu-t3""",
    "mila": """
        -g 1 -t 30
        -g 1 -t 30 -p main
        -g 1 -t 30 --gpu-type a100l
        -g 3 -t 30 -p main
        -g 0 -t 30""",
    "lumi with an image": """
        -N 2 -A project_465000000 -t 30 -g 8 --image /scratch/x.sif
        -N 2 -A project_465000000 -t 30 -g 8 --image /scratch/x.sif --engine podman
        -N 2 -A project_465000000 -t 30 -g 8 --image /scratch/x.sif --bind /gone
        -N 2 -A project_465000000 -t 30 -g 8 --image /scratch/x.sif --env HF_HOME=/data/hf
        -N 2 -A project_465000000 -t 30 -g 8 --image /scratch/x.sif --env HF_HOME=/data/hf --bind /data
        -N 2 -A project_465000000 -t 30 -g 8 --image /scratch/x.sif --venv /home/ada/env
        -N 2 -A project_465000000 -t 30 -g 8 --image docker://a/b:1
        -N 2 -A project_465000000 -t 30 -g 0 --image docker://a/b:1""",
    "lumi with an image and paths": """
        -N 2 -A project_465000000 -t 30 -g 0 --image /scratch/x.sif
        -N 2 -A project_465000000 -t 30 -g 0 --image /scratch/x.sif --bind /data""",
}

AT = {
    "generic with a shell that had another launch": {
        "RANK": "0",
        "PMI_RANK": "0",
        "MASTER_ADDR": "n1:29500",
        "WANDB_MODE": "offline",
        "OMPI_MCA_orte_tmpdir_base": "/tmp",
        "NCCL_DEBUG": "INFO",
        "CONDA_PREFIX": "/home/ada/conda",
        "PATH": "/usr/bin",
    },
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
    real_paths={each: each for each in ("/data", "/data/in.csv", "/home/ada", "/home/ada/project", "/scratch/x.sif")},
    inside=frozenset({"/opt/tool"}),
    project="/home/ada/project",
    programs={"singularity": "/usr/bin/singularity"},
    venv=VenvFacts(folder="/home/ada/env", version="3.11", base="/opt/python", glibc=(2, 38)),
    glibc=(2, 31),
)
IN_IMAGE = ("/data/in.csv", "--out=/opt/tool/x", "--log-dir", "/var/log/mine", "--resume=/ckpt", "--out=/data/out")


def told(place: str, words: list[str]) -> list[str]:
    facts: Facts = replace(FACTS, environment=AT.get(place, {}))
    command = ["--", "python", "train.py"]
    if "image" in place:
        facts, command = replace(facts, image=LOOKED_AT), [*command, *(IN_IMAGE if "paths" in place else ())]
    within = "allocation" in place
    site = place.partition(" ")[0]
    engine = Engine.HERE if site == "laptop" else None
    try:
        made = plan(*words, *command, site=site, facts=facts, engine=engine, within=within, stream="terminal" in place)
    except MusterError as error:
        return [f"refused: {error}", f"hint: {error.hint}"]
    notes = [f"{'warning' if each.warning else 'note'}: {each.text}" for each in made.notes]
    return [
        *_header(made),
        *(each for each in notes if not each.startswith(("note: python is", "warning: the profile"))),
    ]


def _header(made: Plan) -> list[str]:
    words = [each.name if each.value is None else f"{each.name}={each.value}" for each in made.directives]
    flags = [each.word for each in made.step_flags if isinstance(each.word, str) and "mask" not in each.word]
    return [" ".join(words[:-1]), *([f"step: {' '.join(flags)}"] if flags else [])]  # the last is the digest


def test_what_is_told_of_a_command(golden: Callable[[Path, str], None]) -> None:
    rows = []
    for place, commands in COMMANDS.items():
        rows.append(f"== {place}")
        for command in commands.strip().splitlines():
            rows.append(f"$ {command.strip()}")
            rows += [f"    {line}" for each in told(place, shlex.split(command)) for line in each.splitlines() if line]
    golden(GOLDEN, "\n".join([*rows, ""]))
