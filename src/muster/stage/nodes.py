"""`muster stage` in an allocation: the same shell that a job's script stages with, for one thing and without ranks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from muster.errors import CommandFailed, RequestError
from muster.model.plan import Staged as Thing
from muster.render.parts import part
from muster.render.staging import STAGE_END, stage_texts, thing_lines
from muster.runner import Runner, run
from muster.slurm.allocation import ask_nodes_of
from muster.slurm.granted import read_granted
from muster.slurm.variables import CLASHING

_PATIENCE_S = 24 * 3600
_WARNING = re.compile(r"^muster: warning: (.*)$", re.MULTILINE)


class NodeCopy(msgspec.Struct, frozen=True):
    """Where it lies, the same on every node."""

    path: Path
    is_local: bool
    """False: some node could not take it, so all use the shared one."""

    trouble: tuple[str, ...]
    news: tuple[str, ...]


def copy_to_nodes(thing: Thing, folder: Path, environment: Mapping[str, str], runner: Runner = run) -> NodeCopy:
    """Bring it to every node that has not got it; where one cannot take it, the shared copy is used everywhere."""
    lines = [
        "muster_run_dir=-",
        f"muster_stage_begin folder={shlex.quote(str(folder))}",
        *thing_lines(1, thing, f'printf "%s\\n" "$muster_stage_place"{shlex.quote(thing.paths[0])}'),
        STAGE_END,
    ]
    script = "\n".join([f"unset {' '.join(CLASHING)}", part("stop"), part("words"), *stage_texts(lines), *lines])
    result = runner(["bash", "-c", script], env=environment, timeout_s=_PATIENCE_S)
    trouble = tuple(_WARNING.findall(result.stderr))
    local = result.stdout.strip()
    if not local and not trouble:
        raise CommandFailed(["srun"], result.status, result.stderr, hint="srun -N1 hostname shows the same")
    news = tuple(line for line in result.stderr.splitlines() if line.startswith("muster: ") and "warning" not in line)
    return NodeCopy(Path(local or thing.paths[0]), bool(local), trouble, news)


def clean(folder: Path, days: int, environment: Mapping[str, str], runner: Runner = run) -> int:
    """Remove what no job has used for that many days; how many nodes did."""
    need_allocation(environment)
    top = f"{folder}/muster-stage-$(id -u)"
    old = f"! -name 'job-*' -mmin +{days * 1440}"  # what jobs hold, and have not brought home, is theirs
    text = f'find "{top}" -mindepth 1 -maxdepth 1 {old} -exec rm -rf {{}} + 2>/dev/null; echo cleaned'
    count = str(read_granted(environment).node_count or 1)
    clean_environment = {name: value for name, value in environment.items() if name not in CLASHING}
    result = runner(ask_nodes_of(count, text).argv, env=clean_environment, timeout_s=600)
    if not result.ok:
        raise CommandFailed(["srun"], result.status, result.stderr, hint="srun -N1 hostname shows the same")
    return result.stdout.count("cleaned")


def need_allocation(environment: Mapping[str, str]) -> None:
    """Refuse where there are no nodes to bring anything to."""
    if not read_granted(environment).job:
        raise RequestError(
            "there is no allocation to stage on",
            hint="type it inside salloc, or in the script of a job; muster run --stage DATA does it by itself",
        )
