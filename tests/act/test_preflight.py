"""What is looked at before a launch: the programs that the ranks will find."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.plans import plan
from muster.act.preflight import LAB_FOLDERS, check_before_start
from muster.errors import MachineLacks
from muster.model.plan import Engine


def test_a_program_of_the_virtual_environment_is_on_the_path_of_the_ranks(tmp_path: Path) -> None:
    programs = tmp_path / "env" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    program = programs / "own-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    here = plan("--chdir", str(tmp_path), "--", "own-program", engine=Engine.HERE)
    with pytest.raises(MachineLacks, match="'own-program' is not on PATH"):
        check_before_start(here, {"PATH": "/usr/bin"})

    with_environment = plan("--chdir", str(tmp_path), "--venv", "env", "--", "own-program", engine=Engine.HERE)
    assert check_before_start(with_environment, {"PATH": "/usr/bin"}) == []


@pytest.mark.parametrize(
    ("path", "environment", "is_told"),
    [
        ("/var/tmp/data", {}, True),
        ("/var/tmp/data", {LAB_FOLDERS: ""}, False),
        ("/tmp/data", {}, True),
        ("/tmp/data", {LAB_FOLDERS: "/somewhere\n/tmp"}, False),
        ("/tmp/data", {LAB_FOLDERS: "/somewhere"}, True),
        ("/data", {}, False),
    ],
)
@pytest.mark.parametrize("option", [None, "--checkpoint", "--image"])
def test_a_path_that_each_host_has_for_itself_is_told(
    path: str, environment: dict[str, str], is_told: bool, option: str | None
) -> None:
    words = ("sh", "-c", "true") if option else ("sh", "-c", "true", path)
    planned = plan("--chdir", "/", *((option, path, "-t", "60") if option else ()), "--", *words)
    notes = check_before_start(planned, {"PATH": "/usr/bin:/bin", **environment})
    assert any(note.text.startswith(f"{path} lies in a directory that every host has") for note in notes) is is_told
