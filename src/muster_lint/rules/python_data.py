"""Rules on data, checkpoints and random numbers of a program with several ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.program import Call, Program
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity

_HEAD = "import os\nimport torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\nfrom torch.utils.data import DataLoader\nfrom torch.utils.data.distributed import DistributedSampler\n\n"
_INIT = 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("nccl")\nmodel = DistributedDataParallel(torch.nn.Linear(1, 1).cuda())\ndata = torch.utils.data.TensorDataset(torch.zeros(8, 1))\n'
_SAMPLED = "sampler = DistributedSampler(data)\nloader = DataLoader(data, sampler=sampler)\n"
_LOOP = "for epoch in range(2):\n    sampler.set_epoch(epoch)\n    for (x,) in loader:\n        model(x.cuda())\n"
_GLOO = 'dist.init_process_group("gloo")\ndata = torch.utils.data.TensorDataset(torch.zeros(8, 1))\n'
_ORDERS = """\
for epoch in range(2):
    sampler.set_epoch(epoch)
    print("epoch", epoch, "rank", dist.get_rank(), "reads", list(sampler))
    for (x,) in loader:
        x.sum()
"""
_SAME = """\
splits = [None, None]
dist.all_gather_object(splits, list(valid.indices))
print("the ranks have the same split:", splits[0] == splits[1])
"""
_END = "dist.destroy_process_group()\n"


def _loaders(program: Program) -> Iterator[Call]:
    for call in program.calls:
        if call.name.rpartition(".")[2] == "DataLoader":
            yield call


def _wraps_model(program: Program) -> bool:
    return any(
        call.name.rpartition(".")[2] in {"DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"}
        for call in program.calls
    )


@rule(
    "sampler-without-epoch",
    Severity.FRAGILE,
    "a distributed sampler without set_epoch",
    why="Without set_epoch every epoch has the same order: the shuffle is one for the whole training.",
    instead="Call sampler.set_epoch(epoch) at the beginning of each epoch.",
    source=sources.TORCH_SAMPLER,
    bad=_HEAD + _GLOO + _SAMPLED + _ORDERS.replace("    sampler.set_epoch(epoch)\n", "") + _END,
    good=_HEAD + _GLOO + _SAMPLED + _ORDERS + _END,
    language="python",
)
def find_missing_epochs(program: Program) -> Iterator[Hit]:
    """Yield the sampler of a program that never sets an epoch."""
    if "set_epoch" in program.text or program.uses_framework or _LOOPS_OVER_EPOCHS.search(program.text) is None:
        return  # a file that only makes the sampler leaves the epochs to the file that trains
    for call in program.calls:
        shuffle = call.argument("shuffle")
        is_ordered = isinstance(shuffle, ast.Constant) and shuffle.value is False
        if call.name.rpartition(".")[2] == "DistributedSampler" and not is_ordered:
            yield Hit(call.place, "its order is the same in every epoch")
            return


_LOOPS_OVER_EPOCHS = re.compile(
    r"^\s*(for\s+\w*epoch\w*\s+in\b|(for|while)\b.*\b\w*epochs?\b)", re.MULTILINE | re.IGNORECASE
)


@rule(
    "every-rank-reads-all",
    Severity.FRAGILE,
    "every rank reads the whole data set",
    why="Without a DistributedSampler each rank trains on all samples: the work is not divided, and an epoch takes as long as on one GPU.",
    instead="Pass sampler=DistributedSampler(data).",
    source=sources.TORCH_SAMPLER,
    bad=_HEAD.replace("from torch.utils.data.distributed import DistributedSampler\n", "")
    + _INIT
    + "loader = DataLoader(data, shuffle=True)\n"
    + _LOOP.replace("    sampler.set_epoch(epoch)\n", "")
    + _END,
    good=_HEAD + _INIT + _SAMPLED + _LOOP + _END,
    language="python",
)
def find_undivided_data(program: Program) -> Iterator[Hit]:
    """Yield shuffling loaders of a DDP program that knows no way to divide its data."""
    divided = re.search(
        r"DistributedSampler|BatchSampler|IterableDataset|shard\(|split_dataset_by_node|Subset|get_worker_info|num_replicas|WebDataset|webdataset|prepare\(",
        program.text,
    )
    if divided or program.uses_framework or not _wraps_model(program):
        return
    for loader in _loaders(program):
        shuffle = loader.argument("shuffle")
        if (
            isinstance(shuffle, ast.Constant)
            and shuffle.value is True
            and loader.argument("sampler") is None
            and not loader.has_unpacking
        ):
            yield Hit(loader.place, "each rank trains on all samples")


@rule(
    "sampler-and-shuffle",
    Severity.BREAKS,
    "a sampler and shuffle=True",
    why='DataLoader raises "sampler option is mutually exclusive with shuffle".',
    instead="Remove shuffle; DistributedSampler shuffles.",
    source="pytorch/pytorch torch/utils/data/dataloader.py",
    bad=_HEAD
    + _GLOO
    + "sampler = DistributedSampler(data)\nloader = DataLoader(data, sampler=sampler, shuffle=True)\n"
    + _ORDERS
    + _END,
    good=_HEAD + _GLOO + _SAMPLED + _ORDERS + _END,
    language="python",
)
def find_two_orders(program: Program) -> Iterator[Hit]:
    """Yield loaders with both."""
    for loader in _loaders(program):
        shuffle, sampler = loader.argument("shuffle"), loader.argument("sampler")
        if (
            isinstance(shuffle, ast.Constant)
            and shuffle.value is True
            and sampler is not None
            and not (isinstance(sampler, ast.Constant) and sampler.value is None)
        ):
            yield Hit(loader.place, "DataLoader refuses both together")


@rule(
    "every-rank-saves",
    Severity.FRAGILE,
    "every rank writes the same checkpoint",
    why="All ranks write one file at once: it may be damaged, and a shared file system is loaded for nothing.",
    instead="Save on rank 0 only, then dist.barrier(); or use torch.distributed.checkpoint.",
    source="pytorch/tutorials intermediate_source/ddp_tutorial.rst, Save and Load Checkpoints",
    bad=_HEAD + _INIT + 'torch.save(model.state_dict(), "checkpoint.pt")\n' + _END,
    good=_HEAD
    + _INIT
    + 'if dist.get_rank() == 0:\n    torch.save(model.state_dict(), "checkpoint.pt")\ndist.barrier()\n'
    + _END,
    language="python",
)
def find_shared_saves(program: Program) -> Iterator[Hit]:
    """Yield torch.save without a condition on the rank, to a name that does not hold the rank."""
    if not program.is_distributed or program.uses_framework:
        return
    for call in program.called("torch.save"):
        target = call.argument("f", 1)
        if (
            call.on_one_rank
            or _guarded_by_caller(program, call)
            or (target is not None and _is_of_this_rank(program, ast.unparse(target)))
        ):
            continue
        yield Hit(call.place, "all ranks write the same file")


def _is_of_this_rank(program: Program, target: str) -> bool:
    """Tell whether a file is named after the rank, or is none: a buffer in memory, a temporary file."""
    is_no_file = (
        rf"(?<!\w){re.escape(target)}\s*=\s*([\w.]*BytesIO|[\w.]*TemporaryFile)\(|\bas\s+{re.escape(target)}\s*:"
    )
    return "rank" in target.lower() or re.search(is_no_file, program.text) is not None


def _guarded_by_caller(program: Program, call: Call) -> bool:
    """Tell whether each caller of its function stands under a condition on the rank, or the function returns early."""
    if call.function is None:
        return False
    body = next(
        (node for node in ast.walk(program.tree) if isinstance(node, ast.FunctionDef) and node.name == call.function),
        None,
    )
    if body is not None and re.search(r"rank|is_main|is_master", ast.unparse(body)):
        return True
    callers = [
        each for each in program.calls if each.name.rpartition(".")[2] == call.function and each.name != call.name
    ]
    return bool(callers) and all(caller.on_one_rank for caller in callers)


@rule(
    "load-before-saved",
    Severity.FRAGILE,
    "a checkpoint that rank 0 writes is read without a barrier",
    why="The other ranks read before rank 0 has written: they fail, or read half a file, and the rest waits for them.",
    instead="Call dist.barrier() on all ranks between saving and loading.",
    source="pytorch/tutorials intermediate_source/ddp_tutorial.rst, Save and Load Checkpoints",
    bad=_HEAD
    + _INIT
    + 'if dist.get_rank() == 0:\n    torch.save(model.state_dict(), "checkpoint.pt")\nstate = torch.load("checkpoint.pt", map_location="cpu")\n'
    + _END,
    good=_HEAD
    + _INIT
    + 'if dist.get_rank() == 0:\n    torch.save(model.state_dict(), "checkpoint.pt")\ndist.barrier()\nstate = torch.load("checkpoint.pt", map_location="cpu")\n'
    + _END,
    language="python",
)
def find_early_loads(program: Program) -> Iterator[Hit]:
    """Yield a load behind a save of one rank, in the same function, with no collective between them."""
    for load in program.called("torch.load"):
        saves = [
            call
            for call in program.called("torch.save")
            if call.on_one_rank and call.order < load.order and call.function == load.function
        ]
        if not saves or load.on_one_rank:
            continue
        between = [call for call in program.calls if saves[-1].order < call.order < load.order]
        if not any(call.name.startswith("torch.distributed.") for call in between) and _same_file(saves[-1], load):
            yield Hit(load.place, f"rank 0 may still write what line {saves[-1].node.lineno} saves")


def _same_file(save: Call, load: Call) -> bool:
    target, origin = save.argument("f", 1), load.argument("f", 0)
    return target is not None and origin is not None and ast.dump(target) == ast.dump(origin)


@rule(
    "download-on-every-rank",
    Severity.FRAGILE,
    "every rank downloads the data set",
    why="All ranks write the same files at once; one reads what another has half written.",
    instead="Download on rank 0 first, then dist.barrier().",
    source=sources.ML_DIST,
    bad='import torch.distributed as dist\nfrom torchvision import datasets\n\ndist.init_process_group("gloo")\ndata = datasets.MNIST("data", download=True)\ndist.destroy_process_group()\n',
    good='import torch.distributed as dist\nfrom torchvision import datasets\n\ndist.init_process_group("gloo")\nif dist.get_rank() == 0:\n    datasets.MNIST("data", download=True)\ndist.barrier()\ndata = datasets.MNIST("data", download=False)\ndist.destroy_process_group()\n',
    language="python",
)
def find_downloads(program: Program) -> Iterator[Hit]:
    """Yield download=True that no condition on the rank guards."""
    if not program.is_distributed:
        return
    for call in program.calls:
        value = call.argument("download")
        if isinstance(value, ast.Constant) and value.value is True and not call.on_one_rank:
            yield Hit(call.place, "all ranks write the same files")


@rule(
    "split-differs",
    Severity.FRAGILE,
    "a random split that differs between ranks",
    why="random_split without a generator draws from each rank's own random numbers: samples of one rank's validation set are in another's training.",
    instead="Pass generator=torch.Generator().manual_seed(0).",
    source="pytorch/pytorch torch/utils/data/dataset.py, random_split",
    bad=_HEAD
    + _GLOO.replace("8", "800")
    + "train, valid = torch.utils.data.random_split(data, [600, 200])\n"
    + _SAME
    + _END,
    good=_HEAD
    + _GLOO.replace("8", "800")
    + "train, valid = torch.utils.data.random_split(data, [600, 200], generator=torch.Generator().manual_seed(0))\n"
    + _SAME
    + _END,
    language="python",
)
def find_random_splits(program: Program) -> Iterator[Hit]:
    """Yield random_split without a generator where no common seed is set."""
    if not program.is_distributed or re.search(
        r"manual_seed\(\s*(\d+|args\.seed|seed|SEED|cfg\.seed|config\.seed)\s*\)|set_seed|seed_everything", program.text
    ):
        return
    for call in program.calls:
        if call.name.rpartition(".")[2] == "random_split" and call.argument("generator", 2) is None:
            yield Hit(call.place, "each rank splits in another way")


@rule(
    "moved-after-wrapping",
    Severity.FRAGILE,
    "the model is moved to the GPU after DDP has wrapped it",
    why="DDP remembers the parameters as they were: after .to(device) or .cuda() it reduces others, or raises.",
    instead="Move the model first, then wrap it.",
    source=sources.TORCH_DDP,
    bad=_HEAD
    + 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("nccl")\nmodel = DistributedDataParallel(torch.nn.Linear(1, 1)).cuda()\n'
    + _END,
    good=_HEAD
    + 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("nccl")\nmodel = DistributedDataParallel(torch.nn.Linear(1, 1).cuda())\n'
    + _END,
    language="python",
)
def find_late_moves(program: Program) -> Iterator[Hit]:
    """Yield DDP(…).cuda() and DDP(…).to(…)."""
    for call in program.calls:
        function = call.node.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr in {"cuda", "to"}
            and isinstance(function.value, ast.Call)
        ) and program.full_name(function.value.func).rpartition(".")[2] == "DistributedDataParallel":
            yield Hit(call.place, "DDP has taken the parameters as they were before")


@rule(
    "seed-by-time",
    Severity.FRAGILE,
    "a seed from the clock",
    why="Every rank seeds with another number: initial weights, dropout and splits differ and cannot be repeated.",
    instead="Use a fixed seed, plus the rank where ranks should differ.",
    source="pytorch/pytorch docs/source/notes/randomness.rst",
    bad='import time\nimport torch\nimport torch.distributed as dist\n\ndist.init_process_group("gloo")\ntorch.manual_seed(int(time.time()))\ndist.destroy_process_group()\n',
    good='import torch\nimport torch.distributed as dist\n\ndist.init_process_group("gloo")\ntorch.manual_seed(0)\ndist.destroy_process_group()\n',
    language="python",
)
def find_clock_seeds(program: Program) -> Iterator[Hit]:
    """Yield seeds that come from time or the process id."""
    for call in program.calls:
        if (
            call.name.rpartition(".")[2] in {"manual_seed", "seed", "manual_seed_all", "set_seed"}
            and call.node.args
            and program.is_distributed
        ):
            text = ast.unparse(call.node.args[0])
            if re.search(r"\btime\(\)|time_ns\(\)|getpid\(\)|datetime", text):
                yield Hit(call.place, "every rank has another seed")
