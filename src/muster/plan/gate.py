"""The check before a run: what stands before the user's command, and what the ranks are told to expect. Pure."""

from __future__ import annotations

import shlex
from typing import Any

from muster.job.request import Request
from muster.model.plan import Condition, ConditionKind, Engine, Reason, Shape
from muster.sites.site import Site

REASON = Reason("set by you: the nodes and the ways between them are looked at first, and a broken one ends the run")


def gate_file(directory: str, user: str) -> str:
    """Return where `run` and `submit` put the user's own program, beside the runs of a project.

    Compute nodes and images see it.
    """
    return f"{directory}/muster-runs/check{f'-{user}' if user else ''}.pyz"


def gate_words(python: str, file: str, expected: dict[str, Any]) -> tuple[str, ...]:
    """Return the start of every rank: look, meet the others, and become the command that follows, or end."""
    import json  # costs as much as three of our modules, and most launches are not checked

    return (python, file, "gate", json.dumps(expected, sort_keys=True))


def gate_condition(file: str) -> Condition:
    """Return the condition that the program is there and is the user's own: the ranks run it as the user."""
    return Condition(
        ConditionKind.CHECK,
        f"[ -O {shlex.quote(file)} ]",
        f"{file}, which checks the nodes before the run, is not there, or is not yours",
        "muster run --check and muster submit --check put it there; without --check the script needs no file",
        REASON,
    )


def expected_at(site: Site, shape: Shape, engine: Engine, request: Request) -> dict[str, Any]:
    """Return what the site's profile promises of its nodes, for the judges; what is not known is not judged."""
    gpu_numa = next((node.gpu_numa for node in site.profile.nodes.values() if node.gpu_numa), ())
    fabric = site.profile.fabric
    flags = (flag.partition("=") for flag in request.sbatch)
    segment = next((value for name, _, value in flags if name == "--segment"), "")
    expected: dict[str, Any] = {
        "gpus": shape.gpus_per_node,
        "gpu_numa": list(gpu_numa),
        "fabric": fabric.kind,
        "closed": request.closed,
        "segment": int(segment) if segment.isdigit() else 0,
    }
    if engine is Engine.SLURM:  # else all nodes are this machine, which a profile of another says nothing about
        expected["interfaces"] = list(fabric.interfaces or ())
        expected["hcas"] = list(fabric.hcas or ())
    return {name: value for name, value in expected.items() if value}
