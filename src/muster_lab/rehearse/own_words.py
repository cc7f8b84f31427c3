"""Why the command failed, by what its ranks themselves wrote: the missing device, its environment, or the script. Pure.

Only a traceback excuses a script: its last error is about a device that this machine has not. A line of the source that
names a device explains nothing by itself, for most scripts name one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from muster.follow.first_failure import failure_in
from muster.follow.signatures import signatures
from muster.follow.watch import LogFile
from muster.model.failure import exit_words
from muster.probe.judge import Point

_SHOWN_LINES = 12


class Blame(Enum):
    """What a failure is about."""

    SCRIPT = "script"
    ENVIRONMENT = "environment"
    DEVICE = "device"


class OwnWords(msgspec.Struct, frozen=True):
    """What a failed command says of its failure."""

    blame: Blame
    error: str = ""
    """The last line of the traceback; empty: there was none."""

    rank: int | None = None
    """The rank that wrote the lines; None: unknown."""

    lines: tuple[str, ...] = ()
    """The rank's last lines, or the last ones of all where the rank is unknown."""

    module: str = ""
    """The module that the Python of the ranks lacks."""


class _Traceback(msgspec.Struct, frozen=True):
    """One traceback of Python's."""

    kind: str
    """The class of the error, without its module."""

    error: str
    """Its last line: class and message, which may have more lines."""

    place: tuple[str, str]
    """File and function of the last frame."""

    frames: frozenset[tuple[str, str]]
    source: str
    """The source line of the last frame."""

    after: str
    """What stands between the traceback before it and this one."""


def read_own_words(output: str, errors: str, launcher: str, exits: Collection[str] = ()) -> OwnWords:
    """Return what the ranks of a command that failed wrote last, and what the failure is about.

    `exits`: sentences by which the script ends itself, without a traceback.
    """
    lines_by_rank, written = _lines_by_rank(errors)
    printed, _ = _lines_by_rank(output)
    failure = failure_in(errors, launcher)
    first = failure.tasks[0] if failure is not None and failure.tasks else None
    tracebacks = {rank: chain for rank, lines in lines_by_rank.items() if (chain := _tracebacks(lines))}
    for rank, lines in lines_by_rank.items():
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        if rank not in tracebacks and any(map(last_line.startswith, exits)):
            tracebacks[rank] = [_Traceback("SystemExit", f"SystemExit: {last_line}", ("", ""), frozenset(), "", "")]
    if any(rank is not None for rank in tracebacks):
        tracebacks.pop(None, None)  # the launcher's own
    blames = {rank: _blame(chain) for rank, chain in tracebacks.items()}
    alone = set(lines_by_rank) | set(printed) <= {None}
    if first is not None and first not in blames and not (alone and None in blames):
        own = [*printed.get(first, ()), *lines_by_rank.get(first, ())]
        return OwnWords(Blame.SCRIPT, "", first, _end(own or ([*printed.get(None, ()), *written] if alone else [])))
    for blame in (Blame.SCRIPT, Blame.ENVIRONMENT, Blame.DEVICE):
        ranks = [rank for rank, found in blames.items() if found is blame]
        if ranks:
            rank = first if first in ranks else ranks[0]
            last = tracebacks[rank][-1]
            module = (missing_module(last.error) or "") if blame is Blame.ENVIRONMENT else ""
            return OwnWords(blame, last.error, rank, _end(lines_by_rank[rank]), module)
    if blames:  # each rank lost another one, and none says why
        rank, chain = next(iter(tracebacks.items()))
        return OwnWords(Blame.SCRIPT, chain[-1].error, rank, _end(lines_by_rank[rank]))
    return OwnWords(Blame.SCRIPT, "", None, _end(written or printed.get(None, [])))


def missing_module(errors: str) -> str | None:
    """Return the module that a Python of the lab did not find; None: it names none."""
    found = re.search(r"No module named '([^']+)'", errors)
    return found[1] if found else None


def _end(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if line.strip())[-_SHOWN_LINES:]


_LAUNCHERS_OWN = re.compile(r"(?:srun|salloc|slurmstepd[^:]*|muster): ")
_RANK_OF_TORCH = re.compile(r"\[rank\d+\]: ?")


