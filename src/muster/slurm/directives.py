"""sbatch's options as text."""

from __future__ import annotations

from muster.errors import RequestError

__all__ = ["format_directive"]


def format_directive(name: str, value: str | None) -> str:
    """One #SBATCH line."""
    if value is None:
        return f"#SBATCH --{name}"
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise RequestError(f"--{name} {value!r} holds a control character", hint="write it on one line")
    if any(character in value for character in " \"'\\#$`"):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'#SBATCH --{name}="{escaped}"'
    return f"#SBATCH --{name}={value}"
