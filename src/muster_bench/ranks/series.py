"""The whole series in one job: python muster-bench.pyz ORDER, in every rank.

ORDER is one JSON object; the login side writes it (muster_bench/order.py). Rank 0 reports each record as it is known.
Long: each part of a series is one function over the same session, and every rank has to run them in the same order.
"""

import json
import math
import os
import statistics
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from .collectives import COLLECTIVES, Members, bytes_needed, exchange, make_case, round_count, timed
from .devices import PROBES, NotHere
from .memory import free_bytes
from .report import Reporter
from .rounds import pair_rounds
from .values import Wrong, fill, row, wrong_elements

_RUN_DIRECTORY = "MUSTER_RUN_DIR"
_TOLD = (
    "NCCL_",
    "RCCL_",
    "FI_",
    "GLOO_",
    "TORCH_",
    "UCX_",
    "MPICH_",
    "OMP_",
    "CUDA_VISIBLE",
    "ROCR_VISIBLE",
    "HSA_",
    "CCL_",
    "ZE_",
)
_TRIAL_S = 0.05
_MOST_ON_CPU = 64 << 20
_EVERY = 4
_REFUSED_STATUS = 2


class SeriesRefused(Exception):
    """The series cannot be run as asked; the same words on every rank."""


class Scope(NamedTuple):
    """Which ranks measure together: `members` is None on a rank that waits."""

    name: str
    nodes: int
    ranks: int
    members: Any


class Session:
    """One rank's view of the series."""

    def __init__(self, world: Any, order: Mapping[str, Any], reporter: Reporter) -> None:
        import torch

        self.world = world
        self.order = order
        self.reporter = reporter
        self.device = world.device
        self.free = self.least(free_bytes(world.device, world.local_size))
        self.finish: Callable[[], None] = (
            (lambda: None)
            if world.device.type == "cpu"
            else (lambda: getattr(torch, world.device.type).synchronize(world.device))
        )

    def start(self) -> None:
        """Wait for the common start of a timed run: no rank begins before all are there."""
        self.finish()
        self.world.barrier()
        self.finish()

    def gathered(self, values: Sequence[float]) -> List[List[float]]:
        """Return every rank's list of numbers, all of the same length, by rank."""
        import torch
        import torch.distributed as dist

        if self.world.size == 1:
            return [list(values)]
        own_values = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        all_of_them = [torch.empty_like(own_values) for _ in range(self.world.size)]
        dist.all_gather(all_of_them, own_values)
        return [row.tolist() for row in all_of_them]

    def least(self, value: float) -> int:
        """Return the smallest of all ranks' numbers."""
        return int(min(row[0] for row in self.gathered([float(value)])))


_NO_TORCH = """muster: error: this Python ({}) has no torch, and the ranks measure with torch

hint: activate the environment that has it, or name it with --venv or --image"""


def main(words: Sequence[str]) -> int:
    """Run the order; the status is 0 when the series came to its end."""
    start_s = time.perf_counter()
    try:
        import torch
    except ImportError:
        print(_NO_TORCH.format(sys.executable), file=sys.stderr)
        return 2
    import_s = time.perf_counter() - start_s
    import muster

    try:
        return _measure(json.loads(words[0]), import_s, muster, torch)
    except muster.WireupError as error:
        print(f"muster: error: {error}", file=sys.stderr)
        return 2


def _measure(order: Dict[str, Any], import_s: float, muster: Any, torch: Any) -> int:
    start_s = time.perf_counter()
    with muster.world() as world:
        rendezvous_s = time.perf_counter() - start_s
        reporter = Reporter(world.rank, os.environ.get(_RUN_DIRECTORY))
        session = Session(world, order, reporter)
        _tell_start(session, torch)
        try:
            _own_parts(session, {"import_torch": import_s, "rendezvous": rendezvous_s})
            _collectives(session)
            _pairs(session)
        except SeriesRefused as refusal:
            reporter.tell("refused", {"reason": str(refusal)})
            return _REFUSED_STATUS
        reporter.tell("end", {})
    return 0


