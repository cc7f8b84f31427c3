"""Rank 0 reads the end of a long line of programs, of which the first is slow."""

import subprocess

from pair import RANK, SECONDS, done, meet


def read():
    text = f"for i in $(seq {int(SECONDS / 3)}); do seq 2000; sleep 3; done | sort -n | uniq -c | wc -l"
    subprocess.check_output(["bash", "-c", text])


if RANK == 0:
    read()
meet()
done()
