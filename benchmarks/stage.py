"""What staging costs, and what it saves: `python benchmarks/stage.py`. About ten minutes.

Looks at files are counted with strace in the real step of the real script. Copying goes over slowed links of a lab, in
turns with a plain copy over the same links: every host fetches the file from the login host at once.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from muster.cli.output import print_table
from muster.runner import checked, run
from muster.stage.pack import pack

ROOT = Path(__file__).resolve().parent.parent
MUSTER = str(Path(sys.executable).with_name("muster"))
LAB = "bench-stage"
COPY_BYTES = 300_000_000

Row = tuple[str, str, str]


def spent_s(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


@contextmanager
def lab(*words: str) -> Iterator[None]:
    checked(run([MUSTER, "lab", "up", "--name", LAB, *words], timeout_s=120))
    try:
        yield
    finally:
        run([MUSTER, "lab", "down", "--name", LAB], timeout_s=60)


def in_lab(*words: str, folder: Path, timeout_s: float = 900) -> str:
    return checked(run([MUSTER, "lab", "exec", "--name", LAB, "--", *words], cwd=folder, timeout_s=timeout_s)).stdout


# ---------------------------------------------------------------- packing


def pack_row(environment: Path, turns: int) -> Row:
    """A whole virtual environment, once; beside it what reading it and writing nothing takes."""
    seconds, plain = [], []
    share = 0.0
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        for turn in range(turns):
            kept = Path(folder, str(turn))
            seconds.append(spent_s(lambda kept=kept: pack([environment], kept)))  # type: ignore[misc]
            plain.append(spent_s(lambda: run(["sh", "-c", 'tar -cf - "$0" | cat >/dev/null', str(environment)])))
            share = size_of(kept) / size_of(environment)
            shutil.rmtree(kept)
    gigabytes = size_of(environment) / 1e9
    return (
        f"pack an environment of {gigabytes:.2f} GB",
        (
            f"{median(seconds):.1f} s, {median(seconds) / gigabytes:.1f} s a GB, to {share:.0%}"
            f" (tar alone, into nothing: {median(plain):.1f} s)"
        ),
        "10 s a GB, 30 %",
    )


# ---------------------------------------------------------------- what is asked of the shared file system

_OWN = (
    *("/usr", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev"),
    *("/tmp", "/run", "/bin", "/sbin", "/var", "/selinux"),  # noqa: S108
)


def without_muster(folder: Path) -> Path:
    """This environment as a user's would be: the same files, without the editable installation of a developer."""
    made = folder / "env"
    checked(run(["cp", "-al", sys.prefix, str(made)], timeout_s=120))
    for path in [*made.glob("lib/python3*/site-packages/*muster*")]:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    return made


