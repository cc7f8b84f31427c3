"""A Python script, read and not run: whether it joins the other ranks, and how; whether it starts ranks of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from os import path as paths

from muster.facts import ScriptFacts
from muster.look.sources import imported_modules, name_called, read_sources
from muster.older import standard_modules
from muster.ownership import AnyPath

# Third parties of which it is known that they join nobody and start nobody. An import that is not here may do either.
_INERT = frozenset(
    {
        "torch", "torchvision", "torchaudio", "torchtext", "numpy", "scipy", "pandas", "sklearn", "matplotlib",
        "PIL", "cv2", "tqdm", "yaml", "einops", "h5py", "seaborn", "requests", "rich", "tensorboard",
        "tensorboardX", "torchmetrics", "torchinfo", "torchsummary", "psutil",
    }
)  # fmt: skip
_IDENTITY = frozenset(
    {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR",
        "MASTER_PORT", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODEID", "SLURM_ARRAY_TASK_ID",
        "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
    }
)  # fmt: skip
# What else may bring ranks together, and cannot be followed.
_OPAQUE = frozenset({"subprocess", "runpy", "importlib", "ctypes", "socket", "multiprocessing", "concurrent"})
# They meet by MPI, or at an address of their own.
_MEET_ELSEWHERE = frozenset(
    {
        "mpi4py", "horovod", "ray", "jax", "flax", "dask", "distributed", "dask_mpi", "torchft", "monarch",
        "tensorflow", "keras", "petsc4py", "byteps", "mxnet", "paddle", "fairseq",
    }
)  # fmt: skip
# They join the ranks by torch.distributed, at MASTER_ADDR:MASTER_PORT.
_MEET_BY_TORCH = frozenset(
    {
        "accelerate", "lightning", "pytorch_lightning", "lightning_fabric", "transformers", "trl", "deepspeed",
        "ignite", "timm", "composer", "torchtitan", "torchtune", "fastai", "detectron2", "mmengine", "ultralytics",
    }
)  # fmt: skip
# Names by which a script may come to know of other ranks.
_WAYS = frozenset({"distributed", "environ", "getenv", "multiprocessing"})
_SPAWN = frozenset({"spawn", "start_processes"})
_Trees = Sequence[tuple[str, ast.Module]]


def look_at_python(file: AnyPath, shown_name: str, words: Sequence[str]) -> ScriptFacts | None:
    """Return what a Python script and the modules beside it show; None where it cannot be read."""
    trees = list(read_sources(file))
    if not trees or trees[0][0] != paths.basename(file):
        return None
    modules = frozenset(module for _, tree in trees for module in imported_modules(tree))
    tops = {module.partition(".")[0] for module in modules}
    strangers = tops - _INERT - standard_modules() - _beside(file, tops)
    spawns = [f"{name}, line {line}" for name, tree in trees for line in _spawns(tree, words)]
    return ScriptFacts(
        shown_name,
        modules=modules,
        never_joins=not strangers and _never_joins(trees, modules),
        may_be_alone=_may_be_alone(trees, modules, strangers, spawns=bool(spawns)),
        spawns=spawns[0] if spawns and not any(_reads_identity(tree) for _, tree in trees) else None,
        needs_mpi=any(_needs_mpi(tree) for _, tree in trees),
        waits_for_store="torchft" in tops or _waits_for_store(trees),
        asks_jax="jax" in tops and _calls(trees, "initialize"),
        local_rank_argument=_local_rank_argument(trees),
    )


def _never_joins(trees: _Trees, modules: frozenset[str]) -> bool:
    """Return whether nothing in it could know of another rank, all its modules being known."""
    if any(module.partition(".")[0] in _OPAQUE or module.startswith("torch.distributed") for module in modules):
        return False
    return not any(_knows_of_ranks(tree) for _, tree in trees)


def _may_be_alone(trees: _Trees, modules: frozenset[str], strangers: set[str], *, spawns: bool) -> bool:
    """Return whether its ranks were alone if nobody came to MASTER_PORT: they have no other way to meet.

    One that starts ranks of its own joins those, although it may know of Muster's.
    """
    tops = {module.partition(".")[0] for module in modules}
    meets = any(module.startswith("torch.distributed") for module in modules) or _calls(trees, "init_process_group")
    by_torch = meets or spawns or bool(tops & _MEET_BY_TORCH)
    if not by_torch and ("torch" not in tops or strangers or tops & _OPAQUE):
        return False
    if tops & _MEET_ELSEWHERE or (not spawns and any(_chooses_meeting(tree) for _, tree in trees)):
        return False
    if not spawns and _calls(trees, "destroy_process_group"):
        return False
    if "muster" in tops and _calls(trees, "world"):
        return False
    # One that divides its work by its rank need not meet anybody.
    return meets or not any(_reads_identity(tree) for _, tree in trees)


def _chooses_meeting(tree: ast.AST) -> bool:
    """Return whether its ranks may meet elsewhere than at MASTER_PORT: by MPI, a file, a store or a port of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and re.match("mpi$|tcp://|file://", str(node.value)):
            return True
        if isinstance(node, ast.Call) and name_called(node) == "init_process_group":
            if any(word.arg == "store" for word in node.keywords):
                return True
            if any(word.arg == "init_method" and not isinstance(word.value, ast.Constant) for word in node.keywords):
                return True
        key = node.slice if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None
        if isinstance(key, ast.Constant) and key.value == "MASTER_PORT":
            return True
    return False