def _tell_start(session: Session, torch: Any) -> None:
    """Write who measures, with what: everything by which two results can be compared."""
    world = session.world
    module = None if session.device.type == "cpu" else getattr(torch, session.device.type)
    own_facts = {
        "host": world.hosts[world.node_rank],
        "node": world.node_rank,
        "device": module.get_device_name(session.device) if module else "cpu",
        "torch": str(torch.__version__),
        "nccl": ".".join(str(number) for number in module.nccl.version()) if module and hasattr(module, "nccl") else "",
        "variables": {name: value for name, value in os.environ.items() if name.startswith(_TOLD)},
    }
    all_facts = world.gather(own_facts)
    session.reporter.tell(
        "start",
        {
            "time": time.time(),
            "size": world.size,
            "hosts": list(world.hosts),
            "ranks_per_node": world.local_size,
            "backend": world.backend,
            "node_of_rank": [rank_facts["node"] for rank_facts in all_facts],
            "devices": [rank_facts["device"] for rank_facts in all_facts],
            "torch": [rank_facts["torch"] for rank_facts in all_facts],
            "nccl": [rank_facts["nccl"] for rank_facts in all_facts],
            "variables": all_facts[0]["variables"],
            "differing": sorted(
                name
                for name in {name for rank_facts in all_facts for name in rank_facts["variables"]}
                if len({rank_facts["variables"].get(name) for rank_facts in all_facts}) > 1 and "VISIBLE" not in name
            ),
            "image": os.environ.get("APPTAINER_CONTAINER") or os.environ.get("SINGULARITY_CONTAINER") or "",
            "trials": session.order["trials"],
            "iterations": session.order["iterations"],
            "free_bytes": session.free,
        },
    )


# --- this rank alone ------------------------------------------------------------------------------------------------


def _own_parts(session: Session, seconds: Mapping[str, float]) -> None:
    """Measure what each rank can do by itself, and how long it took to get here."""
    if "devices" not in session.order["parts"]:
        return
    for name, value in seconds.items():
        _tell_probe(session, name, "s", False, [value], "")
    for name, probe in PROBES.items():
        session.start()
        values, reason = [], ""
        try:
            values = probe.measure(session.device, session.order["storage"])
        except NotHere as absent:
            reason = str(absent)
        _tell_probe(session, name, probe.unit, probe.more_is_better, values, reason)


def _tell_probe(session: Session, name: str, unit: str, more_is_better: bool, values: List[float], reason: str) -> None:
    rank_values = session.world.gather((values, reason))
    session.reporter.tell(
        "probe",
        {
            "name": name,
            "unit": unit,
            "more_is_better": more_is_better,
            "by_rank": [rank_value[0] for rank_value in rank_values],
            "reason": next((rank_value[1] for rank_value in rank_values if rank_value[1]), ""),
        },
    )


# --- together -------------------------------------------------------------------------------------------------------


def _scopes(session: Session) -> Iterator[Scope]:
    """Yield all ranks, the first 1, 2, 4 … nodes, each node by itself, one rank of each node."""
    import torch.distributed as dist

    world, parts = session.world, session.order["parts"]
    all_ranks = tuple(range(world.size))
    node_of = [seat.node_rank for seat in sorted(world.joined.seats, key=lambda seat: seat.rank)]

    def among(ranks: Sequence[int]) -> Any:
        """Return the members, where this rank is one of them."""
        group = dist.new_group(list(ranks))
        return Members(group, tuple(ranks), ranks.index(world.rank)) if world.rank in ranks else None

    if "nodes" in parts:
        count = 1
        while count < world.nodes:
            ranks = [rank for rank in all_ranks if node_of[rank] < count]
            yield Scope("nodes", count, len(ranks), among(ranks))
            count *= 2
    if "all" in parts or "nodes" in parts:
        yield Scope("nodes", world.nodes, world.size, Members(None, all_ranks, world.rank))
    if world.nodes > 1 and "intra" in parts and world.local_size > 1:
        own_members = None
        for node in range(world.nodes):
            own_members = among([rank for rank in all_ranks if node_of[rank] == node]) or own_members
        yield Scope("intra", 1, world.local_size, own_members)
    if world.nodes > 1 and "inter" in parts and world.local_size > 1:
        ranks = [node_of.index(node) for node in range(world.nodes)]
        yield Scope("inter", world.nodes, len(ranks), among(ranks))


def _collectives(session: Session) -> None:
    """Measure every scope, collective, type, place and size of the order."""
    order = session.order
    if not order["collectives"]:
        return
    _refuse_too_large(session)
    for scope in _scopes(session):
        for collective in order["collectives"]:
            if scope.ranks < 2:
                if session.world.size < 2:
                    session.reporter.tell("absent", {**_about(scope, collective), "reason": "there is one rank only"})
                continue
            for dtype in order["dtypes"]:
                for place in ("out", "in"):
                    if order["place"] in (place, "both"):
                        _sizes(session, scope, collective, dtype, place)


