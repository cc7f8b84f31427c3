"""RoCE: which entry of a NIC's table of addresses carries the traffic. Read from /sys, never a constant. Pure.

The entry is the one whose type is RoCE v2 and whose address is an IPv4 address in IPv6's clothes; its number differs
from host to host with what else has an address there. NCCL takes one number for all its NICs.
"""

from __future__ import annotations

import msgspec

from muster.units import whole_number

# DEVICE INDEX GID TYPE for every entry in use, of Ethernet ports that are up.
GIDS_SCRIPT = """\
for port in "${MUSTER_SYS:-/sys}"/class/infiniband/*/ports/*; do
    [ -d "$port" ] || continue
    read -r layer <"$port/link_layer"
    read -r state <"$port/state"
    case $layer:$state in Ethernet:*ACTIVE*) ;; *) continue ;; esac
    device=${port%/ports/*}
    for entry in "$port"/gids/*; do
        index=${entry##*/}
        read -r gid <"$entry" 2>/dev/null || continue
        # An entry that is not in use has a type that cannot be read.
        read -r type 2>/dev/null <"$port/gid_attrs/types/$index" || continue
        echo "${device##*/} $index $gid $type"
    done
done
"""

_IPV4 = "0000:0000:0000:0000:0000:ffff:"


class Gids(msgspec.Struct, frozen=True):
    """What the tables of a node's NICs say."""

    index: int | None
    """The entry that all of them have; None: there is none."""

    why_not: str = ""


def read_gids(text: str) -> Gids:
    """Return the one index that is right for every NIC of the node, from the answers of GIDS_SCRIPT."""
    gids_by_device: dict[str, set[int]] = {}
    for line in text.splitlines():
        device, _, rest = line.partition(" ")
        index, _, rest = rest.partition(" ")
        gid, _, kind = rest.partition(" ")
        number = whole_number(index)
        if number is None:
            continue
        usable = gids_by_device.setdefault(device, set())
        if gid.startswith(_IPV4) and kind.strip() == "RoCE v2":
            usable.add(number)
    if not gids_by_device:
        return Gids(None, "no Ethernet port of an RDMA card is up")
    bad_devices = sorted(device for device, usable in gids_by_device.items() if not usable)
    if bad_devices:
        return Gids(None, f"{', '.join(bad_devices)} has no entry with an IPv4 address and RoCE v2")
    common = set.intersection(*gids_by_device.values())
    if not common:
        shown_gids = ", ".join(f"{device}: {min(usable)}" for device, usable in sorted(gids_by_device.items()))
        return Gids(None, f"the cards differ ({shown_gids}), but NCCL takes only one number")
    return Gids(min(common))
