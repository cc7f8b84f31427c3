"""What a launch costs, against a baseline of the same minute: `make bench-launch`.

Ours and the baseline are started in turns, in an order that changes; what is compared are medians, and the baseline
against itself says how much of a difference is noise. Counts are counted. A lab of four hosts is made and taken away.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from muster.cli.output import print_table
from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.launchers import launcher_named
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.render.own_text import prologue_text
from muster.render.parts import compose
from muster.render.script import job_script
from muster.runner import DEVNULL, checked, end_group, run, start
from muster.sites.load import load

PYTHON = sys.executable
MUSTER = str(Path(PYTHON).with_name("muster"))
ROOT = Path(__file__).resolve().parent.parent
STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_STEP_NODELIST": "node1",
    "MUSTER_NTASKS": "2",
}
ALL_REDUCE = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
one = torch.ones(1); dist.all_reduce(one); assert one.item() == dist.get_world_size()
dist.destroy_process_group()
"""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    figure: str
    bar: str
    held: bool
    spread: str = ""


def main() -> int:
    """Exit status: 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=31, help="turns of each comparison (31)")
    parser.add_argument(
        "--all-reduce", type=int, default=0, metavar="PAIRS", help="also time a first all-reduce in torch"
    )
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    parser.add_argument("--part", choices=("all", "login", "within"), default="all", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
    rows = {"all": everything, "login": from_the_login_host, "within": within_an_allocation}[options.part](options)
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        shown = [(row.what, row.figure, row.spread, row.bar, "" if row.held else "missed") for row in rows]
        print_table(f"launch, {options.pairs} turns", ("what", "figure", "spread", "bar", ""), shown)
    return int(not all(row.held for row in rows))


def everything(options: argparse.Namespace) -> list[Row]:
    """The rows of this machine, then those that a lab's login host and an allocation of all its hosts give."""
    rows = [*task_rows(options.pairs), *pure_rows(), port_row(200)]
    name = f"bench-{os.getpid()}"
    with workspace() as folder:
        os.chdir(folder)
        rows += [launch_here_row(options.pairs), *ending_rows("local", folder, options.pairs)]
        if options.all_reduce:
            rows.append(all_reduce_here_row(options.all_reduce))
        checked(run([MUSTER, "lab", "up", "--name", name, "-N", "4"]))
        try:
            again = [PYTHON, __file__, "--json", "--pairs", str(options.pairs), "--all-reduce", str(options.all_reduce)]
            for part, before in (("login", ()), ("within", ("salloc", "-Q", "-N4", "--ntasks-per-node=8"))):
                words = [MUSTER, "lab", "exec", "--name", name, "--", *before, *again, "--part", part]
                answer = run(words, timeout_s=3600)
                rows += [Row(**each) for each in json.loads(answer.stdout)]
        finally:
            run([MUSTER, "lab", "down", "--name", name])
    return rows


def from_the_login_host(options: argparse.Namespace) -> list[Row]:
    """What is typed outside an allocation."""
    return submit_rows(options.pairs)


