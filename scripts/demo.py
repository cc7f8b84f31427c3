"""`make demo`: a private Slurm cluster of four hosts comes up, a job runs on all of them, and it goes down.

Every step is the command that a person would type. The cluster goes down whatever happens in between.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from muster.act.runner import checked, run
from muster.cli.app import main as muster
from muster.cli.output import print_table, say
from muster.errors import MusterError

HOSTS = 4
LAB = f"demo-{os.getpid()}"
MUSTER = str(Path(sys.executable).with_name("muster"))
SHOW_A_RANK = 'echo "$SLURM_PROCID $(hostname) $SLURM_LOCALID ${CUDA_VISIBLE_DEVICES:-none}"'


def main() -> int:
    """Exit status: 0 if every host ran its two ranks."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    status = muster(["lab", "up", "--name", LAB, "-N", str(HOSTS), "--gpus-per-node", "2"])
    if status:
        return status
    try:
        return show_ranks()
    except MusterError as error:
        say(f"error: {error.message}")
        return 1
    finally:
        muster(["lab", "down", "--name", LAB])


def show_ranks() -> int:
    """Run two ranks on every host through srun, and draw what each of them said."""
    srun = ["srun", "-N", str(HOSTS), "--ntasks-per-node=2", "--gpus-per-node=2", "sh", "-c", SHOW_A_RANK]
    say(" ".join(srun[:-2]) + " …")
    answer = checked(run([MUSTER, "lab", "exec", "--name", LAB, "--", *srun]))
    rows = sorted((line.split() for line in answer.stdout.splitlines()), key=lambda row: int(row[0]))
    print_table("the ranks, as each of them sees itself", ["rank", "host", "local rank", "GPUs"], rows)
    return 0 if len({row[1] for row in rows}) == HOSTS else 1


if __name__ == "__main__":
    sys.exit(main())
