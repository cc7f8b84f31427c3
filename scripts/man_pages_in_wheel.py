"""What hatchling runs as it builds a wheel: the manual pages go to share/man, where `man` looks beside every bin."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):  # type: ignore[type-arg]
    """Makes the pages for the length of a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add a file to the wheel for each page; an editable installation has none."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from muster.cli.man_page import write_man_pages

        self.folder = Path(tempfile.mkdtemp())
        for path in write_man_pages(self.folder):
            build_data["shared_data"][str(path)] = f"share/man/man1/{path.name}"

    def finalize(self, version: str, _: dict[str, Any], __: str) -> None:
        """Remove what the build has copied."""
        if version != "editable":
            shutil.rmtree(self.folder, ignore_errors=True)
