"""What a virtual environment was built with, and what lies in it now. Reads files, starts nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muster.facts import VenvRecord
from muster.look.nccl import nccl_of_environment
from muster.ownership import text_of

RECORD = "muster.json"


def read_record(venv: Path) -> VenvRecord:
    """Return the record of a virtual environment, and what lies in it now."""
    half_built = (venv / "muster-is-building").exists()
    record = _record_of(venv)
    if not record:
        return VenvRecord(str(venv), half_built)
    nccl = nccl_of_environment(str(venv / "bin/python"))
    return VenvRecord(str(venv), half_built, record, _python_of(venv), _torch_of(venv), nccl)


def version_of_venv(venv: Path) -> str | None:
    """Return 3.12 or the like; None: this is not a virtual environment."""
    version = _python_of(venv)
    return None if version is None else ".".join(version.split(".")[:2])


def _record_of(venv: Path) -> dict[str, Any]:
    try:
        record = json.loads((venv / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _python_of(venv: Path) -> str | None:
    lines = text_of(venv / "pyvenv.cfg").splitlines()
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("version")), None)


def _torch_of(venv: Path) -> str | None:
    records = sorted(venv.glob("lib/python3*/site-packages/torch-*.dist-info"))
    return records[-1].name.removeprefix("torch-").removesuffix(".dist-info") if records else None
