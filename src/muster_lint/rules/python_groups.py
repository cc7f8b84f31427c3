"""Rules on process groups and collectives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.program import INITS, Call, Program, place_of
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity

_HEAD = "import os\nimport torch\nimport torch.distributed as dist\n\n"
_INIT = 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("nccl")\n'
_GLOO = 'dist.init_process_group("gloo")\n'
_END = "dist.destroy_process_group()\n"
_COLLECTIVES = frozenset(
    f"torch.distributed.{name}"
    for name in """
    all_reduce all_gather all_gather_into_tensor all_gather_object all_to_all all_to_all_single barrier broadcast
    broadcast_object_list gather gather_object monitored_barrier new_group reduce reduce_scatter reduce_scatter_tensor
    scatter scatter_object_list
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)


def _collectives(program: Program) -> tuple[Call, ...]:
    return tuple(call for call in program.calls if call.name in _COLLECTIVES)


@rule(
    "collective-on-one-rank",
    Severity.HANGS,
    "a collective in a branch of one rank",
    why="A collective ends when all ranks of the group have called it. In `if rank == 0:` the one rank waits for ever.",
    instead="Call it on all ranks, outside the branch.",
    source=sources.TORCH_C10D,
    bad=_HEAD + _GLOO + 'if dist.get_rank() == 0:\n    torch.save({}, "checkpoint.pt")\n    dist.barrier()\n' + _END,
    good=_HEAD + _GLOO + 'if dist.get_rank() == 0:\n    torch.save({}, "checkpoint.pt")\ndist.barrier()\n' + _END,
    language="python",
)
def find_lone_collectives(program: Program) -> Iterator[Hit]:
    """Yield collectives under a condition on the rank that the other branch does not call too."""
    everywhere = _collectives(program)
    for call in everywhere:
        if not call.on_one_rank or call.argument("group") is not None:
            continue
        kind = call.name.rpartition(".")[2]
        test = next(filter(_is_rank_test, call.tests), None)
        mirrored = any(
            other_call is not call
            and other_call.name == call.name
            and other_call.function == call.function
            and other_call.on_one_rank
            for other_call in everywhere
        )
        if test is not None and not mirrored:
            yield Hit(call.place, f"{kind} is called on some ranks only (line {test.lineno})")


def _is_rank_test(test: ast.expr) -> bool:
    from muster_lint.program import _asks_for_rank

    # `if world_size > 1` or `if is_distributed` is the same on all ranks.
    text = ast.unparse(test)
    return _asks_for_rank(test) and not re.fullmatch(r".*\b(rank|local_rank)\b\s*(!=|>=|>|is not)\s*(-1|None)", text)


@rule(
    "collective-after-end",
    Severity.BREAKS,
    "a collective after destroy_process_group",
    why="The process group is gone: the call raises, or makes a new group by itself.",
    instead="Destroy the group as the last thing.",
    source=sources.TORCH_C10D,
    bad=_HEAD + _GLOO + _END + "dist.barrier()\n",
    good=_HEAD + _GLOO + "dist.barrier()\n" + _END,
    language="python",
)
def find_late_collectives(program: Program) -> Iterator[Hit]:
    """Yield collectives behind the end of the group, in the same function."""
    for end in program.called("torch.distributed.destroy_process_group"):
        if end.tests or end.loops:
            continue
        for call in _collectives(program):
            if (
                call.order > end.order
                and call.function == end.function
                and not any(
                    other_call.name in INITS and end.order < other_call.order < call.order
                    for other_call in program.calls
                )
            ):
                yield Hit(call.place, f"the group was destroyed in line {end.node.lineno}")


@rule(
    "group-not-destroyed",
    Severity.STYLE,
    "the process group is not destroyed",
    why="torch warns at the end, and may hang or abort while NCCL's threads still work.",
    instead="Call torch.distributed.destroy_process_group() at the end.",
    source=sources.TORCH_C10D,
    bad=_HEAD + _INIT,
    good=_HEAD + _INIT + _END,
    language="python",
)
def find_open_groups(program: Program) -> Iterator[Hit]:
    """Yield the join of a program that never leaves."""
    joins = program.called("torch.distributed.init_process_group")
    if joins and "destroy_process_group" not in program.text and not program.uses_framework:
        yield Hit(joins[0].place, "destroy_process_group is never called")


