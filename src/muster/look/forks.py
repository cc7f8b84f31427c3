"""Data loaders in a script whose workers would be forked: read in its source, before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from os import path as paths

from msgspec.structs import replace

from muster.facts import Facts
from muster.job.request import Request
from muster.look.sources import name_called, read_sources
from muster.ownership import AnyPath


def look_at_forks(request: Request, facts: Facts) -> Facts:
    """Return the facts with the data loaders of the command's script that fork their workers."""
    script = next((word for word in request.command if word.endswith(".py")), None)
    if script is None:
        return facts
    path = paths.join(facts.working_directory, request.chdir or "", script)
    return replace(facts, forking_loaders=tuple(forking_loaders(path)))


def forking_loaders(script: AnyPath) -> list[str]:
    """Return the data loaders of a script, and of the modules beside it that it imports, as "train.py, line 12: …".

    What cannot be told from the source is not claimed: options in a dictionary, a start method in a variable.
    """
    loaders: list[str] = []
    for source_name, tree in read_sources(script):
        if _chooses_a_start(tree):
            return []
        loaders += [f"{source_name}, line {line}: {words}" for line, words in _loaders(tree)]
    return loaders


def _chooses_a_start(tree: ast.Module) -> bool:
    """Return whether a start method is chosen for all workers, unless it is plainly fork."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and name_called(node) == "set_start_method")
    return any(not (call.args and _literal(call.args[0]) == "fork") for call in calls)


def _loaders(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or name_called(node) != "DataLoader":
            continue
        keywords = {word.arg: word.value for word in node.keywords}
        workers = keywords.get("num_workers")
        if workers is None or None in keywords or _literal(workers) == 0:
            continue
        context = keywords.get("multiprocessing_context")
        if context is None or (isinstance(context, ast.Constant) and context.value in {None, "fork"}):
            try:
                yield node.lineno, f"DataLoader(num_workers={ast.unparse(workers)})"
            except RecursionError:  # a sum of 2,000 terms
                continue


def _literal(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None
