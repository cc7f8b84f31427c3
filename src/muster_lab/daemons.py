"""Starting the daemons of the login host, and knowing when they are ready. Runs inside the lab."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from muster import runner
from muster.errors import SiteError
from muster_lab import paths

if TYPE_CHECKING:
    from muster.runner import Process

# The file is named because /etc/slurm may not be there to stand in for: where Slurm is fetched, not installed.
ENVIRONMENT = {"PATH": paths.DAEMON_PATH, "LANG": "C.UTF-8", "SLURM_CONF": str(paths.CONFIG / "slurm.conf")}


def start(program: str, *words: str) -> Process:
    """Start a daemon; what it says goes to its log."""
    with (paths.LOGS / f"{program}.out").open("ab") as log:
        return runner.start([program, *words], env=ENVIRONMENT, stdout=log, stderr=log, own_group=True)


def wait_until(ready: Callable[[], bool], daemon: Process, name: str, *, timeout_s: float) -> None:
    """Return when `ready`; a daemon that ends or stays silent is a `SiteError` with its last words."""
    look_began = time.monotonic()
    deadline = look_began + timeout_s
    while not ready():
        if daemon.poll() is not None:
            raise SiteError(f"{name} ended while the lab came up", hint=log_tail(name))
        if time.monotonic() > deadline:
            raise SiteError(f"{name} was not ready within {timeout_s:g} s", hint=log_tail(name))
        # A look at 500 hosts takes as much of a core as their daemons need to come up.
        time.sleep(max(0.03, 2 * (time.monotonic() - look_began)))
        look_began = time.monotonic()


def log_tail(name: str) -> str:
    """Return the end of a daemon's logs: they vanish with the lab."""
    lines: list[str] = []
    for file in sorted(paths.LOGS.glob(f"{name}*")):
        lines += file.read_text(errors="replace").splitlines()[-5:]
    if not lines:
        return f"{name} said nothing"
    return f"the last words of {name}:\n" + "\n".join(f"  {line}" for line in lines)
