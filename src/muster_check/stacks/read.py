"""What the nodes answered → the stack of each rank. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from muster_check.stacks.pulse import FORBIDDEN, OF_PULSE, Pulse, read_pulses

_HEAD = re.compile(
    r"^@rank (?:(?P<role>[^.\s]+)\.)?(?P<rank>\d+) (?P<size>\d+) (?P<host>\S+) (?P<pid>\d+) (?P<state>\S+)"
    r" (?P<waits>\S*)$"
)
_SIGNS = re.compile(
    r"^@signs (?P<cpu>\d+) (?P<io>\d+) (?P<rss>\d+) (?P<threads>\d+) (?P<children>\S+) (?P<gpu>\d+) ?(?P<file>.*)$"
)
_PROGRAM = re.compile(r"^@program (?:(?P<role>[^.\s]+)\.)?(?P<rank>\d+) (?P<size>\d+) (?P<host>\S+) (?P<name>\S+)$")
_DONE = re.compile(r"^@done (\d+)\s*$")
_NODE = re.compile(r"^@node (?P<node>\d+) (?P<host>\S+) (?P<round>\d+) (?P<now>[\d.]+)$")
_STARTS = "no Python frame yet: the process starts"
_TICKS_PER_S = 100
_KIB_PER_MIB = 1024


class Frame(msgspec.Struct, frozen=True):
    """One call on a stack."""

    function: str
    file: str
    line: int

    @property
    def name(self) -> str:
        """Return the file's own name."""
        return self.file.rpartition("/")[2]


class Signs(msgspec.Struct, frozen=True):
    """What the kernel counts of a rank and of what it has started."""

    cpu_s: float = 0.0
    io_bytes: int = 0
    memory_mib: int = 0
    threads: int = 0
    children: tuple[tuple[str, str], ...] = ()
    """Each child's program and its state's letter."""

    waits: str = ""
    """The kernel's function in which the main thread sleeps."""

    file: str = ""
    """What the main thread's system call is about, if its first word is an open file."""

    has_gpu: bool = False
    """Whether it holds a GPU: it then waits in a collective at full speed."""

    gpu_use: int | None = None
    """Percent of the time in which its GPU computed; None: unknown."""

    gpu_mib: int = 0
    """Memory of that GPU that it holds."""


class RankStack(msgspec.Struct, frozen=True):
    """Where one rank stands."""

    rank: int
    size: int
    host: str
    pid: int
    state: str
    """The kernel's letter: R runs, S sleeps, D waits for a file system, T is stopped."""

    frames: tuple[Frame, ...] = ()
    """Of the main thread, the innermost first."""

    threads: tuple[tuple[str, tuple[Frame, ...]], ...] = ()
    thread_ids: tuple[int, ...] = ()
    """The kernel's numbers of these threads, where they are known."""

    trouble: str | None = None
    """Why there is no stack."""

    signs: Signs = Signs()
    owns_gil: bool | None = False
    """Whether the main thread runs Python itself, and no library's code; None: unknown."""

    shown_bytes: int = 0
    """What the rank wrote to show its stack by itself: its next count of bytes has them."""

    is_kept: bool = False
    """Whether no stack was taken this time: the one of an earlier look is shown."""

    pulses: tuple[Pulse, ...] = ()
    """What the kernel counted of its threads before the look at its stack, and after it."""

    record: str = ""
    """Torch's record of its collectives: its form, a space, and its text."""

    ras: str = ""
    """What NCCL says of all ranks, where this rank's node was asked."""

    role: str = ""
    """Of a job of several programs: the one whose rank it is."""

    @property
    def label(self) -> str:
        """Return the rank as its lines are labelled: "3", or "train.3" in a job of several programs."""
        return f"{self.role}.{self.rank}" if self.role else str(self.rank)

    @property
    def unseen(self) -> str:
        """Return why nobody can see its stack; empty where it is seen, and where the process only starts."""
        return "" if self.trouble in {None, _STARTS} else str(self.trouble)


class ProgramOfRank(msgspec.Struct, frozen=True):
    """A rank that does not run Python: its calls are not shown."""

    rank: int
    size: int
    host: str
    name: str
    """The kernel's name of its program."""

    role: str = ""


