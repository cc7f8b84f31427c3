"""A file of `muster check --save`, whole or damaged: judged, or refused in a sentence."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.cli.app import main
from muster.runner import run
from muster_check.verbs import check

from .worlds import healthy


def _damaged(value: Any, chance: random.Random) -> Any:
    """The same tree with one leaf or branch replaced by something of another kind."""
    spots = list(_spots(value))
    holder, key = chance.choice(spots)
    holder[key] = chance.choice([None, True, -1, 10**30, 1.5, "", "x", "²", [], [[]], {}, {"a": 1}, "9" * 4400])
    return value


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _spots(inner)


@pytest.mark.parametrize("start", range(4))
def test_a_damaged_file_of_a_check_is_judged_or_refused(
    start: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(start)  # noqa: S311
    file = tmp_path / "facts.json"
    for _ in range(40):
        ranks, login, expected = healthy()
        document = {"muster_check": 1, "ranks": ranks, "login": login, "expected": expected}
        file.write_text(json.dumps(_damaged(document, chance)))
        switches = chance.sample(["--json", "--picture", "--variables", "--quiet"], 2)
        status = main(["check", "--read", str(file), *switches])
        assert status in {0, 1, 2}, (file.read_text()[:3000], capsys.readouterr().err)
        assert "Traceback" not in capsys.readouterr().err


def test_a_healthy_file_of_a_check_is_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks, login, expected = healthy()
    file = tmp_path / "facts.json"
    file.write_text(json.dumps({"muster_check": 1, "ranks": ranks, "login": login, "expected": expected}))
    assert main(["check", "--read", str(file)]) == 0
    for words in (["-N", "2"], ["--save", "other"], ["--log", "other"]):
        assert main(["check", *words, "--read", str(file)]) == 2
        assert f"reads a file, and runs nothing that {words[0] if words[0] != '--log' else '--read'} could be for" in (
            capsys.readouterr().err
        )


def test_what_was_seen_of_this_node_alone_is_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "facts.json"
    assert main(["check", "--save", "/dev/stdout", "--quiet"]) in {0, 1}
    file.write_text("old")
    for place in (file, tmp_path / "pipe"):
        monkeypatch.setattr(Path, "is_file", lambda path: path != tmp_path / "pipe")
        place.touch()
        inode = place.stat().st_ino
        check._save(place, (), None, {})
        assert json.loads(place.read_text())["muster_check"] == 1
        assert (place.stat().st_ino == inode) is (place != file)  # what is no file is written into
    assert main(["check", "--save", str(file), "--quiet"]) in {0, 1}
    assert json.loads(file.read_text())["login"]["host"]
    assert main(["check", "--read", str(file), "--quiet"]) in {0, 1}


def test_a_file_that_cannot_be_written_is_refused_before_a_node_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "closed" / "facts.json"
    closed.parent.mkdir()
    monkeypatch.setattr("muster_check.verbs.check.os.access", lambda path, _: path != closed.parent)
    for place, reason in ((closed, "you cannot write it"), (tmp_path, "it is a directory")):
        assert main(["check", "--here", "--save", str(place)]) == 2
        told = capsys.readouterr().err
        assert reason in told
        assert "looking" not in told


def test_nothing_is_left_of_a_file_for_which_there_is_no_room(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    argv = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "muster", "check", "--save", str(file)]
    done = run(argv, cwd=tmp_path)
    assert done.status == 2
    assert f"--save {file}: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []
