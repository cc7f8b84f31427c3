"""The root of Muster's exception tree, shared by the ranks and the login side.

MusterError                 something to tell the user, with a hint
├── WireupError             a rank cannot learn who it is, or cannot join
│   └── TorchTooOld         the library needs a newer torch; an ImportError too
├── HostlistError           a node list cannot be read
└── (the login side's branches: see muster/errors.py)
"""

from typing import Optional


class MusterError(Exception):
    """What happened, in one sentence; `hint` says what to do about it."""

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WireupError(MusterError):
    """A rank cannot learn its rank, size or address, or cannot join the others."""

    def __str__(self) -> str:  # in a rank nobody else prints the hint
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message


class TorchTooOld(WireupError, ImportError):
    """This torch is older than the library; `except ImportError` then takes the way that needs no library."""


class HostlistError(MusterError):
    """A Slurm node list cannot be read; `text` is the list and `position` where reading stopped."""

    def __init__(self, message: str, text: str, position: int, hint: Optional[str] = None) -> None:
        super().__init__(message, hint)
        self.text = text
        self.position = position