def _about(scope: Scope, collective: str) -> Dict[str, Any]:
    return {"scope": scope.name, "nodes": scope.nodes, "ranks": scope.ranks, "collective": collective}


def _refuse_too_large(session: Session) -> None:
    """Refuse sizes that do not fit, before anything is allocated."""
    order, largest = session.order, max(session.order["sizes"])
    for collective in order["collectives"]:
        bytes_wanted = bytes_needed(collective, largest, session.world.size, False)
        if order["sizes_asked"] and bytes_wanted > session.free:
            raise SeriesRefused(
                "{} of {} bytes needs {} bytes on each rank, but the rank with the least memory has only {}".format(
                    collective, largest, bytes_wanted, session.free
                )
            )


def _sizes(session: Session, scope: Scope, collective: str, dtype_name: str, place: str) -> None:
    """Measure one series over the sizes; end with a reason where the backend or torch does not have the collective."""
    import torch

    row_facts = {**_about(scope, collective), "dtype": dtype_name, "place": place}
    if place not in COLLECTIVES[collective].places:
        other_places = "in place only" if place == "out" else "out of place only"
        if session.order["place"] == place:
            session.reporter.tell("absent", {**row_facts, "reason": "torch has {} {}".format(collective, other_places)})
        return
    dtype = getattr(torch, dtype_name)
    itemsize = torch.empty(0, dtype=dtype).element_size()
    done_counts = set()
    for size in _sizes_of(session, scope):
        count = round_count(collective, size, scope.ranks, itemsize)
        real = count * itemsize
        if real in done_counts:
            continue
        done_counts.add(real)
        if bytes_needed(collective, real, scope.ranks, place == "in") > session.free:
            session.reporter.tell("absent", {**row_facts, "bytes": real, "reason": "it does not fit in memory"})
            return
        if not _one_size(session, scope, collective, count, dtype, place == "in", {**row_facts, "bytes": real}):
            return


def _sizes_of(session: Session, scope: Scope) -> List[int]:
    """Return what was asked for; by default every power of two for all ranks, every fourth for parts of them."""
    sizes = list(session.order["sizes"])
    if session.order["sizes_asked"]:
        return sizes
    if session.device.type == "cpu":
        sizes = [size for size in sizes if size <= _MOST_ON_CPU]
    return sizes if scope.ranks == session.world.size else sizes[::-1][::_EVERY][::-1]


def _one_size(
    session: Session, scope: Scope, collective: str, count: int, dtype: Any, in_place: bool, row_facts: Dict[str, Any]
) -> bool:
    """Check, warm up, measure, check again and tell; False where the collective cannot be had."""
    result: Dict[str, Any] = {"case": None, "wrong": Wrong(0, None)}

    def prepare() -> None:
        result["case"] = make_case(collective, scope.members, count, dtype, session.device, in_place)

    def first() -> None:
        result["case"].run()
        session.finish()
        result["wrong"] = result["case"].wrong()

    # In two steps: a rank that has no memory must not leave the others waiting in the collective.
    for step in (prepare, first):
        failure = _attempt(session, step if scope.members is not None else None)
        if failure:
            session.reporter.tell("absent", {**row_facts, "reason": failure})
            return False
    case, wrong = result["case"], result["wrong"]
    order = session.order

    def repeat(times: int) -> float:
        if case is None:
            session.start()
            return 0.0
        return timed(case.run, session.start, session.finish, times)

    for _ in range(2):
        warm_s = max(row[0] for row in session.gathered([repeat(1)]))
    iterations = _iterations(session, warm_s)
    own_trials = [repeat(iterations) for _ in range(order["trials"])]
    if case is not None and case.repeats and not wrong.number:
        wrong = case.wrong()
    by_rank = session.gathered(own_trials)
    faults = [
        {"rank": rank, "count": wrong[0], "first": wrong[1]}
        for rank, wrong in enumerate(session.world.gather(tuple(wrong)))
        if wrong[0]
    ]
    session.reporter.tell(
        "collective",
        {
            **row_facts,
            "iterations": iterations,
            "seconds": [max(times) for times in zip(*by_rank)],
            "by_node": _by_node(session, by_rank) if scope.name == "intra" else [],
            "wrong": faults,
        },
    )
    return True


