"""`make demo`: one unchanged script, trained on this machine and over a private Slurm cluster of four hosts.

Every step is the command that a person would type. On a terminal a table fills while they run. The cluster goes down
whatever happens in between. At the end a picture shows where the ranks of each way were and how its loss fell, and how
far its weights lie from those of one process that saw the whole batch.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

from own_home import leave_home

from muster.cli.app import main as muster
from muster.cli.output import print_table, say
from muster.errors import MusterError
from muster.runner import start

if TYPE_CHECKING:
    from rich.console import RenderableType

HOSTS = 4
LAB = f"demo-{os.getpid()}"
ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "examples" / "train_env.py")
PYTHON = sys.executable
# Another Muster may start the ways: make demo DEMO_MUSTER="python3.9 dist/muster.pyz".
MUSTER = shlex.split(os.environ.get("DEMO_MUSTER", "")) or [str(Path(PYTHON).with_name("muster"))]
CLOSE_ENOUGH = 1e-5
NARROW = 76
WAY_S = 300
NEXT = (
    ("muster docs first-job", "the tutorial: from here to the rules of a real site, in half an hour"),
    ("muster lab up -N 4", "a cluster that stays; muster lab shell is a terminal on its login host"),
    (
        "muster run --rehearse --site lumi -A project_465000000 -N 2 -t 30 -- python examples/train_env.py",
        "this script under the queues, nodes and rules of LUMI",
    ),
)

# The same script in every row: what differs is who starts it. Each rank has one thread: the hosts share one machine's
# cores, where threads would wait for each other. A rank so takes 5 s of processor time, with two threads 14 s.
ONE_PROCESS = ["env", "OMP_NUM_THREADS=1", PYTHON, SCRIPT]
ON_THIS_MACHINE = [*MUSTER, "run", "--quiet", "--here", "--ntasks-per-node", "4", "-c", "1", "--", PYTHON, SCRIPT]
ON_THE_CLUSTER = [*MUSTER, "run", "--quiet", "-N", "4", "--ntasks-per-node", "1", "-c", "1"]


def main() -> int:
    """Exit status: 0 if all ways agree."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
    (ROOT / ".cache").mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=ROOT / ".cache", prefix="demo-") as folder:
            leave_home(os.environ, Path(folder, "home"))
            with cluster():
                status = show(Path(folder))
    except MusterError as error:
        say(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""))
        return 1
    except KeyboardInterrupt:
        say("interrupted: the private cluster and all that ran on it are gone")
        return 128 + signal.SIGINT
    if not status:
        next_steps()
    return status


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


@dataclass
class Way:
    """One way to start the script, and how far it is."""

    name: str
    ranks: str
    """A square for each rank, apart where each is on a host of its own."""

    command: list[str]
    weights: Path
    began: float = 0.0
    seconds: float = 0.0
    losses: list[str] = field(default_factory=list)
    distance: str = ""

    @property
    def now(self) -> str:
        """What it does at this moment."""
        if self.seconds:
            return "done"
        if not self.began:
            return ""
        return f"trains, {clock() - self.began:.0f} s" if self.losses else f"starts, {clock() - self.began:.0f} s"

    def cells(self) -> tuple[str, ...]:
        """Return its row of the last table."""
        losses = [float(loss) for loss in self.losses]
        ends = f"{losses[0]:.2f} {curve(losses)} {losses[-1]:.2f}"
        return self.name, self.ranks, ends, f"{self.seconds:.1f}", self.distance


clock = time.monotonic
COLUMNS = ("started by", "ranks", "loss", "seconds", "weights differ by")
BARS = "▁▂▃▄▅▆▇█"


def curve(losses: list[float]) -> str:
    """Return the losses as a row of bars; the first one is the highest."""
    return "".join(BARS[min(7, int(8 * loss / max(losses)))] for loss in losses)


def show(folder: Path) -> int:
    """Train in every way, and draw what came of it."""
    lab = [*MUSTER, "lab", "exec", "--name", LAB, "--"]
    commands = {
        ("one process", "■"): ONE_PROCESS,
        ("this machine", "■■■■"): ON_THIS_MACHINE,
        **{
            (f"4 hosts, {launcher}", "■ ■ ■ ■"): [*lab, *ON_THE_CLUSTER, "--launcher", launcher, "--", PYTHON, SCRIPT]
            for launcher in ("srun", "torchrun", "mpirun")
        },
    }
    ways = [
        Way(name, ranks, command, folder / f"{at}.pt") for at, ((name, ranks), command) in enumerate(commands.items())
    ]
    with watched(ways):
        for way in ways:
            train(way)
    distances = distances_from_first([way.weights for way in ways])
    for way, distance in list(zip(ways, distances))[1:]:
        way.distance = f"{distance:.0e}"
    print_table("the same script, trained five times: a square is a rank", COLUMNS, [way.cells() for way in ways])
    fell = all(float(way.losses[-1]) < float(way.losses[0]) / 2 for way in ways)
    agree = all(distance <= CLOSE_ENOUGH for distance in distances)
    say("all ways agree, and the loss fell" if fell and agree else "error: the ways do not agree")
    return 0 if fell and agree else 1


@contextmanager
def watched(ways: list[Way]) -> Iterator[None]:
    """Draw the table while it fills, where somebody watches a terminal."""
    if not draws():
        yield
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=bool(os.environ.get("NO_COLOR")) or None)
    with Live(get_renderable=lambda: picture(ways, console.width), console=console, transient=True):
        yield


def draws() -> bool:
    """Whether a line on the screen can be drawn again."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def picture(ways: list[Way], width: int) -> RenderableType:
    """Return the table as it stands; where it has no room, a line for each way."""
    from rich.table import Table
    from rich.text import Text

    if width < NARROW:
        return Text("\n".join(f"{way.name}: {way.now}".rstrip(": ") for way in ways))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("started by", "now", "first loss", "last loss", "seconds"):
        table.add_column(column, no_wrap=True)
    for way in ways:
        ends = (way.losses[0], way.losses[-1]) if way.losses else ("", "")
        table.add_row(way.name, way.now, *ends, f"{way.seconds:.1f}" if way.seconds else "")
    return table


def train(way: Way) -> None:
    """Run one way to its end, and note the losses while they are printed."""
    if not draws():
        say(f"{way.name} trains: {shlex.join(Path(word).name if '/' in word else word for word in way.command)}")
    way.began = clock()
    with tempfile.TemporaryFile() as words:
        process = start([*way.command, "--out", str(way.weights)], cwd=ROOT, stdout=PIPE, stderr=words)
        late = threading.Timer(WAY_S, process.kill)
        late.start()
        try:
            for line in process.stdout or ():
                way.losses += re.findall(r"loss ([0-9.]+)", line.decode(errors="replace"))
            status = process.wait()
        finally:
            late.cancel()
            process.terminate()
            process.wait()
        if status == -signal.SIGKILL:
            raise MusterError(f"{way.name} was not over after {WAY_S} s", hint="is this machine busy? try again later")
        if status:
            words.seek(0)
            raise MusterError(
                f"{way.name} ended with status {status}: {cause_in(words.read().decode(errors='replace'))}"
            )
    way.seconds = clock() - way.began
    if not draws():
        say(f"{way.name}: {way.seconds:.0f} s, the loss fell from {way.losses[0]} to {way.losses[-1]}")


def next_steps() -> None:
    """Say what to type now."""
    print("\nwhat to try next (first: . .venv/bin/activate)\n")
    for command, purpose in NEXT:
        print(f"  {command}\n      {purpose}")


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
