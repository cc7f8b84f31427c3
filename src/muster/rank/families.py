"""The families of variables by which a rank can have been told who it is: one row each.

The order is that of nesting: what stands higher was started by what stands lower (torchrun inside mpirun
inside a Slurm step), so the highest family that is present numbers the ranks.
"""

from typing import Mapping, NamedTuple, Tuple

from . import contract

Names = Tuple[str, ...]

# The step in which salloc's shell itself runs where LaunchParameters=use_interactive_step: no task of the user's.
_INTERACTIVE_STEP = "4294967290"


class Family(NamedTuple):
    """Who sets which variables. Of several names for one value the first that is set is read."""

    name: str
    title: str  # as a sentence calls it
    started_by: str  # what to type so that these variables are there
    marks: Names  # all must be set, or the family is not there at all
    rank: Names
    size: Names = ()
    local_rank: Names = ()
    local_size: Names = ()
    node_rank: Names = ()
    nodes: Names = ()
    tasks_per_node: Names = ()  # Slurm's `2(x3),1`, indexed by the node's rank
    hosts: Names = ()  # a Slurm node list, in rank order
    ids: Names = ()  # what all ranks of one start share and no other start on these hosts
    agents: bool = False  # its launcher keeps one agent on each node, which a lower family may have numbered

    @property
    def variables(self) -> Names:
        """Return what to unset to be rid of this family."""
        return self.rank + self.size + self.local_rank + self.local_size


_TORCH = Family(
    name="env",
    title="the environment",
    started_by="set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each rank",
    marks=(contract.RANK,),
    rank=(contract.RANK,),
    size=(contract.WORLD_SIZE,),
    local_rank=(contract.LOCAL_RANK,),
    local_size=(contract.LOCAL_WORLD_SIZE,),
    node_rank=(contract.GROUP_RANK, contract.NODE_RANK),
    nodes=(contract.GROUP_WORLD_SIZE,),
)

FAMILIES: Tuple[Family, ...] = (
    _TORCH._replace(
        name="muster",
        title="muster run",
        started_by="start with muster run or muster submit",
        marks=(contract.RANK, contract.LAUNCHER),
        ids=(contract.RUN_ID, contract.RESTART_COUNT),
    ),
    _TORCH._replace(
        name="torchrun",
        title="torchrun",
        started_by="start with torchrun --nnodes=N --nproc-per-node=R",
        marks=(contract.RANK, contract.RUN_ID),
        ids=(contract.RUN_ID, contract.RESTART_COUNT),
        agents=True,
    ),
    _TORCH,
    Family(
        name="horovod",
        title="Horovod",
        started_by="start with horovodrun -np N",
        marks=("HOROVOD_RANK",),
        rank=("HOROVOD_RANK",),
        size=("HOROVOD_SIZE",),
        local_rank=("HOROVOD_LOCAL_RANK",),
        local_size=("HOROVOD_LOCAL_SIZE",),
        node_rank=("HOROVOD_CROSS_RANK",),
        nodes=("HOROVOD_CROSS_SIZE",),
        ids=("HOROVOD_GLOO_RENDEZVOUS_PORT",),
        agents=True,
    ),
    Family(
        name="openmpi",
        title="Open MPI",
        started_by="start with Open MPI's mpirun",
        marks=("OMPI_COMM_WORLD_RANK",),
        rank=("OMPI_COMM_WORLD_RANK",),
        size=("OMPI_COMM_WORLD_SIZE",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        local_size=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        ids=("PMIX_NAMESPACE",),
        agents=True,
    ),
    Family(
        name="pals",
        title="Cray PALS",
        started_by="start with Cray PALS' mpiexec, or srun --mpi=cray_shasta",
        marks=("PALS_RANKID",),
        rank=("PALS_RANKID",),
        size=("PMI_SIZE",),
        local_rank=("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        local_size=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        node_rank=("PALS_NODEID",),
        ids=("PALS_APID",),
    ),
    Family(
        name="hydra",
        title="MPICH's mpiexec",
        started_by="start with MPICH's mpiexec",
        marks=("PMI_RANK", "MPI_LOCALRANKID"),
        rank=("PMI_RANK",),
        size=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID",),
        local_size=("MPI_LOCALNRANKS",),
        ids=("SLURM_JOB_ID",),
        agents=True,
    ),
    Family(
        name="pmi",
        title="PMI",
        started_by="start with srun --mpi=pmi2",
        marks=("PMI_RANK",),
        rank=("PMI_RANK",),
        size=("PMI_SIZE",),
        local_rank=("PMI_LOCAL_RANK",),
        local_size=("PMI_LOCAL_SIZE",),
        ids=("PMI_JOBID",),
    ),
    Family(
        name="pmix",
        title="PMIx",
        started_by="start with srun --mpi=pmix",
        marks=("PMIX_RANK",),
        rank=("PMIX_RANK",),
        ids=("PMIX_NAMESPACE",),
    ),
    Family(
        name="slurm",
        title="Slurm's step",
        started_by="start with srun",
        # The batch script itself has SLURM_PROCID=0 and the job's SLURM_NTASKS; only a step has a node list of its own.
        marks=("SLURM_PROCID", "SLURM_STEP_NODELIST"),
        rank=("SLURM_PROCID",),
        size=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        local_rank=("SLURM_LOCALID",),
        node_rank=("SLURM_NODEID",),
        nodes=("SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
        tasks_per_node=("SLURM_STEP_TASKS_PER_NODE",),
        hosts=("SLURM_STEP_NODELIST",),
        ids=("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
)


def present(environment: Mapping[str, str]) -> Tuple[Family, ...]:
    """Return the families that are there, highest first; of those that read the same rank variable only one."""
    families: Tuple[Family, ...] = ()
    for family in FAMILIES:
        read_already = any(family.rank == other_family.rank for other_family in families)
        a_shell = family.name == "slurm" and environment.get("SLURM_STEP_ID") == _INTERACTIVE_STEP
        if not read_already and not a_shell and all(environment.get(mark) for mark in family.marks):
            families += (family,)
    return families


def family_named(name: str) -> Family:
    """Return the row of that name; a wrong name is a KeyError."""
    return {family.name: family for family in FAMILIES}[name]
