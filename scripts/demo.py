"""`make demo`: one unchanged script, trained on this machine and over a private Slurm cluster of four hosts.

Every step is the command that a person would type. The cluster goes down whatever happens in between. At the end
a table says how far the weights of each way lie from those of one process that saw the whole batch.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.cli.app import main as muster
from muster.cli.output import print_table, say
from muster.errors import MusterError
from muster.runner import run

HOSTS = 4
LAB = f"demo-{os.getpid()}"
ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "examples" / "train_env.py")
PYTHON = sys.executable
MUSTER = str(Path(PYTHON).with_name("muster"))
CLOSE_ENOUGH = 1e-5

# The same script in every row: what differs is who starts it.
ON_THIS_MACHINE = [MUSTER, "run", "--quiet", "--here", "--ntasks-per-node", "4", "--", PYTHON, SCRIPT]
ON_THE_CLUSTER = [MUSTER, "run", "--quiet", "-N", "4", "--ntasks-per-node", "1"]


def main() -> int:
    """Exit status: 0 if all ways agree."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
    (ROOT / ".cache").mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=ROOT / ".cache", prefix="demo-") as folder, cluster():
            return show(Path(folder))
    except MusterError as error:
        say(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""))
        return 1
    except KeyboardInterrupt:
        say("interrupted: the private cluster and all that ran on it are gone")
        return 128 + signal.SIGINT


@contextmanager
def cluster() -> Iterator[None]:
    """A lab of four hosts, gone at the end."""
    status = muster(["lab", "up", "--name", LAB, "-N", str(HOSTS)])
    if status == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if status:
        raise SystemExit(status)  # its sentence stands above
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not leave half a cluster
        muster(["lab", "down", "--name", LAB])


def show(folder: Path) -> int:
    """Train in every way, and draw what came of it."""
    lab = [MUSTER, "lab", "exec", "--name", LAB, "--"]
    ways = {
        "one process, the whole batch": [PYTHON, SCRIPT],
        "this machine, 4 ranks": ON_THIS_MACHINE,
        **{
            f"4 hosts, {launcher}": [*lab, *ON_THE_CLUSTER, "--launcher", launcher, "--", PYTHON, SCRIPT]
            for launcher in ("srun", "torchrun", "mpirun")
        },
    }
    trained = {way: train(way, command, folder / f"{number}.pt") for number, (way, command) in enumerate(ways.items())}
    distances = distances_from_first([path for path, _, _ in trained.values()])
    rows = [
        (way, losses[0], losses[-1], f"{seconds:.1f}", "" if number == 0 else f"{distances[number]:.0e}")
        for number, (way, (_, losses, seconds)) in enumerate(trained.items())
    ]
    columns = ("started by", "first loss", "last loss", "seconds", "weights differ by")
    print_table("the same script, trained five times", columns, rows)
    fell = all(float(losses[-1]) < float(losses[0]) / 2 for _, losses, _ in trained.values())
    agree = all(distance <= CLOSE_ENOUGH for distance in distances)
    say("all ways agree, and the loss fell" if fell and agree else "error: the ways do not agree")
    return 0 if fell and agree else 1


def train(way: str, command: list[str], weights: Path) -> tuple[Path, list[str], float]:
    """Run one way to its end: where the weights are, the losses that were printed, the seconds it took."""
    say(f"{way}: {shlex.join(Path(word).name if '/' in word else word for word in command)}")
    started = time.monotonic()
    result = run([*command, "--out", str(weights)], cwd=ROOT, timeout_s=300)
    if not result.ok:
        raise MusterError(f"{way} ended with status {result.status}: {cause_in(result.stderr)}")
    return weights, re.findall(r"loss ([0-9.]+)", result.stdout), time.monotonic() - started


def cause_in(stderr: str) -> str:
    """What went wrong, in Muster's own words if it said any; else the end of what was said."""
    sentence = re.search(r"muster: error: (.*(?:\n+hint: .*)?)", stderr)
    return sentence[1] if sentence else "\n" + "\n".join(stderr.splitlines()[-10:])


def distances_from_first(paths: list[Path]) -> list[float]:
    """The largest difference of any weight from the first file's, for each file."""
    import torch

    first, *_ = loaded = [torch.load(path) for path in paths]
    return [max(float((each[name] - first[name]).abs().max()) for name in first) for each in loaded]


if __name__ == "__main__":
    sys.exit(main())
