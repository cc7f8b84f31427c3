# noqa: INP001  # the folder stands on PYTHONPATH
"""Make a rank show where it stands by itself, where the kernel lets nobody look into a process (`--stacks-ready`).

Python imports this module at its start, because its folder stands first on PYTHONPATH. On the signal below the rank
writes its call stacks into a file in its memory; on a byte in a pipe it writes torch's record of its collectives into
another. Muster finds both in /proc/PID/fd. Until then the rank does nothing more than without it.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import sys
from _thread import get_ident, start_new_thread
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

# The module typing is not imported: every process of the rank would pay for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

# A real-time signal that no option of Slurm, no launcher and no framework uses. stacks/gather.sh sends it.
_SIGNAL = 57
# The dump functions of torch's two flight recorders: NCCL's, and the one of all other backends.
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
_NEWEST = 40
_OMITTED = frozenset({"frames", "thread_id", "thread_name"})


def show_stacks() -> None:
    """Let the signal write the call stacks of all threads into a file in memory."""
    stacks = os.memfd_create("muster-stacks")
    fcntl.fcntl(stacks, fcntl.F_SETFL, fcntl.fcntl(stacks, fcntl.F_GETFL) | os.O_APPEND)
    faulthandler.register(_SIGNAL, file=stacks, all_threads=True, chain=False)


def show_records() -> None:
    """Let a byte in a pipe write torch's record into a file in memory, which has the number of the pipe in its name."""
    asked, asker = os.pipe()
    start_new_thread(_serve, (asked, os.memfd_create("muster-record-{}-".format(asker)), get_ident()))


def _serve(asked: int, answer: int, main: int) -> None:
    while os.read(asked, 1):
        try:
            # While the script itself imports this module, it may be half made. The next question imports it again.
            from json import dumps, loads

            text = dumps([*_records(loads), {"main": _instruction(main)}], separators=(",", ":"))
        except Exception as error:  # noqa: BLE001  # the thread lives on
            text = '["{}"]'.format(type(error).__name__)
        os.ftruncate(answer, 0)
        os.pwrite(answer, (text + "\n").encode(), 0)


def _records(read: Callable[[str], Any]) -> Iterator[Any]:
    """Yield the flight records of this process: the newest entries, without their call stacks."""
    torch = sys.modules.get("torch._C._distributed_c10d")
    for dump in (getattr(torch, name, None) for name in _DUMPS):
        if dump is not None:
            record = read(dump())
            newest = (record.get("entries") or [])[-_NEWEST:]
            record["entries"] = [{key: entry[key] for key in entry if key not in _OMITTED} for entry in newest]
            yield record


def _instruction(thread: int) -> str:
    """Return the instruction at which a thread stands: a jump only if Python itself runs a loop, and no C code."""
    from opcode import opname

    frame = sys._current_frames()[thread]  # noqa: SLF001  # the documented name
    return opname[frame.f_code.co_code[frame.f_lasti]]


def import_next() -> None:
    """Import the sitecustomize of the environment, which this one hides."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != own]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


if "RANK" in os.environ:
    try:
        show_stacks()
        show_records()
    except Exception as error:  # noqa: BLE001  # the script starts all the same
        sys.stderr.write("muster: warning: --stacks-ready: {}\n".format(error))
import_next()
