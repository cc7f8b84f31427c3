"""Guards `scripts/mutate.py`: each kind of change is made, and a test that fails anyway counts for nothing."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from muster.runner import checked, run
from plugins.patience import patient

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    return _script("mutate")


@pytest.fixture(scope="module")
def unseen_changes(mutate: ModuleType) -> ModuleType:
    assert mutate  # which it imports
    return _script("unseen_changes")


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _lines(mutate: ModuleType, line: str) -> list[tuple[str, str]]:
    """Every change of one line: its kind, and the line that it becomes."""
    source = f"def f(a, b):\n    # ä\n    {line}\n"
    function = ast.parse(source).body[0]
    changes = list(mutate.changes_of(source, function))
    for change in changes:
        ast.parse(change.text)
        assert change.text.replace(change.text.split("\n")[2], "") == source.replace(f"    {line}", "")
    return [(change.kind, change.text.split("\n")[2].strip()) for change in changes]


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("return a and b", [("condition", "return (b)"), ("condition", "return (a)")]),
        (
            "return a or b or f",
            [("condition", "return (b or f)"), ("condition", "return (a or f)"), ("condition", "return (a or b)")],
        ),
        ("return 'ä' < b", [("comparison", "return ('ä' <= b)")]),
        ("return a >= b", [("comparison", "return (a > b)")]),
        ("return time.monotonic() < b", [("comparison", "return (time.monotonic() >= b)")]),
        ("return sys.version_info >= b", [("comparison", "return (sys.version_info < b)")]),
        ("return a is b", [("comparison", "return (a is not b)")]),
        ("return a not in b", [("comparison", "return (a in b)")]),
        ("return a < b < f", []),
        ("return not a", [("not", "return (a)")]),
        ("if a: return b", [("test", "if (not a): return b")]),
        ("if not a: return b", [("not", "if (a): return b")]),
        ("return a if b else f", [("test", "return a if (not b) else f")]),
        ("return f(a, deep=True)", [("value", "return f(a, deep=(False))")]),
        ("return a[1]", [("number", "return a[(2)]")]),
        ("return a[0]", []),
        ("return f(a, timeout_s=20, width=3)", []),
        ("return f'{a if b else f} {a == b}'", []),
        ("return 'not a and b'", []),
    ],
)
def test_each_kind_of_change_is_made_once_in_its_place(
    mutate: ModuleType, line: str, changes: list[tuple[str, str]]
) -> None:
    assert sorted(_lines(mutate, line)) == sorted(changes)


def test_a_decorator_is_left_alone_and_a_default_is_not(mutate: ModuleType) -> None:
    source = "@cache(typed=True)\ndef f(a, deep=True):\n    return a\n"
    changes = list(mutate.changes_of(source, ast.parse(source).body[0]))

    assert [change.text.split("\n")[1] for change in changes] == ["def f(a, deep=(False)):"]


@pytest.mark.parametrize(
    ("line", "inputs", "unseen"),
    [
        ("return a and b", [(1, 0)], ["a"]),
        ("return a and b", [(1, 0), (0, 1)], []),
        ("return a or b", [(0, 0)], ["a", "b"]),
        ("return a or b", [(0, 2)], ["a"]),
        ("return a or b", [(1, 1), (0, 2)], ["a"]),
        ("return 5 if a or b else 6", [(1, 2), (0, 0)], ["a", "b"]),
        ("return 5 if a or b else 6", [(1, 0), (0, 1), (0, 0)], []),
        ("return a and b[0]", [(0, ())], ["b[0]"]),
        ("return bool(c := a) and b", [(0, 1)], ["b"]),
        ("return a < b", [(1, 2)], ["a < b"]),
        ("return a < b", [(2, 2)], []),
        ("return a == b", [(1, 2)], []),
        ("return a not in b", [(1, (2,))], []),
        ("return not a", [(1, 0)], []),
        ("return 5 if a else 6", [(1, 0)], ["6"]),
        ("return 5 if a else 6", [], ["a", "5", "6"]),
        ("if a: return b", [(1, 0)], []),
        ("return f'{5 if a else b}'", [(1, 0)], []),
    ],
)
def test_a_change_is_seen_where_an_input_gives_another_value(
    unseen_changes: ModuleType, line: str, inputs: list[tuple[object, object]], unseen: list[str]
) -> None:
    file, source = f"{line} {inputs}", f"def f(a, b):\n    {line}\n"
    functions = []
    for tree in (ast.parse(source), unseen_changes._Noting(file).visit(ast.parse(source))):
        names = {f"_unseen{each.__name__}": each for each in unseen_changes.CALLED}
        exec(compile(ast.fix_missing_locations(tree), file, "exec"), names)  # noqa: S102  # it stands above
        functions.append(names["f"])
    for words in inputs:
        plain, noting = (each(*words) for each in functions)
        assert plain == noting

    rows = unseen_changes._unseen(file, ast.parse(source).body[0])
    assert [words.partition(": ")[2] for _, words, is_seen in rows if not is_seen] == unseen


def test_a_seed_draws_the_same_again_and_a_block_follows_the_one_before(
    mutate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(*words: str) -> list[object]:
        monkeypatch.setattr(sys, "argv", ["mutate.py", "--room", "muster/slurm", *words])
        return list(mutate._draw(mutate._read_words()))

    six = draw("--seed", "a", "--count", "6")

    assert len({mutation.name for mutation in six}) == 6  # type: ignore[attr-defined]
    assert six == draw("--seed", "a", "--count", "2") + draw("--seed", "a", "--count", "4", "--skip", "2")
    assert six != draw("--seed", "b", "--count", "6")
    assert six[3:4] == draw("--seed", "a", "--count", "6", "--only", six[3].name)  # type: ignore[attr-defined]


def test_the_tests_that_name_module_and_function_come_first_then_the_module_then_the_room(mutate: ModuleType) -> None:
    tests = mutate.nearest_tests(mutate.SOURCE / "muster/follow/links.py", "current_of")

    assert tests[0] == "tests/follow/test_links.py"
    assert "tests/follow/test_watch.py" in tests
    assert not any(test.startswith("tests/plan/") for test in tests)


_OWN = "def double(a):\n    if a:\n        return 2 * a\n    return None\n"
_TESTS = {
    "notices": "assert own.double(3) == 6",
    "does-not": "own.double(3)",
    "fails-anyway": "assert own.double(3) == 7",
    "never-ends": "while not own.double(3): pass",
    "in-a-program": "import subprocess, sys\n    words = 'import own; raise SystemExit(own.double(3) != 6)'\n    "
    "assert subprocess.run([sys.executable, '-c', words], check=False).returncode == 0",
    "in-a-fork": "import os\n    if not (child := os.fork()): os._exit(own.double(3) != 6)\n    "
    "assert os.waitpid(child, 0)[1] == 0",
    "waits": "while not own.double(3): __import__('time').sleep(0.1)",
}


_CASES: list[tuple[list[str], str | None, list[str]]] = [
    (["notices"], "notices", []),
    (["does-not"], None, []),
    (["fails-anyway"], None, ["fails-anyway"]),
    (["fails-anyway", "notices"], "notices", ["fails-anyway"]),
    (["never-ends"], "never-ends", []),
    (["waits"], "waits", []),
    (["in-a-program"], "in-a-program", []),
    (["in-a-fork"], "in-a-fork", []),
]
# In a process of its own: the verdict forks, and the process of thousands of tests is ten times as large.
_JUDGE = """\
import argparse, ast, json, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import mutate

