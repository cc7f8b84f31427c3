"""The roles of a job, as its runner has written them down: where each is, how it stands, which one failed first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.act.record import written_lines, written_object
from muster.errors import RequestError, UnknownName
from muster.model.failure import Failure, FailureKind


class RoleStand(msgspec.Struct, frozen=True):
    """One role of a job, and how it stands."""

    name: str
    hosts: tuple[str, ...]
    ranks: int
    """On each host."""

    port: int
    url: str
    stand: str
    """waits, ready, ended or failed, as far as it is written down; empty: it has started."""

    status: int | None = None
    has_answered: bool = True
    """Whether a role that is ready was seen to answer or to say so; else its command has begun."""

    @property
    def sentence(self) -> str:
        """Return the role in one line."""
        ending = f" with status {self.status}" if self.status is not None else ""
        if self.stand == "ready" and not self.has_answered:
            return f"runs, on {', '.join(self.hosts)}; whether it listens at {self.url} is not known"
        return f"{self.stand or 'starts'}{ending}, on {', '.join(self.hosts)}, {self.url}"

    def host_of(self, rank: int) -> str:
        """Return the host of a rank."""
        count = self.ranks * len(self.hosts)
        if not 0 <= rank < count:
            raise RequestError(f"role {self.name} has no rank {rank}", hint=f"its ranks are 0 to {count - 1}")
        return self.hosts[rank // self.ranks]


def events_of(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield what happened to the roles of a run, in order; what cannot be read is omitted."""
    for line in written_lines(directory / "roles" / "events"):
        with suppress(ValueError):
            yield json.loads(line)


def stands_of(directory: Path) -> tuple[RoleStand, ...]:
    """Return how the roles of a run stand; nothing where the job has not begun, or has no roles."""
    places = written_object(directory / "roles" / "roles.json")
    last = {event["role"]: event for event in events_of(directory) if event["what"] in {"starts", "ready", "ended"}}
    return tuple(_stand(name, place, last.get(name)) for name, place in places.items())


def _stand(name: str, place: dict[str, Any], event: dict[str, Any] | None) -> RoleStand:
    what = "waits" if event is None else event["what"]
    status = event["status"] if event is not None and what == "ended" else None
    hosts, has_answered = tuple(place["nodes"]), place.get("ready") != "joined"
    return RoleStand(name, hosts, int(place["ranks"]), int(place["port"]), place["url"], what, status, has_answered)


def role_of(directory: Path, name: str) -> RoleStand:
    """Return one role of a run; refused where the run has none of this name."""
    stands = stands_of(directory)
    if not stands:
        raise RequestError("the job has no roles, or has not begun", hint="muster jobs lists yours")
    stand = next((stand for stand in stands if stand.name == name), None)
    if stand is None:
        raise UnknownName("role", name, [each.name for each in stands])
    return stand


class FailedRole(msgspec.Struct, frozen=True):
    """The role that ended the job, or without which it went on."""

    name: str
    status: int
    words: str
    """Why, where its status does not say it."""

    is_late: bool
    """Whether it was not ready in time: then its ranks were ended, and did not fail."""


def failed_role(directory: Path) -> FailedRole | None:
    """Return the role that ended the job, else the first one without which it went on; None: none is written down."""
    failures = [event for event in events_of(directory) if event["what"] in {"failed", "late", "noted"}]
    event = next((event for event in failures if event["what"] != "noted"), failures[0] if failures else None)
    if event is None:
        return None
    return FailedRole(str(event["role"]), int(event["status"]), str(event["words"]), event["what"] == "late")


def of_role(name: str, failure: Failure | None, status: int, words: str, *, is_late: bool = False) -> Failure:
    """Return the failure of a role's ranks as one of the role; of the role alone where no rank is named."""
    if failure is None:
        sentence = f"role {name}: {words or f'it ended with status {status}'}"
        kind = FailureKind.LATE if is_late else FailureKind.OUTSIDE
        return Failure(sentence, None, (), status, "", kind, role=name)
    late = f" ({words})" if words else ""
    return replace(failure, sentence=f"role {name}, {failure.sentence}{late}", role=name)
