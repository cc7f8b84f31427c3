"""A log of any size: what went wrong first, what only followed, and which network was chosen. Bounded memory.

The first error is the one that stands first, not the most frequent one: one rank fails, and a thousand then complain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from muster.follow.first_failure import first_in
from muster.follow.nccl_log import NcclLog, Transport, judge_transports
from muster.follow.signatures import Signature, signatures
from muster.follow.watch import LogFile
from muster.launchers import by_agents_first
from muster.model.failure import Failure, hint_of_status
from muster.rank.finding import BROKEN, Finding

_CHUNK_BYTES = 1 << 20
# A line of gigabytes is looked at piece by piece; a cause stands within a few hundred bytes.
_LONGEST_LINE_BYTES = 1 << 16
_SHOWN = 300
_MOST_NCCL_LINES = 200_000
_MOST_COUNTED = 1000
_MOST_REPORTS = 10_000
_OWN_ERROR = "muster-error"
_HINT_WITHIN_LINES = 100
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class Cause(msgspec.Struct, frozen=True):
    """One signature that a log holds, where it stands first."""

    signature: Signature
    line: int
    rank: int | None
    text: str
    cause: str
    """The signature's sentence, with what this line says."""

    times: int = 1
    hint: str = ""
    """What the program that wrote the line advises itself."""

    host: str | None = None
    """The host that the line blames."""

    def blames_another(self, failure: Failure | None) -> bool:
        """Return whether Slurm names a failed node and the line another: mpirun's daemons lose each other."""
        if failure is None or failure.tasks or failure.host is None:
            return False
        return self.host not in {None, failure.host}

    @property
    def evidence(self) -> str:
        rank_words = "" if self.rank is None else f", rank {self.rank}"
        return f"{self.cause} (line {self.line}{rank_words}: {self.text})"

    @property
    def remedy(self) -> str:
        return self.hint or self.signature.remedy


class Report(msgspec.Struct, frozen=True):
    """What a log says."""

    causes: tuple[Cause, ...]
    """Ordered: what explains the rest first; consequences last."""

    transports: dict[Transport, list[str]]
    findings: tuple[Finding, ...]
    lines_read: int
    failure: Failure | None = None
    """The rank that failed first, as srun, torchrun or mpirun report it."""

    @property
    def is_broken(self) -> bool:
        return bool(self.causes or self.failure) or any(finding.status == BROKEN for finding in self.findings)

    def lines(self, *, quiet: bool = False) -> Iterator[str]:
        """Yield lines for a person."""
        first = [cause for cause in self.causes if not cause.signature.echo][:1]
        if self.failure is None and not first:
            first = list(self.causes[:1])
        for cause in first:
            yield f"first: {cause.cause}"
            yield f"    {_where(cause)}: {cause.text}"
            yield f"    hint: {cause.remedy}"
            yield f"    known as {cause.signature.id}, from {cause.signature.source}"
        if self.failure is not None:
            yield f"{'failed' if first else 'first'}: {self.failure.sentence}"
            yield f"    {self.failure.line}"
            if not first:
                yield f"    hint: {_look_at(self.failure)}"
        for cause in self.causes:
            if cause not in first:
                yield f"{'after it' if cause.signature.echo else 'also'}: {cause.cause} ({_where(cause)})"
                if not cause.signature.echo:
                    yield f"    hint: {cause.remedy}"
        for transport, hosts in self.transports.items():
            yield f"network: {_in_words(transport, hosts)}"
        for finding in self.findings:
            yield f"{finding.status}: {finding.what}: {finding.evidence}"
            yield f"    hint: {finding.remedy}"
        if not self.causes and not self.findings and self.failure is None and not quiet:
            yield f"none of {len(signatures())} known errors in {self.lines_read} line{'s' * (self.lines_read != 1)}"

    def as_json(self) -> dict[str, Any]:
        """Return stable keys, documented in docs/reference/json.md."""
        return {
            "lines": self.lines_read,
            "first_failure": self.failure and self.failure.as_json(),
            "causes": [
                {
                    "id": cause.signature.id,
                    "family": cause.signature.family,
                    "cause": cause.cause,
                    "remedy": cause.remedy,
                    "source": cause.signature.source,
                    "consequence": cause.signature.echo,
                    "line": cause.line,
                    "rank": cause.rank,
                    "text": cause.text,
                    "times": cause.times,
                }
                for cause in self.causes
            ],
            "transports": [
                {**msgspec.to_builtins(transport), "hosts": hosts} for transport, hosts in self.transports.items()
            ],
            "findings": [{**finding._asdict(), "hosts": list(finding.hosts)} for finding in self.findings],
        }


