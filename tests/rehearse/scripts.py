"""Training scripts as people write them, drawn by a seed: some broken, each in one way, and some right.

Each is three files: train.py, ranks.py (by which its ranks meet, over sockets) and devices.py, whose errors are those
that torch raises where there is no GPU. Half of the broken ones name cuda too, asked for or not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["BROKEN", "HELPERS", "RIGHT", "Script", "draw"]

HELPERS = {
    "ranks.py": '''\
import os, socket, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1  # at the port itself torchrun's agent listens


def init_process_group():
    """Meet: rank 0 hears all others."""
    global others, zero
    if rank:
        for _ in range(600):
            try:
                zero = socket.create_connection(place)
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("rank 0 does not come")
    with socket.create_server(place, backlog=size) as server:
        others = [server.accept()[0] for _ in range(size - 1)]


def total(value):
    """Add a number over all ranks."""
    if rank:
        zero.sendall(b"%d\\n" % value)
        return int(read_line(zero))
    result = value + sum(int(read_line(other)) for other in others)
    for other in others:
        other.sendall(b"%d\\n" % result)
    return result


def read_line(stream):
    text = b""
    while not text.endswith(b"\\n"):
        piece = stream.recv(1)
        if not piece:
            raise ConnectionResetError("Connection closed by peer")
        text += piece
    return text
''',
    "devices.py": """\
class AcceleratorError(RuntimeError):
    pass


def is_available():
    return False


def device_count():
    return 0


class Tensor:
    def __init__(self, *shape):
        self.shape = shape

    def cuda(self):
        raise AssertionError("Torch not compiled with CUDA enabled")

    def to(self, place):
        if str(place).startswith("cuda"):
            raise RuntimeError("No CUDA GPUs are available")
        return self

    def __matmul__(self, other):
        if self.shape[1] != other.shape[0]:
            shapes = "{}x{} and {}x{}".format(*self.shape, *other.shape)
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes})")
        return Tensor(self.shape[0], other.shape[1])
