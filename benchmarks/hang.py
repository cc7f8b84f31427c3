"""What it costs to notice hangs: the watch of `--hang` beside two healthy ranks, and `muster stacks` of 64 ranks.

It makes a lab of its own. The watch is measured in two ways: as seconds of the ranks' own work, with the watch and
without it, in turns; and as processor time of the watch in parts of that of the ranks in the same run, which a busy
machine does not spoil. `muster stacks` is measured beside a step on the same hosts that does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from muster.cli.output import print_table, say
from muster.runner import checked, run, start

PYTHON = sys.executable
MUSTER = str(Path(PYTHON).with_name("muster"))
_HANG_S, _SHORT_HANG_S = 300, 20
_RANKS = """
import glob, json, os, sys, time
import torch, torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
seconds, steps, writes, report = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "writes", sys.argv[4]


def watch_s():
    spent = 0.0
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            if b"muster.cli.silence" not in open(folder + "/cmdline", "rb").read():
                continue
            children = open(folder + "/stat").read().rpartition(") ")[2].split()[13:15]
            own = open(folder + "/schedstat").read().split()[0]
        except OSError:
            continue
        spent += int(own) / 1e9 + sum(map(int, children)) / os.sysconf("SC_CLK_TCK")
    return spent


weight, one = torch.ones(256, 256), torch.ones(1)
dist.all_reduce(one)
time.sleep(2)
began, cpu, watch, step, told = time.perf_counter(), time.process_time(), watch_s(), 0, 0
going = torch.ones(1)
while going.item():
    for _ in range(20):
        weight @ weight
    dist.all_reduce(one)
    step += 1
    if writes and time.perf_counter() - began > told:
        told += 1
        print("step", step, flush=True)
    if steps:
        going.fill_(step < steps)
    else:
        going.fill_(time.perf_counter() - began < seconds)
        dist.broadcast(going, 0)
if dist.get_rank() == 0:
    wall = time.perf_counter() - began
    figures = {"wall": wall, "steps": step, "cpu": time.process_time() - cpu, "watch": watch_s() - watch}
    with open(report, "w") as file:
        json.dump(figures, file)
