"""A real Apptainer for labs on machines that have none: fetched from Debian once, kept in a cache, relocated.

Like another Slurm it runs on its own libc, which is written into its programs; nothing is installed. It has no
setuid part, so an ordinary user's images are mounted by FUSE, or unpacked where /dev/fuse is closed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from muster.errors import MachineLacks
from muster.runner import Runner, run
from muster_lab.debian import Apt, check_tools, mirror_of, open_to_all, patch

SUITE = "unstable"
PACKAGES = ("apptainer", "squashfs-tools", "squashfuse", "fuse-overlayfs", "busybox-static")

# Where the program lies in what `prepared_apptainer` makes.
APPTAINER = "usr/bin/apptainer"
_PROGRAMS = ("apptainer", "mksquashfs", "unsquashfs", "squashfuse", "squashfuse_ll", "fuse-overlayfs")

Say = Callable[[str], None]


def apptainer_cache(environment: Mapping[str, str]) -> Path:
    """Return where it is kept: $XDG_CACHE_HOME/muster/apptainer."""
    home = Path(environment.get("HOME") or "/root")
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "muster/apptainer"


def prepared_apptainer(cache: Path, say: Say, runner: Runner = run) -> Path:
    """Return the unpacked packages, from the cache or fetched now; `relocated` makes them run from a place."""
    ready = cache / "packages"
    if (ready / APPTAINER).exists():
        return ready
    check_tools()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (ready / APPTAINER).exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix=".draft-") as draft:
                _fetch(Path(draft), say, runner).rename(ready)
    return ready


def _fetch(work: Path, say: Say, runner: Runner) -> Path:
    mirror = mirror_of(runner)
    say(f"fetching Apptainer from Debian {SUITE} ({mirror})")
    apt = Apt(work / "apt", SUITE, mirror, runner)
    apt.update()
    for package in apt.download(apt.resolve(PACKAGES)):
        result = runner(["dpkg-deb", "--extract", str(package), str(work / "packages")])
        if not result.ok:
            raise MachineLacks("apptainer", f"{package.name} cannot be unpacked: {result.stderr.strip()}", _ROOM)
    return work / "packages"


_ROOM = "200 MB are needed while it is made: XDG_CACHE_HOME names another directory"


def relocated(packages: Path, target: Path, runner: Runner = run) -> Path:
    """Return the program of a copy in `target` that runs from there, for root and for others."""
    shutil.copytree(packages, target, symlinks=True, copy_function=_link_or_copy)
    libraries = next(target.glob("usr/lib/*/apptainer")).parent
    programs = [target / "usr/bin" / name for name in _PROGRAMS if (target / "usr/bin" / name).exists()]
    programs.append(libraries / "apptainer/bin/starter")
    for program in programs:  # a copy of its own: the cache's stays as it is
        original = program.with_name(f"{program.name}.own")
        shutil.copy2(program, original)
        original.replace(program)
    loader = next(libraries.glob("ld-linux*.so.*"), None) or next(target.glob("usr/lib*/ld-linux*.so.*"))
    patch(runner, ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(libraries)], programs)
    _configure(target)
    return target / APPTAINER


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _configure(target: Path) -> None:
    """Write its settings where it looks for them: the program beside usr/bin, the starter beside usr/lib."""
    settings = target / "usr/etc/apptainer"
    shutil.copytree(target / "etc/apptainer", settings)
    (target / "usr/lib/etc").symlink_to("../etc")
    (target / "usr/lib/var/lib/apptainer/mnt/session").mkdir(parents=True)
    changes = {
        "binary path": f"{target}/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        # Root of a virtual machine may lack CAP_SYS_RESOURCE, which `full` would ask for.
        "root default capabilities": "no",
    }
    file = settings / "apptainer.conf"
    text = file.read_text()
    for name, value in changes.items():
        text = re.sub(rf"^#? ?{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
    file.write_text(text)
    open_to_all(settings)
