"""What staging costs: `python benchmarks/stage.py`. The baseline, a plain copy on every host at once, goes in turns.

The hosts of a lab share one machine, so what is compared is the work, not a network.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from muster.act.runner import checked, run
from muster.cli.output import print_table
from muster.stage.pack import pack

ROOT = Path(__file__).resolve().parent.parent
MUSTER = str(Path(sys.executable).with_name("muster"))
DATA_BYTES = 80_000_000  # a host's /tmp has 256 MB, and the archive lies beside what comes out of it


def spent_s(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def pack_row(environment: Path) -> tuple[str, str, str]:
    """A whole virtual environment, once."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        made = []
        seconds = spent_s(lambda: made.append(pack(environment, Path(folder), os.environ, lambda _: None)))
        share = made[0].archive.stat().st_size / size_of(environment)
    megabytes = size_of(environment) / 1e6
    return (f"pack an environment of {megabytes:.0f} MB", f"{seconds:.1f} s, {share:.0%}", "10 s, 30 % (1 GB, 2 cores)")


def rows_on_lab(pairs: int) -> list[tuple[str, str, str]]:
    """Fetching and finding again, on four hosts."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        data = Path(folder, "data")
        data.mkdir()
        (data / "a").write_bytes(os.urandom(DATA_BYTES))
        pack(data, Path(folder, ".muster-stage"), os.environ, lambda _: None)
        script = Path(folder, "turns.sh")
        script.write_text(
            f"""\
now() {{ date +%s%N; }}
for turn in $(seq {pairs}); do
    srun -N4 sh -c 'rm -rf /tmp/muster-stage-* /tmp/plain'
    a=$(now); srun -N4 cp -r {data} /tmp/plain; b=$(now); srun -N4 rm -rf /tmp/plain
    c=$(now); {MUSTER} stage --quiet {data} >/dev/null; d=$(now)
    e=$(now); {MUSTER} stage --quiet {data} >/dev/null; f=$(now)
    echo $(((b - a) / 1000000)) $(((d - c) / 1000000)) $(((f - e) / 1000000))
done
"""
        )
        checked(run([MUSTER, "lab", "up", "--name", "bench-stage", "-N", "4"], timeout_s=120))
        try:
            words = [MUSTER, "lab", "exec", "--name", "bench-stage", "--", "salloc", "-Q", "-N4", "sh", str(script)]
            said = checked(run(words, cwd=folder, timeout_s=900)).stdout
        finally:
            run([MUSTER, "lab", "down", "--name", "bench-stage"], timeout_s=60)
    plain, fetched, found = zip(*(map(int, line.split()) for line in said.splitlines()), strict=True)
    ratio = median(fetched) / median(plain)
    return [
        (
            "80 MB of random data to 4 lab hosts",
            f"{median(fetched) / 1000:.2f} s, {ratio:.2f} × a plain copy on each",
            "1.3 ×",
        ),
        ("the same again: it is there", f"{median(found) / 1000:.2f} s", ""),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    options = parser.parse_args()
    rows = [pack_row(options.environment), *rows_on_lab(options.pairs)]
    print_table("What staging costs", ("what", "measured", "bar"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
