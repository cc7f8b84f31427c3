"""Guards that the settings of a launcher in the command are read where they are a file, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.job.request import Request
from muster.look.gather import _read_launcher_file

COMMAND = ("accelerate", "launch", "--config_file", "settings.yaml", "train.py")


def read_in(folder: Path, command: tuple[str, ...] = COMMAND) -> tuple[str, str] | None:
    return _read_launcher_file(Request(command=command), replace(FACTS, working_directory=str(folder))).launcher_file


def test_the_file_that_the_command_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("num_processes: 4\n")

    assert read_in(tmp_path) == ("settings.yaml", "num_processes: 4\n")
    assert read_in(tmp_path, ("python", "train.py")) is None


@pytest.mark.parametrize("kind", ["missing", "folder", "bytes", "large"])
def test_what_is_no_small_text_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "settings.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "bytes":
        path.write_bytes(b"\xff\xfe")
    elif kind == "large":
        path.write_text("# much\n" * 1_000_000)

    assert read_in(tmp_path) is None
