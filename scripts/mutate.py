"""Changes one thing in the source, and asks the nearest tests whether they notice; again and again.

    scripts/mutate.py --seed NAME [--count 20] [--skip 0] [--jobs 1] [--room plan] [--report FILE]
    scripts/mutate.py --function _as_written [--room plan]      every change of these functions
    scripts/mutate.py --seed NAME --only plan/header.py,verbs/port.py:_run    some changes of a seed again

A change drops a condition beside an `and` or `or`, turns a comparison, negates a test, drops a `not`, swaps True and
False, or moves a number. The functions are drawn from those with 7 lines or more. A draw depends on the seed and on the
function alone, so a seed stays the same while other functions change. The tests run in the order in which they are
likely to notice: the files that name the module and the function, the files that name the module, the folder of the
room. A test that fails is run on the unchanged source too: if it fails there, it is left out, and the report says so.
A change that no test notices is a survivor: the report holds its difference, and each survivor that a user could meet
wants a test.

The tests of a change run in a fork of this process, which has pytest loaded but nothing of Muster, and find the changed
source by PYTHONPATH.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import concurrent.futures
import contextlib
import difflib
import functools
import itertools
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

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
# Ranks and nodes run these files: labs alone reach them.
_LEFT_OUT = (
    "muster/rank/",
    "muster_bench/ranks/",
    "muster_check/ranks/__main__",
    "muster_lab/first",
    "muster_lab/enter",
)
_MARKS = "not (lab or torch or gpu or versions or long or wide)"
# A condition decides something more often than a number does: how often each kind is drawn.
_WEIGHTS = {"condition": 4, "comparison": 4, "not": 4, "test": 3, "value": 2, "number": 1}
_TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
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


class _OutOfTimeError(Exception):
    """The tests of a change take longer than the limit, or wait for ever."""


def main() -> int:
    """Exit status: 0 when at least nine of ten changes were noticed."""
    words = _read_words()
    mutations = list(_every(words.function, words.room) if words.function else _draw(words))
    WORK.mkdir(parents=True, exist_ok=True)
    compileall.compile_dir(SOURCE, quiet=1)  # once, and not in each tree
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(words.jobs, mp_context=fork) as pool:
        verdicts = []
        for mutation, verdict in zip(mutations, pool.map(_judge, mutations, itertools.repeat(words.limit_s))):  # 3.9
            verdicts.append(verdict)
            print(
                f"{len(verdicts):4}  {mutation.name}: {verdict.noticed_by or 'SURVIVES'}  {verdict.seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
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
    return parser.parse_args()


def _report(title: str, mutations: Sequence[Mutation], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the count, the tests that were left out, then each survivor with its difference."""
    survivors = [row for row in zip(mutations, verdicts) if row[1].noticed_by is None]
    yield f"{title}: {len(mutations) - len(survivors)} of {len(mutations)} changes noticed"
    for test in sorted({test for verdict in verdicts for test in verdict.left_out}):
        yield f"left out, fails on the unchanged source: {test}"
    for mutation, verdict in survivors:
        yield ""
        yield f"{mutation.name}: {mutation.change.kind}: {mutation.change.old}"
        if not verdict.in_time:
            yield "the tests were ended by --limit-s"
        old, new = mutation.file.read_text(encoding="utf-8").splitlines(), mutation.change.text.splitlines()
        for line in difflib.unified_diff(old, new, lineterm="", n=1):
            if line[:3] not in {"---", "+++"}:
                yield line


def _functions(room: str) -> Iterator[tuple[Path, str, ast.FunctionDef]]:
    """Yield the functions that may be changed, with the file and its source."""
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        if room in place and not any(part in place for part in _LEFT_OUT):
            source = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef):
                    yield file, source, node


def _every(name: str, room: str) -> Iterator[Mutation]:
    """Yield every change of the functions of one name."""
    for file, source, function in _functions(room):
        if function.name == name:
            for change in changes_of(source, function):
                yield Mutation(file, name, change)


