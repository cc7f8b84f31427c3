"""What the script's source shows against how its ranks start: alone, twice over, or without what it needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from muster.errors import RequestError
from muster.facts import ScriptFacts
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.plan import Engine, Note, Reason, Shape, Variable
from muster.plan.nested import launcher_in_text, refuse_launcher

_ALONE = "--wireup dummy, if each is to work for itself"


def script_notes(
    script: ScriptFacts | None, request: Request, shape: Shape, launcher: Launcher, mpi: str | None
) -> Iterator[Note]:
    """Refuse what would train alone or twice, in silence; yield what may be a mistake."""
    if script is None or not launcher.starts_ranks:
        return
    if script.shell is not None:
        _refuse_shell(script, script.shell)
    if shape.ntasks < 2 or request.wireup == "dummy":
        return
    _refuse_alone(script, shape)
    _refuse_without_mpi(script, launcher, mpi)
    if script.waits_for_store and not launcher.agent:
        text = f"{script.path} waits for a store at MASTER_ADDR:MASTER_PORT, which only torchrun's agent serves"
        yield Note(f"{text}\n\nhint: --launcher torchrun", warning=True)
    if script.local_rank_argument and not any("local" in word and "rank" in word for word in request.command):
        text = f"{script.path} takes --local_rank and does not read LOCAL_RANK: every rank would use the first device"
        yield Note(f"{text}\n\nhint: default=int(os.environ['LOCAL_RANK']) for that argument", warning=True)


def wants_mpi(script: ScriptFacts | None) -> bool:
    """Return whether the ranks are those of an MPI, of mpi4py or of Horovod."""
    return script is not None and (script.needs_mpi or script.linked_mpi or _is_horovods(script))


def jax_variables(script: ScriptFacts | None, engine: Engine) -> Iterator[Variable]:
    """Yield Slurm's names for JAX without Slurm: it looks for its ranks in Slurm's or Open MPI's variables only."""
    if script is not None and script.asks_jax and engine is Engine.HERE:
        reason = "jax.distributed.initialize() reads SLURM_PROCID and its like, and nothing else of what is set here"
        yield Variable("MUSTER_SLURM_NAMES", "1", Reason(reason, script.path))


def _refuse_shell(script: ScriptFacts, text: str) -> None:
    if script.batch:
        raise RequestError(
            f"{script.path} is a batch script (#SBATCH): every rank would run the whole of it, without its header",
            hint=f"muster port {script.path} turns it into a line of Muster; sbatch {script.path} queues it as it is",
        )
    nested = launcher_in_text(text)
    if nested is not None:
        raise refuse_launcher(nested, f"{script.path}, which every rank runs,")


def _refuse_alone(script: ScriptFacts, shape: Shape) -> None:
    if script.spawns is not None:
        raise RequestError(
            f"{script.spawns}: it starts ranks of its own, and each of the {shape.ntasks} ranks would do so",
            hint="call the function with int(os.environ['LOCAL_RANK']) in the place of spawn, and Muster starts the "
            f"ranks; or -N 1 --ntasks-per-node 1; {_ALONE}",
        )
    if script.never_joins and any(module.partition(".")[0] == "torch" for module in script.modules):
        raise RequestError(
            f"{script.path} never joins the other ranks: each of the {shape.ntasks} would do the whole work alone, and "
            "overwrite what the others write",
            hint="with muster.world() as world: … (or torch.distributed.init_process_group()) joins them; for one "
            f"rank -N 1 --ntasks-per-node 1; {_ALONE}",
        )


def _refuse_without_mpi(script: ScriptFacts, launcher: Launcher, mpi: str | None) -> None:
    by_mpi = launcher.sets_mpi_variables or (launcher.rank_tasks and mpi not in {None, "none"})
    if by_mpi or not wants_mpi(script):
        return
    if script.linked_mpi:
        raise RequestError(
            f"{script.path} is linked with an MPI, but {launcher.name} starts the ranks without MPI: each would be "
            "alone",
            hint=f"--launcher mpirun{', or --mpi pmix under srun' if launcher.rank_tasks else ''}; {_ALONE}",
        )
    library = "Horovod" if _is_horovods(script) else "mpi4py"
    replacement = "--launcher mpirun, or --mpi pmix under srun"
    raise RequestError(
        f"{script.path} takes its ranks from {library}, but {launcher.name} starts them without MPI: each would "
        "be alone",
        hint=f"{replacement} (srun --mpi=list shows what this Slurm has)" if launcher.rank_tasks else replacement,
    )


def _is_horovods(script: ScriptFacts) -> bool:
    return any(module.partition(".")[0] == "horovod" for module in script.modules)
