"""What only mpi4py knows: ranks of any MPI, and a meeting point that MPI itself announces."""

import contextlib
import socket
from typing import Any, Mapping

from .address import Meeting, published_port
from .errors import WireupError
from .identity import Identity


def identity() -> Identity:
    """Return this rank's identity as MPI sees it. Raise WireupError without mpi4py."""
    world = _world()
    host = world.Split_type(_mpi().COMM_TYPE_SHARED)
    return Identity(
        family="mpi4py",
        rank=world.Get_rank(),
        size=world.Get_size(),
        local_rank=host.Get_rank(),
        local_size=host.Get_size(),
        sources={"rank": "MPI.COMM_WORLD", "size": "MPI.COMM_WORLD", "local_rank": "MPI_COMM_TYPE_SHARED"},
    )


def meeting(environment: Mapping[str, str]) -> Meeting:
    """Return rank 0's host and a port that is free there, told to all by a broadcast. Every rank must call it."""
    world = _world()
    own_place = None
    if world.Get_rank() == 0:
        port, port_from = published_port(environment) or (_free_port(), "free on the host of rank 0")
        own_place = (socket.gethostname(), port, port_from)
    host, port, port_from = world.bcast(own_place, root=0)
    return Meeting(host, port, "MPI's broadcast", port_from, scope="muster-mpi4py")


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _world() -> Any:
    return _mpi().COMM_WORLD


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise WireupError(
            f"this method takes the ranks from mpi4py, which cannot be imported here ({error})",
            "install mpi4py against this site's MPI, or use method='auto', which needs only variables",
        ) from None
    return MPI
