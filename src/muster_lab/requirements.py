"""What a machine must have for a lab, and the command that installs what is missing."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from muster.errors import MachineLacks
from muster_lab import paths
from muster_lab.spec import LabSpec

# The lab's ordinary users have ids up to here, see config.user_ids.
LEAST_SUBORDINATE_IDS = 65_536

# Program → the Debian and Ubuntu package that has it.
_ALWAYS = {
    "munged": "munge",
    "ip": "iproute2",
    "srun": "slurm-client",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
}
_ORDINARY_USER = {"newuidmap": "uidmap", "newgidmap": "uidmap"}
_ACCOUNTING = {
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server-core",
    "mariadb-install-db": "mariadb-server-core",
    "my_print_defaults": "mariadb-client-core",
}


class IdRange(NamedTuple):
    """`length` ids of the machine, from `first` on."""

    first: int
    length: int


Which = Callable[[str], Optional[str]]


def which(program: str) -> str | None:
    """Return where a daemon's program lies, or None."""
    return shutil.which(program, path=paths.DAEMON_PATH)


def check_programs(spec: LabSpec, *, ordinary_user: bool, find: Which = which) -> None:
    """Raise `MachineLacks`, naming all that is missing and the one command that installs it."""
    programs = _ALWAYS | (_ORDINARY_USER if ordinary_user else {}) | (_ACCOUNTING if spec.accounting else {})
    programs |= {"slirp4netns": "slirp4netns"} if spec.internet else {}
    if spec.slurm != "system":
        programs = {program: package for program, package in programs.items() if not package.startswith("slurm")}
    missing = [program for program in programs if find(program) is None]
    if missing:
        packages = sorted({programs[program] for program in missing})
        raise MachineLacks(
            missing[0],
            f"this machine lacks {' and '.join(missing)}, which a lab needs",
            hint=installing(packages),
        )


def installing(packages: Sequence[str]) -> str:
    """Return the command that installs packages, also where the machine's lists of packages are old."""
    update = as_root(["apt-get", "update"])
    return f"{update} && {as_root(['apt-get', 'install', '--yes', '--no-install-recommends', *packages])}"


def subordinate_ranges(subuid: str, subgid: str, user: str, uid: int) -> tuple[IdRange, IdRange]:
    """Return the user's largest ranges in /etc/subuid and /etc/subgid, whose texts these are."""
    texts = {"/etc/subuid": ("--add-subuids", subuid), "/etc/subgid": ("--add-subgids", subgid)}
    ranges, missing, options = [], [], []
    for file, (option, text) in texts.items():
        entries = list(_entries(text))
        largest = max(
            (entry for owner, entry in entries if owner in {user, str(uid)}), key=_length, default=IdRange(0, 0)
        )
        ranges.append(largest)
        if largest.length < LEAST_SUBORDINATE_IDS:
            first = max([_FIRST_SUBORDINATE_ID, *(entry.first + entry.length for _, entry in entries)])
            missing.append(f"{largest.length or 'no'} subordinate ids in {file}")
            options += [option, f"{first}-{first + LEAST_SUBORDINATE_IDS - 1}"]
    if missing:
        raise MachineLacks(
            missing[0].rpartition(" ")[2],
            f"{user} has {' and '.join(missing)}; a lab's users need {LEAST_SUBORDINATE_IDS}",
            hint=as_root(["usermod", *options, user]),
        )
    return ranges[0], ranges[1]


# Where distributions begin to give them out (SUB_UID_MIN of login.defs).
_FIRST_SUBORDINATE_ID = 100_000


def _entries(text: str) -> Iterator[tuple[str, IdRange]]:
    for line in text.splitlines():
        owner, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if first.isdigit() and count.strip().isdigit():
            yield owner, IdRange(int(first), int(count))


def _length(ids: IdRange) -> int:
    return ids.length


_SWITCHES = (
    # sysctl, the value that forbids, the value that allows
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "65536"),
    ("user.max_net_namespaces", "0", "65536"),
    ("user.max_pid_namespaces", "0", "65536"),
)


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return None


def namespaces_refused(number: int, uid: int, sysctl: Callable[[str], str | None] = _sysctl) -> MachineLacks:
    """Return why this machine refused namespaces with error `number`, and what allows them."""
    message = f"this machine forbids the namespaces that a lab is made of: {os.strerror(number)}"
    for name, forbidding, allowing in _SWITCHES:
        if sysctl(name) == forbidding:
            return MachineLacks(
                "namespaces", f"{message} ({name}={forbidding})", as_root(["sysctl", f"{name}={allowing}"])
            )
    if number == errno.ENOSPC:
        hint = as_root(["sysctl", "user.max_user_namespaces=65536", "user.max_net_namespaces=65536"])
    elif uid == 0:
        hint = "root without CAP_SYS_ADMIN: start the container with it (--privileged), or use an ordinary user"
    else:
        hint = "a container's seccomp filter may forbid unshare: start the container with --privileged"
    return MachineLacks("namespaces", message, hint)


def as_root(argv: Sequence[str]) -> str:
    """Return the command as the hint should write it for whoever is asking."""
    return " ".join(argv if os.geteuid() == 0 else ["sudo", *argv])