""",
}

_HEAD = (
    "import argparse, json, os, signal, subprocess, sys, time, warnings\n"
    "import devices\nimport ranks\nfrom devices import Tensor\n"
)
_JOIN = "ranks.init_process_group()\n"
_STEPS = "for step in range({steps}):\n    assert ranks.total(1) == ranks.size\n"
_END = "print('loss', 0.{digits}, flush=True)\n"
# What names cuda and does no harm, and what would need it.
_GUARDED = (
    "if devices.is_available():\n    Tensor(2, 2).cuda()\n",
    "device = 'cuda' if devices.is_available() else 'cpu'\nTensor(2, 2).to(device)\n",
    "try:\n    Tensor(2, 2).cuda()\nexcept AssertionError:\n    warnings.warn('CUDA is not available: the CPU is used')\n",  # noqa: E501  # a script, line by line
    "use = devices.is_available() and devices.device_count() > ranks.rank\nx = Tensor(1, 1).cuda() if use else Tensor(1, 1)\n",  # noqa: E501  # a script, line by line
)
_UNREACHED = "def on_gpu(x):\n    return x.to('cuda:0').cuda()\n"
_NAMES = ("loss", "batch", "cuda", "gpu_count", "weights", "nccl_timeout", "epoch", "state")


@dataclass(frozen=True)
class Script:
    """A script, and what becomes of it."""

    kind: str
    text: str
    argv: tuple[str, ...] = ("python", "train.py")
    breaks: bool = True
    says: str = ""
    """What of its own words a rehearsal has to show; empty: it writes none."""

    seconds: int = 120
    """The --hang of its rehearsal."""


def _body(
    chance: random.Random, *, before: str = "", middle: str = "", after: str = "", names_cuda: str = "by chance"
) -> str:
    """Return a whole script: what goes wrong stands before the meeting, in the middle of the steps, or after them."""
    cuda = chance.choice([*_GUARDED, _UNREACHED]) if names_cuda and chance.random() < 0.5 else ""
    steps = _STEPS.format(steps=chance.randint(2, 9))
    if middle:
        lines = "".join(f"    {line}\n" for line in middle.splitlines())
        steps += f"    if step == 1:\n{''.join(f'    {line}' + chr(10) for line in lines.splitlines())}"
    return _HEAD + cuda + before + _JOIN + steps + after + _END.format(digits=chance.randint(10, 99))


def _place(chance: random.Random, text: str, *, only: bool = True) -> dict[str, str]:
    """Return where the wrong lines stand; on one rank alone where `only` draws so."""
    if only and chance.random() < 0.4:
        lines = "".join(f"    {line}\n" for line in text.splitlines())
        return {chance.choice(["middle", "after"]): f"if ranks.rank == {chance.randint(0, 1)}:\n{lines}"}
    return {chance.choice(["before", "middle", "after"]): text}


def _error(chance: random.Random) -> tuple[str, str]:
    name = chance.choice(_NAMES)
    kind = chance.choice(["ValueError", "RuntimeError", "TypeError", "Exception", "OverflowError", "StopIteration"])
    return f'raise {kind}("{name} has no value {chance.randint(1, 99)}")\n', f"{kind}: {name} has no value"


def _raises(chance: random.Random) -> Script:
    text, says = _error(chance)
    return Script("raises", _body(chance, **_place(chance, text)), says=says)


def _own_class(chance: random.Random) -> Script:
    text = "class ConfigError(Exception):\n    pass\n"
    return Script(
        "own class", text + _body(chance, **_place(chance, "raise ConfigError('bad')\n")), says="ConfigError: bad"
    )


def _chained(chance: random.Random) -> Script:
    """An error in the way out of a missing device: the way out is broken."""
    slip, says = chance.choice(
        [("print(devise)", "NameError"), ("Tensor(2, 3) @ Tensor(4, 5)", "RuntimeError: mat1 and mat2")]
    )
    text = f"try:\n    Tensor(2, 2).cuda()\nexcept AssertionError:\n    {slip}\n"
    return Script("way out", _body(chance, **_place(chance, text)), says=says)


def _module(chance: random.Random) -> Script:
    name = chance.choice(["apex_", "cuda_extras", "my_models", "flash_attention_9", "nccl_tools"])
    word = chance.choice([f"import {name}\n", f"from {name}.layers import Block\n"])
    return Script("module", _body(chance, before=word), says=f"No module named '{name}'")


def _path(chance: random.Random) -> Script:
    path = chance.choice(["/data/cuda/train.bin", "data/no-gpu.json", "~/train.csv", "/scratch/weights.pt"])
    return Script("path", _body(chance, **_place(chance, f"open({path!r})\n")), says="FileNotFoundError")


def _shape(chance: random.Random) -> Script:
    a = chance.randint(2, 9)
    return Script(
        "shape",
        _body(chance, **_place(chance, f"Tensor({a}, {a}) @ Tensor({a + 1}, 3)\n")),
        says="shapes cannot be multiplied",
    )


def _name(chance: random.Random) -> Script:
    name = chance.choice(["cudaa", "modle", "optimiser_", "gpu"])
    return Script("name", _body(chance, **_place(chance, f"print({name})\n")), says=f"NameError: name '{name}'")


def _key(chance: random.Random) -> Script:
    text, says = chance.choice(
        [
            ("os.environ['CUDA_HOME_OF_MINE']\n", "KeyError"),
            ("{}['nccl']\n", "KeyError: 'nccl'"),
            ("[0][ranks.size]\n", "IndexError"),
            ("devices.synchronize()\n", "AttributeError"),
            ("json.loads('{')\n", "JSONDecodeError"),
            ("1 / (ranks.size - ranks.size)\n", "ZeroDivisionError"),
        ]
    )
    return Script("key", _body(chance, **_place(chance, text)), says=says)


def _argument(chance: random.Random) -> Script:
    wrong = chance.choice(["--cuda", "--lr=x", "--epochs_=3", "--gpus=4"])
    text = "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float)\nparser.add_argument('--epochs')\nparser.parse_args()\n"  # noqa: E501  # a script, line by line
    return Script("argument", _body(chance, before=text), ("python", "train.py", wrong), says="train.py: error: ")


def _status(chance: random.Random) -> Script:
    number = chance.choice([1, 2, 3, 77, 255])
    how = chance.choice([f"sys.exit({number})", f"os._exit({number})", f"raise SystemExit({number})"])
    return Script(
        "status", _body(chance, **_place(chance, f"print('CUDA: the end', flush=True)\n{how}\n")), says="CUDA: the end"
    )


def _killed(chance: random.Random) -> Script:
    number = chance.choice(["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"])
    return Script("killed", _body(chance, **_place(chance, f"os.kill(os.getpid(), signal.{number})\n")))


def _child(chance: random.Random) -> Script:
    text = chance.choice(
        ["subprocess.run(['no-such-compiler', '--cuda'])\n", "subprocess.run(['false'], check=True)\n"]
    )
    return Script("child", _body(chance, **_place(chance, text)), says=": ")


def _assertion(chance: random.Random) -> Script:
    text, says = chance.choice(
        [
            ("assert ranks.size == 1234, 'the size'\n", "AssertionError: the size"),
            ("assert not ranks.place\n", "AssertionError"),
        ]
    )
    return Script("assertion", _body(chance, **_place(chance, text)), says=says)


def _alone(chance: random.Random) -> Script:
    return Script(
        "never joins",
        f"import time\nimport torch\n# cuda\nfor step in range({chance.randint(2, 9)}):\n    time.sleep(0.01)\nopen('model.pt', 'w').write('x')\n",  # noqa: E501  # a script, line by line
        says="never joins the other ranks",
    )


def _launchers(chance: random.Random) -> Script:
    words = chance.choice(
        [
            ("torchrun", "--nproc-per-node", "2", "train.py"),
            ("srun", "python", "train.py"),
            ("mpirun", "-n", "2", "python", "train.py"),
        ]
    )
    return Script("two launchers", _body(chance), words, says=words[0])


def _syntax(chance: random.Random) -> Script:
    wrong = chance.choice(["def f(:\n", "if True\n    pass\n", "x = (1, 2\n", "return = 3\n"])
    return Script("syntax", _body(chance, before=wrong), says="line")


def _no_file(chance: random.Random) -> Script:
    return Script(
        "no file",
        _body(chance),
        ("python", chance.choice(["trian.py", "src/train.py", "train_cuda.py"])),
        says="No such file",
    )


def _leaves(chance: random.Random) -> Script:
    """One rank ends well before the meeting: the others wait."""
    text = "if ranks.rank == 1:\n    sys.exit(0)\n"
    return Script("leaves", _body(chance, before=text), seconds=10, says="it hangs")


def _waits(chance: random.Random) -> Script:
    text = "if ranks.rank:\n    ranks.read_line(ranks.zero)\nelse:\n    ranks.read_line(ranks.others[0])\n"
    return Script("waits", _body(chance, after=text), seconds=10, says="it hangs")


_REAL = """\
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F

