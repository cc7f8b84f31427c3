"""Guards `make test`: every test runs in one shard, a failure fails the whole, and the last line counts all."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

from muster.runner import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_tests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / "scripts/run_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("groups", ["SHARDS", "FAST_SHARDS"])
def test_every_folder_of_tests_is_in_one_shard(run_tests: ModuleType, groups: str) -> None:
    folders = [folder for shard in run_tests.folders_of_shards(getattr(run_tests, groups)).values() for folder in shard]
    there = {f"tests/{file.relative_to(ROOT / 'tests').parts[0]}" for file in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(folders) == sorted(there)


@pytest.mark.parametrize(
    ("said", "passed", "failed", "skipped"),
    [
        ("5 passed, 1 skipped, 3 deselected in 2.00s", 5, 0, 1),
        ("===== 2 failed, 5 passed, 1 error in 62.00s (0:01:02) =====\n1 failed, 2 passed in 3.1s", 7, 1, 0),
        ("1 failed, 5 passed in 2.00s\n1 passed, 6 deselected in 0.50s", 6, 0, 0),
        ("killed", 0, 1, 0),
    ],
)
def test_the_last_line_counts_what_held_in_the_end(
    run_tests: ModuleType, said: str, passed: int, failed: int, skipped: int
) -> None:
    counts = run_tests.counts_in(said)
    assert (counts["passed"], counts["failed"], counts["skipped"]) == (passed, failed, skipped)


FLAKY = """
from pathlib import Path

def test_the_second_time():
    marker = Path("tried")
    tried = marker.exists()
    marker.touch()
    assert tried
"""


@pytest.mark.wide  # pytest starts four times
def test_a_failure_anywhere_fails_the_whole_and_what_failed_runs_again(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for folder, text in (
        ("launch", "def test_right(): pass\ndef test_wrong(): assert False"),
        ("lab", FLAKY),
        ("other", "import pytest\ndef test_right(): pass\n@pytest.mark.skip\ndef test_not(): pass"),
    ):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(text)
    (tmp_path / "Makefile").write_text("lint:\n\t@true\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each of the four starts is faster
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(run_tests, "SHARDS", {"launch": ["launch"], "lab": ["lab"], "rest": []})
    monkeypatch.setattr(run_tests, "TESTS", [sys.executable, "-m", "pytest"])

    assert run_tests.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 1 failed, 1 skipped"


@pytest.mark.parametrize(("lint", "status"), [("true", 0), ("false", 1)])
def test_lint_fails_the_whole(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lint: str,
    status: int,
) -> None:
    (tmp_path / "Makefile").write_text(f"lint:\n\t@{lint}\n")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(run_tests, "SHARDS", {"launch": ["launch"], "rest": []})
    monkeypatch.setattr(run_tests, "TESTS", ["echo", "2 passed in 0.1s of"])

    assert run_tests.main([]) == status
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 0 failed, 0 skipped"


def test_no_folder_of_tests_is_passed_over_where_all_are_asked_for(request: pytest.FixtureRequest) -> None:
    """By default pytest enters no folder that is called build: with 100 random inputs tests/build never ran."""
    patterns = request.config.getini("norecursedirs")
    folders = [path.name for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))]
    assert [name for name in folders if any(fnmatch(name, pattern) for pattern in patterns)] == []


PLAIN = """
import warnings
import pytest

from muster.runner import run

@pytest.fixture(scope="module", autouse=AUTOUSE)
def prepared():
    yield 1
    assert False, "torn down"

@pytest.fixture
def doubled(row):
    return 2 * row

@pytest.mark.parametrize("row", range(3))
def test_row(row):
    print("row", row)
    assert row != 1

@pytest.mark.parametrize("row", [3])
def test_fixture(row, doubled, prepared):
    assert doubled == 6

@pytest.mark.parametrize("row", [1, pytest.param(2, marks=pytest.mark.skip), pytest.param(3, marks=pytest.mark.xfail)])
def test_marked(row):
    assert row == 2

def test_skip():
    pytest.skip("not here")

def test_warning():
    warnings.warn("old")

class Leaving:
    def __del__(self):
        raise ValueError

def test_unraisable():
    Leaving()
"""


@pytest.mark.wide  # pytest starts twice
def test_a_plain_test_is_reported_as_pytest_does(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = -p no:logging -p no:cacheprovider"
    )
    for number, autouse in enumerate(("False", "True")):
        (tmp_path / f"test_{number}.py").write_text(PLAIN.replace("AUTOUSE", autouse))
    words = [sys.executable, "-m", "pytest", "-v", "-ra", "--tb=line"]
    said = [
        run([*words, *more], env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, cwd=tmp_path, timeout_s=60).stdout
        for more in (("-p", "plugins.plain"), ())
    ]
    ours, theirs = (re.sub(r" in [\d.]+s|0x\w+", "", text).splitlines() for text in said)

    assert ours == theirs
    assert " 8 failed, 6 passed, 4 skipped, 2 xfailed, 2 errors " in ours[-1]
