"""What a virtual environment was built with, against what it will run with. Reads files: `plan` may use it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["differences"]

RECORD = "muster.json"


def differences(venv: Path, modules: Sequence[str]) -> Iterator[str]:
    """One sentence each; none where `muster build venv` has not made it."""
    if (venv / "muster-is-building").exists():
        yield f"{venv} was left half-built: build it again"
        return
    try:
        record = json.loads((venv / RECORD).read_text())
    except (OSError, ValueError):
        return
    if not isinstance(record, dict):
        return
    built_with = record.get("modules") or []
    if sorted(built_with) != sorted(modules):
        yield (
            f"{venv} was built with {_listed(built_with)}, and will run with {_listed(modules)}: "
            "--module names what is loaded"
        )
    if record.get("python") and (now := _python_of(venv)) not in {None, record["python"]}:
        yield f"{venv} was built with Python {record['python']}, and has {now} now"
    if record.get("torch") and (now := _torch_of(venv)) != record["torch"]:
        yield f"{venv} was built with torch {record['torch']}, and has {now or 'none'} now: build it again"


def _listed(modules: Sequence[str]) -> str:
    return f"the modules {', '.join(modules)}" if modules else "no modules"


def _python_of(venv: Path) -> str | None:
    try:
        lines = (venv / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return None
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("version =")), None)


def _torch_of(venv: Path) -> str | None:
    found = sorted(venv.glob("lib/python3*/site-packages/torch-*.dist-info"))
    return found[-1].name.removeprefix("torch-").removesuffix(".dist-info") if found else None