@rule(
    "no-collective-timeout",
    Severity.STYLE,
    "no time-out of the process group",
    why="A lost rank is noticed after 10 minutes with NCCL and 30 with gloo; the GPUs wait that long.",
    instead="Pass timeout=timedelta(minutes=…) to init_process_group.",
    source=sources.TORCH_C10D,
    bad=_HEAD + _INIT + _END,
    good=_HEAD.replace("import os\n", "import os\nfrom datetime import timedelta\n")
    + _INIT.replace('"nccl")', '"nccl", timeout=timedelta(minutes=5))')
    + _END,
    language="python",
)
def find_missing_timeouts(program: Program) -> Iterator[Hit]:
    """Yield init_process_group without timeout."""
    for call in program.called("torch.distributed.init_process_group"):
        if call.argument("timeout") is None and not call.has_unpacking and not program.uses_framework:
            yield Hit(call.place, "a lost rank is noticed after torch's own 10 to 30 minutes")


@rule(
    "address-in-program",
    Severity.FRAGILE,
    "localhost as the meeting point, in the program",
    why="It overrides what the launcher says; over several nodes every node means itself.",
    instead="Leave MASTER_ADDR to the launcher, or use os.environ.setdefault.",
    source=sources.TORCH_C10D,
    bad=_HEAD + 'os.environ["MASTER_ADDR"] = "localhost"\n' + _GLOO + _END,
    good=_HEAD + _GLOO + _END,
    language="python",
)
def find_addresses(program: Program) -> Iterator[Hit]:
    """Yield assignments of a loopback address, except where the program starts its ranks itself."""
    if re.search(r"\bspawn\(|mp\.Process|multiprocessing", program.text):
        return
    for statement, name, value, _ in program.environment_writes():
        if (
            name == "MASTER_ADDR"
            and isinstance(value, ast.Constant)
            and str(value.value) in {"localhost", "127.0.0.1", "0.0.0.0"}
        ):  # text to be found
            yield Hit(place_of(statement), "it overrides what the launcher says")
    for call in program.called("torch.distributed.init_process_group"):
        method = call.argument("init_method", 1)
        if isinstance(method, ast.Constant) and re.match(r"tcp://(localhost|127\.|0\.0\.0\.0)", str(method.value)):
            yield Hit(call.place, f"{method.value!r}: every node means itself")


@rule(
    "port-in-program",
    Severity.FRAGILE,
    "a fixed port in the program",
    why="Two jobs on one node want the same port, and the launcher's own is overridden.",
    instead="Leave MASTER_PORT to the launcher.",
    source=sources.TORCH_C10D,
    bad=_HEAD + 'os.environ["MASTER_PORT"] = "12355"\n' + _INIT + _END,
    good=_HEAD + _INIT + _END,
    language="python",
)
def find_ports(program: Program) -> Iterator[Hit]:
    """Yield literal ports."""
    for statement, name, value, _ in program.environment_writes():
        if name == "MASTER_PORT" and isinstance(value, ast.Constant):
            yield Hit(place_of(statement), f"the port {value.value!r} is the same in every job")


@rule(
    "world-size-in-program",
    Severity.FRAGILE,
    "a literal number of ranks or rank",
    why="With another number of ranks the group never forms, or two ranks have one number.",
    instead="Leave world_size and rank to the environment (env://).",
    source=sources.TORCH_C10D,
    bad=_HEAD + 'dist.init_process_group("gloo", world_size=4, rank=int(os.environ["RANK"]))\n' + _END,
    good=_HEAD + _GLOO + _END,
    language="python",
)
def find_literal_sizes(program: Program) -> Iterator[Hit]:
    """Yield numbers for world_size (above 1) or rank."""
    for call in program.called("torch.distributed.init_process_group"):
        size = call.argument("world_size")
        rank = call.argument("rank")
        if isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value > 1:
            yield Hit(call.place, f"world_size={size.value} is a literal")
        elif (
            isinstance(rank, ast.Constant)
            and isinstance(rank.value, int)
            and not (isinstance(size, ast.Constant) and size.value == 1)
        ):
            yield Hit(call.place, f"rank={rank.value} is the same in every process")