{begin}dist.init_process_group({backend})
rank = dist.get_rank()
device = torch.device({device})
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear({width}, 5), torch.nn.ReLU()).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    x, y = torch.randn(4, {width}, device=device), torch.randint(5, (4,), device=device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{after}
if rank == 0:
    print("loss", float(loss))
dist.destroy_process_group()
"""  # noqa: E501  # a script, line by line
_EITHER = {
    "backend": '"nccl" if torch.cuda.is_available() else "gloo"',
    "device": "f\"cuda:{os.environ['LOCAL_RANK']}\" if torch.cuda.is_available() else 'cpu'",
}


def _real(chance: random.Random, **parts: str) -> str:
    """Return a training with the real torch, right but for what `parts` replaces."""
    numbers = {"width": str(chance.randint(3, 9)), "steps": str(chance.randint(1, 3))}
    return _REAL.format_map({"begin": "", "after": "", **_EITHER, **numbers, **parts})


def _real_wrong(chance: random.Random) -> Script:
    after, says = chance.choice(
        [
            ("model(torch.randn(4, 31, device=device))", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
            ("torch.randn(2, 3) @ torch.randn(4, 5)", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
            ("x.view(3, 7, 11)", "RuntimeError: shape '[3, 7, 11]' is invalid for input of size"),
            ("model.module.load_state_dict({})", "RuntimeError: Error(s) in loading state_dict"),
            ("torch.load('/data/cuda/epoch-3.pt')", "FileNotFoundError"),
            ("F.cross_entropy(model(x), y + 5)", "IndexError: Target "),
            ("loss.backward()", "RuntimeError: Trying to backward through the graph a second time"),
            ("torch.cuda_is_available()", "AttributeError: module 'torch' has no attribute 'cuda_is_available'"),
        ]
    )
    return Script("real torch", _real(chance, after=after), says=says)


BROKEN = (
    *(_raises, _own_class, _chained, _module, _path, _shape, _name, _key, _argument, _status, _killed, _child),
    *(_assertion, _alone, _launchers, _syntax, _no_file, _leaves, _real_wrong, _waits),
)


def _plain(chance: random.Random) -> Script:
    return Script("plain", _body(chance), breaks=False)


def _guarded(chance: random.Random) -> Script:
    return Script("guarded", _body(chance, before=chance.choice(_GUARDED), names_cuda=""), breaks=False)


def _arguments(chance: random.Random) -> Script:
    text = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float)\nassert parser.parse_args().lr\n"
    )
    return Script("arguments", _body(chance, before=text), ("python", "train.py", "--lr", "0.1"), breaks=False)


def _noisy(chance: random.Random) -> Script:
    """It handles its errors, and writes their tracebacks."""
    text = "import traceback\ntry:\n    {}['cuda']\nexcept KeyError:\n    traceback.print_exc()\n"
    return Script("noisy", _body(chance, **_place(chance, text)), breaks=False)


def _writes(chance: random.Random) -> Script:
    text = "open(f'ckpt-{ranks.rank}.pt', 'wb').write(bytes(5000))\nos.makedirs('logs', exist_ok=True)\n"
    return Script("writes", _body(chance, **_place(chance, text, only=False)), breaks=False)


def _children(chance: random.Random) -> Script:
    text = "subprocess.run(['sh', '-c', 'echo from a child; false'])\n"
    return Script("children", _body(chance, **_place(chance, text)), breaks=False)


def _module_run(chance: random.Random) -> Script:
    return Script("python -m", _body(chance), ("python", "-m", "train"), breaks=False)


def _shell(chance: random.Random) -> Script:
    return Script("shell", _body(chance), ("sh", "-c", "python train.py && echo done"), breaks=False)


def _last_words(chance: random.Random) -> Script:
    return Script("exits 0", _body(chance, after="print('bye', file=sys.stderr)\nsys.exit(0)\n"), breaks=False)


def _insists(chance: random.Random) -> Script:
    """It fails, and only because there is no GPU."""
    text = chance.choice(
        [
            "Tensor(2, 2).cuda()\n",
            "Tensor(2, 2).to(f'cuda:{ranks.rank}')\n",
            "assert devices.is_available()\n",
            "assert devices.device_count() >= 1, 'start this elsewhere'\n",
            "if not devices.is_available():\n    raise RuntimeError('this training needs a GPU')\n",
            "if not devices.device_count():\n    raise SystemError('no GPU was found')\n",
            "try:\n    Tensor(2, 2).cuda()\nexcept AssertionError as error:\n    raise RuntimeError('the setup failed') from error\n",  # noqa: E501  # a script, line by line
            "try:\n    Tensor(2, 2).cuda()\nexcept AssertionError:\n    raise RuntimeError('the setup failed')\n",
            "raise devices.AcceleratorError('CUDA error: no CUDA-capable device is detected')\n",
            'raise RuntimeError("Distributed package doesn\'t have NCCL built in")\n',
            "raise RuntimeError('Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU')\n",
            "raise AttributeError(\"module 'torch._C' has no attribute '_cuda_setDevice'\")\n",
            "subprocess.run(['nvidia-smi'], check=True)\n",
        ]
    )
    return Script("insists", _body(chance, **_place(chance, text)), breaks=False)


def _real_right(chance: random.Random) -> Script:
    return Script("real torch", _real(chance), breaks=False)


def _real_insists(chance: random.Random) -> Script:
    """The real torch, asked for a GPU without a look whether there is one."""
    parts = chance.choice(
        [
            {"backend": "'nccl'"},
            {"device": "f\"cuda:{os.environ['LOCAL_RANK']}\""},
            {"begin": "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"},
            {"begin": "torch.zeros(2).cuda()\n"},
            {"after": "torch.cuda.synchronize()"},
            {"after": "torch.cuda.Stream()"},
        ]
    )
    return Script("insists", _real(chance, **parts), breaks=False)


RIGHT = (
    *(_plain, _insists, _guarded, _insists, _arguments, _insists, _noisy, _insists, _writes, _real_insists),
    *(_children, _insists, _module_run, _insists, _shell, _insists, _last_words, _insists, _real_right, _insists),
)


def draw(seed: int, count: int, *, broken: bool) -> Iterator[Script]:
    """Yield `count` scripts: each kind in its turn, everything else by chance."""
    chance = random.Random(seed)  # noqa: S311
    kinds = BROKEN if broken else RIGHT
    for number in range(count):
        yield kinds[number % len(kinds)](chance)
