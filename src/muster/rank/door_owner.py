"""Who owns one end of a TCP connection, as this host's kernel tells it.

A piece of the door (`door.py`).
"""

import _socket
import os
import pwd
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

    Address = Tuple[str, int]
    Owner = Tuple[Optional[int], str]
    """Who owns one end of a connection, and the name; None: this host has no such connection."""

_ESTABLISHED = 1
# Of linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1

_NOBODY = None, ""


def plain(address: str) -> str:
    """Return an address as IPv4 where the kernel shows it in IPv6 form; a zone is left out."""
    address = address.partition("%")[0]
    return address[7:] if address.startswith("::ffff:") and "." in address else address


class KernelAnswers:
    """Asks the kernel about one connection: what that takes does not grow with the number of connections."""

    has_answered = False

    def ask(self, mine: "Address", theirs: "Address") -> "Optional[Owner]":
        """Return who owns the end `mine`, or None if the kernel does not say."""
        family = _socket.AF_INET6 if ":" in mine[0] else _socket.AF_INET
        ends = [_socket.inet_pton(family, address).ljust(16, b"\0") for address in (mine[0], theirs[0])]
        words = struct.pack("=BBBBI", family, _socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
        words += (
            struct.pack("!HH", mine[1], theirs[1]) + b"".join(ends) + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
        )
        head = struct.pack("=IHHII", 16 + len(words), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0)
        try:
            kernel = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            kernel.settimeout(1.0)
            kernel.send(head + words)
            answer = kernel.recv(4096)
        except OSError:
            return None
        kernel.close()
        if struct.unpack_from("=H", answer, 4)[0] != _SOCK_DIAG_BY_FAMILY:
            # No such connection; or no such part of the kernel, if it has never answered.
            return _NOBODY if self.has_answered else None
        self.has_answered = True
        state, uid = answer[17], struct.unpack_from("=I", answer, 16 + 64)[0]
        # Once nobody holds a connection any more, the kernel shows it as root's, whoever's it was.
        return (uid, _name_of(uid)) if state == _ESTABLISHED else _NOBODY


_kernel = KernelAnswers()


def find_owner(mine: "Address", theirs: "Address") -> "Owner":
    """Return who owns the end `mine` of a connection to `theirs`, by this host's kernel."""
    answer = _kernel.ask(mine, theirs)
    return find_in_table(mine, theirs) if answer is None else answer


def find_in_table(mine: "Address", theirs: "Address") -> "Owner":
    """Return the same as a kernel tells it that answers no questions: from the table of all connections."""
    port_digits = f":{mine[1]:04X} "
    for line in (*_lines("/proc/net/tcp"), *_lines("/proc/net/tcp6")):
        if port_digits in line:
            fields = line.split()
            is_held = int(fields[3], 16) == _ESTABLISHED
            if is_held and _address_of(fields[1]) == mine and _address_of(fields[2]) == theirs:
                uid = int(fields[7])
                return uid, _name_of(uid)
    return _NOBODY


def _lines(path: str) -> "List[str]":
    try:
        with open(path, encoding="ascii") as table:
            return list(table)
    except OSError:
        return []


def _address_of(text: str) -> "Address":
    """Return the address in a row of /proc/net/tcp: 0100007F:1F90 is 127.0.0.1, port 8080."""
    digits, _, port = text.partition(":")
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    family = _socket.AF_INET if len(raw) == 4 else _socket.AF_INET6
    return plain(_socket.inet_ntop(family, raw)), int(port, 16)


def _name_of(uid: int) -> str:
    """Return the name of another user: that of this one is not asked for, which a directory server may answer."""
    try:
        return "" if uid == os.getuid() else pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def own_addresses() -> "List[str]":
    """Return the addresses of this host's interfaces."""
    addresses = {"127.0.0.1", "::1"}
    before = ""
    for line in _lines("/proc/net/fib_trie"):
        if "/32 host LOCAL" in line:
            addresses.add(before)
        before = line.split()[-1] if line.strip().startswith("|--") else before
    newer = (bytes.fromhex(line.split()[0]) for line in _lines("/proc/net/if_inet6"))
    return sorted(addresses.union(plain(_socket.inet_ntop(_socket.AF_INET6, address)) for address in newer))
