"""Everything between fresh namespaces and a cluster that takes jobs. Runs inside the lab's world, as its root."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from socket import sethostname
from typing import TYPE_CHECKING

from muster.errors import SiteError
from muster.runner import checked, run
from muster_lab import accounting, config, daemons, host, kernel, paths, state, view
from muster_lab.internet import RESOLVER, names_through
from muster_lab.kernel import MountFlag
from muster_lab.mounts import mount_lab
from muster_lab.spec import LabSpec
from muster_lab.versions import SlurmRoot, lay_over

if TYPE_CHECKING:
    from muster.runner import Process

Say = Callable[[str], None]

# What follows a + says more; of that, not_responding, drain and the like keep jobs away.
_STARTS_JOBS = re.compile(r"(idle|mixed|allocated)(\+(planned|completing))*")


def build(
    spec: LabSpec, home: str, version: str, root: SlurmRoot | None, say: Say, *, ordinary_user: bool = False
) -> None:
    """Make the lab; returns when every host takes jobs. `root`: another Slurm than the machine's own."""
    mount_lab()
    if spec.copied_for is not None:
        _protect([home, spec.copied_for], ordinary_user=ordinary_user, say=say)
    if root is not None:
        lay_over(root)
    write_files(spec, home, release(version))
    if spec.internet:
        names_through(f"nameserver {RESOLVER}\n")
    connect(spec)
    start_munge()
    if spec.accounting:
        say("starting slurmdbd on MariaDB")
        accounting.start_database(spec)
    controller = daemons.start("slurmctld", "-D")
    say("starting 1 host" if len(spec.hosts) == 1 else f"starting {len(spec.hosts)} hosts")
    host.boot(spec, spec.hosts)
    wait_for_hosts(spec.hosts, controller)


def _protect(own_paths: Sequence[str], *, ordinary_user: bool, say: Say) -> None:
    say("what is written goes into a copy-on-write view of this machine's files, and is gone afterwards")
    closed = view.protect(own_paths, ordinary_user=ordinary_user)
    if closed:
        say(f"only to be read in the view, for the kernel shows no copy of it: {', '.join(closed)}")


def write_files(spec: LabSpec, home: str, version: tuple[int, int]) -> None:
    """Write all files of the lab, and those that replace the machine's."""
    folders = (paths.CONFIG, paths.LOGS, paths.HOSTS, paths.HOMES, paths.DEVICES, paths.MUNGE, paths.DATABASE)
    for folder in folders:
        folder.mkdir(parents=True)
    for name in ("state", "spool"):
        (paths.STATE / name).mkdir()
    for name, text in config.files(spec, version).items():
        # slurmdbd refuses a configuration that others can read; the prolog is a program.
        write(paths.CONFIG / name, text, {"slurmdbd.conf": 0o600, "task_prolog.sh": 0o755}.get(name, 0o644))
    state.write_spec(spec)
    paths.SITE.write_text(spec.site or "")
    passwd = config.passwd_file(Path("/etc/passwd").read_text(), spec, home)
    stand_in(
        {
            "hosts": config.hosts_file(spec),
            "passwd": passwd,
            "shadow": config.shadow_file(passwd),
            "group": config.group_file(Path("/etc/group").read_text(), spec),
        }
    )
    if Path("/etc/slurm").is_dir():
        kernel.mount(paths.CONFIG, "/etc/slurm", flags=MountFlag.bind)
    for user, number in config.user_ids(spec).items():
        (paths.HOMES / user).mkdir(mode=0o700)
        os.chown(paths.HOMES / user, number, number)
    for number in range(max(group.gpus for group in spec.groups)):
        # A user namespace may not mknod; slurmd wants character devices: the machine's own, or /dev/null.
        device, real = paths.DEVICES / f"nvidia{number}", Path(f"/dev/nvidia{number}")
        device.touch()
        kernel.mount(str(real) if real.exists() else "/dev/null", device, flags=MountFlag.bind)


