"""Versions that people read: one number everywhere, and a changelog that says what it means for them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from muster import __version__
from muster.older import tomllib

from .test_one_file import ROOT, module

release = module(ROOT / "scripts/release.py")

TEXT = (ROOT / "CHANGELOG.md").read_text()
SECTIONS = re.findall(r"^## (.*)$", TEXT, flags=re.MULTILINE)


def number(text: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(map(int, text.split(".")))


def test_the_version_is_three_numbers_and_stands_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/muster/__init__.py"


def test_a_release_dates_what_is_unreleased_and_opens_the_next_section() -> None:
    before = "# Changelog\n\n## Unreleased\n\n### What changes for you\n- New.\n\n## 0.1.0 — 2026-01-01\n\nOld.\n"
    after = release.dated(before, "0.2.0", "2026-11-23")
    assert re.findall(r"^## (.*)$", after, flags=re.MULTILINE) == [
        "Unreleased",
        "0.2.0 — 2026-11-23",
        "0.1.0 — 2026-01-01",
    ]
    assert "### What changes for you\nNothing yet.\n\n## 0.2.0" in after
    assert "## 0.2.0 — 2026-11-23\n\n### What changes for you\n- New.\n" in after
    with pytest.raises(SystemExit, match="it has no section of this version"):
        release.dated(after, "0.3.0", "2026-12-01")
    with pytest.raises(SystemExit, match=r"has version 0\.2\.0 already"):
        release.dated(after, "0.2.0", "2026-12-01")


def test_the_notes_hold_this_version_alone_and_the_digest_of_each_file(tmp_path: Path) -> None:
    changelog = release.dated("## Unreleased\n\n- New.\n\n## 0.1.0 — 2026-01-01\n\nOld.\n", "0.2.0", "2026-11-23")
    (tmp_path / "muster.pyz").write_bytes(b"")
    notes = release.notes_of(changelog, "0.2.0", tmp_path, "test")
    assert notes.startswith("Muster 0.2.0\n\n- New.\n\n### Checked\n")
    assert "Old." not in notes
    assert notes.endswith("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  muster.pyz\n")


def test_a_step_that_fails_shows_what_it_said_and_where(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=f"make test ended with status 3, in {tmp_path}; nothing has changed"):
        release.step("make test", "sh", "-c", "echo 1 failed; printf '%05000d' 0 >&2; exit 3", folder=tmp_path)
    assert capfd.readouterr().out == "--- make test\n1 failed\n"


def test_a_release_of_nobody_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    for key in ("user.name", "user.email"):
        with pytest.raises(SystemExit, match=f"git has no {key} for the tag"):
            release.refuse_unready("v9.9.9")
        subprocess.run(["git", "-C", tmp_path, "config", key, "somebody"], check=True)
    release.refuse_unready("v9.9.9")


def test_the_changelog_goes_from_what_is_next_to_the_first_version() -> None:
    assert SECTIONS[0] == "Unreleased"
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) — \d{4}-\d{2}-\d{2}", section) for section in SECTIONS[1:]]
    assert None not in released
    numbers = [number(match[1]) for match in released if match]
    assert numbers == sorted(numbers, reverse=True)
    assert all(each <= number(__version__) for each in numbers)


def test_each_version_says_first_what_changes_for_its_reader() -> None:
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        assert section.partition("\n")[2].lstrip().startswith("### What changes for you"), section[:40]