class Round(msgspec.Struct, frozen=True):
    """One look at every rank."""

    stacks: tuple[RankStack, ...]
    nodes: frozenset[int]
    """The nodes that answered to the end, by their number in the job."""

    at_s: float = 0.0
    """When: the first node's seconds since its start."""

    begun: frozenset[int] = frozenset()
    """The nodes that began to answer."""

    programs: tuple[ProgramOfRank, ...] = ()
    """The ranks that do not run Python."""

    @property
    def ranks(self) -> tuple[RankStack | ProgramOfRank, ...]:
        """Return all ranks that were seen."""
        return (*self.stacks, *self.programs)


def read_rounds(text: str) -> tuple[Round, ...]:
    """Return each look at the ranks; a look that no node finished is the last."""
    stacks: dict[int, list[RankStack]] = {}
    nodes: dict[int, set[int]] = {}
    start_times: dict[int, float] = {}
    started_nodes: dict[int, set[int]] = {}
    programs: dict[int, list[ProgramOfRank]] = {}
    number = 1
    for item in _items(text):
        if isinstance(item, RankStack):
            stacks.setdefault(number, []).append(item)
        elif isinstance(item, ProgramOfRank):
            programs.setdefault(number, []).append(item)
        elif isinstance(item, int):
            nodes.setdefault(number, set()).add(item)
        else:
            number = int(item["round"])
            started_nodes.setdefault(number, set()).add(int(item["node"]))
            start_times.setdefault(number, float(item["now"]))
    return tuple(
        Round(
            tuple(sorted(stacks.get(number, ()), key=by_role_and_rank)),
            frozenset(nodes.get(number, ())),
            start_times.get(number, 0.0),
            frozenset(started_nodes.get(number, ())),
            tuple(sorted(programs.get(number, ()), key=by_role_and_rank)),
        )
        for number in sorted(stacks.keys() | nodes.keys() | programs.keys())
    )


def by_role_and_rank(one: RankStack | ProgramOfRank) -> tuple[str, int]:
    """Return what ranks are sorted by."""
    return one.role, one.rank


def roles_in(rounds: Sequence[Round]) -> tuple[str, ...]:
    """Return the roles whose ranks were seen; ("",) in a job of one program."""
    roles = {each.role for look in rounds for each in look.ranks}
    return tuple(sorted(roles)) or ("",)


def of_role(look: Round, role: str) -> Round:
    """Return what a look has of one role: its ranks are a world of their own."""
    stacks = tuple(stack for stack in look.stacks if stack.role == role)
    programs = tuple(program for program in look.programs if program.role == role)
    return msgspec.structs.replace(look, stacks=stacks, programs=programs)


def sort_by_task(text: str) -> str:
    """Return what srun --label mixed, task by task and without its labels; a line that was cut in two stays so."""
    by_task: dict[str, list[str]] = {}
    for line in text.splitlines():
        if labelled := re.match(r"\s*(\d+):(?: |$)(.*)", line):
            by_task.setdefault(labelled[1], []).append(labelled[2])
    return "".join(f"{line}\n" for lines in by_task.values() for line in lines)


def _items(text: str) -> Iterator[RankStack | ProgramOfRank | int | re.Match[str]]:
    """Yield the beginning of a look at a node, each rank in it, and the node's number at its end."""
    head: re.Match[str] | None = None
    body: list[str] = []
    gpus: list[str] = []
    for line in text.splitlines():
        if match := _NODE.match(line):
            gpus = []
            yield match
        elif match := _DONE.match(line):
            yield int(match[1])
        elif match := _PROGRAM.match(line):
            yield ProgramOfRank(
                int(match["rank"]), int(match["size"]), match["host"], match["name"], match["role"] or ""
            )
        elif line.startswith("@gpu "):
            gpus.append(line[5:])
        elif match := _HEAD.match(line):
            head, body = match, []
        elif line == "@end" and head is not None:
            yield _with_gpu(_stack(head, body), gpus)
            head = None
        else:
            body.append(line)


