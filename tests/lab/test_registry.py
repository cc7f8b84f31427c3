"""Guards the one trace of a lab outside: a name is taken once, a process is never mistaken for another."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from muster.errors import RequestError
from muster_lab.registry import LabRegistry


@pytest.fixture
def registry(tmp_path: Path) -> LabRegistry:
    return LabRegistry({"XDG_STATE_HOME": str(tmp_path)})


def change(registry: LabRegistry, name: str, **values: object) -> None:
    file = registry.folder / f"{name}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_lab_that_is_up_is_found(registry: LabRegistry) -> None:
    registry.reserve("one")
    registry.record("one", os.getpid(), "22.05.8")
    assert (registry.find("one").pid, registry.find("one").version) == (os.getpid(), "22.05.8")


def test_a_name_is_taken_once(registry: LabRegistry) -> None:
    registry.reserve("one")
    with pytest.raises(RequestError, match="already up"):
        registry.reserve("one")
    registry.forget("one")
    registry.reserve("one")


def test_a_lab_that_is_coming_up_cannot_be_used_yet(registry: LabRegistry) -> None:
    registry.reserve("one")
    with pytest.raises(RequestError, match="still coming up"):
        registry.find("one")


def test_a_reused_pid_is_not_the_lab(registry: LabRegistry) -> None:
    registry.reserve("one")
    registry.record("one", os.getpid(), "22.05.8")
    change(registry, "one", started=1)
    with pytest.raises(RequestError, match="no lab named 'one' is up"):
        registry.find("one")
    assert list(registry.folder.iterdir()) == []


def test_an_entry_from_before_the_machine_was_started_is_cleared(registry: LabRegistry) -> None:
    registry.reserve("one")
    change(registry, "one", boot="another")
    registry.reserve("one")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": 3}', "\0"])
def test_an_entry_that_cannot_be_read_is_cleared(registry: LabRegistry, text: str) -> None:
    registry.folder.mkdir(parents=True)
    (registry.folder / "one.json").write_text(text)
    assert registry.clear() == []
    assert list(registry.folder.iterdir()) == []


def test_what_is_up_is_offered_where_a_name_is_wrong(registry: LabRegistry) -> None:
    registry.reserve("one")
    with pytest.raises(RequestError) as caught:
        registry.find("two")
    assert caught.value.hint == "up: one"


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden"])
def test_a_name_that_is_no_file_name_is_refused(registry: LabRegistry, name: str) -> None:
    with pytest.raises(RequestError, match="cannot name a lab"):
        registry.find(name)


def test_a_private_folder_of_somebody_else_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    theirs = tmp_path / "muster-7"
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    monkeypatch.setattr("muster_lab.registry._private_folder", lambda: theirs)
    with pytest.raises(RequestError, match="is not yours alone") as caught:
        LabRegistry({"XDG_STATE_HOME": "/dev/null/state"}).reserve("one")
    assert caught.value.hint is not None


def test_without_home_the_entries_lie_in_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert LabRegistry({}).folder == Path(home, ".local/state/muster/labs")


def test_a_lab_whose_process_cannot_be_seen_from_here_is_not_cleared(registry: LabRegistry) -> None:
    """A host of a lab shares the folder of entries with the machine, but sees none of the machine's processes."""
    registry.reserve("one")
    registry.record("one", os.getpid(), "22.05.8")
    change(registry, "one", pids="pid:[1]", started=1)
    with pytest.raises(RequestError, match="the lab 'one' cannot be reached from here"):
        registry.find("one")
    assert registry.clear() == []
    assert (registry.folder / "one.json").exists()


def test_a_look_makes_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("muster_lab.registry._private_folder", lambda: tmp_path / "own")
    assert LabRegistry({"XDG_STATE_HOME": "/dev/null/state"}).clear() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["missing", "another/missing"])
def test_a_home_that_is_a_dead_link_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "home").symlink_to(tmp_path / place)
    assert LabRegistry({"XDG_STATE_HOME": str(tmp_path / "home")}).note is not None


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_disk_without_room_is_told_with_the_place(
    registry: LabRegistry, monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    def refuse(path: Path, *_: object) -> int:
        if is_begun:
            path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(RequestError) as caught:
        registry.reserve("one")
    assert caught.value.message == f"the lab's entry cannot be written in {registry.folder}: No space left on device"
    assert list(registry.folder.iterdir()) == []
