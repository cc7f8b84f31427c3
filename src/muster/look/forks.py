"""Data loaders in a script whose workers would be forked: read in its source, before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from muster.look.sources import name_called, read_sources


def fork_warning(script: Path, workloads: tuple[str, ...]) -> str | None:
    """Return what to say of this script on a fabric whose card must not meet a forked process; None: nothing.

    `workloads` are those of the site that --workload takes.
    """
    loaders = forking_loaders(script)
    if not loaders:
        return None
    rest = f" and {len(loaders) - 1} more" if len(loaders) > 1 else ""
    unchanged = "; the script unchanged: --workload fork" if "fork" in workloads else ""
    return (
        f"{loaders[0]}{rest}: its workers are forked (before Python 3.14), and beside an open Slingshot card a forked "
        "worker may crash (pytorch #119845)\n\n"
        "hint: two lines fix it, first under if __name__ == '__main__': import torch.multiprocessing and "
        f"torch.multiprocessing.set_start_method('forkserver'); world.loader() does it by itself{unchanged}"
    )


def forking_loaders(script: Path) -> list[str]:
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
            yield node.lineno, f"DataLoader(num_workers={ast.unparse(workers)})"


def _literal(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None