def _draw(words: argparse.Namespace) -> Iterator[Mutation]:
    """Yield one change for each function that the seed draws."""
    places = []
    for file, source, function in _functions(words.room):
        if (function.end_lineno or 0) - function.lineno + 1 >= _LEAST_LINES:
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
            weights = [_WEIGHTS[change.kind] for change in changes]
            mutation = Mutation(file, function.name, random.Random(f"{key} which").choices(changes, weights)[0])
            if drawn > words.skip and any(part in mutation.name for part in words.only.split(",")):
                yield mutation


def changes_of(source: str, function: ast.FunctionDef) -> Iterator[Change]:
    """Yield every change that can be made in a function of this source."""
    for node in _expressions(function):
        for kind, old, new in _other_forms(node):
            yield Change(kind, ast.unparse(old), _replaced(source, old if kind == "test" else node, new))


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
        yield "comparison", node, ast.Compare(node.left, [_TURNED[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node, node.operand
    elif isinstance(node, ast.IfExp) and not isinstance(node.test, (ast.BoolOp, ast.Compare, ast.UnaryOp)):
        yield "test", node.test, ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "value", node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 0:
        yield "number", node, ast.Constant(node.value + 1)


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


def _judge(mutation: Mutation, limit_s: float) -> Verdict:
    """Run the nearest tests over the changed source, and return the first that fails."""
    began = time.monotonic()
    left_out: list[str] = []
    tests = nearest_tests(mutation.file, mutation.function)
    noticed_by, in_time = None, True
    with tempfile.TemporaryDirectory(prefix="change-", dir=WORK, ignore_cleanup_errors=True) as work:
        _copy_source(Path(work))
        _write(Path(work), mutation.file, mutation.change.text)
        # Most changes are noticed by the first files: the others are not even collected then.
        waiting = [tests[:2], tests[2:]]
        try:
            while waiting and noticed_by is None:
                failing = _first_failing(Path(work), waiting[0], sorted(_failing), limit_s)
                if failing is None:
                    waiting.pop(0)
                elif failing in _passing or _passes_unchanged(Path(work), mutation, failing, limit_s):
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


def _passes_unchanged(work: Path, mutation: Mutation, test: str, limit_s: float) -> bool:
    """Return whether a test passes over the unchanged source at the same place; the change is made again."""
    _write(work, mutation.file, mutation.file.read_text(encoding="utf-8"))
    passes = _first_failing(work, [test], [], limit_s) is None
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


def _first_failing(work: Path, tests: Sequence[str], left_out: Sequence[str], limit_s: float) -> str | None:
    """Return the first test that fails over the source in `work`, or that computes for ever."""
    if not tests:
        return None
    witness = work / "witness"
    witness.write_text("")
    child = os.fork()
    if child == 0:
        _become_pytest(work, tests, left_out, witness)
    limit = time.monotonic() + limit_s
    parent = os.getppid()
    try:
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < limit:
            if os.getppid() != parent:
                sys.exit("mutate: the process that wants the verdict has ended")
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
    return next((line[2:] for line in lines if line.startswith("F ")), lines[-1][2:] if lines else tests[0])


def _become_pytest(work: Path, tests: Sequence[str], left_out: Sequence[str], witness: Path) -> NoReturn:
    """Run the tests in this process, a fork, and end."""
    status = 70
    try:
        os.setsid()
        log = os.open(work / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(log, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(ROOT)
        source = str(work / "src")
        os.environ["PYTHONPATH"] = source
        sys.dont_write_bytecode = True  # of a change made in the same second Python would read the old bytecode
        sys.path.insert(0, source)
        hypothesis.configuration.set_hypothesis_home_dir(work / "hypothesis")
        words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", _MARKS]
        words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is loaded already
        words += [word for test in left_out for word in ("--deselect", test)]
        status = int(pytest.main([*words, *tests], plugins=[_Witness(witness)]))
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


if __name__ == "__main__":
    sys.exit(main())
