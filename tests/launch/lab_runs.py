"""Runs in a lab whose ranks write down what they saw: one folder per run, read back whatever launcher it was."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

# POSIX sh, so that many of them start in no time; it says one line on each stream.
_WITNESS = """\
#!/bin/sh
folder=$1
shift
hostname >"$folder/$RANK.host"
env -0 >"$folder/$RANK.env"
printf '%s\\0' "$@" >"$folder/$RANK.arguments"
cat >"$folder/$RANK.input"
echo "out of $RANK"
echo "err of $RANK" >&2
"""


@dataclass(frozen=True)
class Rank:
    """What one rank saw."""

    environment: Mapping[str, str]
    arguments: tuple[str, ...]
    stdin: bytes
    host: str

    def ints(self, *names: str) -> tuple[int, ...]:
        """These variables as numbers."""
        return tuple(int(self.environment[name]) for name in names)


@dataclass(frozen=True)
class Witness:
    """A command that writes down what each rank saw."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Witness:
        """A new one, whose files lie in `folder`."""
        (folder / "seen").mkdir(parents=True)
        script = folder / "witness.sh"
        script.write_text(_WITNESS)
        script.chmod(0o755)
        return cls(folder)

    def command(self, *arguments: str) -> list[str]:
        """The command to give to the launcher."""
        return [str(self.folder / "witness.sh"), str(self.folder / "seen"), *arguments]

    def ranks(self) -> dict[int, Rank]:
        """What was seen, by rank."""
        return {int(path.stem): self._rank(path.stem) for path in sorted((self.folder / "seen").glob("*.env"))}

    def hosts(self) -> set[str]:
        """The hosts on which a rank began, also one that was ended at once."""
        return {path.read_text().strip() for path in (self.folder / "seen").glob("*.host")}

    def _rank(self, name: str) -> Rank:
        seen = self.folder / "seen"
        environment = dict(
            item.split("=", 1)
            for item in (seen / f"{name}.env").read_bytes().decode(errors="surrogateescape").split("\0")
            if item
        )
        arguments = (seen / f"{name}.arguments").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        stdin, host = (seen / f"{name}.input").read_bytes(), (seen / f"{name}.host").read_text().strip()
        return Rank(environment, tuple(arguments), stdin, host)


# A start of agents on two hosts costs four seconds of a core. `make test` has those of mpirun where they differ from
# those of srun (the start, the status, training, broken lines, the check) and leaves other pairs to `make test-long`.
AGENTS_OF_MPIRUN = pytest.param("mpirun+torchrun", marks=[pytest.mark.torch, pytest.mark.long])


def muster_run(
    lab: Lab,
    folder: Path,
    *words: str,
    before: Sequence[str] = (),
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> ProgramResult:
    """`muster run` with `words` on the lab's login host, in `folder`; `before` stands in front: salloc -N2, srun …"""
    argv = [*before, MUSTER, "run", "--quiet", *words]
    return lab.exec(argv, cwd=folder, stdin=stdin, env={"PATH": path_with(), **(env or {})}, timeout_s=timeout_s)


def path_with(*folders: Path) -> str:
    """A PATH on which these folders stand first, then the environment of the tests: its python has torch."""
    return os.pathsep.join([*map(str, folders), str(Path(MUSTER).parent), os.environ["PATH"]])


def wait_until_ended(lab: Lab, job: str) -> str:
    """Wait for a batch job; the state that it ended in, which is that of each of its parts."""
    for _ in range(300):
        answer = checked(lab.exec(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"])).stdout
        states = set(answer.split())
        if not states & {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}:
            return "".join(states)
        time.sleep(0.2)
    raise AssertionError(f"job {job} has not ended")


def wait_for_files(folder: Path, pattern: str, count: int) -> list[Path]:
    """Wait until so many files are there."""
    for _ in range(300):
        found = sorted(folder.glob(pattern))
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{folder} never held {count} × {pattern}")
