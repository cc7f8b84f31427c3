"""Slurm's clients as small programs on PATH: they say what a test wrote down, and count what they were asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COLUMNS = (
    *("id", "shown_id", "state", "reason", "exit", "batch", "user", "partition", "account", "qos", "nodes", "cpus"),
    *("time_limit", "submitted", "started", "ended", "node_list", "dependency", "stdout", "comment", "name"),
)

_SBATCH = """
case " $* " in
*" --test-only "*) echo 'sbatch: Job 41 to start at 2026-11-20T12:00:00' >&2 ;;
*) echo 41 ;;
esac
"""
_SQUEUE = """
[ ! -e "$stub/silent" ] || {
    echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2
    exit 1
}
number=0
while read -r _; do number=$((number + 1)); done <"$stub/squeue.asked"
answer=$stub/answers/$number
[ -e "$answer" ] || answer=$stub/answers/last
[ -e "$answer" ] || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
read -r first <"$answer"
[ "$first" = EMPTY ] || exec cat "$stub/heading" "$answer"
"""
_SACCT = "echo 'Slurm accounting storage is disabled' >&2; exit 1"


@dataclass(frozen=True)
class Stub:
    """The clients' folder, and what they say."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Stub:
        """Write the clients into a folder of their own."""
        (folder / "bin").mkdir(parents=True)
        (folder / "answers").mkdir()
        titles = {"id": "JOBID", "shown_id": "JOBID"}
        (folder / "heading").write_text("\x1f".join(titles.get(name, name.upper()) for name in COLUMNS) + "\x1e\n")
        programs = {"sbatch": _SBATCH, "squeue": _SQUEUE, "sacct": _SACCT, "scancel": "", "scontrol": "exit 1"}
        for name, text in programs.items():
            path = folder / "bin" / name
            path.write_text(f'#!/bin/sh\nstub=\'{folder}\'\necho "$*" >>"$stub/{name}.asked"\n{text}\n')
            path.chmod(0o755)
        return cls(folder)

    def asked(self, client: str) -> list[str]:
        """Return the words that this client was started with, a line for each time."""
        path = self.folder / f"{client}.asked"
        return path.read_text().rstrip("\n").split("\n") if path.exists() else []

    def say(self, *answers: str) -> None:
        """Let squeue say these in turn, and the last of them ever after."""
        for number, answer in enumerate(answers, start=len(self.asked("squeue")) + 1):
            (self.folder / "answers" / str(number)).write_text(answer)
        (self.folder / "answers" / "last").write_text(answers[-1])

    def forget(self) -> None:
        """Let squeue know no job from now on."""
        for answer in (self.folder / "answers").iterdir():
            answer.unlink()

    def account(self, text: str) -> None:
        """Let sacct do this, in sh."""
        (self.folder / "bin" / "sacct").write_text(f"#!/bin/sh\n{text}\n")

    def fall_silent(self, *, silent: bool = True) -> None:
        """Let the controller be away, or back."""
        if silent:
            (self.folder / "silent").touch()
        else:
            (self.folder / "silent").unlink()


def row(**fields: str) -> str:
    """One job as squeue prints it."""
    made = {"id": "41", "shown_id": "41", "name": "train", "reason": "None", "exit": "0:0", "user": "me", **fields}
    return "\x1f".join(made.get(name, "") for name in COLUMNS) + "\x1e\n"
