"""Lists the changes of scripts/mutate.py that give another value in no fast test: no test can notice these.

    scripts/unseen_changes.py [--room plan] [PYTEST WORDS: tests/plan -k …]

The fast tests run once. Every condition, comparison and number of a function notes whether its change (a condition
less, a comparison turned) would have given another value. What never does is a condition that decides nothing, or wants
an input that no test has: the condition is deleted, or the input becomes a row of a table. The first lines count, for
each room, the functions, those that no test runs in its process, and the sum of the shares of their changes that are
unseen; below these stands each unseen change. The reverse does not hold: whether a test notices the other value, only
scripts/mutate.py tells.

Programs that a test starts are not seen. `and` and `or` are computed with and without each part.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import mmap
import operator
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import mutate
import pytest

_SEEN = mmap.mmap(-1, 1 << 18)
"""One byte for each change: forks share it."""
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "In": lambda left, right: left in right, "NotIn": lambda left, right: left not in right,
    "Is": operator.is_, "IsNot": operator.is_not,
}  # fmt: skip


class Place(NamedTuple):
    """One change: where its expression stands, of which kind it is, and which part of the expression it is of."""

    file: str
    span: tuple[int, int, int, int]
    kind: str
    part: int = 0


_numbers: dict[Place, int] = {}


def _number_of(file: str, node: ast.expr, kind: str, part: int = 0) -> int:
    return _numbers.setdefault(Place(file, _span(node), kind, part), len(_numbers))


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


# --- what the changed source calls ---


def _note(number: int, value: Any) -> Any:
    """Note that an expression was computed."""
    _SEEN[number] = 1
    return value


def _note_end(number: int, ends: bool, value: Any) -> Any:
    """Note a part of `and` or `or` that has ended the expression."""
    if bool(value) is ends:
        _SEEN[number] = 1
    return value


def _compare(number: int, name: str, is_ordered: bool, left: Any, right: Any) -> Any:
    """Compare, and note whether the turned comparison differs: `<` and `<=` do where both are equal."""
    if not _SEEN[number]:
        with contextlib.suppress(Exception):
            _SEEN[number] = bool(not is_ordered or left == right)
    return _OPERATORS[name](left, right)


def _join(numbers: Sequence[int], is_and: bool, is_test: bool, *parts: Callable[[], Any]) -> Any:
    """Compute `and` or `or`, and note each part without which the value is another one."""
    known: dict[int, Any] = {}

    def joined(places: Sequence[int]) -> Any:
        value = None
        for place in places:
            value = known[place] if place in known else known.setdefault(place, parts[place]())
            if bool(value) is not is_and:
                break
        return value

    every = range(len(parts))
    value = joined(every)
    for place in every:
        if not _SEEN[numbers[place]]:
            try:
                other = joined([each for each in every if each != place])
                differs = bool(other) is not bool(value) or not (is_test or other is value or other == value)
            except Exception:  # noqa: BLE001  # an error is another value
                differs = True
            _SEEN[numbers[place]] = bool(differs)
    return value


CALLED = (_note, _note_end, _compare, _join)

# --- the source, changed ---


class _Noting(ast.NodeTransformer):
    """Has each expression of a file's functions note whether its changes would be seen."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.depth = 0
        self.tests: set[int] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]
        node.body = [self.visit(each) for each in node.body]
        self.depth -= 1
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._tested(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._tested(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        self.tests.add(id(node.test))
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.tests.update(map(id, node.ifs))
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        is_not = isinstance(node.op, ast.Not)
        if is_not:
            self.tests.add(id(node.operand))
        return self._noted(node, "not") if is_not and self.depth else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if self.depth and isinstance(node.value, int) and (isinstance(node.value, bool) or node.value > 0):
            return self._noted(node, "value" if isinstance(node.value, bool) else "number")
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not self.depth or len(node.ops) > 1:
            return self.generic_visit(node)
        is_ordered = isinstance(node.ops[0], _ORDERED) and not mutate.is_never_equal(node)
        number = _number_of(self.file, node, "comparison")
        self.generic_visit(node)
        words = [ast.Constant(number), ast.Constant(type(node.ops[0]).__name__), ast.Constant(is_ordered)]
        return _call(_compare, *words, node.left, node.comparators[0])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if not self.depth:
            return self.generic_visit(node)
        numbers = [_number_of(self.file, node, "condition", part) for part in range(len(node.values))]
        is_and, is_test = isinstance(node.op, ast.And), id(node) in self.tests
        if is_test:
            self.tests.update(map(id, node.values))
        has_effects = any(isinstance(each, _NOT_IN_A_LAMBDA) or _is_super(each) for each in ast.walk(node))
        self.generic_visit(node)
        if has_effects:
            node.values = [
                _call(_note_end, ast.Constant(number), ast.Constant(not is_and), value)
                for number, value in zip(numbers, node.values)
            ]
            return node
        nothing = ast.arguments([], [], None, [], [], None, [])
        parts = [ast.Lambda(nothing, value) for value in node.values]
        places = ast.Tuple([ast.Constant(number) for number in numbers], ast.Load())
        return _call(_join, places, ast.Constant(is_and), ast.Constant(is_test), *parts)

    def _noted(self, node: ast.expr, kind: str) -> ast.expr:
        number = _number_of(self.file, node, kind)
        self.generic_visit(node)
        return _call(_note, ast.Constant(number), node)

    def _tested(self, node: Any) -> ast.AST:
        self.tests.add(id(node.test))
        is_bare = self.depth and not isinstance(node.test, (ast.BoolOp, ast.Compare, ast.UnaryOp))
        number = _number_of(self.file, node.test, "test") if is_bare else None
        self.generic_visit(node)
        if number is not None:
            node.test = _call(_note, ast.Constant(number), node.test)
        return node  # type: ignore[no-any-return]


_NOT_IN_A_LAMBDA = (ast.NamedExpr, ast.Yield, ast.YieldFrom)


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "super"


def _call(function: Callable[..., Any], *words: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"_unseen{function.__name__}", ast.Load()), list(words), [])


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        tree = _Noting(path.relative_to(mutate.SOURCE).as_posix()).visit(ast.parse(path.read_text(encoding="utf-8")))
        code: CodeType = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
        return code


class _Finder:
    """Finds the modules that mutate.py may change."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module of Muster lies, with the loader that changes it."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin and mutate.may_change(Path(spec.origin)):
            spec.loader = _Loader(name, spec.origin)
        return spec


def main() -> int:
    """Run the fast tests, and print what none of them could notice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", default="", help="only files whose path holds this")
    words, of_pytest = parser.parse_known_args()
    for function in CALLED:
        setattr(builtins, f"_unseen{function.__name__}", function)
    sys.meta_path.insert(0, _Finder)
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", mutate.MARKS_IN_PLACE]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is loaded already
    pytest.main([*options, *(of_pytest or [str(mutate.TESTS)])])
    print("\n".join(_report(words.room)))
    return 0


def _report(room: str) -> Iterator[str]:
    """Yield a line for each room, then the unseen changes of each function, the largest shares first."""
    rooms: dict[str, list[float]] = defaultdict(list)
    lines: list[tuple[float, list[str]]] = []
    for file, _, function in mutate.functions_drawn(room):
        path = file.relative_to(mutate.SOURCE).as_posix()
        changes = list(_unseen(path, function))
        if changes:
            whole = sum(weight for weight, _, _ in changes)
            unseen = [(weight, words) for weight, words, is_seen in changes if not is_seen]
            share = sum(weight for weight, _ in unseen) / whole
            rooms[path.rpartition("/")[0]].append(share)
            if unseen:
                lines.append((share, [f"{path}:{function.name} {share:.0%}", *(f"    {words}" for _, words in unseen)]))
    yield f"{'room':28}{'functions':>10}{'not run':>10}{'unseen':>10}"
    for name, shares in sorted(rooms.items(), key=lambda row: -sum(row[1])):
        yield f"{name:28}{len(shares):10}{sum(share == 1 for share in shares):10}{sum(shares):10.1f}"
    for _, text in sorted(lines, key=lambda row: -row[0]):
        yield from text


def _unseen(path: str, function: ast.FunctionDef) -> Iterator[tuple[int, str, bool]]:
    """Yield weight, words and whether it was seen of each change that mutate.py can make in a function."""
    for node, part, kind, old in mutate.expressions_changed(function):
        number = _numbers.get(Place(path, _span(old if kind == "test" else node), kind, part))
        is_seen = number is not None and bool(_SEEN[number])
        yield mutate.WEIGHTS[kind], f"{old.lineno} {kind}: {ast.unparse(old)}", is_seen


if __name__ == "__main__":
    sys.exit(main())
