"""Rules on how a program chooses its device."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.program import INITS, Program, place_of
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity

_HEAD = "import os\nimport torch\nimport torch.distributed as dist\n\n"
_INIT = (
    'local_rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local_rank)\ndist.init_process_group("nccl")\n'
)
_END = "dist.destroy_process_group()\n"
_RANKS = frozenset({"rank", "global_rank", "world_rank"})


@rule(
    "device-by-modulo",
    Severity.FRAGILE,
    "the device from the rank modulo the number of GPUs",
    why="It is wrong with uneven nodes, a cyclic distribution, or one visible GPU of a task: two ranks then share a GPU.",
    instead='Use the local rank: int(os.environ["LOCAL_RANK"]).',
    source=sources.DDP_BASICS,
    bad=_HEAD
    + 'dist.init_process_group("nccl")\ntorch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())\n'
    + _END,
    good=_HEAD + _INIT + _END,
    language="python",
)
def find_modulo(program: Program) -> Iterator[Hit]:
    """Yield RANK % device_count()."""
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod) or not isinstance(node.right, ast.Call):
            continue
        if program.full_name(node.right.func).endswith("cuda.device_count") and not _is_local(node.left):
            yield Hit(place_of(node), "two ranks may get the same GPU")


def _is_local(node: ast.expr) -> bool:
    return "local" in ast.unparse(node).lower()


@rule(
    "device-by-global-rank",
    Severity.FRAGILE,
    "the global rank as a device number",
    why="The ranks of the second node begin at the number of GPUs of a node: there is no such device there.",
    instead='Use the local rank: int(os.environ["LOCAL_RANK"]).',
    source=sources.TORCH_DDP,
    bad=_HEAD + 'dist.init_process_group("nccl")\nrank = dist.get_rank()\ntorch.cuda.set_device(rank)\n' + _END,
    good=_HEAD + _INIT + _END,
    language="python",
)
def find_global_devices(program: Program) -> Iterator[Hit]:
    """Yield devices that are numbered by the global rank, in programs that are started as ranks."""
    if _spawns(program):
        return
    for call in program.called("torch.cuda.set_device", "torch.device"):
        is_rank = _formats_rank if call.name == "torch.device" else functools.partial(_is_global_rank, program)
        if call.node.args and is_rank(call.node.args[0]):
            yield Hit(call.place, "rank N of the second node has no device N")


def _spawns(program: Program) -> bool:
    return any(call.name.endswith("multiprocessing.spawn") or call.name.endswith("mp.spawn") for call in program.calls)


def _is_global_rank(program: Program, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _RANKS and not _is_local_name(program, node.id)
    if isinstance(node, ast.Call):
        return program.full_name(node.func) == "torch.distributed.get_rank"
    return _formats_rank(node)


def _is_local_name(program: Program, name: str) -> bool:
    """Tell whether a name is set from the local rank, whatever it is called."""
    values = [
        node.value
        for node in ast.walk(program.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return any("LOCAL_RANK" in ast.unparse(value).upper() for value in values)


def _formats_rank(node: ast.expr) -> bool:
    if not isinstance(node, ast.JoinedStr) or not node.values or not isinstance(node.values[0], ast.Constant):
        return False
    expressions = [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
    return (
        str(node.values[0].value).startswith(("cuda:", "xpu:"))
        and len(expressions) == 1
        and isinstance(expressions[0], ast.Name)
        and expressions[0].id in _RANKS
    )


@rule(
    "no-device-chosen",
    Severity.FRAGILE,
    "every rank uses GPU 0",
    why='Without set_device (or a device with the local rank) .cuda() and "cuda" mean device 0: all ranks of a node load it, and NCCL stops.',
    instead='Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first.',
    source=sources.TORCH_DDP,
    bad=_HEAD + 'dist.init_process_group("nccl")\nmodel = torch.nn.Linear(1, 1).cuda()\n' + _END,
    good=_HEAD + _INIT + "model = torch.nn.Linear(1, 1).cuda()\n" + _END,
    language="python",
)
def find_missing_devices(program: Program) -> Iterator[Hit]:
    """Yield the first use of the default GPU in a program that never chooses one."""
    joins = program.called(*INITS)
    if (
        not joins
        or program.uses_framework
        or re.search(
            r"set_device|device_id\b|LOCAL_RANK|local_rank|CUDA_VISIBLE_DEVICES|LOCALID|cuda:\{|device_count|device\(.cuda.,",
            program.text,
        )
    ):
        return
    for call in program.calls:
        if call.name.endswith(".cuda") and not call.node.args and not call.node.keywords:
            yield Hit(call.place, "this is GPU 0 for every rank of a node")
            return
        if (
            call.name == "torch.device"
            and call.node.args
            and isinstance(call.node.args[0], ast.Constant)
            and call.node.args[0].value in {"cuda", "cuda:0"}
        ):
            yield Hit(call.place, "this is GPU 0 for every rank of a node")
            return


@rule(
    "device-after-join",
    Severity.FRAGILE,
    "the device is chosen after the process group was made",
    why="NCCL may already have opened a context on GPU 0 for every rank: memory is lost there, and the first barrier may hang.",
    instead="Call torch.cuda.set_device before init_process_group, or pass device_id.",
    source=sources.TORCH_C10D,
    bad=_HEAD
    + 'dist.init_process_group("nccl")\ndist.barrier()\ntorch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
    + _END,
    good=_HEAD + _INIT + "dist.barrier()\n" + _END,
    language="python",
)
def find_late_devices(program: Program) -> Iterator[Hit]:
    """Yield set_device behind a collective of the same function."""
    collectives = {f"torch.distributed.{name}" for name in ("barrier", "all_reduce", "broadcast", "all_gather")}
    for call in program.called("torch.cuda.set_device"):
        earlier = [
            other_call
            for other_call in program.calls
            if other_call.order < call.order and other_call.function == call.function
        ]
        if any(other_call.name in INITS and other_call.argument("device_id") is None for other_call in earlier) and any(
            other_call.name in collectives for other_call in earlier
        ):
            yield Hit(call.place, "a collective has run before this")


@rule(
    "visible-devices-too-late",
    Severity.FRAGILE,
    "CUDA_VISIBLE_DEVICES set after CUDA was used",
    why="CUDA reads it once, at its first use. Later it changes nothing, and cuda:0 is GPU 0 for every rank.",
    instead="Set it before torch is imported, or use torch.cuda.set_device.",
    source=sources.TORCH_CUDA,
    bad=_HEAD + 'if torch.cuda.is_available():\n    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]\n',
    good='import os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]\nimport torch\n\nprint(torch.cuda.is_available())\n',
    language="python",
)
def find_late_visibility(program: Program) -> Iterator[Hit]:
    """Yield the assignment where a call of torch.cuda stands before it."""
    for statement, name, _, line in program.environment_writes():
        early_calls = [
            call
            for call in program.calls
            if call.node.lineno <= line and (call.name.startswith("torch.cuda.") or call.name in INITS)
        ]
        if name in {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"} and early_calls:
            yield Hit(place_of(statement), f"CUDA was used in line {early_calls[0].node.lineno} already")


@rule(
    "data-parallel",
    Severity.SLOW,
    "nn.DataParallel",
    why="One process drives all GPUs in turn; it is slower than DistributedDataParallel, and knows one node only.",
    instead="Use DistributedDataParallel, one process for each GPU.",
    source="pytorch/pytorch torch/nn/parallel/data_parallel.py, its warning",
    bad="import torch\n\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n",
    good="import torch\n\nmodel = torch.nn.Linear(1, 1)\n",
    language="python",
)
def find_data_parallel(program: Program) -> Iterator[Hit]:
    """Yield torch.nn.DataParallel, unless it is the other way of a program that has ranks."""
    if "DistributedDataParallel" in program.text:
        return
    for call in program.called("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "nn.DataParallel"):
        yield Hit(call.place, "one process drives all GPUs")


@rule(
    "load-on-one-device",
    Severity.FRAGILE,
    "torch.load without map_location",
    why="Tensors come back to the device that they were saved from: every rank loads the checkpoint into GPU 0.",
    instead='Pass map_location="cpu", or the rank\'s device.',
    source="pytorch/pytorch torch/serialization.py, torch.load, map_location",
    bad=_HEAD + _INIT + 'state = torch.load("checkpoint.pt")\n' + _END,
    good=_HEAD + _INIT + 'state = torch.load("checkpoint.pt", map_location="cpu")\n' + _END,
    language="python",
)
def find_unmapped_loads(program: Program) -> Iterator[Hit]:
    """Yield torch.load in a program of several ranks that uses GPUs."""
    if not program.is_distributed or not re.search(r"cuda|hip|xpu|nccl", program.text):
        return
    for call in program.called("torch.load"):
        origin = ast.unparse(call.node.args[0]).lower() if call.node.args else ""
        is_checkpoint = re.search(r"ckpt|checkpoint|resume|weight|state|model|\.pth|\.pt\b", origin)
        if is_checkpoint and call.argument("map_location", 1) is None and not call.has_unpacking:
            yield Hit(call.place, "every rank loads it to the device that saved it")


@rule(
    "local-rank-argument",
    Severity.FRAGILE,
    "--local_rank as an argument only",
    why="torchrun and srun do not pass --local_rank: the default holds, and every rank takes the same device.",
    instead='Read int(os.environ["LOCAL_RANK"]).',
    source=sources.TORCHRUN,
    bad='import argparse\nimport torch\n\nparser = argparse.ArgumentParser()\nparser.add_argument("--local_rank", type=int, default=0)\nargs = parser.parse_args()\ntorch.cuda.set_device(args.local_rank)\ntorch.distributed.init_process_group("nccl")\ntorch.distributed.destroy_process_group()\n',
    good='import os\nimport torch\n\ntorch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ntorch.distributed.init_process_group("nccl")\ntorch.distributed.destroy_process_group()\n',
    language="python",
)
def find_local_rank_arguments(program: Program) -> Iterator[Hit]:
    """Yield the option where the program never reads LOCAL_RANK."""
    if (
        re.search(r"[\"']LOCAL_RANK[\"']|SLURM_LOCALID|OMPI_COMM_WORLD_LOCAL_RANK", program.text)
        or "deepspeed" in program.names.values()
        or ".local_rank" not in program.text
    ):
        return  # the option may be there only so that an old launcher can pass it
    for call in program.calls:
        first = call.node.args[0] if call.node.args else None
        if (
            call.name.endswith(".add_argument")
            and isinstance(first, ast.Constant)
            and first.value in {"--local_rank", "--local-rank"}
        ):
            yield Hit(call.place, "no launcher passes it, and LOCAL_RANK is not read")
