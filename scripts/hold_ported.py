"""Hold `muster port` to what runs: each script of a folder before, and the job after at each site, with stub programs.

    scripts/hold_ported.py FOLDER [--sites lumi,perlmutter] [--show]

A script of somebody else runs in a box (bubblewrap): the machine read-only, no network, a folder of its own. Each rank
writes down its number, its world, its words, its folder and the variables that the script exports. A result is *same*
where the two records agree, *refused* where the site takes no such job, *asked* where the table has an open row (what
differs all the same is shown: a person judges whether the row speaks of it), *silent* where the records differ and
nothing is asked, and *not compared* where the script alone starts no rank with these programs.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from muster.errors import MusterError  # noqa: E402
from muster.render.script import job_script  # noqa: E402
from muster_lint.port.carry import carry  # noqa: E402
from muster_lint.port.target import facts_of  # noqa: E402
from muster_lint.port.values import is_open  # noqa: E402
from port.jobs import sizes_of, slurm_variables, write_tools  # noqa: E402
from port.scripts import origin_of, read  # noqa: E402
from sites.profiles import bundled  # noqa: E402

_SITES = "lumi,perlmutter,jean-zay,marenostrum5,clariden"
# What Muster or the site decides for the ranks, whatever the script says; the table has a row for each.
_OF_THE_SITE = re.compile(
    r"(NCCL|FI|UCX|GLOO|MPICH|I_MPI|OMPI|TORCH_NCCL|SLURM|SRUN)_|(MASTER|LOCAL|NODE|GROUP)_|(OMP|MKL)_NUM_THREADS$"
    r"|(WORLD_SIZE|RANK|PATH|LD_LIBRARY_PATH|PYTHONPATH|CUDA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES)$"
)
_SECONDS = 60

Ranks = list[dict[str, Any]]


class Result(NamedTuple):
    """What became of one script at one site."""

    word: str
    why: str = ""


def main() -> int:
    """Print a line for each result that is not the same, and the counts; 1 if one differs in silence."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("folder", type=Path, help="the scripts: files that end in .sbatch, .slurm or .sh")
    words.add_argument("--sites", default=_SITES, help=f"names of profiles ({_SITES})")
    words.add_argument("--show", action="store_true", help="show the two records where they differ")
    options = words.parse_args()
    if shutil.which("bwrap") is None:
        print("hold_ported: bubblewrap is missing: no script of somebody else runs without its box", file=sys.stderr)
        return 1
    counts: Counter[str] = Counter()
    paths = [path for path in sorted(options.folder.iterdir()) if path.suffix in {".sbatch", ".slurm", ".sh"}]
    for path in paths:
        text = path.read_text(errors="replace")
        old = run_boxed(text, sizes_of(text), names_in(text))
        for site in options.sites.split(","):
            result = compare(text, old, site, show=options.show)
            counts[result.word] += 1
            if result.why:
                print(f"{path.name} {site}: {result.word}: {result.why[:600]}")
    print(f"{len(paths)} scripts: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return 1 if counts["silent"] else 0


def compare(text: str, old: Ranks, site: str, *, show: bool) -> Result:
    """Return what became of a script whose ranks are known, at one site."""
    try:
        draft = read(text)[1]
        carried = carry(draft, bundled(site), origin_of(text), facts_of("/srv", "/home/ada", "ada"))
    except MusterError as error:
        return Result("refused", str(error))
    if carried.plan is None:
        return Result("refused", str(carried.refusal))
    shape = carried.plan.shape
    sizes = slurm_variables(shape.nodes, shape.nodes * shape.ntasks_per_node, shape.ntasks_per_node)
    new = run_boxed(job_script(carried.plan), sizes, names_in(text))
    difference = first_difference(old, new) if old else ""
    if show and difference:
        print(f"before: {old}\nafter:  {new}")
    questions = [row for row in carried.draft.rows if is_open(row)]
    if questions and difference:
        asked = " | ".join(f"{row.what}: {row.why}"[:100] for row in questions)
        return Result("asked, differs", f"{difference} || {asked}")
    if not old:
        return Result("not compared", "no rank was started before")
    return Result("asked" if questions else "silent" if difference else "same", difference)


def first_difference(old: Ranks, new: Ranks) -> str:
    """Return in words where two records differ first."""
    if len(old) != len(new):
        return f"{len(old)} ranks before, {len(new)} after"
    return next(
        (f"{key} {one[key]!r} before, {other[key]!r} after"
         for one, other in zip(old, new) for key in one if one[key] != other[key]),
        "",
    )  # fmt: skip


def names_in(text: str) -> list[str]:
    """Return the variables that a script exports, but for those that a site decides."""
    names = re.findall(r"^\s*export\s+(\w+)=", text, re.MULTILINE)
    return sorted({name for name in names if not _OF_THE_SITE.match(name)})


def run_boxed(script: str, sizes: Mapping[str, str], names: list[str]) -> Ranks:
    """Return what the ranks of a script write down, in a box without network whose files are gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("work", "tools"):
            (folder / each).mkdir()
        write_tools(folder / "tools")
        (folder / "work/job.sh").write_text(script)
        box = ["bwrap", "--tmpfs", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent"]
        for place in ("/usr", "/etc", sys.base_prefix, sys.prefix):
            box += ["--ro-bind", place, place]
        for place in ("bin", "lib", "lib64", "sbin"):
            box += ["--symlink", f"usr/{place}", f"/{place}"]
        for place in ("/tmp", "/var/tmp", "/home/ada"):  # noqa: S108  # of the box
            box += ["--dir", place]
        box += ["--bind", str(folder / "work"), "/srv", "--ro-bind", str(folder / "tools"), "/mnt", "--chdir", "/srv"]
        environment = {
            "PATH": "/mnt:/usr/bin:/bin", "HOME": "/home/ada", "USER": "ada", "STUB_RECORD": "/srv/.ranks",
            "STUB_LOOKS_AT": " ".join(names), "SLURM_SUBMIT_DIR": "/srv", "SLURM_JOB_ID": "4711", **sizes,
        }  # fmt: skip
        try:
            subprocess.run(
                [*box, "bash", "-c", f"{places_of(script)}\nbash job.sh"], env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=None if os.environ.get("SHOW") else subprocess.DEVNULL,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return []
        record = folder / "work/.ranks"
        lines = record.read_text().splitlines() if record.exists() else []
    ranks = [ast.literal_eval(line) for line in lines]
    return sorted(ranks, key=lambda rank: (str(rank["words"]), rank["rank"]))


def places_of(script: str) -> str:
    """Return the commands that make what a script expects to be there: its folders, and the files that it sources."""
    folders = re.findall(r"^\s*(?:cd|pushd)\s+([^\s;&|]+)|(?:--chdir[= ]|\bdir=)(\S+)", script, re.MULTILINE)
    files = re.findall(r"^\s*(?:source|\.)\s+([^\s;&|]+)", script, re.MULTILINE)
    lines = [f"mkdir -p {one or other}" for one, other in folders]
    lines += [f"mkdir -p $(dirname {path}) && : >> {path} && cp /mnt/python $(dirname {path})" for path in files]
    return "\n".join(
        f"{{ {line}; }} 2>/dev/null"
        for line in lines
        if not re.search(r"[<>;&|`]|\$\((?!dirname)", line.replace("&&", "").replace(": >>", ""))
    )


if __name__ == "__main__":
    sys.exit(main())
