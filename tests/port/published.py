"""The published scripts of all sites, put together again from their facts in tests/sites/published."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from sites.differences import Script, published
from sites.profiles import SITES

__all__ = ["rebuilt", "scripts"]


def scripts() -> Iterator[tuple[str, Script]]:
    """Yield (site, facts) of every published script."""
    yield from ((site, script) for site in SITES for script in published(site).script)


def rebuilt(script: Script) -> str:
    """Return a batch script with these facts."""
    lines = ["#!/bin/bash", *(_directive(name, value) for name, value in script.directives.items())]
    lines += [f"module {words}" for words in script.modules]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in script.environment.items()]
    lines += script.commands
    return "\n".join([*lines, " ".join([*_starter(script), *_container(script), *_program(script)]), ""])


def _directive(name: str, value: str) -> str:
    return f"#SBATCH --{name}={value}" if value else f"#SBATCH --{name}"


def _asked(script: Script, *flags: str) -> str | None:
    return next((script.ask[script.ask.index(flag) + 1] for flag in flags if flag in script.ask), None)


def _starter(script: Script) -> list[str]:
    launcher = _asked(script, "--launcher") or "srun"
    step = [word for flag in script.step for word in flag.split(" ", 1)]
    return ["mpirun", "-np", "$SLURM_NTASKS"] if launcher == "mpirun" else ["srun", *step]


def _container(script: Script) -> list[str]:
    image = script.image or _asked(script, "--image")
    if script.container not in {"apptainer", "singularity"} or image is None or image.startswith("site:"):
        return []
    return [script.container, script.verb or "exec", image]


def _program(script: Script) -> list[str]:
    if "torchrun" not in (_asked(script, "--launcher") or ""):
        return ["python", "train.py"]
    ranks = _asked(script, "-g") or "1"
    return ["torchrun", f"--nproc_per_node={ranks}", "--nnodes=$SLURM_NNODES", "--rdzv_backend=c10d", "train.py"]