def within_an_allocation(options: argparse.Namespace) -> list[Row]:
    """What is typed inside an allocation of four hosts: beside it stands a bare srun in the same one."""
    rows = [launch_over_hosts_row(options.pairs), *torchrun_rows(max(options.pairs // 4, 1)), memory_row()]
    for launcher in ("srun", "torchrun", "mpirun", "mpirun+torchrun"):
        rows += ending_rows(launcher, Path.cwd(), options.pairs)
    if options.all_reduce:
        rows.append(all_reduce_over_hosts_row(options.all_reduce))
    return rows


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder that every host sees."""
    (ROOT / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache", prefix="bench-") as folder:
        yield Path(folder)


def turns(
    pairs: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of (ours, the baseline, the baseline again), each measured in every turn, in an order that changes."""
    kinds: list[tuple[int, Callable[[], float]]] = [(0, ours), (1, theirs), (2, theirs)]
    seconds: tuple[list[float], list[float], list[float]] = ([], [], [])
    for turn in range(-1, pairs):  # the first turn fills the caches and is not counted
        for kind, measure in random.sample(kinds, len(kinds)):
            spent = measure()
            if turn >= 0:
                seconds[kind].append(spent)
    return seconds


def timed(argv: Sequence[str], **more: str) -> Callable[[], float]:
    """Seconds from the start of a command to its end."""

    def measure() -> float:
        begun = time.perf_counter()
        checked(run(argv, env={**os.environ, **more}, timeout_s=300))
        return time.perf_counter() - begun

    return measure


def added_row(what: str, limit_ms: float, pairs: int, ours: Callable[[], float], theirs: Callable[[], float]) -> Row:
    """What ours costs beyond the baseline, and how far the baseline lies from itself."""
    mine, base, again = turns(pairs, ours, theirs)
    added_ms = (median(mine) - median(base)) * 1000
    noise_ms = (median(again) - median(base)) * 1000
    ratio = median(mine) / median(base)
    spread = f"baseline {median(base) * 1000:.0f} ms, against itself {noise_ms:+.0f} ms, ratio {ratio:.2f}"
    return Row(what, f"{added_ms:+.1f} ms", f"≤ {limit_ms:g} ms", added_ms <= limit_ms, spread)


def rank_text() -> str:
    """What a rank of a step runs before its command, in a script of today."""
    plan = planner("-N", "1", "--ntasks-per-node", "2")()
    (prologue,) = launcher_named("srun").prologues(plan)
    return prologue_text(plan, prologue)


def planner(*words: str) -> Callable[[], Plan]:
    """What makes the plan of a job of an unchanged script, at a site that nothing is known of."""
    values, origins, command = parse([*words, "-t", "60", "--", "python", "train.py"])
    request, site, facts = request_from({}, values, origins, command), load("generic"), Facts()
    return lambda: make_plan(request, site, facts, typed=command)


def task_rows(pairs: int, starts: int = 20) -> list[Row]:
    """The prologue with its check, beyond a shell that starts the same command."""
    path = {"PATH": "/usr/bin:/bin"}

    def many(argv: list[str], environment: Mapping[str, str]) -> Callable[[], float]:
        def measure() -> float:
            begun = time.perf_counter()
            for _ in range(starts):
                checked(run(argv, env=environment))
            return (time.perf_counter() - begun) / starts

        return measure

    text, bare = rank_text(), ["sh", "-c", 'exec "$@"', "x", "true"]
    rows = []
    for rank, what, limit_ms in (
        (1, "a task: identity, threads, check", 10),
        (0, "rank 0's, which also tries its port", 50),
    ):
        ours = many(["sh", "-c", text, "muster", "true"], {**path, **STEP, "SLURM_PROCID": str(rank)})
        rows.append(added_row(what, limit_ms, pairs, ours, many(bare, path)))
    return rows


def pure_rows() -> list[Row]:
    """Plan and script for ten thousand nodes."""
    plan, spent = planner("-N", "10000", "-g", "8"), []
    for _ in range(20):
        begun = time.perf_counter()
        job_script(plan())
        spent.append(time.perf_counter() - begun)
    worst = max(spent) * 1000
    return [
        Row(
            "plan and script for 10,000 nodes",
            f"{median(spent) * 1000:.1f} ms",
            "≤ 100 ms",
            worst <= 100,
            f"worst {worst:.1f} ms",
        )
    ]


def port_row(jobs: int) -> Row:
    """Jobs with random ids, eight on a node, among squatters: a port announced although taken is a silent clash."""
    chooses = compose(("stop", "meeting", "port")) + '\nSLURM_JOB_NODELIST=$1\nmuster_choose_port\necho "$MUSTER_PORT"'
    text, name = rank_text(), socket.gethostname()
    silent = refused = 0
    for node in range(jobs // 8):
        with ExitStack() as held:
            taken = {_listen(held, random.randrange(20000, 32000)) for _ in range(40)}
            for number in range(8):
                ids = {
                    "SLURM_JOB_ID": str(random.randrange(1, 90_000_000)),
                    "SLURMD_NODENAME": name,
                    "PATH": os.environ["PATH"],
                }
                by_script = number % 2 == node % 2
                if by_script:
                    low = {"MUSTER_PORT_LOW": "20000", "MUSTER_PORT_COUNT": "12000"}
                    port = int(checked(run(["bash", "-c", chooses, "x", name], env={**ids, **low})).stdout)
                else:
                    answer = run(["sh", "-c", text, "m", "sh", "-c", "echo $MASTER_PORT"], env={**STEP, **ids})
                    refused += not answer.ok
                    if not answer.ok:
                        continue
                    port = int(answer.stdout)
                silent += port in taken
                taken.add(_listen(held, port))
    return Row(
        f"{jobs} jobs, 8 a node, 40 squatters a node: silent clashes",
        str(silent),
        "0",
        silent == 0,
        f"{refused} refused, with a hint",
    )


def _listen(held: ExitStack, port: int) -> int:
    listener = held.enter_context(socket.socket())
    try:
        listener.bind(("", port))
        listener.listen()
    except OSError:
        return -1
    return port


def launch_here_row(pairs: int) -> Row:
    """A whole launch of two ranks that do nothing, beyond a shell that starts them."""
    bare = "export WORLD_SIZE=2; RANK=0 true & RANK=1 true & wait"
    ours = [MUSTER, "run", "--quiet", "--here", "--ntasks-per-node", "2", "--", "true"]
    return added_row("a launch here, 2 ranks, beyond a shell", 120, pairs, timed(ours), timed(["sh", "-c", bare]))


def launch_over_hosts_row(pairs: int) -> Row:
    """The same over four hosts, beyond a bare srun."""
    bare = ["srun", "-N4", "--ntasks-per-node=2", "-n8", "--kill-on-bad-exit=1", "true"]
    ours = [MUSTER, "run", "--quiet", "-N", "4", "--ntasks-per-node", "2", "--", "true"]
    return added_row("a launch over 4 hosts × 2, beyond srun", 120, pairs, timed(ours), timed(bare))


def torchrun_rows(pairs: int) -> list[Row]:
    """N ranks that do nothing, ours against torchrun."""
    rows = []
    for ranks, limit in ((1, 12), (8, 7)):
        ours = [
            MUSTER,
            "run",
            "--quiet",
            "-N",
            "1",
            "--ntasks-per-node",
            str(ranks),
            "--",
            PYTHON,
            "-c",
            "pass",
        ]
        agent = [
            PYTHON,
            "-m",
            "torch.distributed.run",
            f"--nproc-per-node={ranks}",
            "--no-python",
            PYTHON,
            "-c",
            "pass",
        ]
        theirs = ["srun", "-N1", "-n1", "--ntasks-per-node=1", *agent]
        mine, base, _ = turns(pairs, timed(ours), timed(theirs))
        share = median(base) / median(mine)
        spread = f"{median(mine):.2f} s against {median(base):.2f} s"
        rows.append(
            Row(f"{ranks} trivial ranks, ours ÷ torchrun", f"1/{share:.1f}", f"≤ 1/{limit}", share >= limit, spread)
        )
    return rows


def memory_row() -> Row:
    """What of ours is there while srun runs: on the login host, and on the others."""
    process = start(
        [MUSTER, "run", "--quiet", "-N", "2", "--ntasks-per-node", "2", "--", "sleep", "6"],
        stdout=DEVNULL,
        own_group=True,
    )
    time.sleep(3)
    listed = checked(run(["ps", "-eo", "rss,args"])).stdout
    end_group(process, grace_s=10)
    ours = [int(line.split()[0]) for line in listed.splitlines() if "bash /dev/fd/" in line]
    on_nodes = len(re.findall(r"^ *[0-9]+ sh -c .*muster_first", listed, re.MULTILINE))
    size = sum(ours) / 1024
    text = f"{len(ours)} shells, {size:.1f} MB in all; {on_nodes} on the nodes"
    return Row("ours beside srun", text, "≤ 20 MB, 0", bool(ours) and size <= 20 and on_nodes == 0)


def submit_rows(pairs: int) -> list[Row]:
    """submit beyond sbatch, and the questions it asks the scheduler."""
    Path("bare.sh").write_text("#!/bin/sh\ntrue\n")
    ours = [MUSTER, "submit", "--quiet", "-N", "1", "--", "true"]
    row = added_row(
        "submit, beyond sbatch", 150, min(pairs, 15), timed(ours), timed(["sbatch", "--parsable", "bare.sh"])
    )
    traced = run(["strace", "-f", "-qq", "-e", "trace=execve", "-o", "trace.txt", *ours])
    clients = re.findall(
        r'execve\("[^"]*/(sbatch|squeue|sacct|scontrol|sinfo|srun)".* = 0', Path("trace.txt").read_text()
    )
    asked = Row(
        "submit: scheduler requests", str(len(clients)), "≤ 2", traced.ok and len(clients) <= 2, " ".join(clients)
    )
    run(["scancel", "--me", "--state=PENDING"])
    return [row, asked]


def ending_rows(launcher: str, folder: Path, pairs: int) -> list[Row]:
    """From the death of one rank to the end of everything; with ranks that heed SIGTERM, and with some that do not."""
    dies = f'[ "$RANK" = 1 ] && {{ date +%s.%N >{folder}/died; exit 7; }}; '
    patient, stubborn = dies + "exec sleep 60", dies + 'trap "" TERM; while :; do sleep 0.2; done'
    place = ["--here", "--ntasks-per-node", "2"] if launcher == "local" else ["-N", "2", "--ntasks-per-node", "1"]
    argv = [MUSTER, "run", "--quiet", *place, "--launcher", launcher]
    ours = launcher in {"local", "srun"}
    count = max(pairs * 2 // 3, 1) if ours else 5
    spent = [_ending([*argv, "--", "sh", "-c", patient], folder) for _ in range(count)]
    held = not ours or (median(spent) <= 0.5 and max(spent) <= 2)
    worst = f"worst {max(spent):.2f} s of {count}"
    bar = "≤ 0.5 s, worst ≤ 2 s" if ours else "its own row"
    rows = [Row(f"one rank dies → over, {launcher}", f"{median(spent):.2f} s", bar, held, worst)]
    if ours:
        spent = [_ending([*argv, "--grace", "2", "--", "sh", "-c", stubborn], folder) for _ in range(3)]
        what = f"the same, SIGTERM ignored, grace 2 s, {launcher}"
        rows.append(Row(what, f"{median(spent):.2f} s", "≤ 3 s", max(spent) <= 3, f"worst {max(spent):.2f} s"))
    return rows


def _ending(argv: list[str], folder: Path) -> float:
    (folder / "died").unlink(missing_ok=True)
    run(argv, timeout_s=120)
    return time.time() - float((folder / "died").read_text())


def all_reduce_here_row(pairs: int) -> Row:
    """To the end of a first all-reduce in torch on this machine, beyond the same two processes started by a shell."""
    Path("reduce.py").write_text(ALL_REDUCE)
    ranks = "; ".join(f"RANK={rank} {PYTHON} reduce.py &" for rank in (0, 1)).replace("&;", "&")
    bare = f"export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=19876; {ranks} wait"
    ours = [MUSTER, "run", "--quiet", "--here", "--ntasks-per-node", "2", "--", PYTHON, "reduce.py"]
    return added_row("first all-reduce here, 2 ranks", 140, pairs, timed(ours), timed(["sh", "-c", bare]))


def all_reduce_over_hosts_row(pairs: int) -> Row:
    """The same over four hosts, beyond a bare srun that is told where to meet."""
    Path("reduce.py").write_text(ALL_REDUCE)
    named = f"RANK=$SLURM_PROCID WORLD_SIZE=8 MASTER_ADDR=node1 MASTER_PORT=19876 exec {PYTHON} reduce.py"
    bare = ["srun", "-N4", "--ntasks-per-node=2", "-n8", "--kill-on-bad-exit=1", "sh", "-c", named]
    ours = [MUSTER, "run", "--quiet", "-N", "4", "--ntasks-per-node", "2", "--", PYTHON, "reduce.py"]
    return added_row("first all-reduce, 4 hosts × 2", 200, pairs, timed(ours), timed(bare))


if __name__ == "__main__":
    sys.exit(main())
