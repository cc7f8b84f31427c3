"""Changes one thing in the source, and asks the nearest tests whether they notice; again and again.

    scripts/mutate.py --seed NAME [--count 20] [--skip 0] [--jobs 1] [--room plan] [--report FILE]
    scripts/mutate.py --function _as_written [--room plan]      every change of these functions
    scripts/mutate.py --seed NAME --only plan/header.py,verbs/port.py:_run    some changes of a seed again

A change drops a condition beside an `and` or `or`, turns a comparison, negates a test, drops a `not`, swaps True and
False, or moves a number. The functions are drawn from those with 7 lines or more. A draw depends on the seed and on the
function alone, so a seed stays the same while other functions change. A test that fails is run on the unchanged source
too: if it fails there, it is left out, and the report says so. A change that no test notices is a survivor: the report
holds its difference, and each survivor that a user could meet wants a test.

One process collects all fast tests, once. It forks for each change, puts the changed code into the function itself, and
runs every test that runs this function, those of the nearest files first. Which case runs which function, itself or in
a fork or a program that it starts, is looked up in `.cache/mutate/touched.json`. This map is made of every case; new
ones are added to it, and `--fresh` makes it again: five minutes of a core. Programs that a test starts find the changed
source by PYTHONPATH.

Code that no fast test runs in its own process, and a function that has made others, is judged the long way: a process
that has nothing of Muster runs the files that name module and function, those that name the module, the room. What
survives in place meets the first two of these files so too: the function may have worked while Muster was loaded.

`--labs` has what survives meet the tests on labs too, those that run the function by a map of their own
(`.cache/mutate/touched-labs.json`, of one case of each test: half an hour of a core). The report counts these apart.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import concurrent.futures
import contextlib
import difflib
import functools
import gc
import itertools
import json
import multiprocessing
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

import hypothesis.configuration
import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
# The tests keep a PYTHONPATH only if it lies below the checkout (scripts/own_home.py).
WORK = ROOT / ".cache" / "mutate"
_LEAST_LINES = 7
_TEST_CPU_S = 30.0
"""Processor time of one test: a change that makes a loop endless ends here."""
_TEST_S = 300.0
"""Wall-clock time of one test, a hundred times what the longest takes: a change that waits for ever ends here."""
# Ranks and nodes run these files: labs alone reach them.
_LEFT_OUT = (
    "muster/rank/",
    "muster_bench/ranks/",
    "muster_check/ranks/__main__",
    "muster_lab/first",
    "muster_lab/enter",
)
_MARKS = "not (lab or torch or gpu or versions or long or wide)"
MARKS_IN_PLACE = f"{_MARKS} and not programs"
_MARKS_OF_LABS = "lab and not (torch or gpu or versions or long or wide)"
_LABS_CPU_S = 60.0
"""Processor time of the tests on labs of one change, as the map knows it: they mostly wait."""
# A condition decides something more often than a number does: how often each kind is drawn.
WEIGHTS = {"condition": 4, "comparison": 4, "not": 4, "test": 3, "value": 2, "number": 1}
_TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
# Nothing is ever equal to a clock or to Python's version of five parts: `<` beside `<=` would be no change there.
_NEVER_EQUAL = re.compile(r"\bsys\.version_info\b|\btime\.(monotonic|time|perf_counter)\(\)")
_OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
# Numbers that only a clock or a screen could notice.
_IDLE_KEYWORDS = re.compile(r".*(_s|width|indent|maxsize|length)$")


class Change(NamedTuple):
    """One expression of a source that becomes another."""

    kind: str
    old: str
    text: str
    """The whole source, changed."""


class Mutation(NamedTuple):
    """One change of one function of a file."""

    file: Path
    function: str
    change: Change
    source: str
    """The whole source, as it was drawn."""

    @property
    def name(self) -> str:
        """The function and its file, as --only takes them."""
        return f"{self.file.relative_to(SOURCE)}:{self.function}"


class Verdict(NamedTuple):
    """The first test that noticed a change."""

    noticed_by: str | None
    left_out: tuple[str, ...]
    """Tests that fail on the unchanged source too."""
    seconds: float
    in_time: bool = True
    """False: the tests were ended before the last had run, so a survivor may be none."""
    on_labs: bool = False
    """True: tests on labs were asked last."""


class _OutOfTimeError(Exception):
    """The tests of a change take longer than the limit, or wait for ever."""


def main() -> int:
    """Exit status: 0 when at least nine of ten changes were noticed."""
    words = _read_words()
    mutations = list(_every(words.function, words.room) if words.function else _draw(words))
    WORK.mkdir(parents=True, exist_ok=True)
    compileall.compile_dir(SOURCE, quiet=1)  # once, and not in each tree
    verdicts = _verdicts(mutations, words)
    report = "\n".join(_report(words.function or f"seed {words.seed}", mutations, verdicts))
    print(report)
    if words.report:
        Path(words.report).write_text(f"{report}\n", encoding="utf-8")
    noticed = sum(verdict.noticed_by is not None for verdict in verdicts)
    return 0 if noticed >= 0.9 * len(mutations) else 1


def _read_words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20, help="how many functions are drawn")
    parser.add_argument("--skip", type=int, default=0, help="how many draws of this seed were made before")
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"), help="default: this day")
    parser.add_argument("--only", default="", help="only draws whose FILE:FUNCTION holds one of these, after commas")
    parser.add_argument("--function", default="", help="every change of the functions of this name, not one each")
    parser.add_argument("--room", default="", help="only files whose path holds this")
    parser.add_argument("--jobs", type=int, default=1, help="how many changes are judged beside each other")
    parser.add_argument("--limit-s", type=float, default=600.0, help="wall-clock time for the tests of one change")
    parser.add_argument("--report", default="", help="a file for the report")
    parser.add_argument("--fresh", action="store_true", help="make the map of the tests again")
    parser.add_argument("--labs", action="store_true", help="what survives meets the tests on labs too (minutes each)")
    return parser.parse_args()


def _report(title: str, mutations: Sequence[Mutation], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the count, the tests that were left out, then each survivor with its difference."""
    survivors = [row for row in zip(mutations, verdicts) if row[1].noticed_by is None]
    yield f"{title}: {len(mutations) - len(survivors)} of {len(mutations)} changes noticed"
    by_labs = [verdict.noticed_by for verdict in verdicts if verdict.on_labs and verdict.noticed_by]
    if by_labs:
        yield f"{len(by_labs)} of these by tests on labs alone"
    for test in sorted({test for verdict in verdicts for test in verdict.left_out}):
        yield f"left out, fails on the unchanged source: {test}"
    for mutation, verdict in survivors:
        yield ""
        yield f"{mutation.name}: {mutation.change.kind}: {mutation.change.old}"
        if not verdict.in_time:
            yield "the tests were ended by --limit-s"
        old, new = mutation.source.splitlines(), mutation.change.text.splitlines()
        for line in difflib.unified_diff(old, new, lineterm="", n=1):
            if line[:3] not in {"---", "+++"}:
                yield line


