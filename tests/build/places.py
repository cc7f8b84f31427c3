"""Where the tests of `muster build` build, and as whom."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from build.small_registry import SmallRegistry
from muster.runner import ProgramResult, run
from plugins.forked import run_muster
from plugins.labs import MUSTER, Person

PASSWORD = "open-sesame"  # noqa: S105  # of registries that live as long as their test


@dataclass(frozen=True)
class Place:
    """A directory to build in, and the programs that do it."""

    folder: Path
    program: Path

    def muster(self, *words: str, stdin: str | None = None, **variables: str) -> ProgramResult:
        environment = self.environment(**variables)
        return run_muster(["build", *words], env=environment, cwd=self.folder, stdin=stdin, timeout_s=120)

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "muster", "build", *words]

    def environment(self, **variables: str) -> dict[str, str]:
        path = f"{self.program.parent}:{os.environ['PATH']}"
        own = {"PATH": path, "HOME": str(self.folder), "APPTAINER_CACHEDIR": str(self.folder / "cache")}
        return {**os.environ, **own, **variables}

    def inside(self, image: str, *words: str) -> ProgramResult:
        argv = [str(self.program), "exec", image, *words]
        return run(argv, env=self.environment(), cwd=self.folder)

    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"cache", ".apptainer", ".docker"}


@dataclass(frozen=True)
class Ordinary:
    """An ordinary user's own folder, and the engine."""

    person: Person
    program: Path
    folder: Path
    registry: SmallRegistry

    def muster(self, *words: str, ids: bool, hidden: tuple[str, ...] = ()) -> ProgramResult:
        environment = self.person.environment({"WITHOUT_IDS": "" if ids else "1"})
        argv = [*self.person.prefix(), "/usr/bin/env", f"PATH={self._path(hidden)}", MUSTER, "build", *words]
        return run(argv, env=environment, cwd=self.folder, timeout_s=180)

    def inside(self, image: str, *words: str) -> str:
        argv = [*self.person.prefix(), str(self.program), "exec", "--unsquash", image, *words]
        return run(argv, env=self.person.environment(), cwd=self.folder).stdout

    def _path(self, hidden: tuple[str, ...]) -> str:
        """PATH, as on a machine where these programs are not installed."""
        if not hidden:
            return f"{self.program.parent}:{os.environ['PATH']}"
        shown = self.folder / "programs"
        shown.mkdir(exist_ok=True)
        for name in ("unshare", "sh", "true", "newuidmap", "newgidmap", "proot", "fakeroot", "env"):
            found = shutil.which(name)
            (shown / name).unlink(missing_ok=True)
            if found is not None and name not in hidden:
                (shown / name).symlink_to(found)
        return f"{self.program.parent}:{shown}"