def _beside(file: AnyPath, names: set[str]) -> set[str]:
    places = {name: paths.join(paths.dirname(file), name) for name in names}
    return {name for name, place in places.items() if paths.isfile(f"{place}.py") or paths.isdir(place)}


def _knows_of_ranks(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _WAYS:
            return True
        if isinstance(node, ast.Constant) and node.value in _IDENTITY:
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"exec", "eval", "__import__"}:
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "torch" and _WAYS & {alias.name for alias in node.names}:
            return True
        if (
            isinstance(node, (ast.Name, ast.arg))
            and "rank" in (getattr(node, "id", "") or getattr(node, "arg", "")).lower()
        ):
            return True
        if isinstance(node, ast.Call) and any(_speaks_of_rank(argument) for argument in node.args):
            return True
    return False


def _speaks_of_rank(argument: ast.expr) -> bool:
    """Return whether an expression speaks of a rank, as an option of the script does.

    A docstring may speak of ranks.
    """
    return isinstance(argument, ast.Constant) and isinstance(argument.value, str) and "rank" in argument.value.lower()


def _calls(trees: _Trees, name: str) -> bool:
    return any(name_called(call) == name for _, tree in trees for call in _all_calls(tree))


def _all_calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _reads_identity(tree: ast.AST) -> bool:
    """Return whether a variable that names a rank is read: its writes are for ranks that the script itself starts."""
    strings = {
        id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    names = _IDENTITY - {"MASTER_ADDR", "MASTER_PORT"}
    return any(
        isinstance(node, ast.Constant) and node.value in names and id(node) not in strings for node in ast.walk(tree)
    )


def _spawns(tree: ast.Module, words: Sequence[str]) -> Iterator[int]:
    """Yield the lines on which it starts ranks of its own, whatever its arguments, or with those that were given."""
    names = _names_of_multiprocessing(tree)
    for call, tests in _calls_with_tests(tree.body, ()):
        function = call.func
        place = function.value if isinstance(function, ast.Attribute) and function.attr in _SPAWN else function
        if ast.unparse(place) in names and all(_holds(test, words) for test in tests):
            yield call.lineno


def _names_of_multiprocessing(tree: ast.Module) -> set[str]:
    names = {"torch.multiprocessing"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "torch.multiprocessing"}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "multiprocessing"}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch.multiprocessing":
            names |= {alias.asname or alias.name for alias in node.names if alias.name in _SPAWN}
    return names


def _calls_with_tests(
    body: Sequence[ast.AST], tests: tuple[ast.expr | None, ...]
) -> Iterator[tuple[ast.Call, tuple[ast.expr | None, ...]]]:
    """Yield each call, and the conditions that it stands under; None: one that cannot be told."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _calls_with_tests(node.body, (*tests, node.test))
            yield from _calls_with_tests(node.orelse, (*tests, None))
            continue
        if isinstance(node, ast.Call):
            yield node, tests
        unsure = (None,) if isinstance(node, (ast.ExceptHandler, ast.IfExp, ast.While)) else ()
        yield from _calls_with_tests(list(ast.iter_child_nodes(node)), (*tests, *unsure))


def _holds(test: ast.expr | None, words: Sequence[str]) -> bool:
    """Return whether a condition is `__name__ == "__main__"`, or a switch that stands in the command."""
    if isinstance(test, ast.Compare) and ast.unparse(test.left) == "__name__":
        return True
    if isinstance(test, ast.Attribute):
        return any(word.lstrip("-").replace("-", "_") == test.attr for word in words if word.startswith("--"))
    return False


def _needs_mpi(tree: ast.Module) -> bool:
    """Return whether it takes its ranks from mpi4py, and would fail without: an import in `try` has another way."""
    plain = any(isinstance(node, (ast.Import, ast.ImportFrom)) and "mpi4py" in _modules_of(node) for node in tree.body)
    return plain and any(isinstance(node, ast.Attribute) and node.attr == "COMM_WORLD" for node in ast.walk(tree))


def _modules_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}


def _waits_for_store(trees: _Trees) -> bool:
    """Return whether every rank is a client of a store that only torchrun's agent serves."""
    store_calls = [call for _, tree in trees for call in _all_calls(tree) if name_called(call) == "TCPStore"]
    return bool(store_calls) and all(_is_client(call) for call in store_calls)


def _is_client(call: ast.Call) -> bool:
    keywords = {word.arg: word.value for word in call.keywords}
    master = keywords.get("is_master") or (call.args[3] if len(call.args) > 3 else None)
    return isinstance(master, ast.Constant) and master.value is False


def _local_rank_argument(trees: _Trees) -> bool:
    """Return whether --local_rank alone tells it its device, as before torch 1.9."""
    texts = {node.value for _, tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    joins = _calls(trees, "init_process_group")
    return joins and bool({"--local_rank", "--local-rank"} & texts) and "LOCAL_RANK" not in texts