def _look_at(failure: Failure) -> str:
    """Return what to read where nothing in the log is known as a cause."""
    hint = hint_of_status(failure.status)
    if hint is not None:
        return hint
    if not failure.tasks:
        return "what stands before this line says why"
    rank = failure.tasks[0]
    return f"the last lines of rank {rank} say why: muster logs JOB --rank {rank}"


def _where(cause: Cause) -> str:
    rank_words = "" if cause.rank is None else f", rank {cause.rank}"
    times_words = "" if cause.times == 1 else f", {cause.times}{'+' if cause.times >= _MOST_COUNTED else ''} times"
    return f"line {cause.line}{rank_words}{times_words}"


def _in_words(transport: Transport, hosts: Sequence[str]) -> str:
    parts = [transport.network or "not told"]
    parts += [f"plugin {transport.plugin}"] if transport.plugin else []
    parts += [f"provider {transport.provider}"] if transport.provider else []
    parts += [f"cards {', '.join(transport.cards)}"] if transport.cards else []
    if transport.gpu_direct is not None:
        parts.append("GPU-direct" if transport.gpu_direct else "no GPU-direct")
    parts += [f"{transport.channels} channels"] if transport.channels else []
    parts += [f"{' and '.join(transport.algorithms)} connected"] if transport.algorithms else []
    parts += [transport.version] if transport.version else []
    names = sorted(filter(None, hosts))
    return "; ".join(parts) + (f" (on {', '.join(names[:4])}{' …' if len(names) > 4 else ''})" if names else "")


def explain(lines: Iterable[str], failure: Failure | None = None) -> Cause | None:
    """Return the one signature that explains these few lines of this failure best; None: none is known."""
    causes = _Search()
    for number, line in enumerate(lines, start=1):
        causes.look(number, line.encode(errors="replace"))
    # Slurm ended the others of a rank that ended by itself, and says so in the name of rank 0.
    is_own = failure is not None and bool(failure.tasks) and 0 < (failure.status or 0) <= 128
    no_cause = {"slurm-cancelled"} if is_own else set[str]()
    explaining = (cause for cause in causes.ordered() if cause.signature.id not in no_cause)
    return next((cause for cause in explaining if not cause.blames_another(failure)), None)


def read_log(source: IO[bytes] | Iterable[bytes]) -> Report:
    """Read it once, from its beginning to its end."""
    search, nccl, reports = _Search(), NcclLog(), _Reports()
    lines_read = nccl_lines = 0
    for first_line, chunk in _chunks(source):
        possible = search.may_hold(chunk)
        nccl_here = nccl_lines < _MOST_NCCL_LINES and b"NCCL" in chunk
        reports_here = reports.may_be_in(chunk)
        lines = chunk.split(b"\n")
        lines_read = first_line + len(lines) - 1
        if not (possible or nccl_here or reports_here):
            continue
        for number, line in enumerate(lines, start=first_line):
            if nccl_here and b"NCCL" in line:
                nccl_lines += 1
                nccl.take(_clean(line))
            if possible:
                search.look(number, line, possible)
            if reports_here:
                reports.take(line)
    transports = nccl.transports()
    findings = tuple(judge_transports(transports))
    failure = reports.first()
    causes = [
        cause
        for cause in search.ordered()
        if not (cause.signature.about_network and transports and not findings) and not cause.blames_another(failure)
    ]
    return Report(tuple(causes), transports, findings, lines_read, failure)


