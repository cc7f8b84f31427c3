"""Variables by which Slurm's clients take options that were not typed: an outer job or a login shell left them."""

from __future__ import annotations

from collections.abc import Mapping

# What srun reads as options, when an outer job, a header or a login shell left it behind: our flags say it all.
CLASHING = (
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_DISTRIBUTION",
    "SLURM_CPU_BIND",
    "SLURM_GPU_BIND",
    "SLURM_GPUS_PER_TASK",
    "SLURM_HINT",
    "SLURM_EXPORT_ENV",
    "SLURM_MPI_TYPE",
    "SLURM_LABELIO",
    "SLURM_UNBUFFEREDIO",
    "SLURM_KILL_BAD_EXIT",
)
# Variables that an allocation of salloc sets for its shell and that clash with a smaller step (--gpus=4 is more than
# such a step can have). Jobs that Muster submits do not have them.
CLASHING_WITHIN = (
    "SLURM_GPUS",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_GRES",
    "SLURM_STEP_GRES",
    "SLURM_CONSTRAINT",
    "SLURM_HOSTFILE",
    "SLURM_NO_KILL",
    "SLURM_WORKING_DIR",
    "SLURM_REMOTE_CWD",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_STDERRMODE",
)

# What Slurm's clients need to find their cluster; the rest of SLURM_* is an outer job's.
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
_DROPPED = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "PMI_", "PMIX_")


def scheduler_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for sbatch and salloc.

    SBATCH_* would beat the script, SLURM_* of an outer job would leak in.
    """
    return {name: value for name, value in environment.items() if name in _KEPT or not name.startswith(_DROPPED)}
