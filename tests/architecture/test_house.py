"""Guards the house itself: the arrows, the list of rooms, public names, and no site's name in code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from .paths import PACKAGE, ROOT, SOURCE, module_names, nodes_of

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
# Profiles that describe no site.
PLAIN_PROFILES = {"generic", "laptop"}


def test_the_arrows_are_kept() -> None:
    done = subprocess.run([LINT_IMPORTS, "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_architecture_lists_the_rooms_that_there_are() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    listed = set(re.findall(r"^  (\w+)/ ", page, flags=re.MULTILINE))
    packages = set(re.findall(r"^(muster\w*)/ ", page, flags=re.MULTILINE))
    assert listed == {folder.name for folder in PACKAGE.iterdir() if any(folder.glob("*.py"))}
    assert packages == {folder.name for folder in SOURCE.iterdir() if any(folder.glob("*.py"))}


def test_every_public_name_resolves() -> None:
    for name in module_names():
        module = import_module(name)
        public = getattr(module, "__all__", [])
        assert [each for each in public if not hasattr(module, each)] == [], name
        assert len(set(public)) == len(public), name


# A public name and the value behind it: `muster.plan()` returns the Plan of api/, which shows that of model/.
TWICE = {"Plan": 2}


def test_each_name_of_a_class_stands_once() -> None:
    names = Counter(
        node.name
        for file in SOURCE.rglob("*.py")
        for node in nodes_of(file.read_text())
        if isinstance(node, ast.ClassDef)
    )
    assert {name: count for name, count in names.items() if count > 1} == TWICE


def site_names() -> set[str]:
    """The sites of the bundled profiles, and the single words of their names."""
    stems = {file.stem for file in (PACKAGE / "sites" / "data").glob("*.toml")} - PLAIN_PROFILES
    words = {word for stem in stems for word in re.split(r"[-_]", stem) if len(word) > 3}
    return stems | words | {"marenostrum", "nersc"}


def named_in(source: str, names: set[str]) -> Iterator[str]:
    """Those of `names` that stand in identifiers and texts; comments and docstrings may give examples."""
    pattern = re.compile(rf"(?<![a-z])({'|'.join(sorted(map(re.escape, names)))})(?![a-z])", flags=re.IGNORECASE)
    if not names or not pattern.search(source):
        return
    nodes = nodes_of(source)
    docstrings = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from pattern.findall(node.value)
        for field in ("id", "attr", "name", "arg"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield from pattern.findall(value)


def test_no_site_is_named_in_code() -> None:
    names = site_names()
    guilty = {
        str(file.relative_to(ROOT)): found
        for file in sorted(SOURCE.rglob("*.py"))
        if (found := sorted(set(named_in(file.read_text(), names))))
    }
    assert guilty == {}


@pytest.mark.parametrize(
    "source", ["def at_lumi(): ...", "if cluster == 'LUMI': pass", "run(lumi=1)", "x = f'{a}-lumi-g'"]
)
def test_a_site_named_in_code_is_seen(source: str) -> None:
    assert list(named_in(source, {"lumi"}))


@pytest.mark.parametrize("source", ["'''As on LUMI.'''", "x = 1  # lumi", "x = 'illumination'", "luminous = 1"])
def test_an_example_or_another_word_is_not_taken_for_a_site(source: str) -> None:
    assert list(named_in(source, {"lumi"})) == []


# Python 3.9 has no `|` between types at run time; ruff's FA102 sees annotations that are computed.
_TYPES = {"str", "int", "float", "bool", "dict", "list", "tuple", "set", "bytes", "None", "type", "object"}


def computed_unions(source: str) -> list[int]:
    """The lines where types are joined by `|` outside an annotation: text until somebody asks, so only these run."""
    nodes = nodes_of(source)
    joined = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)]
    if not any(is_type(node.left) or is_type(node.right) for node in joined):
        return []
    noted = [getattr(node, name, None) for node in nodes for name in ("annotation", "returns")]
    text = {id(part) for each in noted if isinstance(each, ast.AST) for part in ast.walk(each)}
    return [node.lineno for node in joined if id(node) not in text and (is_type(node.left) or is_type(node.right))]


def is_type(node: ast.expr) -> bool:
    """Whether this looks like a type: `None`, `str`, a name in CamelCase, and what these have in brackets."""
    if isinstance(node, ast.Subscript):
        return is_type(node.value)
    if isinstance(node, ast.Constant):
        return node.value is None
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in _TYPES or (name[:1].isupper() and not name.isupper())


def test_python_3_9_can_compute_every_type() -> None:
    source = "Word = str | int\ndef f(x: str | None): ...\nisinstance(3, Word | Path)\nFLAG = Mount.RO | MORE"
    assert computed_unions(source) == [1, 3]
    sources = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    assert {str(path): lines for path, text in sources.items() if (lines := computed_unions(text))} == {}