verdicts = []
for folder in map(Path, sys.argv[2:]):
    mutate.ROOT, mutate.SOURCE, mutate.TESTS, mutate.WORK = folder, folder / "src", folder / "tests", folder
    mutate._TEST_CPU_S, mutate._TEST_S = 1.0, 15.0
    mutate._passing.clear()
    mutate._failing.clear()
    mutate._test_files.cache_clear()
    source = (folder / "src/own.py").read_text()
    (change,) = [each for each in mutate.changes_of(source, ast.parse(source).body[0]) if each.kind == "test"]
    mutation = mutate.Mutation(folder / "src/own.py", "double", change, source)
    words = argparse.Namespace(jobs=1, limit_s=600.0, fresh=False, labs=False)
    first, again = mutate._verdicts([mutation, mutation], words)
    assert first.noticed_by == again.noticed_by, "a test that has noticed a change notices the next one too"
    verdicts += [first, mutate._judge_near(mutation, 600.0)]
    assert (folder / "verdicts").read_text(), "this change can be judged in place"
print(json.dumps([(each.noticed_by, each.left_out, each.in_time) for each in verdicts]))
"""


@pytest.mark.long  # pytest runs over each change, in two ways
def test_a_change_is_noticed_by_a_test_that_passes_without_it(tmp_path: Path) -> None:
    houses = []
    for number, (tests, _, _) in enumerate(_CASES):
        house = tmp_path / str(number)
        (house / "src").mkdir(parents=True)
        (house / "tests").mkdir()
        (house / "src/own.py").write_text(_OWN)
        marks = ["lab", "torch", "gpu", "versions", "long", "wide", "programs"]
        (house / "pytest.ini").write_text("\n  ".join(["[pytest]\nmarkers =", *marks]))
        for name in tests:
            (house / f"tests/test_{name}.py").write_text(f"import own\n\ndef test_it():\n    {_TESTS[name]}\n")
        houses.append(house)

    words = [sys.executable, "-c", _JUDGE, str(ROOT / "scripts"), *map(str, houses)]
    verdicts = json.loads(checked(run(words, cwd=tmp_path, timeout_s=patient(600))).stdout)

    in_place, the_long_way = verdicts[::2], verdicts[1::2]
    assert the_long_way == [
        [noticed_by and _name(noticed_by), [_name(each) for each in left_out], True]
        for _, noticed_by, left_out in _CASES
    ]
    # The cheapest test comes first there: another test that would fail anyway may not be met.
    assert [row[::2] for row in in_place] == [row[::2] for row in the_long_way]
    assert {(house / "src/own.py").read_text() for house in houses} == {_OWN}


def _name(test: str) -> str:
    return f"tests/test_{test}.py::test_it"
