"""Who this rank is, from the variables that its launcher set: one consistent family, or a refusal.

`identify` is pure. It never guesses: what no variable says (a local rank under `srun --mpi=pmix` in an image,
say) stays None and is found out when the ranks meet, by counting those of one host (`roster.py`).

Two families may both be there for a good reason, and then they agree in one of two ways:
they number the same ranks (`srun --mpi=pmi2`), or the lower one numbers the agents that the higher one's
launcher keeps on the nodes (mpirun in sbatch: SLURM_PROCID is that of the daemon; torchrun under srun).
A lower family of one member says nothing about the ranks. Everything else is a conflict.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import contract, hostlist
from .errors import WireupError
from .families import Family, family_named, present


class Identity(NamedTuple):
    """What the variables say. None: no variable says it. `sources`: which variable gave which field."""

    family: str
    rank: int
    size: int
    local_rank: Optional[int] = None
    local_size: Optional[int] = None
    node_rank: Optional[int] = None
    nodes: Optional[int] = None
    hosts: Tuple[str, ...] = ()  # as the launcher lists them: rank 0 is on the first
    tasks_per_node: Tuple[int, ...] = ()  # one count for each of `hosts`
    sources: Mapping[str, str] = {}


class _Claim(NamedTuple):
    """What one family says, incomplete as it may be."""

    family: Family
    values: Mapping[str, int]
    sources: Mapping[str, str]
    tasks: Tuple[int, ...]

    @property
    def rank(self) -> int:
        return self.values["rank"]

    @property
    def size(self) -> Optional[int]:
        return self.values.get("size")

    @property
    def on_one_node(self) -> bool:
        values = self.values
        return values.get("nodes") == 1 or (self.size is not None and values.get("local_size") == self.size)

    def __str__(self) -> str:
        names = " and ".join(self.sources[field] for field in ("rank", "size") if field in self.sources)
        size_words = "" if self.size is None else f" of {self.size}"
        return f"{self.family.title} says rank {self.rank}{size_words} ({names})"


_FIELDS = ("rank", "size", "local_rank", "local_size", "node_rank", "nodes")
_ALONE = Identity("single", 0, 1, 0, 1, 0, 1)


def identify(environment: Mapping[str, str], family: Optional[str] = None) -> Identity:
    """Return this rank's identity from the highest family that is there, or from the one that is named.

    Raises WireupError with the variables in conflict, or with what is missing and how to start instead.
    """
    claims = [_claim(row, environment) for row in present(environment)]
    if family is not None:
        return _named(family_named(family), claims, environment)
    if not claims:
        _refuse_alone_in_a_job(environment)
        return _ALONE
    claim = claims[0]
    for lower in claims[1:]:
        _refuse_conflict(claim, lower, environment)
    return _complete(claim, claims, environment)


def _named(family: Family, claims: List[_Claim], environment: Mapping[str, str]) -> Identity:
    """Return the identity that one family gives, unless it only numbers the agents of a higher one."""
    missing = [name for name in family.marks if not environment.get(name)]
    if missing:
        raise WireupError(
            f"{', '.join(missing)} is not set, so this is not a rank of {family.title}", family.started_by
        )
    claim = _claim(family, environment)
    for higher in claims:
        if higher.family.rank == claim.family.rank:
            break
        if claim.size != 1 and not _same_ranks(higher, claim) and _numbers_agents(higher, claim, environment):
            raise WireupError(
                f"{claim.family.title} numbers the agents of {higher.family.title}, not the ranks: {claim}, {higher}",
                f"take the identity from {higher.family.title} (method='auto'), or {family.started_by}",
            )
    return _complete(claim, claims, environment)


# --- reading one family ---------------------------------------------------------------------------------------------


def _claim(family: Family, environment: Mapping[str, str]) -> _Claim:
    if family.name == "muster":
        family = family._replace(agents=environment.get(contract.AGENTS) == "1")
    values: Dict[str, int] = {}
    sources: Dict[str, str] = {}
    for field in _FIELDS:
        for variable in getattr(family, field):
            if environment.get(variable):
                values[field] = _number(variable, environment[variable])
                sources[field] = variable
                break
    tasks: List[int] = []
    for variable in family.tasks_per_node:
        tasks = tasks_per_node(environment.get(variable, ""))
        if values.get("node_rank", len(tasks)) < len(tasks):
            values["local_size"] = tasks[values["node_rank"]]
            sources["local_size"] = variable
    return _Claim(family, values, sources, tuple(tasks))


def _number(variable: str, text: str) -> int:
    if not _is_number(text):
        raise WireupError(
            f"{variable} holds {text[:40]!r}, which is not a number", f"unset {variable}, or set it right"
        )
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def tasks_per_node(text: str) -> List[int]:
    """Return Slurm's `2(x3),1` as [2, 2, 2, 1]; an empty list for what cannot be read so."""
    counts: List[int] = []
    for item in text.split(",") if text else ():
        tasks, _, times = item.partition("(x")
        times = times[:-1] if times else "1"
        if not (_is_number(tasks) and _is_number(times)) or int(times) > hostlist.MOST_NAMES:
            return []
        counts += [int(tasks)] * int(times)
    return counts