def _lines_by_rank(text: str) -> tuple[dict[int | None, list[str]], list[str]]:
    """Return the lines of each rank without labels, and of all; lines of a launcher belong to none."""
    file = LogFile(Path())
    lines: dict[int | None, list[str]] = {}
    for raw in text.splitlines():
        line = file.line(raw.encode())
        words = _RANK_OF_TORCH.sub("", line.text.decode(errors="replace"), count=1)
        if not _LAUNCHERS_OWN.match(words):
            lines.setdefault(line.rank, []).append(words)
    return lines, [line for of_rank in lines.values() for line in of_rank]


_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(.*)", line \d+, in (.*)')
_ERROR = re.compile(r"([A-Za-z_][\w.]*)(?::(?: .*)?)?$")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_OF_AGENTS = frozenset({"ChildFailedError", "SignalException", "RendezvousConnectionError", "RendezvousClosedError"})


def _tracebacks(lines: Sequence[str]) -> list[_Traceback]:
    """Return the last chain of tracebacks of one rank, in its order; none that an agent wrote of its ranks."""
    chain: list[_Traceback] = []
    place = 0
    while place < len(lines):
        if lines[place].rstrip() != _BEGIN:
            place += 1
            continue
        before = next((line for line in reversed(lines[:place]) if line.strip()), "")
        end = place + 1
        while end < len(lines) and (not lines[end] or lines[end][0] in " \t|+"):
            end += 1
        found = _traceback(lines[place + 1 : end], lines[end : end + 4], before.strip())
        place = end
        if found is None or found.kind in _OF_AGENTS:
            continue
        chain = [*chain, found] if found.after in (_CAUSE, _CONTEXT) else [found]
    return chain


def _traceback(body: Sequence[str], last: Sequence[str], before: str) -> _Traceback | None:
    match = _ERROR.match(last[0]) if last else None
    if match is None:
        return None
    frames = [(found[1], found[2]) for line in body if (found := _FRAME.match(line))]
    sources = [line.strip() for line in body if line.strip(" ~^\t") and not _FRAME.match(line)]
    more = [line for line in last[1:] if line.strip() and not line.startswith("srun")]
    error = last[0] if match[0].partition(": ")[2] else "\n".join([last[0], *more[:1]])
    return _Traceback(
        kind=match[1].rpartition(".")[2],
        error=error,
        place=frames[-1] if frames else ("", ""),
        frames=frozenset(frames),
        source=sources[-1] if sources else "",
        after=before,
    )


def _blame(chain: Sequence[_Traceback]) -> Blame | None:
    """Return what the last error of a chain is about; None: it only tells that another rank has gone."""
    last = chain[-1]
    if last.kind == "ModuleNotFoundError":
        return Blame.ENVIRONMENT
    if any(_is_about_device(each) for each in _behind(chain)):
        return Blame.DEVICE
    is_echo = last.kind in _LOST or any(each.echo and each.expression.search(last.error) for each in signatures())
    return None if is_echo else Blame.SCRIPT


# What a rank meets when another one has gone.
_LOST = frozenset({"BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError"})


def _behind(chain: Sequence[_Traceback]) -> Iterator[_Traceback]:
    """Yield the last error, and those that it was raised for: `raise … from`, or a `raise` beside the `try`."""
    yield chain[-1]
    for earlier, later in zip(reversed(chain[:-1]), reversed(chain[1:])):  # of one length
        beside = later.source.startswith("raise ") and later.place in earlier.frames
        if later.after != _CAUSE and not beside:
            return
        yield earlier


