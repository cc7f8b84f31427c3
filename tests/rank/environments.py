"""Environments of ranks as launchers really set them, cut to what says who the rank is.

Recorded: Open MPI 4.1.4 and MPICH 4.0.2 (Hydra) on one host, torchrun of torch 2.13, Slurm 22.05 steps with
`--mpi=none|pmi2|pmix`, mpirun in sbatch. After documentation only: Horovod (`horovod/runner`), Cray PALS.
"""

from __future__ import annotations

SLURM_JOB = {"SLURM_JOB_ID": "71", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_NNODES": "4", "SLURM_JOB_NUM_NODES": "4"}


def slurm_step(rank: int, tasks: str = "2(x4)", node: int | None = None, local: int | None = None) -> dict[str, str]:
    """Task `rank` of a step on n1…, blockwise over tasks such as "2(x3),1"."""
    counts = {"2(x4)": [2, 2, 2, 2], "1(x4)": [1, 1, 1, 1], "1(x3)": [1, 1, 1], "1": [1], "3,1": [3, 1]}[tasks]
    place = [(n, k) for n, count in enumerate(counts) for k in range(count)][rank]
    return {
        **SLURM_JOB,
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(place[1] if local is None else local),
        "SLURM_NODEID": str(place[0] if node is None else node),
        "SLURM_NTASKS": str(sum(counts)),
        "SLURM_STEP_NUM_TASKS": str(sum(counts)),
        "SLURM_STEP_NUM_NODES": str(len(counts)),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_STEP_NODELIST": f"n[1-{len(counts)}]" if len(counts) > 1 else "n1",
        "SLURMD_NODENAME": f"n{place[0] + 1}",
    }


def batch_script(tasks: int) -> dict[str, str]:
    """The batch script itself: Slurm gives it SLURM_PROCID too."""
    return {
        **SLURM_JOB,
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": str(tasks),
        "SLURMD_NODENAME": "n1",
    }


def open_mpi(rank: int, size: int, local: int, local_size: int, host: str = "vm") -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "OMPI_COMM_WORLD_NODE_RANK": str(local),
        "OMPI_MCA_ess_base_jobid": "1943732225",
        "PMIX_RANK": str(rank),
        "PMIX_NAMESPACE": "1943732225",
        "PMIX_HOSTNAME": host,
    }


def hydra(rank: int, size: int, local: int, local_size: int) -> dict[str, str]:
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_FD": "14",
        "MPI_LOCALRANKID": str(local),
        "MPI_LOCALNRANKS": str(local_size),
        "HYDI_CONTROL_FD": "7",
    }


def torchrun(rank: int, size: int, local: int, local_size: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(local_size),
        "GROUP_RANK": str(rank // local_size),
        "GROUP_WORLD_SIZE": str(size // local_size),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(size),
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "29400",
        "TORCHELASTIC_RUN_ID": "71",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def muster(launcher: str, rank: int, size: int, local: int, local_size: int) -> dict[str, str]:
    return {
        **torchrun(rank, size, local, local_size),
        "NODE_RANK": str(rank // local_size),
        "MUSTER_LAUNCHER": launcher,
        "MUSTER_AGENTS": "01"[launcher not in {"srun", "local"}],
        "MUSTER_NODES": "n1 n2 n3 n4",
    }


def horovod(rank: int, size: int, local: int, local_size: int) -> dict[str, str]:
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(local_size),
        "HOROVOD_CROSS_RANK": str(rank // local_size),
        "HOROVOD_CROSS_SIZE": str(size // local_size),
    }


def pals(rank: int, size: int, local: int, local_size: int) -> dict[str, str]:
    return {
        "PALS_RANKID": str(rank),
        "PALS_LOCAL_RANKID": str(local),
        "PALS_NODEID": str(rank // local_size),
        "PALS_APID": "aa-bb",
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_LOCAL_RANK": str(local),
        "PMI_LOCAL_SIZE": str(local_size),
    }


PMI2 = {"PMI_FD": "9", "PMI_JOBID": "71.0"}
