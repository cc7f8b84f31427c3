"""What was typed is done or refused: options that have no effect where, or by what, the ranks start. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from muster.errors import Refusal, refused
from muster.job.request import Request
from muster.launchers.base import Launcher, Starter
from muster.model.plan import Engine, Flag, Reason
from muster.plan.asked import Asked
from muster.slurm.flags import ONLY_OF_SBATCH, SlurmFlag
from muster.units import whole_number

# Options of a job that a step inside a standing allocation has too, by srun's name.
_OF_STEPS_TOO = {
    "nodelist": "nodelist",
    "exclude": "exclude",
    "time": "time",
    "mem": "mem",
    "job_name": "job-name",
}
# What a job has for good, and where its allocation says it.
_OF_THE_JOB = {
    "partition": "SLURM_JOB_PARTITION",
    "account": "SLURM_JOB_ACCOUNT",
    "qos": "SLURM_JOB_QOS",
    "constraint": "SLURM_JOB_CONSTRAINTS",  # a step's srun waits for such nodes for ever
}
_WITHOUT_SLURM = (
    *("mem", "exclusive", "time", "account", "partition", "qos", "trial", "constraint", "nodelist", "exclude"),
    *("distribution", "sbatch", "srun", "mpi", "gpu_type"),
)
_HERE_HINTS = {"time": "omit it, or type: timeout 30m muster run …", "mpi": "omit it, or use --launcher mpirun"}


class _Idle(msgspec.Struct, frozen=True):
    """An option that would change nothing."""

    option: str
    why: str
    hint: str
    launcher: str = ""
    """The launcher under which the option has an effect."""


def refuse_idle_options(asked: Asked, launcher: Launcher, environment: Mapping[str, str]) -> None:
    """Stop at the first option as typed that would change nothing. What a settings file says is for many launches."""
    for idle in _idle_options(asked, launcher, environment):
        accepted = {"launcher": idle.launcher} if idle.launcher else {}
        raise refused((Refusal("idle-option", f"{idle.option}: {idle.why}", idle.hint, accepted=accepted), ""))


def _idle_options(asked: Asked, launcher: Launcher, environment: Mapping[str, str]) -> Iterator[_Idle]:
    yield from _of_launcher(asked.request, launcher)
    if asked.engine is Engine.HERE:
        yield from _of_here(asked.request, launcher)
    if asked.within:
        yield from _of_allocation(asked.request, asked.flags, launcher, environment)
    if asked.stream:
        yield from _of_run(asked.request, asked.flags)


def flags_within(request: Request, launcher: Launcher) -> Iterator[Flag]:
    """Yield the step's flags that say of an allocation that stands what was typed."""
    if not launcher.starts_ranks or _is_program(launcher):
        return
    for field, name in _OF_STEPS_TOO.items():
        if request.typed(field):
            yield Flag(f"--{name}={getattr(request, field)}", Reason(request.set_by(field), request.origin(field)))
    others = ",".join(item for item in (request.gres or "").split(",") if item and "gpu" not in item.split(":")[0])
    if others and request.typed("gres"):
        yield Flag(f"--gres={others}", Reason(request.set_by("gres"), request.origin("gres")))


def narrows(flags: Sequence[Flag]) -> bool:
    """Return whether srun chooses other nodes of the allocation than its first ones."""
    return any(str(flag.word).startswith(("--nodelist=", "--exclude=")) for flag in flags)


def _is_program(launcher: Launcher) -> bool:
    return launcher.starter(Engine.SLURM) is Starter.PROGRAM


def _typed(request: Request, field: str, why: str, hint: str, launcher: str = "") -> Iterator[_Idle]:
    """Yield the option of this field where it was typed."""
    if request.typed(field):
        yield _Idle(request.origin(field), why, hint, launcher)


def _of_launcher(request: Request, launcher: Launcher) -> Iterator[_Idle]:
    other = "use --launcher srun, or omit it"
    blocks = (request.distribution or "block").partition(":")[0] in {"block", "*"}
    if launcher.leaves_daemons and not blocks:
        why = f"{launcher.name} can only fill one node after the other"
        yield _Idle(request.origin("distribution"), why, other, "srun")
    if not launcher.agent:
        why = f"{launcher.name} starts no agents"
        yield from _typed(request, "torchrun", why, "--launcher torchrun, or omit it", "torchrun")
    for field in ("mpi", "srun") if _is_program(launcher) else ():
        why = f"it is for srun, but {launcher.name} starts the ranks"
        yield from _typed(request, field, why, "--launcher srun", "srun")
    if request.closed and not launcher.closes:
        why = f"the doors of a closed job share a secret, which {launcher.name} cannot carry to other hosts"
        yield _Idle(request.origin("closed"), why, "--launcher srun, or omit it", "srun")
    if not launcher.rank_tasks:
        yield from _typed(request, "per_rank_files", f"{launcher.name} writes one file", other, "srun")