dist.barrier()
dist.destroy_process_group()
"""
_SLEEP = "import time\n\n\ndef wait():\n    time.sleep(600)\n\n\nprint('begins', flush=True)\nwait()\n"


class Run(NamedTuple):
    """What rank 0 of two measured."""

    wall: float
    steps: int
    cpu: float
    watch: float


def main() -> int:
    """Exit status: 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10, help="runs with the watch and without (10)")
    parser.add_argument("--seconds", type=float, default=60, help="of each run whose processor time is taken (60)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options.pairs, options.seconds)
    # Under the checkout, because every host of a lab has a /tmp of its own.
    scratch = Path(__file__).resolve().parents[1] / ".cache"
    scratch.mkdir(exist_ok=True)
    home = tempfile.mkdtemp(prefix="bench-hang-", dir=scratch)
    environment = {**os.environ, "XDG_STATE_HOME": home}
    name = ("--name", "bench-hang")
    try:
        checked(run([MUSTER, "lab", "up", *name, "-N", "8", "--cpus-per-node", "8"], env=environment, timeout_s=120))
        argv = [MUSTER, "lab", "exec", *name, "--", PYTHON, __file__, *sys.argv[1:], "--inside"]
        return start(argv, env=environment, cwd=home).wait()
    finally:
        run([MUSTER, "lab", "down", *name], env=environment, timeout_s=60)
        shutil.rmtree(home, ignore_errors=True)


def inside(pairs: int, seconds: float) -> int:
    """The figures, measured on a login host of a lab."""
    Path("ranks.py").write_text(_RANKS)
    Path("sleep.py").write_text(_SLEEP)
    rows = [*processor_rows(seconds), *(pair_rows(pairs) if pairs else []), stacks_row()]
    print_table("hangs", ["what", "figure", "spread", "limit", ""], rows)
    return int(any(row[-1] for row in rows))


def measure(hang: str, *, seconds: float = 0, steps: int = 0, writes: bool = True) -> Run:
    """Run two ranks to their end; return what rank 0 measured."""
    report = Path("figures").resolve()
    report.unlink(missing_ok=True)
    words = [str(seconds), str(steps), "writes" if writes else "silent", str(report)]
    asked = [MUSTER, "submit", "--quiet", "-N", "1", "--ntasks-per-node", "2", "--hang", hang, "--", PYTHON, "ranks.py"]
    job = checked(run([*asked, *words], timeout_s=60)).stdout.strip()
    log = checked(run([MUSTER, "logs", "-f", job], timeout_s=900)).stdout
    if not report.is_file():
        raise SystemExit(f"job {job} has not measured anything:\n{log}")
    return Run(**json.loads(report.read_text()))


def processor_rows(seconds: float) -> list[list[str]]:
    """The watch's processor time in parts of the ranks': of ranks that write, and of ranks that are silent."""
    say(f"two ranks that write, {seconds:g} s; two silent ranks, {seconds:g} s")
    writing = measure(f"{_HANG_S}s", seconds=seconds)
    silent = measure(f"{_SHORT_HANG_S}s", seconds=seconds, writes=False)
    # A look begins half of the time set after the one before has ended.
    looks = max(int(silent.wall / (_SHORT_HANG_S / 2 + _SHORT_HANG_S / 10)), 1)
    look_s = silent.watch / looks
    share, silent_share = writing.watch / (2 * writing.cpu), look_s / (_HANG_S / 2) / (2 * silent.cpu / silent.wall)
    spread = f"{writing.watch * 1000:.1f} ms in {writing.wall:.0f} s"
    return [
        row("processor time of the watch ÷ that of two ranks that write", share, spread),
        row("  of two silent ranks, --hang 5m", silent_share, f"{look_s * 1000:.0f} ms each look"),
    ]


def pair_rows(pairs: int) -> list[list[str]]:
    """The same work of two ranks with the watch and without, and without again."""
    steps = int(measure("off", seconds=5).steps)
    say(f"{pairs} turns of {steps} steps, with the watch, without, and without again")
    spent: dict[str, list[float]] = {"with": [], "without": [], "again": []}
    for _ in range(pairs):
        for kind in random.sample(sorted(spent), 3):
            spent[kind].append(measure(f"{_HANG_S}s" if kind == "with" else "off", steps=steps).wall)
    added = median(ours / base for ours, base in zip(spent["with"], spent["without"])) - 1
    noise = median(again / base for again, base in zip(spent["again"], spent["without"])) - 1
    return [row("the ranks' work with the watch, beyond without", added, f"without against itself {noise:+.2%}")]


def row(what: str, share: float, spread: str) -> list[str]:
    """One line of the table."""
    return [what, f"{share:.3%}", spread, "< 1 %", "over" if share >= 0.01 else ""]


def stacks_row() -> list[str]:
    """`muster stacks` of 64 ranks, beside a step on the same hosts that does nothing."""
    size = ["-N", "8", "--ntasks-per-node", "8", "--hang", "off"]
    job = checked(run([MUSTER, "submit", "--quiet", *size, "--", PYTHON, "sleep.py"], timeout_s=60)).stdout.strip()
    say("muster stacks of 64 ranks")
    deadline = time.monotonic() + 120
    while run([MUSTER, "logs", job], timeout_s=60).stdout.count("begins") < 64 and time.monotonic() < deadline:
        time.sleep(0.5)
    ours, bare = [MUSTER, "stacks", job], ["srun", f"--jobid={job}", "--overlap", "-N8", "-n8", "true"]
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(7):
        for name, argv in (("ours", ours), ("bare", bare)):
            begun = time.monotonic()
            answer = checked(run(argv, timeout_s=120)).stdout
            spent[name].append(time.monotonic() - begun)
            if name == "ours" and "64 ranks (0-63)" not in answer:
                raise SystemExit(f"muster stacks did not see 64 ranks at one line:\n{answer}")
    run(["scancel", job], timeout_s=60)
    mine, base = median(spent["ours"]), median(spent["bare"])
    spread = f"a step that does nothing {base:.2f} s, ratio {mine / base:.1f}, worst {max(spent['ours']):.2f} s"
    return ["muster stacks, 8 hosts × 8 ranks", f"{mine:.2f} s", spread, "≤ 3 s", "over" if mine > 3 else ""]


if __name__ == "__main__":
    sys.exit(main())
