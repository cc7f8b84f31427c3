"""Each condition of a rule on Python programs, by the shortest program that it decides on."""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_HEAD = "import os\nimport torch\nimport torch.distributed as dist\n"
_DDP = _HEAD + "from torch.nn.parallel import DistributedDataParallel as DDP\nfrom torch.utils.data import DataLoader\n"
_GLOO = _HEAD + 'dist.init_process_group("gloo")\n'
_NCCL = _HEAD + 'dist.init_process_group("nccl")\n'
_END = "dist.destroy_process_group()\n"
_MODEL = _DDP + "model = DDP(net)\n"
_LOOP = "for epoch in range(2):\n    step()\n"
_SAMPLER = _DDP + "from torch.utils.data.distributed import DistributedSampler\n"
_SAVED = _GLOO + 'if dist.get_rank() == 0:\n    torch.save({}, "a.pt")\n'

_FOUND = {
    "device-by-modulo": (
        _HEAD + "torch.cuda.set_device(rank % torch.cuda.device_count())\n",
        "from torch.cuda import device_count\nx = rank % device_count()\n",
    ),
    "device-by-global-rank": (
        _HEAD + "torch.cuda.set_device(rank)\n",
        _HEAD + "torch.cuda.set_device(dist.get_rank())\n",
        _HEAD + 'torch.cuda.set_device(f"cuda:{rank}")\n',
        _HEAD + 'torch.device(f"cuda:{world_rank}")\n',
        _HEAD + 'torch.device(f"xpu:{global_rank}")\n',
        _HEAD + 'other = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(rank)\n',
        _HEAD + 'a.rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(rank)\n',
        _HEAD + "rank = dist.get_rank()\ntorch.cuda.set_device(rank)\n",
    ),
    "no-device-chosen": (
        _NCCL + "model.cuda()\n",
        _NCCL + 'd = torch.device("cuda")\n',
        _NCCL + 'd = torch.device("cuda:0")\n',
    ),
    "device-after-join": (_NCCL + "dist.barrier()\ntorch.cuda.set_device(0)\n",),
    "visible-devices-too-late": (
        _HEAD + 'torch.cuda.is_available()\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n',
        _HEAD + 'dist.init_process_group("nccl")\nos.environ["HIP_VISIBLE_DEVICES"] = "0"\n',
        _HEAD + 'torch.cuda.is_available(); os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n',
    ),
    "load-on-one-device": (
        _NCCL + 'torch.load("checkpoint.pt")\n',
        _NCCL + "torch.load(resume)\n",
        _MODEL + "torch.cuda.set_device(0)\ntorch.load(path_of_model)\n",
    ),
    "local-rank-argument": (
        'p.add_argument("--local_rank")\nprint(args.local_rank)\n',
        'p.add_argument("--local-rank")\nprint(args.local_rank)\n',
    ),
    "sampler-without-epoch": (
        _SAMPLER + "s = DistributedSampler(data)\n" + _LOOP,
        _SAMPLER + "s = DistributedSampler(data, shuffle=True)\n" + _LOOP,
        _SAMPLER + "s = DistributedSampler(data, shuffle=shuffles)\n" + _LOOP,
    ),
    "every-rank-reads-all": (_MODEL + "DataLoader(data, shuffle=True)\n",),
    "sampler-and-shuffle": (
        _DDP + "DataLoader(data, shuffle=True, sampler=s)\n",
        _DDP + "DataLoader(data, shuffle=True, sampler=make(4))\n",
    ),
    "every-rank-saves": (
        _GLOO + 'torch.save({}, "a.pt")\n',
        _GLOO + "torch.save({}, f=where)\n",
        _GLOO + "torch.save(rank)\n",
        _MODEL + 'torch.save({}, "a.pt")\n',
        _GLOO + 'def save():\n    torch.save({}, "a.pt")\n\n\nsave()\n',
        _GLOO + 'def save():\n    torch.save({}, "a.pt")\n',
        _GLOO + 'def save():\n    torch.save({}, "a.pt")\n\n\nif dist.get_rank() == 0:\n    save()\nsave()\n',
        _GLOO + 'def other(rank):\n    pass\n\n\ndef save():\n    torch.save({}, "a.pt")\n',
    ),
    "load-before-saved": (
        _SAVED + 'torch.load("a.pt", map_location="cpu")\n',
        _SAVED + 'step()\ntorch.load(f="a.pt", map_location="cpu")\n',
    ),
    "download-on-every-rank": (
        _GLOO + "MNIST(download=True)\n",
        _MODEL + "MNIST(download=True)\n",
    ),
    "split-differs": (
        _GLOO + "random_split(data, [1, 2])\n",
        _GLOO + "torch.utils.data.random_split(data, [1, 2])\n",
    ),
    "moved-after-wrapping": (_DDP + "DDP(net).cuda()\n", _DDP + 'DDP(net).to("cuda")\n'),
    "seed-by-time": (
        "import time\n" + _GLOO + "torch.manual_seed(time.time_ns())\n",
        "import os\n" + _GLOO + "torch.manual_seed(os.getpid())\n",
    ),
    "collective-on-one-rank": (
        _GLOO + "if rank == 0:\n    dist.barrier()\n",
        _GLOO + "if trainer.is_global_zero:\n    dist.barrier()\n",
        _GLOO + 'if os.environ["SLURM_PROCID"] == "0":\n    dist.barrier()\n',
        _GLOO + "if is_main():\n    dist.barrier()\n",
        _GLOO + "if is_rank_zero():\n    dist.barrier()\n",
        _GLOO + "if rank == 0:\n    dist.barrier()\ndist.barrier()\n",
        _GLOO + "if rank == 0:\n    dist.barrier()\nelse:\n    dist.broadcast(x, 0)\n",
        _GLOO + "if rank == 0:\n    dist.barrier()\n\n\ndef f():\n    if rank == 1:\n        dist.barrier()\n",
        _GLOO + "def f():\n    if rank:\n        return\n    dist.barrier()\n",
    ),
    "collective-after-end": (
        _GLOO + _END + "dist.barrier()\n",
        _GLOO + "dist.init_process_group()\n" + _END + "dist.barrier()\n",
        _GLOO + _END + "dist.barrier()\ndist.init_process_group()\n",
    ),
    "no-collective-timeout": (_GLOO,),
    "address-in-program": (
        'import os\nos.environ["MASTER_ADDR"] = "127.0.0.1"\n',
        'import os\nos.environ["MASTER_ADDR"] = "0.0.0.0"\n',
        _HEAD + 'dist.init_process_group("gloo", "tcp://localhost:23456")\n',
        _HEAD + 'dist.init_process_group("gloo", init_method="tcp://127.0.0.1:23456")\n',
    ),
    "world-size-in-program": (
        _HEAD + "dist.init_process_group(world_size=2)\n",
        _HEAD + "dist.init_process_group(world_size=size, rank=0)\n",
        _HEAD + "dist.init_process_group(rank=1)\n",
        _HEAD + 'dist.init_process_group(world_size="2", rank=1)\n',
    ),
    "settings-after-join": (
        _NCCL + 'os.environ["NCCL_DEBUG"] = "WARN"\n',
        _GLOO + 'os.environ["GLOO_SOCKET_IFNAME"] = "ib0"\n',
    ),
    "gloo-for-gpus": (
        _HEAD + 'torch.cuda.set_device(0)\ndist.init_process_group("gloo")\n',
        _HEAD + 'torch.cuda.set_device(0)\ndist.init_process_group(backend="gloo")\n',
    ),
}
_NOT_FOUND = {
    "device-by-modulo": (
        _HEAD + "x = rank + torch.cuda.device_count()\n",
        _HEAD + "x = rank % count\n",
        _HEAD + "x = rank % len(gpus())\n",
        _HEAD + "x = local_rank % torch.cuda.device_count()\n",
    ),
    "device-by-global-rank": (
        _HEAD + "torch.cuda.set_device()\n",
        _HEAD + "torch.device()\n",
        _HEAD + "torch.cuda.set_device(local_rank)\n",
        _HEAD + "torch.cuda.set_device(other())\n",
        _HEAD + 'rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(rank)\n',
        _HEAD + 'torch.cuda.set_device(f"cuda:{local_rank}")\n',
        _HEAD + 'torch.device(f"cuda:{rank % 4}")\n',
        _HEAD + 'torch.device(f"cuda:{rank}{rank}")\n',
        _HEAD + 'torch.device(f"cpu:{rank}")\n',
        _HEAD + 'torch.device(f"{rank}")\n',
        _HEAD + 'torch.device(f"")\n',
        _HEAD + "torch.device(rank)\n",
        _HEAD + 'print(f"cuda:{rank}")\n',
        _HEAD + "import torch.multiprocessing as mp\nmp.spawn(main)\ntorch.cuda.set_device(rank)\n",
        _HEAD + "torch.multiprocessing.spawn(main)\ntorch.cuda.set_device(rank)\n",
    ),
    "no-device-chosen": (
        _NCCL + "model.cuda(3)\n",
        _NCCL + "model.cuda(device=3)\n",
        _NCCL + 'd = torch.device("cpu")\n',
        _NCCL + "d = torch.device(name)\n",
        _NCCL + "d = torch.device()\n",
        _NCCL + 'd = other("cuda")\n',
        _NCCL + "import accelerate\nmodel.cuda()\n",
        _HEAD + "model.cuda()\n",
    ),
    "device-after-join": (
        _HEAD + 'dist.init_process_group("nccl", device_id=d)\ndist.barrier()\ntorch.cuda.set_device(0)\n',
        _NCCL + "torch.cuda.set_device(0)\ndist.barrier()\n",
        _NCCL + "dist.barrier()\n\n\ndef f():\n    torch.cuda.set_device(0)\n",
        _HEAD + "dist.barrier()\ntorch.cuda.set_device(0)\n",
    ),
    "visible-devices-too-late": (
        _HEAD + 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\ntorch.cuda.is_available()\n',
        _HEAD + 'torch.cuda.is_available()\nos.environ["OTHER"] = "0"\n',
        _HEAD + 'torch.cuda.is_available()\nvalues["CUDA_VISIBLE_DEVICES"] = "0"\n',
        _HEAD + 'torch.zeros(1)\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n',
    ),
    "load-on-one-device": (
        _NCCL + 'torch.load("checkpoint.pt", "cpu")\n',
        _NCCL + 'torch.load("checkpoint.pt", **more)\n',
        _NCCL + "torch.load(statistics_file)\n".replace("statistics_", "means_"),
        _NCCL + "torch.load()\n",
        _GLOO + 'torch.load("checkpoint.pt")\n',
        "import torch\nmodel.cuda()\n" + 'torch.load("checkpoint.pt")\n',
    ),
    "local-rank-argument": (
        'p.add_argument("--rank")\nprint(args.local_rank)\n',
        "p.add_argument(name)\nprint(args.local_rank)\n",
        "p.add_argument()\nprint(args.local_rank)\n",
        'p.other("--local_rank")\nprint(args.local_rank)\n',
        'p.add_argument("--local_rank")\n',
        'import deepspeed\np.add_argument("--local_rank")\nprint(args.local_rank)\n',
        'p.add_argument("--local_rank")\nprint(args.local_rank or e["LOCAL_RANK"])\n',
    ),
    "sampler-without-epoch": (
        _SAMPLER + "s = DistributedSampler(data)\n",
        _SAMPLER + "s = DistributedSampler(data, shuffle=False)\n" + _LOOP,
        _SAMPLER + "s = DistributedSampler(data)\ns.set_epoch(1)\n" + _LOOP,
        _SAMPLER + "import lightning\ns = DistributedSampler(data)\n" + _LOOP,
    ),
    "every-rank-reads-all": (
        _MODEL + "DataLoader(data, shuffle=shuffles)\n",
        _MODEL + "DataLoader(data, shuffle=False)\n",
        _MODEL + "DataLoader(data, shuffle=1)\n",
        _MODEL + "DataLoader(data)\n",
        _MODEL + "DataLoader(data, shuffle=True, sampler=s)\n",
        _MODEL + "DataLoader(data, shuffle=True, **more)\n",
        _MODEL + "import accelerate\nDataLoader(data, shuffle=True)\n",
        _DDP + "DataLoader(data, shuffle=True)\n",
        _MODEL + "DataLoader(Subset(data), shuffle=True)\n",
    ),
    "sampler-and-shuffle": (
        _DDP + "DataLoader(data, shuffle=False, sampler=s)\n",
        _DDP + "DataLoader(data, shuffle=shuffles, sampler=s)\n",
        _DDP + "DataLoader(data, shuffle=True, sampler=None)\n",
        _DDP + "DataLoader(data, shuffle=True)\n",
    ),
    "every-rank-saves": (
        "import torch\ntorch.save({}, 'a.pt')\n",
        _GLOO + "import accelerate\ntorch.save({}, 'a.pt')\n",
        _GLOO + 'torch.save({}, f"{rank}.pt")\n',
        _GLOO + "if rank == 0:\n    torch.save({}, 'a.pt')\n",
        _GLOO + "def save():\n    torch.save({}, 'a.pt')\n\n\nif rank == 0:\n    save()\n",
        _GLOO + "def save():\n    if is_master:\n        pass\n    torch.save({}, 'a.pt')\n\n\nsave()\n",
    ),
    "load-before-saved": (
        _SAVED + 'torch.load("b.pt", map_location="cpu")\n',
        _SAVED + 'dist.barrier()\ntorch.load("a.pt", map_location="cpu")\n',
        _SAVED + 'if dist.get_rank() == 0:\n    torch.load("a.pt", map_location="cpu")\n',
        _SAVED + 'def f():\n    torch.load("a.pt", map_location="cpu")\n',
        _GLOO + 'torch.load("a.pt", map_location="cpu")\nif rank == 0:\n    torch.save({}, "a.pt")\n',
        _GLOO + 'torch.save({}, "a.pt")\ntorch.load("a.pt", map_location="cpu")\n',
    ),
    "download-on-every-rank": (
        _GLOO + "MNIST(download=False)\n",
        _GLOO + "MNIST(download=downloads)\n",
        _GLOO + "if rank == 0:\n    MNIST(download=True)\n",
        "MNIST(download=True)\n",
    ),
    "split-differs": (
        _GLOO + "random_split(data, [1, 2], g)\n",
        _GLOO + "random_split(data, [1, 2], generator=g)\n",
        _GLOO + "torch.manual_seed(0)\nrandom_split(data, [1, 2])\n",
        "random_split(data, [1, 2])\n",
    ),
    "moved-after-wrapping": (_DDP + "DDP(net).eval()\n", _DDP + "net().cuda()\n", _DDP + "DDP.cuda()\n"),
    "seed-by-time": (
        "import time, torch\ntorch.manual_seed(time.time())\n",
        "import time\n" + _GLOO + "torch.manual_seed(0)\ntime.time()\n",
        "import time\n" + _GLOO + "other(time.time())\n",
        _GLOO + "torch.seed()\n",
    ),
    "collective-on-one-rank": (
        _GLOO + "if rank != -1:\n    dist.barrier()\n",
        _GLOO + "if local_rank is not None:\n    dist.barrier()\n",
        _GLOO + "if world_size > 1:\n    dist.barrier()\n",
        _GLOO + "if is_ready():\n    dist.barrier()\n",
        _GLOO + "if model.ready:\n    dist.barrier()\n",
        _GLOO + 'if os.environ["DEBUG"]:\n    dist.barrier()\n',
        _GLOO + "if rank == 0:\n    dist.barrier(group=own)\n",
        _GLOO + "if rank == 0:\n    dist.barrier()\nelse:\n    dist.barrier()\n",
        _GLOO + "if rank == 0:\n    pass\ndist.barrier()\n",
        _GLOO + "def f():\n    if rank:\n        return\n    else:\n        pass\n    dist.barrier()\n",
        _GLOO + "def f():\n    if rank:\n        pass\n    dist.barrier()\n",
    ),
    "collective-after-end": (
        _GLOO + "dist.barrier()\n" + _END,
        _GLOO + "if x:\n    " + _END + "dist.barrier()\n",
        _GLOO + "for x in y:\n    " + _END + "dist.barrier()\n",
        _GLOO + _END + "dist.init_process_group()\ndist.barrier()\n",
        _GLOO + _END + "def f():\n    dist.barrier()\n",
    ),
    "no-collective-timeout": (
        _HEAD + "dist.init_process_group(timeout=t)\n",
        _HEAD + "dist.init_process_group(**more)\n",
        _GLOO + "import deepspeed\n",
    ),
    "address-in-program": (
        'import os\nos.environ["MASTER_ADDR"] = "node1"\n',
        'import os\nos.environ["MASTER_ADDR"] = address\n',
        'import os\nos.environ["OTHER"] = "localhost"\n',
        'import os\nvalues["MASTER_ADDR"] = "localhost"\n',
        'import os\nos.environ[name] = "localhost"\n',
        'import os\nos.environ["MASTER_ADDR"] = "localhost"\nspawn()\n',
        _HEAD + 'dist.init_process_group("gloo", "tcp://node1:23456")\n',
        _HEAD + 'dist.init_process_group("gloo", init_method=where)\n',
        _HEAD + 'dist.init_process_group(*("gloo", "x"), "tcp://localhost:1")\n',
    ),
    "world-size-in-program": (
        _HEAD + "dist.init_process_group(world_size=1)\n",
        _HEAD + "dist.init_process_group(world_size=1, rank=0)\n",
        _HEAD + "dist.init_process_group(world_size=size, rank=rank)\n",
        _HEAD + 'dist.init_process_group(world_size="2", rank="0")\n',
    ),
    "settings-after-join": (
        _HEAD + 'os.environ["NCCL_DEBUG"] = "WARN"\ndist.init_process_group("nccl")\n',
        _HEAD + 'dist.init_process_group("nccl"); os.environ["NCCL_DEBUG"] = "WARN"\n',
        _NCCL + 'os.environ["OTHER"] = "WARN"\n',
        _NCCL + 'if x:\n    os.environ["NCCL_DEBUG"] = "WARN"\n',
        _HEAD + 'def f():\n    dist.init_process_group("nccl")\n\n\nos.environ["NCCL_DEBUG"] = "WARN"\n',
    ),
    "gloo-for-gpus": (
        _HEAD + 'dist.init_process_group("gloo")\n',
        _HEAD + "torch.cuda.set_device(0)\ndist.init_process_group(backend)\n",
        _HEAD + 'torch.cuda.set_device(0)\ndist.init_process_group("mpi")\n',
        _HEAD + 'torch.cuda.set_device(0)\nif cpu:\n    dist.init_process_group("gloo")\n',
        _HEAD + 'torch.cuda.set_device(0)\ndist.init_process_group("gloo")\ndist.new_group(backend="nccl")\n',
    ),
}


def _rows(programs: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(rule, text) for rule, texts in programs.items() for text in texts]


def _rules(text: str) -> set[str]:
    return {finding.rule for finding in lint_source(source_of("t.py", text))}


@pytest.mark.parametrize(("rule", "text"), _rows(_FOUND))
def test_a_fault_is_found(rule: str, text: str) -> None:
    assert rule in _rules(text)


@pytest.mark.parametrize(("rule", "text"), _rows(_NOT_FOUND))
def test_what_is_no_fault_is_not_found(rule: str, text: str) -> None:
    assert rule not in _rules(text)