def _functions(room: str) -> Iterator[tuple[Path, str, ast.FunctionDef]]:
    """Yield the functions that may be changed, with the file and its source."""
    for file in sorted(SOURCE.rglob("*.py")):
        if room in file.relative_to(SOURCE).as_posix() and may_change(file):
            source = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef):
                    yield file, source, node


def may_change(file: Path) -> bool:
    """Return whether a file is ours, and one that not labs alone reach."""
    place = file.relative_to(SOURCE).as_posix() if SOURCE in file.parents else ""
    return bool(place) and not any(part in place for part in _LEFT_OUT)


def functions_drawn(room: str) -> Iterator[tuple[Path, str, ast.FunctionDef]]:
    """Yield the functions that a seed may draw: they are long enough to decide something."""
    for file, source, function in _functions(room):
        if (function.end_lineno or 0) - function.lineno + 1 >= _LEAST_LINES:
            yield file, source, function


def _every(name: str, room: str) -> Iterator[Mutation]:
    """Yield every change of the functions of one name."""
    for file, source, function in _functions(room):
        if function.name == name:
            for change in changes_of(source, function):
                yield Mutation(file, name, change, source)


def _draw(words: argparse.Namespace) -> Iterator[Mutation]:
    """Yield one change for each function that the seed draws."""
    places = []
    for file, source, function in functions_drawn(words.room):
        key = f"{words.seed} {file.relative_to(SOURCE).as_posix()} {function.name}"
        places.append((random.Random(key).random(), key, file, source, function))
    places.sort(key=lambda place: place[:2])
    drawn = 0
    for _, key, file, source, function in places:
        if drawn == words.skip + words.count:
            return
        changes = list(changes_of(source, function))
        if changes:
            drawn += 1
            weights = [WEIGHTS[change.kind] for change in changes]
            mutation = Mutation(file, function.name, random.Random(f"{key} which").choices(changes, weights)[0], source)
            if drawn > words.skip and any(part in mutation.name for part in words.only.split(",")):
                yield mutation


