"""Where a lab keeps its things: all on one tmpfs that only its own mount namespace sees."""

from __future__ import annotations

from pathlib import Path

RUN = Path("/run")
STATE = RUN / "muster-lab"
ETC = STATE / "etc"
CONFIG = ETC / "slurm"
LOGS = STATE / "log"
HOSTS = STATE / "hosts"
HOMES = STATE / "home"
DEVICES = STATE / "dev"
CGROUPS = STATE / "cgroup"
SITE = STATE / "site"
SPEC = STATE / "spec.json"
CONTROLLER_PID = STATE / "slurmctld.pid"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
TEMPORARY = Path("/tmp")  # noqa: S108
MUNGE = RUN / "munge"
DATABASE = RUN / "mysqld"

# What the lab and each host have of their own; the machine's lie in MACHINE.
OWN_PLACES = (TEMPORARY, SHARED_MEMORY, RUN)
MACHINE = STATE / "machine"
SHOWN = STATE / "shown"
WRITTEN = STATE / "written"
LOGIN_TEMPORARY = STATE / "tmp"

# An ordinary user's PATH often lacks the directories of daemons.
DAEMON_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