class _Reports:
    """What the launchers themselves report of their ranks: few lines, which are read once all are there."""

    _WORDS = (
        *(
            b"srun: ",
            b"salloc: ",
            b"slurmstepd: ",
            b"Root Cause (first ",
            b"exitcode  : ",
            b"noticed that process rank ",
        ),
        *(b"Process name: [[", b" RUNNING AT ", b"WITH THE EXIT STRING: ", b"Remote daemon: [["),
    )
    _LINE = re.compile(
        rb"(?:srun|salloc|slurmstepd): |Root Cause \(first |\s+(?:time|host|rank|exitcode)\s+: |"
        rb"\S+ noticed that process rank |"
        rb"\s*Process name: \[\[|\s*Exit code: |=\s+(?:RANK |PID )|YOUR APPLICATION TERMINATED |\s*Remote daemon: \[\["
    )

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._of_torchrun = False

    def may_be_in(self, chunk: bytes) -> bool:
        self._of_torchrun = self._of_torchrun or b"torch.distributed.elastic" in chunk
        return len(self._lines) < _MOST_REPORTS and any(word in chunk for word in self._WORDS)

    def take(self, raw: bytes) -> None:
        if len(self._lines) < _MOST_REPORTS and self._LINE.match(raw):
            self._lines.append(_CONTROL.sub("", raw.decode(errors="replace"))[:_SHOWN])

    def first(self) -> Failure | None:
        """Return the first failure; the log does not say which launcher wrote it."""
        return first_in([self._lines], by_agents_first(), "torchrun" if self._of_torchrun else "")


class _Search:
    """Which signatures a log holds. Plain words of each are looked for first: most of a log is none of our business."""

    def __init__(self) -> None:
        self._signatures = signatures()
        self._found: dict[str, Cause] = {}

    def may_hold(self, chunk: bytes) -> tuple[Signature, ...]:
        return tuple(
            signature
            for signature in self._signatures
            if (signature.id not in self._found or self._found[signature.id].times < _MOST_COUNTED)
            and signature.may_be_in(chunk)
        )

    def look(self, number: int, raw: bytes, signatures: Sequence[Signature] | None = None) -> None:
        self._take_hint(number, raw)
        for signature in self._signatures if signatures is None else signatures:
            if not signature.may_be_in(raw):
                continue
            earlier = self._found.get(signature.id)
            if earlier is not None and earlier.times >= _MOST_COUNTED:
                continue
            match = signature.expression.search(raw.decode(errors="replace"))
            if match is None:
                continue
            if earlier is not None:
                self._found[signature.id] = msgspec.structs.replace(earlier, times=earlier.times + 1)
                continue
            line = LogFile(Path()).line(raw)
            fields = {
                name: _clean(value.encode(errors="replace"))[:_SHOWN] for name, value in match.groupdict("").items()
            }
            cause = signature.cause.format_map(fields) if fields else signature.cause
            text = _clean(line.text)[:_SHOWN]
            self._found[signature.id] = Cause(signature, number, line.rank, text, cause, host=fields.get("host"))

    def _take_hint(self, number: int, raw: bytes) -> None:
        """Take the hint of one of Muster's own errors, two lines below it; other ranks may write between them."""
        own_error = self._found.get(_OWN_ERROR) if b"hint: " in raw else None
        if own_error is None or own_error.hint or not own_error.line < number <= own_error.line + _HINT_WITHIN_LINES:
            return
        line = LogFile(Path()).line(raw)
        if line.rank == own_error.rank and line.text.startswith(b"hint: "):
            hint = _clean(line.text).removeprefix("hint: ")[:_SHOWN]
            self._found[_OWN_ERROR] = msgspec.structs.replace(own_error, hint=hint)

    def ordered(self) -> list[Cause]:
        """Return causes before consequences, each kind in the order of the log; of one line only the most telling."""
        by_place = sorted(self._found.values(), key=lambda cause: (cause.signature.echo, cause.line))
        seen_lines: set[int] = set()
        return [cause for cause in by_place if not (cause.line in seen_lines or seen_lines.add(cause.line))]  # type: ignore[func-returns-value]


def _clean(raw: bytes) -> str:
    """Return a line for a terminal: no colours, no control characters, whatever a rank wrote."""
    return _CONTROL.sub("", raw.decode(errors="replace")).strip()


def _chunks(source: IO[bytes] | Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines and the number of the first: never more than a chunk and a line in memory."""
    number, rest = 1, b""
    for piece in _pieces(source):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if not newline and len(rest) < _LONGEST_LINE_BYTES:
            continue
        if not newline:
            whole, rest = rest, b""
        yield number, whole
        number += whole.count(b"\n") + len(newline)
    if rest:
        yield number, rest


def _pieces(source: IO[bytes] | Iterable[bytes]) -> Iterator[bytes]:
    read = getattr(source, "read", None)
    if read is None:
        yield b"".join(line.rstrip(b"\r\n") + b"\n" for line in source)
        return
    while piece := read(_CHUNK_BYTES):
        yield piece
