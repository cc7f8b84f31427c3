"""What the cluster calls itself: two of them number their jobs alike, and one home may serve both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from muster.errors import MusterError
from muster.facts import Facts
from muster.look.programs import has_slurm_clients, on_path
from muster.ownership import text_of
from muster.runner import Runner, run
from muster.slurm.cluster import CONFIGURATION
from muster.slurm.variables import scheduler_environment

UNNAMED = "unnamed"
_FILES = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_NAME = r"(?im)^\s*ClusterName\s*=\s*([^\s#]+)"


def configuration_file(environment: Mapping[str, str]) -> Path | None:
    """Return the slurm.conf that Slurm's clients read here; None: they get it from elsewhere, or there is none.

    A Slurm of its own folder keeps it beside its programs: /opt/slurm/etc.
    """
    if environment.get("SLURM_CONF"):
        return Path(environment["SLURM_CONF"])
    client = on_path("scontrol", environment)
    prefix = Path(client).resolve().parent.parent if client else Path("/usr")
    own_files = (
        () if prefix in {Path("/usr"), Path("/")} else (f"{prefix}/etc/slurm.conf", f"{prefix}/etc/slurm/slurm.conf")
    )
    return next((Path(file) for file in (*own_files, *_FILES) if Path(file).is_file()), None)


def cluster_name(environment: Mapping[str, str], runner: Runner = run) -> str:
    """Return the name of the cluster that Slurm's clients reach from here; UNNAMED where nothing tells it.

    The file is read first: it costs no process, and tells it while the controller is silent.
    """
    file = configuration_file(environment)
    match = None if file is None else re.search(_NAME, text_of(file))
    if match is not None:
        return match[1]
    if environment.get("SLURM_JOB_ID") and environment.get("SLURM_CLUSTER_NAME"):
        return environment["SLURM_CLUSTER_NAME"]
    try:
        answer = runner(CONFIGURATION.argv, env=scheduler_environment(environment), timeout_s=5)
    except MusterError:
        return UNNAMED
    return CONFIGURATION.read(answer.stdout).get("ClusterName") or UNNAMED


def with_cluster_name(facts: Facts) -> Facts:
    """Return the facts with the name of the cluster among the variables, as Slurm has it there in a job."""
    name = cluster_name(facts.environment) if has_slurm_clients(facts.environment) else UNNAMED
    if name == UNNAMED:
        return facts
    return replace(facts, environment={"SLURM_CLUSTER_NAME": name, **facts.environment})
