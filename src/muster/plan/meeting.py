"""Where the ranks meet: the host of rank 0, and a port there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from muster.errors import RequestError
from muster.job.request import Request
from muster.model.plan import Flag, Reason, Rendezvous, Shape
from muster.plan.effect import narrows
from muster.plan.terms import Terms


def make_meeting(request: Request, terms: Terms, shape: Shape) -> Rendezvous:
    """Return the address and the port of the meeting point, or the rule by which the job finds them."""
    address = request.master_addr
    if address is not None:
        if address.count(":") == 1:
            raise RequestError(
                f"--master-addr {address} holds a port",
                hint=f"--master-addr {address.partition(':')[0]} --master-port {address.partition(':')[2]}",
            )
        if shape.nodes > 1 and (address.startswith("127.") or address in {"localhost", "::1"}):
            raise RequestError(
                f"--master-addr {address} means another host on every node, but there are {shape.nodes} nodes",
                hint="omit it, or name the first host",
            )
    low, high = request.port_range or (terms.ports.low, terms.ports.high)
    if request.master_port is not None:
        port_reason = Reason(request.set_by("master_port"), request.origin("master_port"))
    elif request.port_range is not None:
        port_reason = Reason("set by you: one of this range", request.origin("port_range"))
    else:
        port_reason = terms.ports.reason
    return Rendezvous(
        address=address,
        host_suffix="" if address else terms.host_suffix,
        rule=() if address else terms.address_rule,
        port=request.master_port,
        port_low=low,
        port_high=high,
        reserved_ports=terms.ports.reserved and request.master_port is None and request.port_range is None,
        address_reason=Reason(request.set_by("master_addr"), request.origin("master_addr"))
        if address
        else terms.address_reason,
        port_reason=port_reason,
        range_asked=request.port_range is not None,
        closed=request.closed,
    )


def refuse_unknown_address(meeting: Rendezvous, step_flags: Sequence[Flag], site: str) -> None:
    """Refuse a name that is not rank 0's: where a name is not enough, the allocation's first node looks it up."""
    if meeting.rule and narrows(step_flags):
        raise RequestError(
            f"the site {site} needs the address of rank 0, but its node in the allocation is not known yet",
            hint="give --master-addr HOST, or ask for nodes with -N alone",
        )
