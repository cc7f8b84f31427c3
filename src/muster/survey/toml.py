"""How a text stands in a file of TOML."""

from __future__ import annotations

import json

__all__ = ["toml_text"]


def toml_text(value: str) -> str:
    """Return a text as a string of TOML: JSON's escapes do, but for the one character that JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
