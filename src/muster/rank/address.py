"""Where the ranks meet: the host of rank 0 and a port, by rules that every rank can follow alone.

Host: MASTER_ADDR where it is published; this machine where all ranks are on one; else the launcher's first host.
Port: MASTER_PORT; Muster's or Slurm's reserved one; else made from the id of this start.
"""

import contextlib
import re
import socket
import struct
import zlib
from typing import List, Mapping, NamedTuple, Optional, Tuple

from . import contract
from .errors import WireupError
from .families import family_named
from .identity import Identity

# Below Linux' ephemeral ports (32768 to 60999), above what services like to use.
_LOWEST_PORT, _PORTS = 15_000, 17_000

# torch's own default, for a launcher that gives its ranks nothing in common but their number.
_DEFAULT_PORT = 29_500

_NUMBERED = re.compile(r"(?:slurm\.pmix\.)?([0-9]{1,12})(?:\.([0-9]{1,12}))?\Z")

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104


class Meeting(NamedTuple):
    """Where rank 0 listens; `host_from` and `port_from` say who chose it; `scope` is this start's own name."""

    host: str
    port: int
    host_from: str
    port_from: str
    scope: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def meeting(environment: Mapping[str, str], identity: Identity) -> Meeting:
    """Return the meeting point of this rank's world.

    Raise WireupError where no rule gives one, or a variable is wrong.
    """
    host, host_from = _host(environment, identity)
    port, port_from = published_port(environment) or _port_of_ids(_ids(environment, identity))
    return Meeting(host, port, host_from, port_from, scope(environment, identity))


def scope(environment: Mapping[str, str], identity: Identity) -> str:
    """Return this start's own name, so that a rank which reaches a stranger's store finds nothing in it."""
    return "muster-" + ".".join(_ids(environment, identity))


def _ids(environment: Mapping[str, str], identity: Identity) -> List[str]:
    names = () if identity.family == "single" else family_named(identity.family).ids
    return [environment[name] for name in names if environment.get(name)]


def _host(environment: Mapping[str, str], identity: Identity) -> Tuple[str, str]:
    one_node = 1 in (identity.size, identity.nodes) or identity.local_size == identity.size
    address = environment.get(contract.MASTER_ADDR, "").strip()
    if address:
        simulated = contract.LOCAL_NNODES in environment
        _refuse_bad_address(address, one_node or simulated or len(identity.hosts) < 2)
        return address, contract.MASTER_ADDR
    if one_node:
        return "127.0.0.1", "all ranks are on one host"
    if environment.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        raise WireupError(
            "with --distribution=arbitrary rank 0 need not be on the first host, so its address is not known",
            "use block, cyclic or plane, or set MASTER_ADDR to the host of rank 0",
        )
    if not identity.hosts:
        raise WireupError("no variable says on which host rank 0 is", "set MASTER_ADDR to the host of rank 0")
    return identity.hosts[0], identity.sources["hosts"]


def _refuse_bad_address(address: str, one_node: bool) -> None:
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and ":" not in host:
        raise WireupError(
            f"MASTER_ADDR holds host:port ({address!r})", f"set MASTER_ADDR={host} and MASTER_PORT={port} separately"
        )
    if any(character.isspace() or character in "/,[]$" for character in address):
        raise WireupError(f"MASTER_ADDR holds {address!r}, which is not a host name", "set it to the host of rank 0")
    if address in _THIS_MACHINE and not one_node:
        raise WireupError(
            f"MASTER_ADDR is {address}, but the ranks are on several hosts: each would wait for itself",
            "unset MASTER_ADDR, or set it to the host of rank 0",
        )


def published_port(environment: Mapping[str, str]) -> Optional[Tuple[int, str]]:
    """Return the port that somebody chose for this start, and the variable that says so."""
    reserved = environment.get("SLURM_STEP_RESV_PORTS", "").split(",")[0].split("-")[0]
    ports = {
        contract.MASTER_PORT: environment.get(contract.MASTER_PORT, "").strip(),
        contract.PORT: environment.get(contract.PORT, "").strip(),
        "SLURM_STEP_RESV_PORTS": reserved.strip(),
    }
    for variable, text in ports.items():
        if not text:
            continue
        if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536):
            raise WireupError(f"{variable} holds {text[:40]!r}, which is not a port", "use a number from 1024 to 32767")
        return int(text), variable
    return None


def _port_of_ids(ids: List[str]) -> Tuple[int, str]:
    if not ids:
        return _DEFAULT_PORT, "torch's default"
    text = ".".join(ids)
    numbers = _NUMBERED.match(text)
    if numbers:  # Slurm's job and step: jobs that follow each other on a host do not meet
        return _LOWEST_PORT + (int(numbers.group(1)) + 4099 * int(numbers.group(2) or 0)) % _PORTS, f"the id {text}"
    return _LOWEST_PORT + zlib.crc32(text.encode()) % _PORTS, f"the id {text}"


def interface_towards(address: str) -> str:
    """Return the name of the interface whose packets reach that numeric address; '' where it is not known.

    Send nothing.
    """
    if ":" in address:
        return ""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect((address, 9))  # of a datagram socket: only the route is looked up
            own_address = probe.getsockname()[0]
        except OSError:
            return ""
        names = [name for _, name in socket.if_nameindex() if _address_of(name, probe) == own_address]
    return names[0] if names else ""


def _address_of(interface: str, probe: socket.socket) -> str:
    import fcntl

    get_interface_address = 0x8915  # SIOCGIFADDR, <linux/sockios.h>
    try:
        answer = fcntl.ioctl(probe.fileno(), get_interface_address, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])
