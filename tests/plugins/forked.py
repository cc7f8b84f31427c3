"""`muster` without the start of an interpreter: a fork of the tests' own process, which has Muster loaded already.

A start costs 80 ms of a core, and the tests enter a lab thousands of times. What a start is like for the command line
itself has tests of its own (`tests/cli`, `tests/architecture/test_command_start.py`, `tests/lab/test_exec.py`).
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import NoReturn

from muster.cli.app import main
from muster.errors import SchedulerSilent
from muster.runner import ProgramResult, end_group

__all__ = ["run_muster"]


def run_muster(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
    stdin: str | None = None,
    timeout_s: float = 60.0,
) -> ProgramResult:
    """Run `muster` with `words` to its end, as `muster.runner.run` would: in a process group of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons dislike a fork beside threads; the child has one
        process = subprocess.Popen(
            ["muster", *words],
            cwd=cwd,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_becomes_muster(words, env),  # noqa: PLW1509  # which is the whole program
        )
    try:
        out, err = process.communicate(None if stdin is None else os.fsencode(stdin), timeout=timeout_s)
    except BaseException as error:
        end_group(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise SchedulerSilent(f"muster did not answer within {timeout_s:g} s") from None
        raise
    return ProgramResult(
        ("muster", *words), process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )


def _becomes_muster(words: Sequence[str], env: Mapping[str, str]) -> Callable[[], NoReturn]:
    """Return what a fork does: all that a fresh interpreter would find, then the command line's own function."""

    def run_it() -> NoReturn:
        status = 70
        try:
            os.setpgid(0, 0)
            faulthandler.disable()
            os.closerange(3, 1024)  # also the end by which the parent waits for a program to start
            gc.disable()
            for number, action in _AT_A_START.items():
                signal.signal(number, action)
            warnings.resetwarnings()
            warnings.simplefilter("ignore")
            sys.argv = ["muster", *words]
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
            os.environ.clear()
            os.environ.update(env)
            status = main(list(words))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    return run_it


_AT_A_START: Mapping[signal.Signals, Callable[[int, FrameType | None], object] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGPIPE: signal.SIG_IGN,
    signal.SIGXFSZ: signal.SIG_IGN,
}