# --- two families ---------------------------------------------------------------------------------------------------


def _same_ranks(first: _Claim, second: _Claim) -> bool:
    return first.rank == second.rank and (first.size is None or second.size is None or first.size == second.size)


def _numbers_agents(higher: _Claim, lower: _Claim, environment: Mapping[str, str]) -> bool:
    """Return whether the lower family may number the agents of the higher one's launcher, one on each node."""
    if not higher.family.agents or lower.size is None or higher.size is None:
        return False
    one_a_node = lower.values.get("local_size", 1) == 1
    left_over = higher.family.name == "openmpi" and _is_of_another_host(environment)
    return one_a_node and lower.size <= higher.size and not higher.on_one_node and not left_over


def _is_of_another_host(environment: Mapping[str, str]) -> bool:
    """Return whether Open MPI's variables were made on another host than this step runs on."""
    claimed_host, slurm_host = environment.get("PMIX_HOSTNAME"), environment.get("SLURMD_NODENAME")
    return bool(claimed_host and slurm_host) and str(claimed_host).split(".")[0] != str(slurm_host).split(".")[0]


def _refuse_conflict(higher: _Claim, lower: _Claim, environment: Mapping[str, str]) -> None:
    if lower.size == 1 or _same_ranks(higher, lower) or _numbers_agents(higher, lower, environment):
        return
    if lower.size is None and higher.family.agents:  # PMIx of the daemon: it does not say how many they are
        return
    each_its_own = higher.family.agents and higher.on_one_node and higher.size != 1
    if each_its_own and lower.values.get("local_size", 1) == 1:
        raise WireupError(
            f"each of the {lower.size} tasks of {lower.family.title} has started a world of its own: {higher}, {lower}",
            f"one world over all nodes: {higher.family.started_by}, or muster run; "
            "worlds apart on purpose: muster.world(method='env')",
        )
    unset = " ".join(f"-u {name}" for name in higher.family.variables)
    raise WireupError(
        f"two launchers disagree: {higher}, but {lower}",
        f"if an outer job left the first, start with `env {unset} srun …`; "
        f"otherwise use one launcher only: {higher.family.started_by}, or {lower.family.started_by}",
    )


def _refuse_alone_in_a_job(environment: Mapping[str, str]) -> None:
    """Stop the world of one that a missing srun makes: it would look like a run, and train alone."""
    tasks = environment.get("SLURM_NTASKS", "")
    if environment.get("SLURM_JOB_ID") and _is_number(tasks) and int(tasks) > 1:
        raise WireupError(
            f"this process stands in a job of {tasks} tasks (SLURM_NTASKS), but no srun started it: it would be alone",
            "start it with srun or muster run; for one process on purpose, muster.world(method='dummy')",
        )


# --- the whole ------------------------------------------------------------------------------------------------------


def _complete(chosen_claim: _Claim, claims: List[_Claim], environment: Mapping[str, str]) -> Identity:
    """Return the chosen family's values, and what the others that number the same ranks add to them."""
    values: Dict[str, int] = {}
    sources: Dict[str, str] = {}
    agreeing = [chosen_claim] + [
        claim for claim in claims if claim is not chosen_claim and _same_ranks(chosen_claim, claim)
    ]
    for claim in reversed(agreeing):
        values.update(claim.values)
        sources.update(claim.sources)
    if "size" not in values:
        raise WireupError(
            f"{chosen_claim.family.title} gives a rank ({sources['rank']}={chosen_claim.rank}) but no number of ranks",
            "start with srun --mpi=pmix, which has Slurm's variables beside it, or with mpirun",
        )
    _refuse_outside("rank", "size", values, sources)
    _refuse_outside("local_rank", "local_size", values, sources)
    hosts, sources["hosts"] = _hosts(agreeing, environment)
    tasks = next((claim.tasks for claim in agreeing if claim.tasks), ())
    return Identity(chosen_claim.family.name, hosts=hosts, tasks_per_node=tasks, sources=sources, **values)


def _refuse_outside(member: str, whole: str, values: Mapping[str, int], sources: Mapping[str, str]) -> None:
    if member in values and whole in values and values[member] >= values[whole]:
        raise WireupError(
            f"{sources[member]} is {values[member]}, but {sources[whole]} is {values[whole]}: there is no such rank",
            f"unset {sources[member]} and {sources[whole]} if an outer job left them, or set them right",
        )


def _hosts(agreeing: List[_Claim], environment: Mapping[str, str]) -> Tuple[Tuple[str, ...], str]:
    """Return the hosts with rank 0's first, and where they come from."""
    if environment.get(contract.NODES):
        return tuple(environment[contract.NODES].split()), contract.NODES
    variables = [name for claim in agreeing for name in claim.family.hosts]
    # mpirun and torchrun in a job: no step has these ranks, and they are placed in the job's order.
    for name in [*variables, "SLURM_JOB_NODELIST"]:
        if environment.get(name):
            return tuple(hostlist.expand(environment[name])), name
    return (), ""
