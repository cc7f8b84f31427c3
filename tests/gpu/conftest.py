"""The report of `make test-gpu`: one document, and one page for people."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .proofs import Verdict


class Report:
    """The rows of the proofs, as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, proves: str, verdict: Verdict, command: str) -> None:
        """Keep one row."""
        self.rows.append(
            {"name": name, "proves": proves, "good": verdict.good, "says": verdict.says, "command": command}
        )

    def write(self, folder: Path, date: str, machine: str) -> None:
        """Write report.json and report.md."""
        folder.mkdir(parents=True, exist_ok=True)
        document = {"date": date, "machine": machine, "proofs": self.rows}
        (folder / "report.json").write_text(json.dumps(document, indent=2) + "\n")
        (folder / "report.md").write_text(self.page(date, machine))

    def page(self, date: str, machine: str) -> str:
        """Return the page."""
        lines = [
            "# On a real GPU",
            "",
            f"{machine}, {date}. Made by `make test-gpu`; each row is one command.",
            "",
            "| what | proved | measured |",
            "|---|---|---|",
            *(
                f"| {row['proves']} | {'yes' if row['good'] else '**no**'} | {_cell(row['says'])} |"
                for row in self.rows
            ),
            "",
            "| what | command |",
            "|---|---|",
            *(f"| {row['proves']} | `{_cell(row['command'])}` |" for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


@pytest.fixture(scope="session")
def report() -> Iterator[Report]:
    """Return the report of this run; it is written when the last proof has ended."""
    report = Report()
    yield report
    folder = Path(os.environ.get("MUSTER_GPU_REPORT", ".cache/gpu"))
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    report.write(folder, date, os.environ.get("MUSTER_GPU_MACHINE", "this machine"))
