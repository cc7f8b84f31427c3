"""sbatch's options as text."""

from __future__ import annotations

from collections.abc import Iterable

from muster.errors import RequestError
from muster.model.words import WIDTH

# What shares a line: what the job is called; how much is asked for; from whose account, where and for how long; how the
# job lives.
_NAME = ("job-name", "comment")
_SIZE = (
    *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus", "gpus-per-node", "gpus-per-task", "gres", "mem"),
    *("mem-per-cpu", "mem-per-gpu", "exclusive", "threads-per-core", "hint"),
)
_PLACE = ("account", "partition", "qos", "reservation", "time", "constraint", "nodelist", "exclude", "clusters")
_LIFE = ("export", "no-requeue", "requeue", "signal", "open-mode")
_SUBJECTS = (_NAME, _SIZE, _PLACE, _LIFE)


def format_directive(name: str, value: str | None) -> str:
    """Return one #SBATCH line."""
    if value is None:
        return f"#SBATCH --{name}"
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise RequestError(f"--{name} {value!r} holds a control character", hint="write it on one line")
    if any(character in value for character in " \"'\\#$`"):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'#SBATCH --{name}="{escaped}"'
    return f"#SBATCH --{name}={value}"


def format_header(options: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return the #SBATCH lines: options of one subject share a line, where they fit; any other has its own."""
    lines: list[str] = []
    open_lines: dict[tuple[str, ...], int] = {}
    for name, value in options:
        text = format_directive(name, value)
        subject = next((subject_names for subject_names in _SUBJECTS if name in subject_names), ())
        number = open_lines.get(subject)
        continuation = text.removeprefix("#SBATCH")
        if subject and number is not None and len(lines[number]) + len(continuation) <= WIDTH:
            lines[number] += continuation
            continue
        open_lines[subject] = len(lines)
        lines.append(text)
    return lines
