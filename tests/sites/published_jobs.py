"""Batch scripts that the sites publish, as facts: their directives, where they stand, and the same job asked of Muster.

The account is the site's own example, for the scripts have placeholders; file names are left out. `bent` is one
directive that breaks a documented rule.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Script:
    """One published script."""

    site: str
    at: str
    directives: tuple[str, ...]
    ask: tuple[str, ...]
    """Options of `muster plan` for the same job."""

    bent: tuple[str, ...]
    """Directives that are laid over the script's, and make it wrong."""

    why: str
    """The documented rule that it then breaks."""


_LUMI_GUIDE = "Lumi-supercomputer/LUMI-AI-Guide @a7e3387"
_CSCS = "eth-cscs/cscs-docs @80abed1"
_MN5 = "TJ-Solergibert/MN5-Distributed-PyTorch @1131254"
_LLSC = "llsc-supercloud/teaching-examples"
_HOREKA = "public user notes on HoreKa 2 of 2026-09-26"
_LUMI_ACCOUNT = ("-A", "project_465000000")

SCRIPTS = (
    Script(
        "lumi",
        f"{_LUMI_GUIDE}, 05-multi-gpu-and-node/run_ddp_srun_4.sh",
        (
            "--account=project_465000000",
            "--partition=standard-g",
            "--nodes=4",
            "--gpus-per-node=8",
            "--time=1:00:00",
            "--ntasks-per-node=8",
            "--cpus-per-task=7",
            "--mem-per-gpu=60G",
        ),
        (*_LUMI_ACCOUNT, "-N", "4", "-g", "8", "-t", "1:00:00"),
        ("--cpus-per-task=8",),
        "jobs that ask for 64 cores a node never run",
    ),
    Script(
        "lumi",
        f"{_LUMI_GUIDE}, 01-quickstart/run.sh",
        (
            "--account=project_465000000",
            "--partition=small-g",
            "--gpus-per-node=1",
            "--ntasks-per-node=1",
            "--cpus-per-task=7",
            "--mem-per-gpu=60G",
            "--time=1:00:00",
        ),
        (*_LUMI_ACCOUNT, "-N", "1", "-g", "1", "-t", "1:00:00"),
        ("--time=3-01:00:00",),
        "small-g: three days",
    ),
    Script(
        "lumi",
        f"{_LUMI_GUIDE}, 05-multi-gpu-and-node/run_ddp_torchrun.sh",
        (
            "--account=project_465000000",
            "--partition=standard-g",
            "--nodes=1",
            "--gpus-per-node=8",
            "--time=1:00:00",
            "--ntasks=1",
            "--cpus-per-task=56",
            "--mem=480G",
        ),
        (*_LUMI_ACCOUNT, "-N", "1", "-g", "8", "-t", "1:00:00", "--launcher", "torchrun"),
        ("--gpus-per-node=9",),
        "eight GCDs a node",
    ),
    Script(
        "clariden",
        f"{_CSCS}, docs/running/slurm.md, one rank per GPU",
        ("--nodes=2", "--ntasks-per-node=4", "--gpus-per-task=1"),
        ("-N", "2", "-g", "4"),
        ("--mem=0",),
        "--mem=0 is refused on Clariden",
    ),
    Script(
        "clariden",
        f"{_CSCS}, docs/software/ml/pytorch.md, submit-dist-train.sh",
        ("--account=g123", "--time=01:00:00", "--nodes=2", "--ntasks-per-node=4"),
        ("-A", "g123", "-N", "2", "-g", "4", "-t", "01:00:00"),
        ("--time=13:00:00",),
        "normal: 12 hours",
    ),
    Script(
        "clariden",
        f"{_CSCS}, docs/tutorials/ml/llm-fine-tuning.md",
        ("--account=g123", "--time=00:30:00", "--ntasks-per-node=1", "--gpus-per-node=4", "--cpus-per-task=288"),
        ("-A", "g123", "-N", "1", "-g", "4", "-t", "00:30:00", "--launcher", "torchrun"),
        ("--partition=debug", "--nodes=4"),
        "debug: 90 node-minutes",
    ),
    Script(
        "daint",
        f"{_CSCS}, docs/running/slurm.md, one rank per GPU",
        ("--nodes=2", "--ntasks-per-node=4", "--gpus-per-task=1"),
        ("-N", "2", "-g", "4"),
        ("--gpus-per-task=2",),
        "four GPUs a node",
    ),
    Script(
        "daint",
        f"{_CSCS}, docs/running/slurm.md, accounts",
        ("--account=g123", "--time=00:30:00", "--nodes=2"),
        ("-A", "g123", "-N", "2", "-g", "0", "--ntasks-per-node", "1", "-t", "00:30:00"),
        ("--time=25:00:00",),
        "normal: 24 hours",
    ),
    Script(
        "daint",
        f"{_CSCS}, docs/software/alps-extended-images.md",
        ("--account=g123", "--nodes=2", "--ntasks-per-node=4"),
        ("-A", "g123", "-N", "2", "-g", "4"),
        ("--partition=debug", "--time=00:31:00"),
        "debug: 30 minutes",
    ),
    Script(
        "marenostrum5",
        f"{_MN5}, slurm/submit_multinode.sh",
        (
            "--nodes=2",
            "--ntasks-per-node=1",
            "--gres=gpu:4",
            "--cpus-per-task=80",
            "--time=00:02:00",
            "--account=bsc98",
            "--qos=acc_bsccs",
            "--hint=nomultithread",
        ),
        ("-A", "bsc98", "-q", "acc_bsccs", "-N", "2", "-g", "4", "-t", "00:02:00"),
        ("--cpus-per-task=60",),
        "20 CPUs for each GPU",
    ),
    Script(
        "marenostrum5",
        f"{_MN5}, my_first_distributed_app/submit_my_first_distributed_app.sh",
        (
            "--ntasks-per-node=1",
            "--gres=gpu:4",
            "--cpus-per-task=80",
            "--time=00:02:00",
            "--account=bsc98",
            "--qos=acc_debug",
            "--hint=nomultithread",
        ),
        ("-A", "bsc98", "-q", "acc_debug", "-N", "1", "-g", "4", "-t", "00:02:00"),
        ("--time=02:01:00",),
        "acc_debug: two hours",
    ),
    Script(
        "marenostrum5",
        f"{_MN5}, slurm/submit_multigpu.sh",
        (
            "--ntasks-per-node=1",
            "--gres=gpu:4",
            "--cpus-per-task=80",
            "--time=00:02:00",
            "--account=bsc98",
            "--qos=acc_bsccs",
            "--hint=nomultithread",
        ),
        ("-A", "bsc98", "-q", "acc_bsccs", "-N", "1", "-g", "4", "-t", "00:02:00"),
        ("--gres=gpu:5",),
        "four GPUs a node",
    ),
    Script(
        "supercloud",
        f"{_LLSC} @777ee0b, Python/pytorch/Distributed/batch.sh",
        ("--nodes=2", "--ntasks-per-node=2", "--gres=gpu:volta:2", "--distribution=nopack"),
        ("-N", "2", "-g", "2"),
        ("--gres=gpu:volta:3",),
        "two GPUs a node",
    ),
    Script(
        "supercloud",
        f"{_LLSC} @e87f197, Python/pytorch/Distributed/batch.sh",
        ("--nodes=2", "--ntasks-per-node=2", "--gres=gpu:volta:2"),
        ("-N", "2", "-g", "2"),
        ("--gres=gpu:a100:2",),
        "the GPUs are volta",
    ),
    Script(
        "supercloud",
        "a user's manual of October 2022 (a public gist of mengyuest)",
        ("--cpus-per-task=20", "--gres=gpu:volta:1", "--time=24:00:00"),
        ("-N", "1", "-g", "1", "-t", "24:00:00"),
        ("--cpus-per-task=41",),
        "40 cores a node",
    ),
    Script(
        "horeka",
        f"{_HOREKA}, salloc on the development partition",
        (
            "--partition=dev-gpu-h100",
            "--constraint=LSDF",
            "--gres=gpu:1",
            "--cpus-per-task=16",
            "--mem=64G",
            "--time=01:00:00",
        ),
        ("-p", "dev-gpu-h100", "-C", "LSDF", "-N", "1", "-g", "1", "-c", "16", "--mem", "64G", "-t", "01:00:00"),
        ("--time=02:00:00",),
        "dev-gpu-h100: one hour",
    ),
    Script(
        "horeka",
        f"{_HOREKA}, train.sbatch (partition and time from the text around it)",
        ("--partition=gpu-h100", "--gres=gpu:2", "--cpus-per-task=32", "--mem=256G", "--time=2-00:00:00"),
        (
            "-p",
            "gpu-h100",
            "-N",
            "1",
            "-g",
            "2",
            "--launcher",
            "torchrun",
            "-c",
            "16",
            "--mem",
            "256G",
            "-t",
            "2-00:00:00",
        ),
        ("--time=2-00:01:00",),
        "gpu-h100: two days",
    ),
    Script(
        "horeka",
        "public user notes on a HoreKa 2 project, salloc",
        (
            "--partition=gpu-h100",
            "--nodes=1",
            "--ntasks=1",
            "--gres=gpu:1",
            "--cpus-per-task=8",
            "--mem=64G",
            "--time=2-00:00:00",
        ),
        ("-p", "gpu-h100", "-N", "1", "-g", "1", "-c", "8", "--mem", "64G", "-t", "2-00:00:00"),
        ("--partition=accelerated",),
        "accelerated is gone",
    ),
)
