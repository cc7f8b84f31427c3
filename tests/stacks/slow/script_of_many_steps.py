"""Rank 0 waits for a shell script that starts programs."""

import subprocess

from pair import RANK, SECONDS, done, meet


def run_script():
    subprocess.run(["bash", "-c", f"for i in $(seq {int(SECONDS / 2)}); do date >/dev/null; sleep 2; done"], check=True)


if RANK == 0:
    run_script()
meet()
done()