@rule(
    "unused-parameters-search",
    Severity.SLOW,
    "find_unused_parameters=True",
    why="DDP walks the whole graph after each forward pass, also when every parameter is used.",
    instead="Remove it where all parameters are used; or use static_graph=True.",
    source=sources.TORCH_DDP,
    bad=_HEAD
    + _INIT
    + "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).cuda(), find_unused_parameters=True)\n"
    + _END,
    good=_HEAD + _INIT + "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).cuda())\n" + _END,
    language="python",
)
def find_unused_search(program: Program) -> Iterator[Hit]:
    """Yield the literal switch."""
    for call in program.calls:
        value = call.argument("find_unused_parameters")
        if isinstance(value, ast.Constant) and value.value is True:
            yield Hit(place_of(value), "DDP walks the graph after every forward pass")


@rule(
    "settings-after-join",
    Severity.FRAGILE,
    "NCCL's variables set after the process group was made",
    why="NCCL and torch read them when the group is made; later they have no effect.",
    instead="Set them before init_process_group, or in the batch script.",
    source=sources.NCCL,
    bad=_HEAD + _INIT + 'os.environ["NCCL_DEBUG"] = "WARN"\n' + _END,
    good=_HEAD + 'os.environ["NCCL_DEBUG"] = "WARN"\n' + _INIT + _END,
    language="python",
)
def find_late_settings(program: Program) -> Iterator[Hit]:
    """Yield assignments of NCCL_ names behind the join."""
    joins = program.called("torch.distributed.init_process_group")
    for statement, name, _, line in program.environment_writes():
        if (
            name.startswith(("NCCL_", "TORCH_NCCL_", "GLOO_"))
            and any(join.node.lineno < line and join.function is None for join in joins)
            and statement.col_offset == 0
        ):
            yield Hit(place_of(statement), f"{name} is read when the group is made")


@rule(
    "ranks-of-its-own",
    Severity.FRAGILE,
    "a program that starts its own ranks",
    why="It starts all ranks of its node itself. Started as several tasks it makes ranks × ranks.",
    instead="Start it once a node, or remove mp.spawn and let torchrun or srun start the ranks.",
    source="pytorch/pytorch torch/multiprocessing/spawn.py",
    bad='import torch\nimport torch.multiprocessing as mp\n\n\ndef main(rank):\n    torch.distributed.init_process_group("gloo", rank=rank, world_size=4)\n    torch.distributed.destroy_process_group()\n\n\nif __name__ == "__main__":\n    mp.spawn(main, nprocs=4)\n',
    good='import torch\n\ntorch.distributed.init_process_group("gloo")\ntorch.distributed.destroy_process_group()\n',
    language="python",
)
def find_spawned_ranks(program: Program) -> Iterator[Hit]:
    """Yield mp.spawn of a fixed number of ranks around a process group: another number is that of one node's GPUs."""
    if not program.called(*INITS):
        return
    for call in program.calls:
        if call.name not in {"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"}:
            continue
        if isinstance(call.argument("nprocs", 2), ast.Constant):  # otherwise a program of one node
            yield Hit(call.place, "each task of a step would start all ranks again")


@rule(
    "gloo-for-gpus",
    Severity.SLOW,
    "gloo for tensors on GPUs",
    why="gloo copies every tensor through the host and goes over TCP.",
    instead='Use "nccl" (or no backend: torch then takes one for each kind of device).',
    source=sources.TORCH_C10D,
    bad=_HEAD
    + 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("gloo")\nmodel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).cuda())\n'
    + _END,
    good=_HEAD + _INIT + "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).cuda())\n" + _END,
    language="python",
)
def find_gloo(program: Program) -> Iterator[Hit]:
    """Yield a literal gloo in a program that chooses a GPU."""
    gpus = program.called("torch.cuda.set_device")
    for call in program.called("torch.distributed.init_process_group"):
        backend = call.argument("backend", 0)
        if (
            isinstance(backend, ast.Constant)
            and backend.value == "gloo"
            and gpus
            and not call.tests
            and "nccl" not in program.text
        ):
            yield Hit(call.place, "collectives of GPU tensors go through the host")
