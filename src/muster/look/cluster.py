"""What the cluster calls itself: two of them number their jobs alike, and one home may serve both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from muster.errors import MusterError
from muster.runner import Runner, run
from muster.slurm.cluster import CONFIGURATION
from muster.slurm.variables import scheduler_environment

UNNAMED = "unnamed"
_FILES = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_NAME = re.compile(r"^\s*ClusterName\s*=\s*([^\s#]+)", re.IGNORECASE | re.MULTILINE)


def cluster_name(environment: Mapping[str, str], runner: Runner = run) -> str:
    """Return the name of the cluster that Slurm's clients reach from here; UNNAMED where nothing tells it.

    The file is read first: it costs no process, and tells it while the controller is silent.
    """
    files = [environment["SLURM_CONF"]] if environment.get("SLURM_CONF") else _FILES
    for file in files:
        match = _NAME.search(_text_of(file))
        if match:
            return match[1]
    if environment.get("SLURM_JOB_ID") and environment.get("SLURM_CLUSTER_NAME"):
        return environment["SLURM_CLUSTER_NAME"]
    try:
        answer = runner(CONFIGURATION.argv, env=scheduler_environment(environment), timeout_s=5)
    except MusterError:
        return UNNAMED
    return CONFIGURATION.read(answer.stdout).get("ClusterName") or UNNAMED


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
