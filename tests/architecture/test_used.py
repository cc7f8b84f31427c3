"""Guards that nothing stands in the package that only tests call, or nobody: what is not used is removed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .paths import ROOT, SOURCE, nodes_of

# What people call from their own scripts and notebooks.
FOR_PEOPLE = (
    "muster/api",
    "muster/rank/__init__.py",
    "muster/rank/together.py",
    "muster/rank/world.py",
    "muster/rank/checkpoint.py",
    "muster/older.py",
)
# What a test suite asks of a registry, to go through all of it.
FOR_TESTS = {"launcher_names"}


def defined_functions(file: Path) -> Iterator[str]:
    """The functions and classes of a file that nothing else registers: a decorator, or a visitor's name."""
    for node in nodes_of(file.read_text()):
        if (
            isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and not node.name.startswith(("__", "visit_"))
            and (node.name.startswith("_") or not any(isinstance(mark, ast.Call) for mark in node.decorator_list))
        ):
            yield node.name


def uses(files: Iterable[Path]) -> Counter[str]:
    """How often each word stands in the files; the list of public names is no use."""
    words: Counter[str] = Counter()
    for file in files:
        words.update(re.findall(r"\w+", re.sub(r"__all__ = [\[(].*?[\])]", "", file.read_text(), flags=re.DOTALL)))
    return words


def test_every_function_is_used_by_the_package_itself() -> None:
    texts = [file for kind in ("*.py", "*.sh") for file in SOURCE.rglob(kind)]
    texts += [*(ROOT / "scripts").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    words = uses(texts)
    unused = [
        f"{file.relative_to(SOURCE)}: {name}"
        for file in SOURCE.rglob("*.py")
        if not str(file.relative_to(SOURCE)).startswith(FOR_PEOPLE)
        for name in defined_functions(file)
        if words[name] < 2 and name not in FOR_TESTS
    ]
    assert unused == []


def test_every_shell_function_is_called() -> None:
    files = [*SOURCE.rglob("*.sh"), *SOURCE.rglob("*.py")]
    words = uses(files)
    defined = {
        name
        for file in SOURCE.rglob("*.sh")
        for name in re.findall(r"^(\w+)\(\)", file.read_text(), flags=re.MULTILINE)
    }
    assert {name for name in defined if words[name] < 2} == set()
