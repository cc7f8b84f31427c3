"""Where pip looks for packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.errors import CommandFailed, RequestError
from muster.runner import ProgramResult, run
from muster_build.pip import offline_words, pip
from muster_build.venv import VenvOrder, _hint_of_venv, build_venv


def test_pip_looks_nowhere_else_only_if_it_is_offline(tmp_path: Path) -> None:
    assert offline_words(None, offline=False) == ()
    assert offline_words(tmp_path, offline=False) == ("--find-links", str(tmp_path))
    assert offline_words(tmp_path, offline=True) == ("--no-index", "--find-links", str(tmp_path))


@pytest.mark.parametrize(("name", "offline"), [("", True), ("missing", True), ("missing", False)])
def test_a_wheelhouse_that_is_not_there_is_refused(name: str, offline: bool, tmp_path: Path) -> None:
    with pytest.raises(RequestError):
        offline_words(tmp_path / name if name else None, offline=offline)


def test_a_pip_that_says_nothing_is_named_with_its_status(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="pip install: it said nothing"):
        pip(tmp_path / "python", ["install", "x"], {}, runner=lambda *_, **__: run(["false"]))


_MISSING = "ERROR: No matching distribution found for a==3\n"
_CLASH = "ERROR: Cannot install a==1 and a==2 because these package versions have conflicting dependencies.\n"
_BROKEN = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: Failed')': /simple/a/\n"
)


@pytest.mark.parametrize(
    ("said", "kind", "sentence", "hint"),
    [
        (_MISSING, RequestError, "no package index has, for this Python and machine, a==3", "look at name"),
        (_BROKEN + _MISSING, CommandFailed, "the package index was not reached", "--offline --wheelhouse"),
        ("ERROR: Invalid requirement: 'a b' (from line 1 of r.txt)\n", RequestError, "'a b'", "correct that line"),
        (_CLASH, RequestError, "these do not go together: a==1 and a==2", "versions that go together"),
    ],
)
def test_what_pip_lacks_is_told_by_its_cause(said: str, kind: type[Exception], sentence: str, hint: str) -> None:
    def answer(argv: Sequence[str], **_: object) -> ProgramResult:
        return ProgramResult(tuple(argv), 1, "", said)

    with pytest.raises(kind, match=sentence) as caught:
        pip(Path("python"), ["install", "a"], {}, runner=answer)
    assert hint in str(caught.value.hint)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("free_mib", "hint"), [(3, "only 3 MiB are free in /somewhere: make room"), (64, "on Debian, python3-venv")]
)
def test_a_full_disk_is_told_where_the_module_venv_does_not_say_so(
    monkeypatch: pytest.MonkeyPatch, free_mib: int, hint: str
) -> None:
    usage = SimpleNamespace(free=free_mib * 2**20 + 5)
    monkeypatch.setattr("muster_build.venv.shutil.disk_usage", lambda _: usage)
    assert hint in _hint_of_venv(Path("/somewhere/env"))


def test_a_folder_that_path_cannot_name_is_refused_before_it_is_built(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="a:b holds a colon, which PATH cannot have"):
        build_venv(VenvOrder(directory=tmp_path / "a:b"), {}, lambda _: None)
    assert list(tmp_path.iterdir()) == []
