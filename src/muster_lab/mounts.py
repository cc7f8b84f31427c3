"""What the lab, and each host in it, sees of its own where the machine has one for all: /proc, /sys, shared memory."""

from __future__ import annotations

import os
from contextlib import suppress

from muster.errors import MachineLacks
from muster_lab import kernel, paths, view
from muster_lab.kernel import MountFlag

_CAREFUL = MountFlag.no_suid | MountFlag.no_device


def mount_lab() -> None:
    """Mount the lab's own places and its /run; nothing mounted from here on is seen outside."""
    try:
        kernel.mount("", "/", flags=MountFlag.recursive | MountFlag.private)
        machine = {place: os.open(place, os.O_PATH | os.O_DIRECTORY) for place in paths.OWN_PLACES}
        kernel.mount("tmpfs", paths.RUN, "tmpfs", _CAREFUL, "mode=755")
        view.bind_machine(machine)
        paths.LOGIN_TEMPORARY.mkdir()
        paths.LOGIN_TEMPORARY.chmod(0o1777)
        paths.CGROUPS.mkdir()
        kernel.mount("/sys/fs/cgroup", paths.CGROUPS, flags=MountFlag.bind | MountFlag.recursive)
        _mount_own_places()
    except PermissionError as error:
        raise MachineLacks(
            "mounts",
            f"this machine forbids a lab to mount {error.filename}",
            hint="in a container: start it with --privileged, or with --security-opt systempaths=unconfined",
        ) from None


def mount_host(tmp_mib: int) -> None:
    """Mount a host's own places, its /tmp of that size, and the folders that all hosts see."""
    _mount_own_places()
    kernel.mount("tmpfs", paths.TEMPORARY, "tmpfs", _CAREFUL, f"size={tmp_mib}m,mode=1777")
    view.show_all()


def _mount_own_places() -> None:
    kernel.mount("proc", "/proc", "proc", _CAREFUL)
    kernel.mount("tmpfs", paths.SHARED_MEMORY, "tmpfs", _CAREFUL, "mode=1777")
    # /sys/class/net shows the interfaces of whoever mounted /sys. Where the machine is itself a container that hides
    # parts of /sys, the kernel refuses another, and hosts see the machine's interfaces there.
    with suppress(PermissionError):
        kernel.mount("sysfs", "/sys", "sysfs", _CAREFUL)
        kernel.mount(paths.CGROUPS, "/sys/fs/cgroup", flags=MountFlag.bind | MountFlag.recursive)
