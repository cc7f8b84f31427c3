"""A Python training script → its calls, with their full names and what stands around them. Runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

import msgspec

from muster_lint.values import TextSpan

_RANK_NAMES = frozenset(
    {
        "rank",
        "global_rank",
        "local_rank",
        "world_rank",
        "master_process",
        "is_main",
        "is_main_process",
        "is_master",
        "is_rank0",
        "ddp_rank",
        "ddp_local_rank",
        "gpu_id",
    }
)
_RANK_CALLS = frozenset({"torch.distributed.get_rank", "is_main_process", "get_rank", "is_rank_zero", "is_master"})
_RANK_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID"})


class Call(msgspec.Struct, frozen=True):
    """One call, with its full name."""

    name: str
    node: ast.Call
    tests: tuple[ast.expr, ...]
    """The conditions that it stands under, in the else branch too."""

    loops: tuple[ast.stmt, ...]
    function: str | None
    order: int

    def argument(self, name: str, position: int | None = None) -> ast.expr | None:
        """Return the argument of this name or position."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        if (
            position is not None
            and position < len(self.node.args)
            and not any(isinstance(argument, ast.Starred) for argument in self.node.args)
        ):
            return self.node.args[position]
        return None

    @property
    def has_unpacking(self) -> bool:
        """Tell whether ** brings arguments that cannot be seen."""
        return any(keyword.arg is None for keyword in self.node.keywords)

    @property
    def place(self) -> TextSpan:
        return place_of(self.node)

    @property
    def on_one_rank(self) -> bool:
        """Tell whether a condition on the rank stands around it."""
        return any(map(_asks_for_rank, self.tests))


class Program(msgspec.Struct, frozen=True, dict=True):
    """One Python file."""

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def names(self) -> dict[str, str]:
        """Return full names by the name that the file uses for them."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return names

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Return every call, in the order of the text."""
        return tuple(_Calls(self).collect())

    def called(self, *names: str) -> tuple[Call, ...]:
        """Return the calls with one of these full names."""
        return tuple(call for call in self.calls if call.name in names)

    def full_name(self, node: ast.expr) -> str:
        """Return the dotted name of an expression, through the file's imports; empty where it has none."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return f"{base}.{node.attr}" if base else f".{node.attr}"
        return ""

    @cached_property
    def is_distributed(self) -> bool:
        """Tell whether the file itself joins a process group or wraps a model for several ranks."""
        return bool(self.called(*INITS)) or any(
            call.name.rpartition(".")[2]
            in {"DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "DistributedSampler"}
            for call in self.calls
        )

    @cached_property
    def uses_framework(self) -> bool:
        """Tell whether a framework takes care of devices, samplers and saving."""
        frameworks = (
            "accelerate",
            "lightning",
            "pytorch_lightning",
            "transformers",
            "deepspeed",
            "ignite",
            "horovod",
            "ray",
            "jax",
            "muster",
            "torchtitan",
            "composer",
            "fairscale",
            "megatron",
            "nemo",
        )
        return any(name.partition(".")[0] in frameworks for name in self.names.values())

    def environment_writes(self) -> Iterator[tuple[ast.stmt, str, ast.expr, int]]:
        """Yield (statement, variable, value, line) of os.environ[…] = … and os.environ.setdefault."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if (
                        isinstance(target, ast.Subscript)
                        and self.full_name(target.value) == "os.environ"
                        and isinstance(target.slice, ast.Constant)
                    ):
                        yield node, str(target.slice.value), node.value, node.lineno


INITS = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
    "torch.distributed.init_device_mesh",
    "torch.distributed.device_mesh.init_device_mesh",
)


def read_program(path: str, text: str) -> Program:
    """Return the program of a text; SyntaxError where it is not Python."""
    return Program(path, text, ast.parse(text))


def place_of(node: ast.AST) -> TextSpan:
    """Return where a node stands."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return TextSpan(
        line,
        column + 1,
        getattr(node, "end_lineno", line),
        getattr(node, "end_col_offset", column) + 1,
    )


def _asks_for_rank(test: ast.expr) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Name) and node.id in _RANK_NAMES:
            return True
        if isinstance(node, ast.Attribute) and node.attr in _RANK_NAMES | {
            "get_rank",
            "is_main_process",
            "is_local_main_process",
            "is_global_zero",
        }:
            return True
        if isinstance(node, ast.Constant) and node.value in _RANK_VARIABLES:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RANK_CALLS | {"is_main"}:
            return True
    return False


class _Calls(ast.NodeVisitor):
    """Walks a file and notes each call with what stands around it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tests: list[ast.expr] = []
        self._loops: list[ast.stmt] = []
        self._functions: list[str] = []
        self._calls: list[Call] = []

    def collect(self) -> Iterator[Call]:
        self.visit(self._program.tree)
        yield from self._calls

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._under(node.test, node.body)
        self._under(node.test, node.orelse)
        if isinstance(node.body[-1], ast.Return) and not node.orelse:
            # What follows `if rank != 0: return` is under the opposite condition.
            self._tests.append(node.test)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_For(self, node: ast.For) -> None:
        self._loop(node, node.iter)

    def visit_While(self, node: ast.While) -> None:
        self._loop(node, node.test)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._program.full_name(node.func)
        function = self._functions[-1] if self._functions else None
        self._calls.append(Call(name, node, tuple(self._tests), tuple(self._loops), function, len(self._calls)))
        self.generic_visit(node)

    def _loop(self, node: ast.For | ast.While, head: ast.expr) -> None:
        self.visit(head)
        self._loops.append(node)
        for child in [*node.body, *node.orelse]:
            self.visit(child)
        self._loops.pop()

    def _under(self, test: ast.expr, body: list[ast.stmt]) -> None:
        depth = len(self._tests)
        self._tests.append(test)
        for child in body:
            self.visit(child)
        del self._tests[depth:]

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        tests, loops, self._tests, self._loops = self._tests, self._loops, [], []
        for child in node.body:
            self.visit(child)
        self._tests, self._loops = tests, loops
        self._functions.pop()