def stand_in(texts: Mapping[str, str]) -> None:
    """Let these files, and what the machine has mounted below /etc, stand in the lab's own /etc.

    It is a layer over the machine's: a file mounted over a file would vanish when the machine replaces that one, as
    useradd replaces /etc/passwd. The kernel lays none for an ordinary user where the machine has mounted something
    below /etc itself: there the lab's /etc is a folder of links.
    """
    layer = paths.STATE / "etc-layer"
    layer.mkdir()
    for name in {"hosts", "passwd", "shadow", "group", *_mounted_files("/etc")}:
        (layer / name).write_text(
            texts[name] if name in texts else Path("/etc", name).read_text(errors="surrogateescape")
        )
    old_directory = Path.cwd()
    os.chdir(layer.parent)
    try:
        kernel.mount("muster-etc", "/etc", "overlay", MountFlag.read_only, f"lowerdir={layer.name}:/etc")
    except OSError:
        _link_the_rest(layer)
        kernel.mount(layer, "/etc", flags=MountFlag.bind)
    finally:
        os.chdir(old_directory)


def _link_the_rest(layer: Path) -> None:
    """Put a link to whatever else the machine has in /etc into the layer; a link of the machine's stays what it is."""
    machine = paths.STATE / "etc-machine"
    machine.mkdir()
    kernel.mount("/etc", machine, flags=MountFlag.bind | MountFlag.recursive)
    for entry in machine.iterdir():
        if not (layer / entry.name).exists():
            (layer / entry.name).symlink_to(entry.readlink() if entry.is_symlink() else entry)


def _mounted_files(folder: str) -> list[str]:
    """Return the names in `folder` that something of the machine is mounted over."""
    points = [Path(place) for place, _ in view.mounts()]
    return [
        point.name for point in points if str(point.parent) == folder and point.is_file() and os.access(point, os.R_OK)
    ]


def write(file: Path, text: str, mode: int) -> None:
    file.write_text(text)
    file.chmod(mode)


def connect(spec: LabSpec) -> None:
    """Make the bridge, with the login host's address on it."""
    sethostname(config.LOGIN)
    host.ip_batch(
        [
            "link set lo up",
            f"link add {host.BRIDGE} type bridge",
            f"addr add {config.address(spec, config.LOGIN)}/{config.NETWORK_BITS} dev {host.BRIDGE}",
            *host.join_through_login(spec),
            f"link set {host.BRIDGE} up",
        ]
    )


def start_munge() -> None:
    """Start one munged for the whole lab: its socket in /run is every host's, and tells who is asking."""
    key = paths.MUNGE / "munge.key"
    if not key.exists():
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
    socket = paths.MUNGE / "munge.socket.2"
    socket.unlink(missing_ok=True)  # of one that was killed
    places = {"key-file": key, "socket": socket}
    places |= {name: paths.MUNGE / f"munged.{name.partition('-')[0]}" for name in ("pid-file", "seed-file", "log-file")}
    daemon = daemons.start("munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in places.items()))
    daemons.wait_until(socket.exists, daemon, "munged", timeout_s=10)


def wait_for_hosts(hosts: Sequence[str], controller: Process) -> None:
    """Return when Slurm would start a job on each of `hosts`."""

    def all_take_jobs() -> bool:
        for name in hosts:
            if not host.is_up(name):
                raise SiteError(f"{name} ended while the lab came up", hint=daemons.log_tail(name))
        return usable_hosts() >= set(hosts)

    daemons.wait_until(all_take_jobs, controller, "slurmctld", timeout_s=120)


def usable_hosts() -> set[str]:
    """Return the hosts on which Slurm would start a job now."""
    return {name for name, state in host_states().items() if _STARTS_JOBS.fullmatch(state)}


def host_states() -> dict[str, str]:
    """Return each host's state in Slurm's words; nothing where the controller does not answer.

    Not from sinfo: 22.05 goes on calling a node mixed after it and its job are down.
    """
    output = run(["scontrol", "--oneliner", "show", "nodes"], env=daemons.ENVIRONMENT).stdout
    states = re.findall(r"^NodeName=(\S+).*? State=(\S+)", output, re.MULTILINE)
    return {name: state.lower() for name, state in states}


def system_version() -> str:
    """Return the version of the slurmctld that this machine would start: 22.05.8."""
    return checked(run(["slurmctld", "-V"], env=daemons.ENVIRONMENT)).stdout.split()[-1]


def release(version: str) -> tuple[int, int]:
    """Return (22, 5) of 22.05.8."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