def _with_gpu(stack: RankStack, lines: Sequence[str]) -> RankStack:
    """Return the rank with what its node says of the GPU that it holds: "GPU, USE" and "GPU, PID, MIB"."""
    rows = [[word.strip() for word in line.split(",")] for line in lines]
    uses = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    held = [row for row in rows if len(row) == 3 and row[1] == str(stack.pid)]
    if not held:
        return stack
    memory_mib = sum(int(row[2]) for row in held if row[2].isdigit())
    shares = [uses[row[0]] for row in held if row[0] in uses]
    signs = msgspec.structs.replace(stack.signs, gpu_use=max(shares, default=None), gpu_mib=memory_mib, has_gpu=True)
    return msgspec.structs.replace(stack, signs=signs)


def _stack(head: re.Match[str], lines: list[str]) -> RankStack:
    match = _SIGNS.match(lines[0]) if lines else None
    own = [line for line in (lines if match is None else lines[1:]) if not line.startswith(_NO_STACK)]
    body = "\n".join(own)
    bare = RankStack(
        int(head["rank"]),
        int(head["size"]),
        head["host"],
        int(head["pid"]),
        head["state"],
        signs=Signs() if match is None else _signs(match, head["waits"]),
        pulses=read_pulses(lines),
        record="".join(line[8:] for line in lines if line.startswith("@record ")),
        ras="\n".join(line[5:] for line in lines if line.startswith("@ras ")),
        role=head["role"] or "",
    )
    if body.strip() == "@kept":
        return msgspec.structs.replace(bare, is_kept=True, owns_gil=None)
    if match := _SHOWN.search(body):
        shown = tuple(_shown_threads(own))
        owns_gil = True if '{"main":"JUMP_' in bare.record else None
        shown_bytes = len(body[match.start() :].encode())
        return msgspec.structs.replace(
            bare, frames=shown[0][1], threads=shown, owns_gil=owns_gil, shown_bytes=shown_bytes
        )
    begin = body.find("[")
    try:
        document = json.loads(body[begin:]) if begin >= 0 else None
    except json.JSONDecodeError:
        document = None
    if document == []:
        return msgspec.structs.replace(bare, trouble=_STARTS)
    if not isinstance(document, list) or not document:
        return msgspec.structs.replace(bare, trouble=_trouble(body))
    threads = [(str(thread.get("thread_name") or "thread"), _frames(thread)) for thread in document]
    number = next((index for index, (name, _) in enumerate(threads) if name == "MainThread"), 0)
    owns = bool(document[number].get("owns_gil"))
    ids = tuple(int(thread.get("os_thread_id") or 0) for thread in document)
    return msgspec.structs.replace(
        bare, frames=threads[number][1], threads=tuple(threads), thread_ids=ids, owns_gil=owns
    )


_NO_STACK = ("@record ", "@ras ", *OF_PULSE)


_SHOWN = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+ .*:$", re.MULTILINE)
_SHOWN_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')


def _shown_threads(lines: Sequence[str]) -> Iterator[tuple[str, tuple[Frame, ...]]]:
    """Yield the threads that Python's faulthandler wrote, the main one first: it is the oldest and is written last."""
    threads: list[list[Frame]] = []
    for line in lines:
        if _SHOWN.match(line):
            threads.append([])
        elif threads and (found := _SHOWN_FRAME.match(line)):
            threads[-1].append(Frame(found["name"], _unescaped(found["file"]), int(found["line"])))
    for number, frames in enumerate(reversed(threads)):
        yield ("thread" if number else "MainThread"), tuple(frames)


def _unescaped(text: str) -> str:
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in text else text


def _signs(match: re.Match[str], waits: str) -> Signs:
    children = tuple(
        (name, state) for name, _, state in (child.rpartition(":") for child in match["children"].split(",")) if name
    )
    return Signs(
        int(match["cpu"]) / _TICKS_PER_S,
        int(match["io"]),
        int(match["rss"]) // _KIB_PER_MIB,
        int(match["threads"]),
        children,
        waits if waits != "0" else "",
        match["file"].strip(),
        int(match["gpu"]) > 0,
    )


def _frames(thread: dict[str, Any]) -> tuple[Frame, ...]:
    return tuple(
        Frame(str(frame["name"]), str(frame["filename"]), int(frame["line"])) for frame in thread.get("frames", ())
    )


def _trouble(body: str) -> str:
    """Return one line that says why py-spy gave nothing."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    if "Operation not permitted" in body or "Permission denied" in body or "EPERM" in body:
        return FORBIDDEN
    return lines[-1] if lines else "py-spy did not answer within 10 s"
