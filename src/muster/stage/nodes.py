"""The archive to every node of the allocation: by sbcast's tree, verified and unpacked there, kept for the next job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from muster.act.runner import Runner, run
from muster.errors import CommandFailed, RequestError
from muster.stage.pack import Packed

__all__ = ["Staged", "clean", "stage"]

Say = Callable[[str], None]
_PATIENCE_S = 3600
_TOLD = re.compile(r"^(?:\d+: )?muster-stage (?P<host>\S+) (?P<word>[a-z-]+)$", re.MULTILINE)
_REFUSING = re.compile(r"REQUEST_FILE_BCAST\((\S+)\)")
_WHY = {
    "unsent": "does not take the archive: its disk may be full",
    "full": "has no room for it",
    "foreign": "has a folder of that name which is somebody else's",
    "damaged": "got a copy that is not what was sent",
    "no-zstd": "has no zstd to unpack it with",
}


class Staged(msgspec.Struct, frozen=True):
    """Where it lies, the same on every node."""

    path: Path
    is_local: bool
    """False: some node could not take it, so all use the shared one."""

    trouble: tuple[str, ...] = ()


def stage(packed: Packed, folder: Path, environment: Mapping[str, str], say: Say, runner: Runner = run) -> Staged:
    """Bring it to every node that has not got it; where one cannot take it, the shared copy is used everywhere."""
    if not environment.get("SLURM_JOB_ID"):
        raise RequestError(
            "there is no allocation to stage on", hint="type it inside salloc, or in the script of a job"
        )
    told = _on_nodes("have", packed, folder, environment, runner)
    needing = sorted(host for host, word in told.items() if word != "have")
    if needing:
        say(f"bringing {packed.source} to {len(needing)} of {len(told)} nodes")
        told = _bring(packed, folder, environment, runner)
    trouble = tuple(f"{host} {_WHY.get(word, word)}" for host, word in sorted(told.items()) if word != "have")
    local = folder / packed.key / packed.source.name
    return Staged(packed.source if trouble else local, not trouble, trouble)


def _bring(packed: Packed, folder: Path, environment: Mapping[str, str], runner: Runner) -> dict[str, str]:
    there = folder / f".{packed.archive.name}.{environment['SLURM_JOB_ID']}"
    words = ["sbcast", "--force", str(packed.archive), str(there)]
    _run(["srun", *_STEP, *_nodes(environment), "mkdir", "-p", "-m", "700", str(folder)], environment, runner)
    sent = runner(words, env=environment, timeout_s=_PATIENCE_S)
    if sent.ok:
        return _on_nodes("unpack", packed, folder, environment, runner, str(there))
    _on_nodes("drop", packed, folder, environment, runner, str(there))
    refusing = _REFUSING.findall(sent.stderr) or ["a node"]
    return dict.fromkeys(refusing, "unsent")


def clean(folder: Path, days: int, environment: Mapping[str, str], runner: Runner = run) -> list[str]:
    """Remove what no job has used for that many days; the hosts that did."""
    text = _text()
    words = [*_STEP, *_nodes(environment), "sh", "-c", text, "muster-stage", "clean", str(folder), "-", "-", str(days)]
    return sorted(match["host"] for match in _TOLD.finditer(_run(["srun", *words], environment, runner)))


# One task on each node, beside whatever runs there.
_STEP = ("--overlap", "--ntasks-per-node=1", "--mpi=none", "--kill-on-bad-exit=0", "--quiet", "--input=none")


def _nodes(environment: Mapping[str, str]) -> list[str]:
    count = environment.get("SLURM_JOB_NUM_NODES", "1")
    return [f"--nodes={count}", f"--ntasks={count}"]


def _on_nodes(
    mode: str, packed: Packed, folder: Path, environment: Mapping[str, str], runner: Runner, archive: str = "-"
) -> dict[str, str]:
    said = _run(
        [
            *("srun", *_STEP, *_nodes(environment), "sh", "-c", _text(), "muster-stage"),
            *(mode, str(folder), packed.key, packed.digest, archive),
        ],
        environment,
        runner,
    )
    return {match["host"]: match["word"] for match in _TOLD.finditer(said)}


def _text() -> str:
    return Path(__file__).with_name("on_node.sh").read_text(encoding="utf-8")


# What the surrounding job has set would bend a step of ours.
_BENDING = ("SLURM_CPU_BIND", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TRES_PER_TASK")


def _run(words: Sequence[str], environment: Mapping[str, str], runner: Runner) -> str:
    clean_environment = {name: value for name, value in environment.items() if name not in _BENDING}
    done = runner(words, env=clean_environment, timeout_s=_PATIENCE_S)
    if not done.ok and not _TOLD.search(done.stdout):
        raise CommandFailed(words[:1], done.status, done.stderr, hint="srun -N1 hostname shows the same")
    return done.stdout
