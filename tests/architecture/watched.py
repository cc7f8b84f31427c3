"""A program of the tests: does something in a fresh interpreter and tells what it touched.

    python -B watched.py imports MODULE…     import each module; effects, as JSON: {module: [effect, …]}
    python -B watched.py plans               make and render plans; effects, as JSON: {plan: [effect, …]}

An audit hook cannot be taken away again, which is why this is a program of its own.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

# What touches the world, by the prefix of the audit event; `open` is judged by its mode and place.
_TOUCHES = ("socket.", "subprocess.", "os.", "shutil.", "pty.", "tempfile.", "signal.", "ctypes.dlopen", "urllib.")
# A directory is listed and a file looked at by the import system itself.
_OF_IMPORTS = frozenset({"os.listdir", "os.scandir"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OURS = tuple(str(Path(place).resolve()) for place in (*sys.path, sys.prefix, sys.base_prefix) if place)

effects: list[str] = []
watching = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching:
        return
    if event == "open":
        path, _, flags = arguments
        written = isinstance(flags, int) and flags & _WRITES
        if written or not str(path).startswith(_OURS):
            effects.append(f"open {path}{' to write' if written else ''}")
    elif event == "ctypes.dlopen" and arguments == (None,):
        return  # `import ctypes` opens the interpreter itself, which is there already
    elif event.startswith(_TOUCHES) and event not in _OF_IMPORTS:
        effects.append(f"{event} {arguments!r}"[:200])


@contextmanager
def watched() -> Iterator[list[str]]:
    """The effects of the block, in the order in which they happened."""
    global watching  # noqa: PLW0603  # the hook lives as long as the interpreter
    effects.clear()
    found: list[str] = []
    before = _settings()
    watching = True
    try:
        yield found
    finally:
        watching = False
        found.extend(effects)
        found.extend(f"changed {name}" for name, value in _settings().items() if value != before[name])


def _settings() -> dict[str, object]:
    """What an import could change without an audit event."""
    return {
        "os.environ": dict(os.environ),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "log handlers": list(logging.getLogger().handlers),
        "the working directory": str(Path.cwd()),
        "the exception hook": sys.excepthook,
    }


def imports(names: list[str]) -> dict[str, list[str]]:
    """The effects of importing each of `names`, in that order."""
    told = {}
    for name in names:
        try:
            with watched() as found:
                import_module(name)
        except Exception as error:  # noqa: BLE001  # told, whatever it is
            found = [f"cannot be imported: {error}"]
        told[name] = found
    return told


def _chance(*_: object, **__: object) -> None:
    effects.append("the clock, the host or chance was asked")


def plans() -> dict[str, list[str]]:
    """The effects of planning and rendering a launch with each launcher."""
    from muster.facts import Facts
    from muster.job.request import Request
    from muster.launchers import TYPED_NAMES
    from muster.model.plan import Engine
    from muster.plan.build import make_plan
    from muster.render.document import plan_as_json
    from muster.render.explain import plan_as_text
    from muster.render.script import job_script
    from muster.sites.load import load

    asked: list[tuple[object, str]]
    asked = [(time, "time"), (time, "time_ns"), (time, "monotonic"), (os, "getpid"), (os, "getcwd"), (os, "urandom")]
    asked += [(random, "random"), (socket, "gethostname"), (os, "stat"), (Path, "exists"), (Path, "is_file")]
    told = {}
    site = load("generic")
    for launcher in TYPED_NAMES:
        engine = Engine.HERE if launcher == "local" else Engine.SLURM
        request = Request(command=("train.py", "a b"), nodes=2, gpus_per_node=4, launcher=launcher)
        with watched() as found:
            patches = [patch.object(where, name, _chance) for where, name in asked]
            for each in patches:
                each.start()
            try:
                plan = make_plan(request, site, Facts(python="/opt/python"), typed=request.command, engine=engine)
                for write in (job_script, plan_as_json, plan_as_text):
                    write(plan)
            finally:
                for each in patches:
                    each.stop()
        told[launcher] = found
    return told


if __name__ == "__main__":
    sys.addaudithook(_hook)
    json.dump(imports(sys.argv[2:]) if sys.argv[1] == "imports" else plans(), sys.stdout)
