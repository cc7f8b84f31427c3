"""Changes one thing in the source, and asks the nearest tests whether they notice; again and again.

    scripts/mutate.py [--count 20] [--seed 1] [--room plan] [--jobs 1] [--report FILE]

A change drops a condition behind an `and` or `or`, turns a comparison round its boundary, negates a test, swaps a
default, or drops a `not`. The functions are drawn at random from those with 7 lines or more. The nearest tests are
those that name the module of the function, then the folder of its room. A change that no test notices is a survivor:
the report holds its difference, and each survivor that a user could meet wants a test.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
_LEAST_LINES = 7
_LIMIT_S = 240
# What runs in ranks and on nodes is reached by labs alone; pages and data decide nothing.
_LEFT_OUT = ("muster/rank/", "muster_bench/ranks/", "muster_check/ranks/__main__")
_MARKS = "not (lab or torch or gpu or versions or long or wide)"
_TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


class Mutation(NamedTuple):
    """One change of one line or two."""

    file: Path
    function: str
    kind: str
    text: str
    """The whole source, changed."""


def main() -> int:
    """Exit status: 0 when at least nine of ten changes were noticed."""
    words = _read_words()
    generator = random.Random(words.seed)
    mutations = list(_draw(generator, words.count, words.room))
    with concurrent.futures.ThreadPoolExecutor(words.jobs) as pool:
        verdicts = list(pool.map(_judge, mutations))
    survivors = [mutation for mutation, noticed in zip(mutations, verdicts) if not noticed]  # 3.9
    noticed_count = len(mutations) - len(survivors)
    lines = [f"seed {words.seed}: {noticed_count} of {len(mutations)} changes noticed"]
    for mutation in survivors:
        place = mutation.file.relative_to(ROOT)
        lines += [
            "",
            f"{place}: {mutation.function}: {mutation.kind}",
            *_difference(mutation),
        ]
    report = "\n".join(lines)
    print(report)
    if words.report:
        Path(words.report).write_text(f"{report}\n", encoding="utf-8")
    return 0 if noticed_count >= 0.9 * len(mutations) else 1


def _read_words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--room", default="", help="only files whose path holds this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", default="")
    return parser.parse_args()


def _draw(generator: random.Random, count: int, room: str) -> Iterator[Mutation]:
    """Yield as many changes as asked for, no two in one function."""
    places = [
        (file, node.name, node.lineno)
        for file in sorted(SOURCE.rglob("*.py"))
        if room in str(file) and not any(part in str(file) for part in _LEFT_OUT)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 >= _LEAST_LINES
    ]
    generator.shuffle(places)
    drawn = 0
    for file, name, line in places:
        if drawn == count:
            return
        changes = list(_changes(file, line))
        if changes:
            kind, text = generator.choice(changes)
            drawn += 1
            yield Mutation(file, name, kind, text)


def _changes(file: Path, line: int) -> Iterator[tuple[str, str]]:
    """Yield every change that can be made in the function that begins at a line: its kind, and the whole source."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.lineno == line)
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            for index in range(1, len(node.values)):
                kept = ast.BoolOp(node.op, [*node.values[:index], *node.values[index + 1 :]])
                shorter = kept if len(kept.values) > 1 else kept.values[0]
                yield f"a condition is dropped: {ast.unparse(node.values[index])}", _replaced(source, node, shorter)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
            turned = ast.Compare(node.left, [_TURNED[type(node.ops[0])]()], node.comparators)
            yield f"a comparison is turned: {ast.unparse(node)}", _replaced(source, node, turned)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield f"a not is dropped: {ast.unparse(node)}", _replaced(source, node, node.operand)
        elif isinstance(node, (ast.If, ast.IfExp)) and not isinstance(
            node.test, (ast.BoolOp, ast.Compare, ast.UnaryOp)
        ):
            negated = ast.UnaryOp(ast.Not(), node.test)
            yield f"a test is negated: {ast.unparse(node.test)}", _replaced(source, node.test, negated)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield f"a value is swapped: {node.value}", _replaced(source, node, ast.Constant(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 0:
            yield f"a number is moved: {node.value}", _replaced(source, node, ast.Constant(node.value + 1))


def _replaced(source: str, node: ast.expr, other: ast.expr) -> str:
    """Return the source with another expression in the place of one."""
    lines = source.encode().split(b"\n")
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    text = f"({ast.unparse(other)})".encode()
    changed = lines[first][: node.col_offset] + text + lines[last][node.end_col_offset or 0 :]
    return b"\n".join([*lines[:first], changed, *lines[last + 1 :]]).decode()


def _judge(mutation: Mutation) -> bool:
    """Return whether a test near the change fails."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as work:
        shutil.copytree(SOURCE, Path(work, "src"), ignore=shutil.ignore_patterns("__pycache__"))
        Path(work, mutation.file.relative_to(ROOT)).write_text(mutation.text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": f"{work}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        for tests in _nearest(mutation.file):
            words = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-m",
                _MARKS,
                *map(str, tests),
            ]
            try:
                done = subprocess.run(
                    words, cwd=ROOT, env=environment, capture_output=True, timeout=_LIMIT_S, check=False
                )
            except subprocess.TimeoutExpired:
                return True
            if done.returncode not in {0, 5}:  # 5: none of these tests is fast
                return True
    return False


def _nearest(file: Path) -> Iterator[list[Path]]:
    """Yield the test files that name the module, then the folder of the tests of its room."""
    module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    naming = [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if module in path.read_text(encoding="utf-8")
    ]
    if naming:
        yield naming
    for part in reversed(file.relative_to(SOURCE).parts[:-1]):
        folder = ROOT / "tests" / part.removeprefix("muster_")
        if folder.is_dir():
            yield [folder]
            return


def _difference(mutation: Mutation) -> list[str]:
    old, new = mutation.file.read_text(encoding="utf-8").splitlines(), mutation.text.splitlines()
    return [line for line in difflib.unified_diff(old, new, lineterm="", n=1) if line[:3] not in {"---", "+++"}]


if __name__ == "__main__":
    sys.exit(main())
