"""By what a role of a job counts as ready: a value of the plan. Pure."""

from __future__ import annotations

import msgspec

from muster.model.words import Word
from muster.older import StrEnum


class ReadyKind(StrEnum):
    """By what a role counts as ready."""

    JOINED = "joined"  # the command began on each of its nodes
    PORT = "port"  # its port takes connections on each of its nodes
    ADDRESS = "address"  # an address answers with 2xx
    LOG = "log"  # a line with this text stands in its output
    COMMAND = "command"  # a command succeeds on its first node


class Ready(msgspec.Struct, frozen=True):
    """When a role counts as ready."""

    kind: ReadyKind
    within_s: int
    text: Word = ""
    """The address, the text of the line or the command."""
