"""The administrator's folder: settings and whole profiles come from where a module file says that they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.runner import ProgramResult
from plugins.forked import run_muster

PROFILE = 'muster_site = 1\nname = "ours"\ntitle = "Our cluster"\nsummary = "2 nodes"\n'


def muster(folder: Path, *words: str, **environment: str) -> ProgramResult:
    """Run Muster in a folder of its own, with these variables more."""
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), **environment}
    return run_muster(words, env=environment, cwd=folder)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Return the etc of a Muster under /opt."""
    folder = tmp_path / "opt/etc"
    (folder / "sites").mkdir(parents=True)
    (folder / "config.toml").write_text('account = "teaching"\n')
    (folder / "sites/ours.toml").write_text(PROFILE)
    return folder


def test_settings_and_profiles_come_from_there(system: Path, tmp_path: Path) -> None:
    plan = ("plan", "--site", "generic", "--", "hostname")
    done = muster(tmp_path, *plan, MUSTER_SYSTEM_DIRECTORY=str(system))
    assert "--account=teaching" in done.stdout, done.stderr
    assert "teaching" not in muster(tmp_path, *plan).stdout
    listed = muster(tmp_path, "site", "list", MUSTER_SYSTEM_DIRECTORY=str(system)).stdout
    assert "ours" in listed
    assert "Our cluster" in listed


@pytest.mark.parametrize("words", [("list",), ("show", "generic"), ("detect",)])
def test_a_folder_that_is_not_there_is_said(words: tuple[str, ...], tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    sentence = f"MUSTER_SYSTEM_DIRECTORY names {gone}, which is not a folder here"
    assert sentence in muster(tmp_path, "site", *words, MUSTER_SYSTEM_DIRECTORY=gone).stderr
    assert "MUSTER_SYSTEM" not in muster(tmp_path, "site", *words, MUSTER_SYSTEM_DIRECTORY=str(tmp_path)).stderr


def test_a_folder_that_others_can_write_is_named_and_not_used(system: Path, tmp_path: Path) -> None:
    system.chmod(0o777)
    words = ("plan", "--site", "generic", "--", "hostname")
    done = muster(tmp_path, *words, MUSTER_SYSTEM_DIRECTORY=str(system))
    assert "teaching" not in done.stdout
    assert f"warning: {system}/config.toml is not used: {system} can be written by everybody" in done.stderr
    trusted = muster(tmp_path, *words, MUSTER_SYSTEM_DIRECTORY=str(system), MUSTER_SAFE_DIRECTORY=str(system))
    assert "--account=teaching" in trusted.stdout