def count_rows() -> list[Row]:
    """Two hosts × 4 ranks import torch: how often each looks at a file that is shared."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as name, lab("-N", "2", "--tmp", "4G"):
        folder = Path(name)
        environment = without_muster(folder)
        (folder / "train.py").write_text("import torch\nprint(torch.__file__)\n")
        told = {}
        for stage in ([], ["--stage-env"]):
            words = [
                "--venv",
                str(environment),
                *stage,
                "-N",
                "2",
                "--ntasks-per-node",
                "4",
                "--wireup",
                "dummy",
                "--",
                "python",
                "train.py",
            ]
            if stage:
                in_lab(MUSTER, "run", *words[:-2], "true", folder=folder)  # it is packed, and lies on the nodes
            script = checked(run([MUSTER, "plan", *words], cwd=folder)).stdout
            traced = script.replace(
                '        sh -c "$muster_task"',
                "        sh -c 'exec strace -f -y -qq -e trace=%file,setns,getdents64"
                f' -o {folder}/trace.$SLURM_PROCID "$@"\' x sh -c "$muster_task"',
            )
            traced = traced.replace(
                'sh -c \'exec sh -c "$1" muster-stage',
                f'sh -c \'exec strace -f -qq -e trace=%file -o {folder}/helper.$SLURM_NODEID sh -c "$1" muster-stage',
            )
            (folder / "job.sh").write_text(traced)
            in_lab("salloc", "-Q", "-N2", "--ntasks-per-node=4", "bash", "job.sh", folder=folder)
            covered = re.findall(r"^ +muster_stage_environment (.*)$", script, re.MULTILINE)
            paths = covered[0].split() if covered else []
            told[bool(stage)] = [looks(each, environment, paths) for each in sorted(folder.glob("trace.*"))]
        helpers = [each.read_text(errors="replace").count(f'"{environment}') for each in folder.glob("helper.*")]
    in_tree = sum(each["environment"] for each in told[True]) / 2 + max(helpers)
    worst = max(each.total() for each in told[True])
    without = median(each.total() for each in told[False])
    return [
        (
            "8 ranks import torch: looks at the shared environment, per node",
            f"{in_tree:.0f}, {in_tree - max(helpers):.0f} of them of ranks",
            "20",
        ),
        ("… at all that is shared, the rank that looks most", f"{worst} (without staging {without:,.0f})", "50"),
    ]


def looks(trace: Path, environment: Path, covered: list[str]) -> Counter[str]:
    """What one rank asked: until it enters the view of its node all is shared, from then on the covered is not."""
    inside: set[str] = set()
    found: Counter[str] = Counter()
    for line in trace.read_text(errors="replace").splitlines():
        pid, _, call = line.partition(" ")
        call = call.strip()
        if call.startswith("setns(") and call.endswith("= 0"):
            inside.add(pid)
        if call.startswith(("setns(", "getcwd(")):
            continue  # asks no file system
        named, at = re.search(r'"((?:[^"\\]|\\.)*)"', call), re.search(r"\((?:AT_FDCWD|\d+)<(/[^>]*)>", call)
        path = named[1] if named else ""
        if not path.startswith("/"):
            path = os.path.normpath(f"{at[1] if at else trace.parent}/{path}") if at or path else ""
        below = any(path == each or path.startswith(f"{each}/") for each in covered)
        of_node = not path or any(path == each or path.startswith(f"{each}/") for each in _OWN)
        if of_node or "<pipe:" in call or (pid in inside and below):
            continue
        found["environment" if path.startswith(str(environment)) else "elsewhere"] += 1
    return found


# ---------------------------------------------------------------- copying


def copy_rows(turns: int, rate: str) -> list[Row]:
    """300 MB to four hosts over links of that rate, and again when they are there."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as name, lab("-N", "4", "--tmp", "1G"):
        folder = Path(name)
        with (folder / "data").open("wb") as file:
            for _ in range(COPY_BYTES // 1_000_000):
                file.write(os.urandom(1_000_000))
        (folder / "fetch.py").write_text(
            "import urllib.request, shutil\n"
            'data = urllib.request.urlopen("http://10.77.0.1:8123/data")\n'
            'shutil.copyfileobj(data, open("/tmp/plain", "wb"), 1 << 20)\n'
        )
        (folder / "turns.sh").write_text(
            f"""\
now() {{ date +%s%N; }}
{sys.executable} -m http.server 8123 --bind 10.77.0.1 >/dev/null 2>&1 &
server=$!
sleep 1
{MUSTER} stage --quiet data >/dev/null
for turn in $(seq {turns}); do
    srun -N4 sh -c 'rm -rf /tmp/muster-stage-* /tmp/plain'
    a=$(now); srun -N4 {sys.executable} -S fetch.py; b=$(now); srun -N4 rm -rf /tmp/plain
    c=$(now); {MUSTER} stage --quiet data >place; d=$(now); srun -N4 cmp "$(cat place)" data || exit
    grep -q '^/tmp/' place || exit
    e=$(now); {MUSTER} stage --quiet data >/dev/null; f=$(now)
    echo $(((b - a) / 1000000)) $(((d - c) / 1000000)) $(((f - e) / 1000000))
done
kill $server
"""
        )
        for host in range(1, 5):
            checked(run([MUSTER, "lab", "fault", "--name", LAB, "slow-link", f"node{host}", rate]))
        said = in_lab("salloc", "-Q", "-N4", "bash", "turns.sh", folder=folder, timeout_s=3600)
    plain, fetched, found = zip(*(map(int, line.split()) for line in said.splitlines()), strict=True)
    ratios = [ours / theirs for ours, theirs in zip(fetched, plain, strict=True)]
    return [
        (
            f"300 MB to 4 lab hosts over links of {rate}",
            (
                f"{median(fetched) / 1000:.1f} s, {median(ratios):.2f} × a plain copy to each over its own link"
                f" ({min(ratios):.2f} to {max(ratios):.2f}, {turns} turns)"
            ),
            "1.3 ×",
        ),
        ("the same again: it is there", f"{median(found) / 1000:.2f} s", ""),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    parser.add_argument("--rate", default="100mbit", help="of the lab's links, as tc writes it")
    parser.add_argument("--only", choices=["pack", "count", "copy"])
    options = parser.parse_args()
    rows: list[Row] = []
    if options.only in {None, "count"}:
        rows += count_rows()
    if options.only in {None, "pack"}:
        rows.append(pack_row(options.environment.resolve(), options.turns))
    if options.only in {None, "copy"}:
        rows += copy_rows(options.turns, options.rate)
    print_table("What staging costs", ("what", "measured", "bar"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
