"""Where a Python script insists on what a rehearsal has not: NCCL, or a GPU. Pure.

A line counts where nothing asks first: `"nccl" if torch.cuda.is_available() else "gloo"` insists on nothing.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

import msgspec


class Insists(msgspec.Struct, frozen=True):
    """A line that needs what a lab has not."""

    line: int
    what: str


def insists(source: str) -> tuple[Insists, ...]:
    """Return the lines, in order; none where the text is not Python."""
    tree = _tree(source)
    if tree is None:
        return ()
    try:
        needs = {Insists(node.lineno, need) for node, need in _unasked(tree)}
    except RecursionError:  # a sum of 2,000 terms
        return ()
    return tuple(sorted(needs, key=lambda insistence: (insistence.line, insistence.what)))


def exit_sentences(source: str) -> frozenset[str]:
    """Return what the script says as it ends itself: the beginning of sys.exit("…") and SystemExit("…")."""
    tree = _tree(source)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args) if tree is not None else ()
    return frozenset(text for call in calls if _name(call) in {"exit", "SystemExit"} and (text := _text(call.args[0])))


def _tree(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _unasked(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, (ast.If, ast.IfExp)) and _asks(node.test):
        return
    if isinstance(node, ast.Call):
        need = _needs(node)
        if need is not None:
            yield node, need
    for child in ast.iter_child_nodes(node):
        yield from _unasked(child)


def _asks(test: ast.expr) -> bool:
    """Return whether a condition is about GPUs or backends being there."""
    names = {part.attr for part in ast.walk(test) if isinstance(part, ast.Attribute)}
    return bool(names & {"is_available", "device_count", "is_nccl_available"})


def _needs(call: ast.Call) -> str | None:
    name = _name(call)
    words = [value for value in (*call.args, *(argument.value for argument in call.keywords)) if _text(value)]
    if name in {"init_process_group", "new_group"} and any(_text(value).startswith("nccl") for value in words):
        return f'{name}("nccl")'
    if ast.unparse(call.func).endswith("cuda.set_device"):
        return "torch.cuda.set_device"
    if name == "cuda" and isinstance(call.func, ast.Attribute):
        return ".cuda()"
    if name in {"to", "device"} and any(_text(value).startswith("cuda") for value in words):
        return f'{name}("cuda")'
    return None


def _text(node: ast.expr) -> str:
    """Return the beginning of a string, also of one with gaps."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
