"""A question to Slurm: the words that ask, and the function that reads the answer. The two halves never part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Question(msgspec.Struct, Generic[T], frozen=True):
    """What one of Slurm's clients is asked. It is answered on stdout; nothing here starts the client."""

    argv: tuple[str, ...]
    read: Callable[[str], T]
    stdin: str | None = None
    """The commands of a client that takes several of them in one start."""
