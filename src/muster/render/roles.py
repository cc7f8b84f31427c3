"""The script of a job with several programs: a function for each role, and Muster's own text once for all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.launchers import launcher_named
from muster.launchers.base import Starter
from muster.model.plan import Engine, Plan, Role
from muster.model.words import Template, Word, fold, named


def role_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the job that describe its roles, and the one that runs them."""
    for role in plan.roles:
        yield fold(("muster_role", role.name, *_words(role)))
    meeting = plan.rendezvous
    ports = named("ports", f"{meeting.port_low}-{meeting.port_high}")
    yield fold(("muster_run_roles", plan.own_python or "python3", plan.supervisor, ports))


def _words(role: Role) -> Iterator[Word]:
    shape = role.plan.shape
    text = role.ready.text.text if isinstance(role.ready.text, Template) else role.ready.text
    yield named("first", role.first)
    yield named("nodes", shape.nodes)
    if role.part is not None:
        yield named("part", role.part)
    yield named("ranks", shape.ntasks_per_node)
    if role.after:
        yield named("after", ",".join(role.after))
    yield named("ready", role.ready.kind.value)
    if text:
        yield named("text", text)
    yield named("within", role.ready.within_s)
    yield named("grace", role.plan.grace_s)
    if role.is_main:
        yield named("main", "yes")
    if not role.ends_job:
        yield named("fails", "noted")
    if role.scheme != "http":
        yield named("scheme", role.scheme)
    if role.port is not None:
        yield named("port", role.port)
    if role.ports > 1:
        yield named("ports", role.ports)
    if launcher_named(role.plan.launcher).starter(Engine.SLURM) is Starter.PROGRAM:
        yield named("starter", "program")


def role_function(role: Role, lines: Iterable[str]) -> Iterator[str]:
    """Yield the function that starts the ranks of a role: the script runs it when it is started for that role."""
    yield ""
    yield f"role_{role.name}() {{"
    yield from (f"    {line}" if line else "" for line in lines)
    yield "}"


def texts_of_roles(job: Sequence[str], roles: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield Muster's own text: what all roles have once, then what the job alone and each role alone have.

    A text may use what stands before it (muster_common), so where the first texts differ nothing is shared.
    """
    first = next(iter(roles.values()))
    shared: list[str] = []
    if len({texts[0] for texts in roles.values()}) == 1:
        shared = [text for text in first if all(text in texts for texts in roles.values())]
    yield from shared
    yield from _own("muster_own_job", [text for text in job if text not in shared])
    known: dict[tuple[str, ...], str] = {}
    for name, texts in roles.items():
        rest = tuple(text for text in texts if text not in shared)
        same = known.setdefault(rest, name)
        yield from _own(f"muster_own_{name}", rest if same == name else (f'muster_own_{same} "$@"\n',))


def _own(name: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield a function that defines what these texts define; no line is indented, for a text may hold any."""
    body = [text.rstrip("\n") for text in texts if text.strip()]
    yield f"{name}() {{\n" + "\n".join([*body, ":"]) + "\n}\n"


_LAST = """\
if [ -n "${muster_of_role:-}" ]; then
    "muster_own_$muster_of_role" "$@" && "role_$muster_of_role"
else
    muster_own_job "$@" && job
fi
"""


def last_lines() -> str:
    """Return the end of the script: it is the job, or one of its roles, as the runner has started it."""
    return _LAST