def changes_of(source: str, function: ast.FunctionDef) -> Iterator[Change]:
    """Yield every change that can be made in a function of this source."""
    for node in _expressions(function):
        for kind, old, new in _other_forms(node):
            yield Change(kind, ast.unparse(old), _replaced(source, old if kind == "test" else node, new))


def expressions_changed(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, int, str, ast.expr]]:
    """Yield the expression of each change, which part of an `and` or `or` is dropped, its kind, and what is meant."""
    for node in _expressions(function):
        for number, (kind, old, _) in enumerate(_other_forms(node)):
            yield node, number if kind == "condition" else 0, kind, old


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of a function: none of its decorators, and none in the text of an f-string.

    Python 3.11 does not say where the latter stand.
    """
    for name, field in ast.iter_fields(node):
        if name == "decorator_list":
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.JoinedStr) or not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.keyword) and _IDLE_KEYWORDS.match(child.arg or ""):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from _expressions(child)
            if isinstance(child, ast.If):  # a statement: the test stands for it
                yield _as_expression(child)


def _as_expression(statement: ast.If) -> ast.IfExp:
    """Return the test of a statement in the form that an expression has."""
    return ast.copy_location(ast.IfExp(statement.test, statement.test, statement.test), statement.test)


def _other_forms(node: ast.expr) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Yield the kind of each change of an expression, the part that is meant, and what stands there afterwards."""
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            kept = [*node.values[:index], *node.values[index + 1 :]]
            yield "condition", node.values[index], ast.BoolOp(node.op, kept) if len(kept) > 1 else kept[0]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
        turned = _TURNED | _OPPOSITE if is_never_equal(node) else _TURNED
        yield "comparison", node, ast.Compare(node.left, [turned[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node, node.operand
    elif isinstance(node, ast.IfExp) and not isinstance(node.test, (ast.BoolOp, ast.Compare, ast.UnaryOp)):
        yield "test", node.test, ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "value", node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 0:
        yield "number", node, ast.Constant(node.value + 1)


def is_never_equal(node: ast.Compare) -> bool:
    """Return whether a clock or Python's version is compared."""
    return _NEVER_EQUAL.search(ast.unparse(node)) is not None


def _replaced(source: str, node: ast.expr, other: ast.expr) -> str:
    """Return the source with another expression in the place of one."""
    lines = source.encode().split(b"\n")
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    text = f"({ast.unparse(other)})".encode()
    changed = lines[first][: node.col_offset] + text + lines[last][node.end_col_offset or 0 :]
    return b"\n".join([*lines[:first], changed, *lines[last + 1 :]]).decode()


# --- which tests, and whether they notice ---

_passing: set[str] = set()
"""Tests that have passed on the unchanged source."""
_failing: set[str] = set()
"""Tests that have failed there: left out."""


def _verdicts(mutations: Sequence[Mutation], words: argparse.Namespace) -> list[Verdict]:
    """Return a verdict for each change, first in place, then the long way for what cannot be judged there."""
    place = WORK / "verdicts"
    place.write_text("")
    _serve(mutations, words, place)
    verdicts = {}
    for number, *fields in map(json.loads, place.read_text().splitlines()):
        verdicts[number] = Verdict(fields[0], tuple(fields[1]), *fields[2:])
    others = [number for number in range(len(mutations)) if number not in verdicts or not verdicts[number].noticed_by]
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(words.jobs, mp_context=fork) as pool:
        limits = itertools.repeat(words.limit_s), (2 if number in verdicts else None for number in others)
        judged = pool.map(_judge_near, [mutations[number] for number in others], *limits)
        for number, verdict in zip(others, judged):  # 3.9
            verdicts[number] = verdict
            _tell(number, mutations[number], verdict)
    if words.labs and not all(verdict.noticed_by for verdict in verdicts.values()):
        _serve((), words, place, of_labs=True)
        rows = json.loads((WORK / "touched-labs.json").read_text())
        for number, mutation in enumerate(mutations):
            if not verdicts[number].noticed_by and (tests := tests_on_labs(mutation, rows)):
                verdict = _judge(mutation, words.limit_s, [tests], _MARKS_OF_LABS)
                left_out = (*verdicts[number].left_out, *verdict.left_out)
                verdicts[number] = verdict._replace(left_out=left_out, on_labs=True)
                _tell(number, mutation, verdict)
    return [verdicts[number] for number in range(len(mutations))]


def tests_on_labs(mutation: Mutation, rows: Mapping[str, tuple[float, Sequence[str]]]) -> list[str]:
    """Return the tests on labs that run the function, those of near files first, then the cheap ones."""
    near = nearest_tests(mutation.file, mutation.function)
    ranked = sorted(
        (test.partition("::")[0] not in near, seconds, test)
        for test, (seconds, names) in rows.items()
        if mutation.name in names
    )
    tests: list[str] = []
    spent_s = 0.0
    for _, seconds, test in ranked:
        if spent_s + seconds <= _LABS_CPU_S or not tests:
            spent_s += seconds
            tests.append(test)
    return tests


def _tell(number: int, mutation: Mutation, verdict: Verdict) -> None:
    noticed_by = verdict.noticed_by or "SURVIVES"
    print(f"{number + 1:4}  {mutation.name}: {noticed_by}  {verdict.seconds:.1f} s", file=sys.stderr, flush=True)


def _judge_near(mutation: Mutation, limit_s: float, most_files: int | None = None) -> Verdict:
    """Run the nearest files of tests: most changes are noticed by the first two, the others are not collected then."""
    tests = nearest_tests(mutation.file, mutation.function)[:most_files]
    return _judge(mutation, limit_s, [tests[:2], tests[2:]], _MARKS)


def _judge(mutation: Mutation, limit_s: float, waiting: list[list[str]], marks: str) -> Verdict:
    """Run groups of tests over the changed source, and return the first that fails."""
    began = time.monotonic()
    left_out: list[str] = []
    noticed_by, in_time = None, True
    with tempfile.TemporaryDirectory(prefix="change-", dir=WORK, ignore_cleanup_errors=True) as work:
        _copy_source(Path(work))
        _write(Path(work), mutation.file, mutation.change.text)
        try:
            while waiting and noticed_by is None:
                failing = _first_failing(Path(work), waiting[0], sorted(_failing), limit_s, marks)
                if failing is None:
                    waiting.pop(0)
                elif failing in _passing or _passes_unchanged(Path(work), mutation, failing, limit_s, marks):
                    _passing.add(failing)
                    noticed_by = failing
                else:
                    _failing.add(failing)
                    left_out.append(failing)
                    # What cannot be collected is a file, which --deselect does not know.
                    waiting[0] = [test for test in waiting[0] if test != failing]
        except _OutOfTimeError:
            in_time = False
    return Verdict(noticed_by, tuple(left_out), time.monotonic() - began, in_time)


def _passes_unchanged(work: Path, mutation: Mutation, test: str, limit_s: float, marks: str) -> bool:
    """Return whether a test passes over the unchanged source at the same place; the change is made again."""
    _write(work, mutation.file, mutation.source)
    passes = _first_failing(work, [test], [], limit_s, marks) is None
    _write(work, mutation.file, mutation.change.text)
    return passes


def _copy_source(work: Path) -> None:
    """Make a tree of hard links, with the bytecode: Python replaces a file of bytecode, and never writes into one."""
    shutil.copytree(SOURCE, work / "src", copy_function=os.link)
    for path in ROOT.iterdir():  # Muster finds its documents beside its source
        if path != SOURCE and path.name not in {".git", ".cache", ".venv"}:
            (work / path.name).symlink_to(path)


def _write(work: Path, file: Path, text: str) -> None:
    copy = work / "src" / file.relative_to(SOURCE)
    copy.unlink()
    copy.write_text(text, encoding="utf-8")
    for bytecode in (copy.parent / "__pycache__").glob(f"{copy.stem}.*.pyc"):
        bytecode.unlink()


@functools.cache
def _test_files() -> tuple[tuple[Path, str], ...]:
    return tuple((path, path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("test_*.py")))


def nearest_tests(file: Path, function: str) -> list[str]:
    """Return the files of tests: those that name module and function, those that name the module, those of the room."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    package, module = ".".join(parts[:-1]), parts[-1]
    names_module = re.compile(
        rf"\b{re.escape('.'.join(parts))}\b|\bfrom {re.escape(package or module)} import [^\n]*\b{module}\b"
    )
    names_function = re.compile(rf"\b{function}\b")
    room = next(
        (
            folder
            for part in reversed(file.relative_to(SOURCE).parts[:-1])
            if (folder := TESTS / part.removeprefix("muster_")).is_dir()
        ),
        None,
    )
    rows = []
    for path, text in _test_files():
        # Tests of a module often lie in a file of its name.
        by_name = path.stem == f"test_{module}" and room in path.parents
        by_module = bool(names_module.search(text)) or by_name
        if by_module or room in path.parents:
            rows.append((not by_module, not names_function.search(text), not by_name, str(path.relative_to(ROOT))))
    return [row[-1] for row in sorted(rows)]


def _first_failing(work: Path, tests: Sequence[str], left_out: Sequence[str], limit_s: float, marks: str) -> str | None:
    """Return the first test that fails over the source in `work`, or that computes for ever."""
    if not tests:
        return None

    def run_pytest(witness: _Witness) -> int:
        sys.path.insert(0, str(work / "src"))
        hypothesis.configuration.set_hypothesis_home_dir(work / "hypothesis")
        words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", marks]
        words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is loaded already
        words += [word for test in left_out for word in ("--deselect", test)]
        return int(pytest.main([*words, *tests], plugins=[witness]))

    return _failing_in_fork(work, run_pytest, limit_s, tests[0])


def _failing_in_fork(work: Path, run: Callable[[_Witness], int], limit_s: float, first: str) -> str | None:
    """Return the first test that fails where `run` runs tests in a fork of this process."""
    witness = work / "witness"
    witness.write_text("")
    child = os.fork()
    if child == 0:
        _become_tests(work, run, _Witness(witness))
    limit = time.monotonic() + limit_s
    parent = os.getppid()
    try:
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < limit:
            if os.getppid() != parent:
                sys.exit("mutate: the process that wants the verdict has ended")
            if time.time() - witness.stat().st_mtime > _TEST_S:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # also what the tests have left
    if ended[0] == 0:
        os.waitpid(child, 0)
        raise _OutOfTimeError
    lines = witness.read_text().splitlines()
    # 5: none of these tests is fast.
    if os.WIFEXITED(ended[1]) and os.WEXITSTATUS(ended[1]) in {0, 5}:
        return None
    return next((line[2:] for line in lines if line.startswith("F ")), lines[-1][2:] if lines else first)


def _become_tests(work: Path, run: Callable[[_Witness], int], witness: _Witness) -> NoReturn:
    """Run tests in this process, a fork, and end."""
    status = 70
    try:
        os.setsid()
        log = os.open(work / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(log, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(work / "src")
        sys.dont_write_bytecode = True  # of a change made in the same second Python would read the old bytecode
        status = run(witness)
    except BaseException:  # noqa: BLE001  # whatever it is, this process ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class _Witness:
    """Writes down each test that begins and each that fails, and ends a test that computes for ever."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _write(self, sign: str, test: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{sign} {test}\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("B", nodeid)
        signal.setitimer(signal.ITIMER_PROF, _TEST_CPU_S)  # SIGPROF ends the process

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)  # the end of a long run of tests computes too

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write("F", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("F", report.nodeid)


# --- in place: the tests that run a function, in a fork of one process that has collected all tests ---


class _Ready(NamedTuple):
    """What the server knows, and each of its forks."""

    session: pytest.Session
    touched: Mapping[str, tuple[float, frozenset[str]]]
    """Test → its processor time, and the functions that it runs, as `Mutation.name` has them."""
    of_all_cases: Mapping[str, set[str]]
    """The same of a test with all its cases: what they share, a fixture or a cache, ran in the first of them only."""
    functions: Mapping[tuple[str, int], Sequence[FunctionType]]
    """File and first line → the functions that were made there."""
    caches: Sequence[Any]


_ready: _Ready
_Cache = type(functools.lru_cache(str))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)  # a text cannot be called: a function will stand there
    _TEMPLATE: CodeType = compile('lambda *words, **named: "note"(*words, **named)', "map", "eval").co_consts[0]


def _serve(mutations: Sequence[Mutation], words: argparse.Namespace, place: Path, *, of_labs: bool = False) -> None:
    """Let a fork of this process judge what can be judged in place, and wait for its end."""
    server = os.fork()
    if server == 0:
        _become_server(_Server(mutations, words, place, of_labs=of_labs))
    os.waitpid(server, 0)


def _become_server(plugin: _Server) -> NoReturn:
    """Collect all fast tests, write down a verdict for each change that can be judged in place, and end."""
    try:
        with (WORK / "server.log").open("w") as log:
            os.dup2(log.fileno(), 1)
        os.chdir(ROOT)
        sys.path.insert(0, str(SOURCE))
        hypothesis.configuration.set_hypothesis_home_dir(WORK / "hypothesis")
        options = ["-q", "-s", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--continue-on-collection-errors"]
        marks = _MARKS_OF_LABS if plugin.of_labs else MARKS_IN_PLACE
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-m", marks]
        pytest.main([*options, str(TESTS)], plugins=[plugin])
    except BaseException:  # noqa: BLE001  # whatever it is, this process ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


class _Server:
    """The plugin that judges changes where pytest would run tests."""

    def __init__(self, mutations: Sequence[Mutation], words: argparse.Namespace, place: Path, *, of_labs: bool) -> None:
        self.mutations, self.words, self.place, self.of_labs = mutations, words, place, of_labs
        self.functions: dict[tuple[str, int], list[FunctionType]] = defaultdict(list)
        self.caches: list[Any] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        """Find all functions and caches of the source, before what was collected is hidden from the search."""
        for module in pkgutil.walk_packages([str(SOURCE)], onerror=lambda _: None):
            if not module.name.endswith("__main__") and not any(
                part in module.name.replace(".", "/") for part in _LEFT_OUT
            ):
                with contextlib.suppress(Exception):
                    import_module(module.name)
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(SOURCE)):
                self.functions[thing.__code__.co_filename, thing.__code__.co_firstlineno].append(thing)
            elif type(thing) is _Cache:
                self.caches.append(thing)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge every change."""
        global _ready  # noqa: PLW0603  # the forks of the pool find it there
        kept_map = WORK / ("touched-labs.json" if self.of_labs else "touched.json")
        fork = multiprocessing.get_context("fork")
        _ready = _Ready(session, {}, defaultdict(set), self.functions, self.caches)
        rows = {} if self.words.fresh or not kept_map.exists() else json.loads(kept_map.read_text())
        name_of = _test_of if self.of_labs else str  # of a test on labs one case stands for all
        known = frozenset(map(name_of, rows))
        if not known.issuperset(name_of(item.nodeid) for item in session.items):
            with concurrent.futures.ProcessPoolExecutor(self.words.jobs, mp_context=fork) as pool:
                same = itertools.repeat(self.words.jobs), itertools.repeat(known), itertools.repeat(name_of)
                for part in pool.map(_touched_by, range(self.words.jobs), *same):
                    rows.update(part)
            kept_map.write_text(json.dumps(rows))
        touched = {test: (seconds, frozenset(names)) for test, (seconds, names) in rows.items()}
        _ready = _ready._replace(touched=touched)
        for test, (_, names) in touched.items():
            _ready.of_all_cases[_test_of(test)].update(names)
        gc.freeze()  # a search for garbage in a fork would copy all of this
        with concurrent.futures.ProcessPoolExecutor(self.words.jobs, mp_context=fork) as pool:
            judged = pool.map(_judge_in_place, self.mutations, itertools.repeat(self.words.limit_s))
            for number, verdict in enumerate(judged):
                if verdict is not None:
                    _tell(number, self.mutations[number], verdict)
                    with self.place.open("a") as file:
                        file.write(f"{json.dumps([number, *verdict])}\n")
        return True


def _test_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _touched_by(
    part: int, parts: int, known: frozenset[str], name_of: Callable[[str], str]
) -> dict[str, tuple[float, list[str]]]:
    """Return what each other test of a part runs, and its processor time; called in a fork that does nothing else."""
    others = {name: item for item in reversed(_ready.session.items) if (name := name_of(item.nodeid)) not in known}
    files = sorted({item.path for item in _ready.session.items})
    _ready.session.items[:] = [item for item in reversed(others.values()) if files.index(item.path) % parts == part]
    with tempfile.TemporaryDirectory(prefix="map-", dir=WORK, ignore_cleanup_errors=True) as folder:
        recorder = _Recorder(Path(folder) / "called")
        for functions in _ready.functions.values():
            for function in functions:
                recorder.add(function)
        _ready.session.config.pluginmanager.register(recorder)
        words = {"SOURCE": f"{SOURCE}/", "CALLED": str(recorder.of_others)}
        lines = [f"{name} = {value!r}\n" for name, value in words.items()]
        (Path(folder) / "sitecustomize.py").write_text("".join(lines) + _NOTES_ITS_CALLS)
        os.environ.update(PYTEST_DEBUG_TEMPROOT=folder, PYTHONPATH=f"{folder}:{SOURCE}")
        for item, following in itertools.zip_longest(_ready.session.items, _ready.session.items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return recorder.rows


_NOTES_ITS_CALLS = """
import os, sys

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and id(code) not in seen:
        seen[id(code)] = code  # an id stays the code's own while the code is kept
        if code.co_filename.startswith(SOURCE):
            with open(CALLED, "a") as file:
                file.write("%s:%s\\n" % (code.co_filename[len(SOURCE):], code.co_name))

seen = {}
sys.setprofile(note)
"""
"""What a Python that a test starts runs first."""


class _Recorder:
    """Notes which functions each test runs: their first call in a test comes here, the others run as always."""

    def __init__(self, of_others: Path) -> None:
        self.rows: dict[str, tuple[float, list[str]]] = {}
        self.called: dict[str, None] = {}
        self.of_others = of_others
        """What the forks of a test and its programs call."""
        self.process = os.getpid()
        self.to_arm: list[tuple[FunctionType, CodeType]] = []

    def add(self, function: FunctionType) -> None:
        """Note the calls of a function, unless it has variables of another."""
        original = function.__code__
        if original.co_freevars:
            return
        name = f"{Path(original.co_filename).relative_to(SOURCE)}:{original.co_name}"

        def note(*words: Any, **named: Any) -> Any:
            function.__code__ = original
            if os.getpid() == self.process:
                self.called[name] = None
                self.to_arm.append((function, armed))
            else:
                with self.of_others.open("a") as file:
                    file.write(f"{name}\n")
            return function(*words, **named)

        armed = _TEMPLATE.replace(co_consts=tuple(note if each == "note" else each for each in _TEMPLATE.co_consts))
        self.to_arm.append((function, armed))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run one test."""
        for function, armed in self.to_arm:
            function.__code__ = armed
        self.to_arm.clear()
        self.called.clear()
        self.of_others.write_text("")
        began = _spent_s()
        signal.signal(signal.SIGALRM, _end_of_test)
        signal.alarm(int(_TEST_S))  # a test that waits for ever, for a terminal, would hold the whole map
        result = yield
        signal.alarm(0)
        called = {*self.called, *self.of_others.read_text().splitlines()}
        self.rows[item.nodeid] = (round(_spent_s() - began, 3), sorted(called))
        return result


def _end_of_test(*_: object) -> NoReturn:
    raise _OutOfTimeError


def _spent_s() -> float:
    """Return the processor time of this process and of the programs that it has started."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _judge_in_place(mutation: Mutation, limit_s: float) -> Verdict | None:
    """Run the tests that run the changed function; None where the change cannot be made in a loaded function."""
    began = time.monotonic()
    code = _changed_code(mutation)
    functions = _ready.functions.get((str(mutation.file), code.co_firstlineno), ()) if code else ()
    items = _items_for(mutation, code.co_name) if code else []
    if code is None or not functions or not items or any(map(_ready.functions.get, _made_in(code, mutation.file))):
        return None
    left_out: list[str] = []
    noticed_by, in_time = None, True
    with tempfile.TemporaryDirectory(prefix="change-", dir=WORK, ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        _copy_source(work)
        _write(work, mutation.file, mutation.change.text)
        change = functools.partial(_put, functions, code)
        try:
            while noticed_by is None:
                items = [item for item in items if item.nodeid not in _failing]
                failing = items and _failing_item(work, items, change, limit_s)
                if not failing:
                    break
                item = next(each for each in items if each.nodeid == failing)
                if failing in _passing or _passes_without(work, mutation, item, limit_s):
                    _passing.add(failing)
                    noticed_by = failing
                else:
                    _failing.add(failing)
                    left_out.append(failing)
                    items = items[items.index(item) + 1 :]  # those before it have passed
        except _OutOfTimeError:
            in_time = False
    return Verdict(noticed_by, tuple(left_out), time.monotonic() - began, in_time)


def _passes_without(work: Path, mutation: Mutation, item: pytest.Item, limit_s: float) -> bool:
    _write(work, mutation.file, mutation.source)
    passes = _failing_item(work, [item], lambda: None, limit_s) is None
    _write(work, mutation.file, mutation.change.text)
    return passes


def _put(functions: Sequence[FunctionType], code: CodeType) -> None:
    for function in functions:
        function.__code__ = code


def _failing_item(work: Path, items: Sequence[pytest.Item], change: Callable[[], None], limit_s: float) -> str | None:
    """Return the first of these tests that fails in a fork where the change was made."""

    def run_items(witness: _Witness) -> int:
        change()
        for cache in _ready.caches:
            cache.cache_clear()
        temporary = work / "tmp"
        temporary.mkdir(exist_ok=True)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(temporary)
        session = _ready.session
        session.config.pluginmanager.register(witness)
        before = session.testsfailed
        for item, following in itertools.zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed > before:
                return 1
        return 0

    return _failing_in_fork(work, run_items, limit_s, items[0].nodeid)


def _items_for(mutation: Mutation, outermost: str) -> list[pytest.Item]:
    """Return the tests that run the function, the files that name it first, one case of each test before the others.

    A test that the map does not know counts if its file names the function. Empty: no test runs it.
    """
    near = nearest_tests(mutation.file, mutation.function)[:2]
    names = mutation.function in "".join(text for path, text in _test_files() if str(path.relative_to(ROOT)) in near)
    name = f"{mutation.file.relative_to(SOURCE)}:{outermost}"
    rows = []
    cases: Counter[tuple[str, bool]] = Counter()
    for item in _ready.session.items:
        file, test = item.nodeid.partition("::")[0], _test_of(item.nodeid)
        seconds, touched = _ready.touched.get(item.nodeid, (0.1, frozenset()))
        if name in _ready.of_all_cases[test] if test in _ready.of_all_cases else names and file in near:
            shares_it = name not in touched
            rows.append((file not in near, shares_it, cases[test, shares_it], seconds, file, item))
            cases[test, shares_it] += 1
    rows.sort(key=lambda row: row[:5])
    # Tests of one file behind each other: what they share is set up once.
    place = {row[4]: number for number, row in reversed(list(enumerate(rows)))}
    return [row[5] for row in sorted(rows, key=lambda row: place[row[4]])]


def _changed_code(mutation: Mutation) -> CodeType | None:
    """Return the code of the outermost function around the change; None where the change is not in its body."""
    old, new = (
        list(_outer_functions(compile(text, str(mutation.file), "exec", dont_inherit=True)))
        for text in (mutation.source, mutation.change.text)
    )
    changed = [after for before, after in zip(old, new) if before != after]
    return changed[0] if changed and not changed[0].co_freevars else None


def _made_in(code: CodeType, file: Path) -> Iterator[tuple[str, int]]:
    """Yield file and first line of each function that is made in another: one that was made has the old code."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield str(file), inner.co_firstlineno
            yield from _made_in(inner, file)


def _outer_functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of each function that is in no other function, those of classes too."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 1:  # CO_OPTIMIZED: a function, not the body of a class
                yield inner
            else:
                yield from _outer_functions(inner)


if __name__ == "__main__":
    sys.exit(main())