def _attempt(session: Session, step: Any) -> str:
    """Return why the step cannot be done on some rank, in the backend's words, or nothing; the same on every rank."""
    failure = ""
    try:
        if step is not None:
            step()
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        failure = "{} on {}: {}".format(session.world.backend, session.device.type, _first_line(error))
    return next((text for text in session.world.gather(failure) if text), "")


def _by_node(session: Session, by_rank: Sequence[Sequence[float]]) -> List[float]:
    """Return the median trial of each node, the slowest of its ranks in each."""
    ranks_of: Dict[int, List[int]] = {}
    for seat in session.world.joined.seats:
        ranks_of.setdefault(seat.node_rank, []).append(seat.rank)
    trials = len(by_rank[0])
    return [
        sorted(max(by_rank[rank][trial] for rank in ranks_of[node]) for trial in range(trials))[trials // 2]
        for node in sorted(ranks_of)
    ]


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# --- pairs of nodes -------------------------------------------------------------------------------------------------


def _pairs(session: Session) -> None:
    """Measure rounds of disjoint pairs.

    Rank k of one node and rank k of the other send to each other, both ways at once.
    """
    import torch

    order, world = session.order, session.world
    if "pairs" not in order["parts"] or world.nodes < 2:
        return
    size = order["pair_bytes"]
    if 2 * size > session.free:
        raise SeriesRefused("pairs of {} bytes do not fit in memory: {} are free".format(size, session.free))
    seat_of = {(seat.node_rank, seat.local_rank): seat.rank for seat in world.joined.seats}
    source, output = (torch.empty(size // 4, dtype=torch.float32, device=session.device) for _ in range(2))
    fill(source, row(world.rank, torch.float32))
    for number, pairs in enumerate(pair_rounds(world.nodes, order["pair_rounds"], order["seed"])):
        other_node = _partner(pairs, world.node_rank)
        peer = None if other_node is None else seat_of.get((other_node, world.local_rank))
        own_times, wrong = _pair_times(session, peer, source, output)
        by_rank = session.gathered([*own_times, float(wrong)])
        session.reporter.tell("pairs", {"round": number, "bytes": size, "pairs": _pair_rows(session, pairs, by_rank)})


def _partner(pairs: Sequence[Tuple[int, int]], node: int) -> Any:
    for first_node, second_node in pairs:
        if node in (first_node, second_node):
            return second_node if node == first_node else first_node
    return None


def _pair_times(session: Session, peer: Any, source: Any, output: Any) -> Tuple[List[float], int]:
    """Return the seconds of each trial of this rank, and how many elements came wrong."""

    def run() -> None:
        if peer is not None:
            exchange(source, peer, output, peer)

    output.zero_()
    run()
    session.finish()
    wrong = wrong_elements(output, row(peer, source.dtype)).number if peer is not None else 0
    first_s = max(row[0] for row in session.gathered([timed(run, session.start, session.finish, 1)]))
    iterations = _iterations(session, first_s)
    return [timed(run, session.start, session.finish, iterations) for _ in range(session.order["trials"])], wrong


def _iterations(session: Session, once_s: float) -> int:
    """Return so many runs that a trial is long enough to be timed; the same on every rank."""
    most_iterations: int = session.order["iterations"]
    return max(1, min(most_iterations, math.ceil(_TRIAL_S / max(once_s, 1e-7))))


def _pair_rows(session: Session, pairs: Sequence[Tuple[int, int]], by_rank: Sequence[Sequence[float]]) -> List[Any]:
    """Return [node, node, median seconds, wrong elements, spread of the trials] of each pair: of its slowest rank."""
    ranks_of: Dict[int, List[int]] = {}
    for seat in session.world.joined.seats:
        ranks_of.setdefault(seat.node_rank, []).append(seat.rank)
    rows = []
    for first_node, second_node in pairs:
        pair_times = [by_rank[rank] for rank in (*ranks_of[first_node], *ranks_of[second_node])]
        trials = sorted(max(times) for times in zip(*(rank_times[:-1] for rank_times in pair_times)))
        wrong = int(sum(rank_times[-1] for rank_times in pair_times))
        spread = statistics.pstdev(trials) / statistics.mean(trials)
        rows.append([first_node, second_node, trials[len(trials) // 2], wrong, spread])
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
