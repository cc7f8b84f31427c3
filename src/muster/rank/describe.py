"""The world in words: who is where, with what versions and variables; and a logger that says who speaks."""

import logging
import platform
import sys
from typing import Any, Dict, List, Mapping, Sequence

from .hostlist import compress
from .together import Together
from .vendors import VISIBLE

# What changes how ranks speak to each other; of everything else not even the name is shown.
_PREFIXES = (
    *("CXI_", "FI_", "GLOO_", "HSA_", "MASTER_", "MPICH_", "NCCL_", "OMP_", "OMPI_", "RCCL_", "TORCH_", "UCX_"),
    *("CCL_", "ZE_"),
)
_NAMES = (*VISIBLE, "RES_OPTIONS")
# Open MPI's own wiring, which each start makes again, and what always differs between its ranks: the seats tell that.
_WIRING = (
    *("OMPI_MCA_ess_", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_ARGV", "OMPI_COMMAND"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "OMPI_FILE_LOCATION"),
)

_LONGEST_VALUE = 120


def variables_in_force(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that matter to a world, sorted; long values cut."""
    return {
        name: environment[name].replace("\n", "\\n")[:_LONGEST_VALUE]
        for name in sorted(environment)
        if name in _NAMES or (name.startswith(_PREFIXES) and not name.startswith(_WIRING))
    }


def describe(world: Together, environment: Mapping[str, str]) -> str:
    """Return what is the same on all ranks once, and what differs with the ranks it holds for.

    Every rank must call it.
    """
    rank_facts = world.gather({**_software(world), **variables_in_force(environment)})
    identity = world.joined.identity
    sources = ", ".join(f"{field} from {source}" for field, source in identity.sources.items() if source)
    size = f"{_counted(world.size, 'rank')} on {_counted(world.nodes, 'host')} ({compress(world.hosts)})"
    lines = [
        f"{size}, {world.backend} on {world.device.type}",
        f"method {world.method}, chosen {world.joined.method.chosen}, identity from {identity.family}"
        + (f": {sources}" if sources else ""),
    ]
    for seat, device in zip(world.joined.seats, world.gather(str(world.device))):
        lines.append(f"  rank {seat.rank}: {seat.host}, local rank {seat.local_rank} of {seat.local_size}, {device}")
    names = sorted({name for facts in rank_facts for name in facts}, key=lambda name: (name.isupper(), name))
    for name in names:
        lines += differing(name, [facts.get(name, "not set") for facts in rank_facts])
    return "\n".join(lines)


def differing(name: str, values: Sequence[str]) -> List[str]:
    """Return one line for a value that all ranks share; else one for each value, marked, with its ranks."""
    if len(set(values)) == 1:
        return [f"  {name}={values[0]}"]
    holders: Dict[str, List[int]] = {}
    for rank, value in enumerate(values):
        holders.setdefault(value, []).append(rank)
    return [f"! {name}={value} on {ranks_in_words(ranks)}" for value, ranks in holders.items()]


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Return [0, 1, 2, 5] as 'ranks 0-2, 5'."""
    spans: List[List[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
    return f"rank {words}" if len(ranks) == 1 else f"ranks {words}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _software(world: Together) -> Dict[str, str]:
    import torch

    facts = {"python": platform.python_version(), "executable": sys.executable, "torch": str(torch.__version__)}
    if world.device.type != "cpu":
        module = getattr(torch, world.device.type)
        facts["gpu"] = module.get_device_name(world.device)
        if hasattr(module, "nccl"):
            facts["nccl"] = ".".join(map(str, module.nccl.version()))
    return facts


def logger(world: Together) -> Any:
    """See `World.logger`. One logger per process, whatever the number of worlds it joins."""
    world_logger = logging.getLogger("muster.world")
    if not world_logger.handlers:
        handler = logging.StreamHandler()
        world_logger.addHandler(handler)
        world_logger.propagate = False
    speaker = "muster" if world.rank == 0 else f"muster: rank {world.rank} on {world.joined.seat.host}"
    world_logger.handlers[0].setFormatter(logging.Formatter(f"{speaker}: %(message)s"))
    world_logger.setLevel(logging.INFO if world.rank == 0 else logging.WARNING)
    return world_logger