def _of_run(request: Request, more: Sequence[SlurmFlag]) -> Iterator[_Idle]:
    shown = {"output": "muster run … >FILE", "error": "muster run … 2>FILE", "per_rank_files": "muster submit"}
    for field, hint in shown.items():
        why = "muster run shows what the ranks write on the terminal where it was typed"
        yield from _typed(request, field, why, hint)
    why = "muster run ends with its terminal, and is not run again"
    yield from _typed(request, "requeue", why, "muster submit --requeue")
    why = "muster run ends with its terminal, and no job follows it"
    yield from _typed(request, "until_done", why, "muster submit --until-done")
    if request.export == "NONE":
        hint = "--unset-env NAME, or muster submit"
        yield from _typed(request, "export", "muster run passes your environment on", hint)
    for flag in more:
        if flag.is_typed and flag.name in ONLY_OF_SBATCH:
            why = f"muster run gets its nodes by salloc, which has no --{flag.name}"
            yield _Idle(flag.origin, why, f"muster submit {flag.origin}")


def _of_here(request: Request, launcher: Launcher) -> Iterator[_Idle]:
    why = "it is for Slurm, but this run is on this machine without Slurm"
    for field in _WITHOUT_SLURM:
        yield from _typed(request, field, why, _HERE_HINTS.get(field, "omit it"))
    if request.hang:
        yield from _typed(request, "hang", why, "muster stacks --here shows where the ranks stand")
    if "gpu" not in (request.gres or ""):
        yield from _typed(request, "gres", why, "omit it; use -g N for GPUs")
    for field in ("module", "module_use") if launcher.starter(Engine.HERE) is Starter.MUSTER else ():
        why = "on this machine the ranks have the modules of your shell"
        names = " ".join(getattr(request, field))
        yield from _typed(
            request, field, why, f"module load {names}, then type this without --{field.replace('_', '-')}"
        )


def _of_allocation(
    request: Request, more: Sequence[SlurmFlag], launcher: Launcher, environment: Mapping[str, str]
) -> Iterator[_Idle]:
    job = f"this runs inside job {environment.get('SLURM_JOB_ID', '')}"
    leave = "omit it, or type the command outside of the allocation"
    for field, variable in _OF_THE_JOB.items():
        has = environment.get(variable, "")
        if getattr(request, field) != has:
            yield from _typed(request, field, f"{job}, whose {field} is {has or 'settled'}", leave)
    yield from _memory_of_job(request, job, environment)
    for field in ("exclusive", "trial", "gpu_type"):
        yield from _typed(request, field, f"{job}, whose nodes are settled", leave)
    for flag in more:
        if flag.is_typed:
            yield _Idle(flag.origin, f"{job}, and sbatch asks for no other", "use --srun=FLAG for the step, or omit it")
    for field in (*_OF_STEPS_TOO, "gres") if _is_program(launcher) else ():
        why = f"{job}, over all of whose nodes {launcher.site_name} starts"
        yield from _typed(request, field, why, "use --launcher srun, or omit it", "srun")


def _memory_of_job(request: Request, job: str, environment: Mapping[str, str]) -> Iterator[_Idle]:
    """Yield --mem where it is more than the job has on each node, or where nothing says how much the job has."""
    if request.mem is None or not request.typed("mem"):
        return
    has_mib = whole_number(environment.get("SLURM_MEM_PER_NODE", ""))
    if has_mib and request.mem.mib > has_mib:
        leave = "omit it, or allocate more: salloc --mem"
        yield _Idle(request.origin("mem"), f"{job}, which has {has_mib} MiB on each node", leave)
    elif not has_mib and not environment.get("SLURM_MEM_PER_CPU") and not environment.get("SLURM_MEM_PER_GPU"):
        leave = "omit it, or allocate with it: salloc --mem; --srun=--mem=SIZE asks for the step all the same"
        unknown = "for which no memory was asked: Slurm does not say how much it has"
        yield _Idle(request.origin("mem"), f"{job}, {unknown}", leave)
