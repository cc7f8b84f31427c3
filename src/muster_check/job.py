"""The ranks of a check: started as any command is, heard line by line, not waited for without end."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from muster.errors import RequestError, SiteError
from muster.model.plan import Plan
from muster.rank import contract
from muster.rank.finding import BROKEN, Finding, hosts_in_words
from muster.runner import PIPE, end_group, start
from muster_check.pack import place_check
from muster_check.ranks.facts import Expected, Stranger
from muster_check.ranks.lines import LineReader
from muster_check.ranks.store import knock

# From the first word of a rank, or of srun about one, to the last: the ranks themselves give up before.
_PATIENCE_S = 18.0
# A host that is stopped keeps its step alive for long after everybody else has told.
_AFTER_THE_END_S = 1.0
_ENDING_S = 15.0
_LONGEST_LINE = 1 << 16
_UNREACHED = re.compile(r"Task launch for \S+ failed on node (\S+): (Communication .*|.*imed out.*)")
_REFUSAL = re.compile(r"muster: error: (?P<what>.*)\n(?:\n(?:.*: )?hint: (?P<hint>.*))?")
_OF_A_RANK = re.compile(r"^(?:srun|mpirun|slurmstepd|prterun|torchrun)[^:]*: ")
_QUEUE = re.compile(r"^(?:srun|salloc): (?:job|Pending|Granted|Nodes|Waiting|Relinquishing)")


# Of Python, about the file that was put beside the project; and of srun, about its tasks.
_NOT_THERE = re.compile(r"muster-runs/check[^/']*\.pyz': \[Errno 2\]")
_ENDED = re.compile(r"^srun: error: ([^:]+): tasks? [^:]*: Exited with exit code 2$", re.MULTILINE)


class Looked(NamedTuple):
    """What the ranks told, and what their launch said where they could not."""

    documents: tuple[Any, ...]
    stranger: Stranger | None
    findings: tuple[Finding, ...]


def expected_of(plan: Plan) -> Expected:
    """Return what a launch that is checked promises, for the judges; and who set its variables."""
    muster_names = dict.fromkeys((*contract.PUBLISHED, contract.OMP_NUM_THREADS), "muster")
    planned_names = {
        variable.name: variable.reason.origin
        for variable in plan.variables
        if variable.value is not None or variable.pass_on
    }
    expected: Expected = json.loads(plan.gate[-1])
    return {**expected, "origins": {**muster_names, **planned_names}}


def look_at_job(
    launch: Sequence[str], expected: Expected, file: Path, *, host: str, job_name: str | None, image: bool
) -> Looked:
    """Start the gatherers, put into `file`, with `launch`, and hear them; try to join them as a stranger on `host`."""
    place_check(file)
    sent_facts = {key: value for key, value in expected.items() if key != "origins"}
    name = ["--job-name", job_name] if job_name else []
    python = "python3" if image else "python"
    words = [*launch, "--no-label", *name, "--", python, str(file), "facts", json.dumps(sent_facts)]
    process = start(words, stdin=PIPE, stdout=PIPE, stderr=PIPE, own_group=True)
    assert process.stdout is not None  # noqa: S101  # asked for above
    assert process.stderr is not None  # noqa: S101
    assert process.stdin is not None  # noqa: S101
    hearing = _Hearing(host, process.stdin, closed=expected.get("closed", False))
    ears = [
        threading.Thread(target=hearing.hear, args=(stream, sink), daemon=True)
        for stream, sink in ((process.stdout, hearing.facts), (process.stderr, hearing.words))
    ]
    for ear in ears:
        ear.start()
    try:
        in_time = hearing.wait(ears)
    except KeyboardInterrupt:
        end_group(process, grace_s=5)
        raise
    if not in_time:
        # The verdict does not wait for it: salloc gives the nodes back only when a host that is stopped is given up.
        threading.Thread(target=end_group, args=(process,), kwargs={"grace_s": _ENDING_S}).start()
    status = process.wait() if in_time else 1
    process.stdin.close()
    documents = tuple(hearing.reader.documents)
    return Looked(documents, hearing.stranger, tuple(_of_launch(hearing.said(), status, documents, in_time=in_time)))


class _Hearing:
    """Both streams of the launch, at once."""

    def __init__(self, host: str, end_of_try: IO[bytes], *, closed: bool) -> None:
        self.reader = LineReader()
        self.stranger: Stranger | None = None
        self._host, self._end_of_try, self._closed = host, end_of_try, closed
        self._said: list[str] = []
        self._first: float | None = None

    def hear(self, stream: IO[bytes], sink: Any) -> None:
        with stream:
            while line := stream.readline(_LONGEST_LINE):
                sink(line.decode(errors="replace").rstrip("\r\n"))

    def facts(self, line: str) -> None:
        if self.reader.take(line):
            if self.reader.place is not None and self.stranger is None:
                self.stranger = knock(self._host, *self.reader.place, closed=self._closed)
                self._end_of_try.close()
            else:  # where rank 0 listens is told before it waits for the others
                self._first = self._first or time.monotonic()
        else:
            self.words(line)

    def words(self, line: str) -> None:
        self._said.append(line)
        if _OF_A_RANK.match(line) and not _QUEUE.match(line):
            self._first = self._first or time.monotonic()

    def said(self) -> str:
        return "\n".join(self._said)

    def wait(self, ears: Sequence[threading.Thread]) -> bool:
        """Return whether both streams ended by themselves."""
        ended: float | None = None
        while any(ear.is_alive() for ear in ears):
            for ear in ears:
                ear.join(0.1)
            if self.reader.ended:
                ended = ended or time.monotonic()
                if time.monotonic() - ended > _AFTER_THE_END_S:
                    return False
            elif self._first is not None and time.monotonic() - self._first > _PATIENCE_S:
                return False
        return True


def _of_launch(error_text: str, status: int, documents: Sequence[Any], *, in_time: bool) -> list[Finding]:
    """Return what a launch that brought no ranks says of itself."""
    refusals = {match["what"]: match["hint"] for match in _REFUSAL.finditer(error_text)}
    if documents:
        return []
    if status in {2, 3} and len(refusals) == 1 and "srun:" not in error_text and "rank" not in error_text:
        (sentence, hint), kind = next(iter(refusals.items())), RequestError if status == 2 else SiteError
        raise kind(sentence, hint=hint)
    findings = [Finding("start", BROKEN, sentence, hint or "see above") for sentence, hint in refusals.items()]
    lines = [line for line in error_text.splitlines() if line.strip()]
    if not findings and any(_NOT_THERE.search(line) for line in lines):
        hosts = tuple(sorted(set(_ENDED.findall(error_text))))
        place = hosts_in_words(hosts) if hosts else "a node"
        evidence = f"the working directory is another one, or not there, on {place}"
        findings = [Finding("shared directory", BROKEN, evidence, "run from a file system that all nodes share", hosts)]
    if not findings:
        for host, words in dict(_UNREACHED.findall(error_text)).items():
            evidence = f"Slurm could not start the ranks of {host}: {words.lower()}"
            findings.append(
                Finding("meeting", BROKEN, evidence, f"nothing reaches {host}: exclude it with -x {host}", (host,))
            )
    if not findings:
        from muster.follow.known_causes import read_log

        causes = [cause for cause in read_log([line.encode() for line in lines]).causes if not cause.signature.echo]
        findings = [Finding("start", BROKEN, cause.evidence, cause.remedy) for cause in causes[:2]]
    if not findings:
        own_lines = [line for line in lines if not line.startswith(("srun:", "muster: "))]
        last = next(reversed(own_lines or lines), "")
        ending = f"ended with status {status}" if in_time else f"said nothing for {_PATIENCE_S:.0f} s"
        hint = "muster run, with these options, -- true shows the same"
        findings = [Finding("start", BROKEN, f"the launch {ending}: {last}", hint)]
    return findings