_DEVICES = r"(?:GPUs?|CUDA|cuda|NCCL|nccl|ROCm|HIP|XPUs?|XCCL|RCCL|NVIDIA)"
# What the runtimes and the libraries above them write where there is no device.
_KNOWN = re.compile(
    r"Torch not compiled with (?:CUDA|XPU|ROCM) enabled"
    r"|Found no NVIDIA driver on your system"
    r"|No (?:CUDA|HIP|XPU) (?:GPUs|devices) are available"
    r"|Distributed package doesn't have (?:NCCL|XCCL) built in"
    r"|ProcessGroup(?:NCCL|XCCL) is only supported with"
    r"|Attempting to deserialize object on a (?:CUDA|XPU) device but"
    r"|Cannot access accelerator device when none is available"
    r"|PyTorch is not linked with support for (?:cuda|xpu|hip) devices"
    r"|Tried to instantiate dummy base class (?:Stream|Event|CUDAGraph|_Cuda)"
    r"|with arguments from the '(?:\w*)(?:CUDA|XPU)' backend"
    r"|module 'torch\._C' has no attribute '_(?:cuda|nccl|xpu)"
    r"|\blib(?:cuda|nvidia-ml|amdhip64|ze_loader)\.so\S*: cannot open shared object file"
    r"|NVML (?:Shared Library|library) Not Found|NVML: Driver Not Loaded"
    r"|cudaErrorNoDevice|cudaErrorInsufficientDriver|CUDA_ERROR_NO_DEVICE|hipErrorNoDevice"
    r"|no CUDA-capable device is detected"
    r"|No supported gpu backend found"
    r"|Unknown backend:? '(?:gpu|cuda|rocm)'"
    r"|(?:No such file or directory|Permission denied): '(?:nvidia-smi|rocm-smi|xpu-smi)'"
)
_RUNTIME = re.compile(
    r"(?:CUDA|HIP|NCCL|RCCL|XPU|XCCL) (?:driver |runtime |unhandled )?(?:error|failure|initialization)"
)
_ABSENT = re.compile(
    rf"\b{_DEVICES}\b(?: \w+){{0,3}} (?:not available|unavailable|not found|required|not detected|not present)\b"
    rf"|\b(?:no|No|need|needs|require|requires|Need|Needs|Requires|without)\b(?: \w+){{0,3}} {_DEVICES}\b"
)
_ASSERTS = re.compile(r"assert\b(?! not\b).*\b(?:is_available|device_count|is_nccl_available)\(")
# What a slip of the pen raises. A message of theirs may name a device, but is about a name, a key or a file.
_SLIPS = frozenset(
    {
        *("AttributeError", "FileExistsError", "FileNotFoundError", "ImportError", "IndexError", "KeyError"),
        *("NameError", "SyntaxError", "IndentationError", "TabError", "TypeError", "UnboundLocalError"),
        *("UnicodeDecodeError", "UnicodeEncodeError", "ZeroDivisionError", "RecursionError", "ValueError"),
    }
)
# Messages by which libraries refuse a CPU, though their class is one of the above.
_REFUSALS = re.compile(
    r"ValueError: .*\b(?:requires? a|doesn't support bf16/|only be used on|needs? a) ?(?:GPU|CUDA|gpu)\b"
)


def _is_about_device(found: _Traceback) -> bool:
    """Return whether an error is about a device that is not there."""
    if _KNOWN.search(found.error) or _REFUSALS.search(found.error):
        return True
    if found.kind in _SLIPS:
        return False
    message = found.error.partition(": ")[2]
    if found.kind == "AssertionError" and _ASSERTS.match(found.source):
        return True
    return bool(_RUNTIME.match(message) or _ABSENT.search(message))


_INSTALL = "install the module in the environment of the job, or rehearse with that environment: --venv, --conda"


def judge_failure(name: str, status: int, words: OwnWords) -> Point:
    """Return what is wrong with a command that failed, in its own words."""
    of_rank = "" if words.rank is None else f" on rank {words.rank}"
    if words.blame is Blame.ENVIRONMENT:
        text = f"{name} ended with status {status}{of_rank}: its Python has no module {words.module!r}"
        return Point(ok=False, text=text, hint=_INSTALL, quoted=words.lines)
    sentence = words.error.partition("\n")[0] or exit_words(status)
    text = f"{name} is broken: it ended with status {status}{of_rank}: {sentence}"
    silent_hint = None if words.lines else "no rank wrote a word about it"
    return Point(ok=False, text=text, hint=silent_hint, quoted=words.lines)


def judge_launcher(launcher: str, module: str) -> Point:
    """Return what is wrong with a launcher, itself a Python program, that ended before any rank began."""
    return Point(
        ok=False, text=f"{launcher} started no rank: the Python that runs it has no module {module!r}", hint=_INSTALL
    )


def judge_hang(name: str, sentence: str) -> Point:
    """Return what is wrong with a command whose ranks wait for each other."""
    return Point(
        ok=False, text=f"{name} is broken: it hangs: {sentence}", hint="--hang TIME waits longer, --hang off for ever"
    )
