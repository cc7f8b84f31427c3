"""An error that leaves this interface shows its hint below its sentence: here no verb prints it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.errors import MusterError
from muster.older import add_note


@contextmanager
def hints_shown() -> Iterator[None]:
    """Add the hint to each error that leaves the block, once."""
    try:
        yield
    except MusterError as error:
        line = f"hint: {error.hint}"
        if error.hint and line not in getattr(error, "__notes__", ()):
            add_note(error, line)
        raise
