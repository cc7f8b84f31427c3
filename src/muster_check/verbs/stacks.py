"""muster stacks: where every rank of a running job stands, folded into few lines."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from muster.cli.asked_jobs import ask, cases, ids_or_newest, running_case
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json, say
from muster.errors import RequestError, UnknownName
from muster.follow.packs import directory_of_row
from muster.job.option import option
from muster.rank.hostlist import expand
from muster.units import shown, whole_number

if TYPE_CHECKING:
    from muster_check.stacks.fold import Group
    from muster_check.stacks.read import ProgramOfRank, RankStack, Round


def main(words: Words) -> int:
    """Print the classes of ranks; one request to the controller, and one step on the job's nodes."""
    rank: int | None = words.rank
    options = ("--native",) if words.native else ()
    if words.here and words.operands:
        message = f"--here looks at the ranks on this machine, and job {words.operands[0]} is one of Slurm"
        raise RequestError(message, hint=f"muster stacks {words.operands[0]}")
    text, hosts = (_ask_here(rank, options), ()) if words.here else _ask_job(ids_or_newest(words), rank, options)
    from muster_check.stacks.own_words import own_words
    from muster_check.stacks.read import Round, of_role, read_rounds, roles_in

    look = next(iter(read_rounds(text)), Round((), frozenset()))
    answered = look.nodes
    if words.role is not None:
        if words.role not in roles_in([look]):
            raise UnknownName("role", words.role, [role for role in roles_in([look]) if role])
        look = of_role(look, words.role)
    stacks, programs = look.stacks, look.programs
    silent_hosts = [host for number, host in enumerate(hosts) if number not in answered]
    if silent_hosts:
        verb = "does" if len(silent_hosts) == 1 else "do"
        say(f"warning: {', '.join(silent_hosts)} {verb} not answer: nothing is known of the ranks there")
    if not stacks:
        raise _no_stack(rank, programs, "on the hosts that answer, " if silent_hosts else "")
    _warn(stacks)
    # Of a host that does not answer it is unknown which ranks have a process.
    roles = [_of_ranks(of_role(look, role), is_whole=rank is None and not silent_hosts) for role in roles_in([look])]
    if words.json:
        programs_found = [{**_role(each), "rank": each.rank, "host": each.host, "name": each.name} for each in programs]
        document = {**_as_json(roles), "programs": programs_found, "silent_hosts": silent_hosts}
        print_json({**document, "records": list(own_words(stacks))})
    else:
        blocks = ["\n".join(_lines(each, full=bool(words.full))) for each in roles]
        print("\n".join(["\n\n".join(blocks), *own_words(stacks)]))
    return 0


class _Ranks(NamedTuple):
    """The ranks of a job of one program, or of one role."""

    role: str
    groups: Sequence[Group]
    programs: Sequence[ProgramOfRank]
    size: int
    """0: it is unknown which ranks have no process."""


def _of_ranks(look: Round, *, is_whole: bool) -> _Ranks:
    from muster_check.stacks.fold import fold

    sizes = [stack.size for stack in look.stacks if is_whole and not look.programs]
    role = next((each.role for each in look.ranks), "")
    return _Ranks(role, fold(look.stacks), look.programs, max(sizes, default=0))


def _lines(ranks: _Ranks, *, full: bool) -> Iterator[str]:
    from muster_check.stacks.fold import lines_of

    if ranks.role:
        yield f"role {ranks.role}"
    for program in ranks.programs:
        yield f"rank {program.rank} on {program.host}: it runs {program.name}, which is not Python"
    yield from lines_of(ranks.groups, ranks.size, linecache.getline, full=full)


def _role(one: ProgramOfRank | _Ranks) -> dict[str, str]:
    return {"role": one.role} if one.role else {}


def _no_stack(rank: int | None, programs: Sequence[ProgramOfRank], where: str) -> RequestError:
    """Return why there is no stack to show: the ranks do not run Python, or none is to be seen."""
    from muster_check.stacks.judge import NO_RANK, programs_of_roles

    if programs:
        return RequestError(
            f"{where}{programs_of_roles(programs)}: there is no stack to show",
            hint="muster logs shows what they wrote; gdb -p PID, on the node, shows the C functions",
        )
    subject = "no rank was found" if rank is None else f"rank {rank} was not found"
    hint = "either the ranks have not started, or nothing gives them a RANK: muster logs shows what was written"
    return RequestError(f"{subject}: {where}{NO_RANK}{'' if rank is None else f' {rank}'}", hint=hint)


def _rank(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise RequestError(f"{shown(text)} is not a rank", hint="a whole number from 0 up")
    return number


def _ask_here(rank: int | None, options: Sequence[str]) -> str:
    from muster_check.stacks.ask import StackQuestion, ask_here, find_spy, jobs_here

    jobs = jobs_here()
    if not jobs:
        raise RequestError(
            "nothing that muster run has started runs on this machine", hint="muster stacks JOB asks Slurm"
        )
    question = StackQuestion(find_spy(os.environ), rank, options=tuple(options), records=True)
    return "".join(ask_here(job, question) for job in jobs)


def _ask_job(ids: Sequence[str], rank: int | None, options: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return what the hosts of a running job answer, and their names."""
    from muster_check.stacks.ask import StackQuestion, ask_job, find_spy

    case = running_case(ids[0], cases(ids, ask(ids)), "stacks")
    assert case.job is not None  # noqa: S101  # it runs
    directory = directory_of_row(case.run, case.job)
    question = StackQuestion(find_spy(os.environ), rank, options=tuple(options), records=True, directory=directory)
    answer = ask_job(case.job.id, case.job.nodes_of_parts, dict(os.environ), question)
    return answer, tuple(expand(case.job.node_list or ""))


def _warn(stacks: Sequence[RankStack]) -> None:
    from muster_check.stacks.pulse import FORBIDDEN, NO_SPY

    troubles = {stack.trouble for stack in stacks if stack.trouble}
    for trouble in sorted(troubles):
        say(f"warning: {trouble}")
        if trouble == FORBIDDEN:
            say("hint: start the job with --stacks-ready; /proc/sys/kernel/yama/ptrace_scope there is above 0")
        elif trouble == NO_SPY:
            say(f"hint: {_way_to_the_lines()}")


def _way_to_the_lines() -> str:
    """Return what shows the lines where there is no py-spy."""
    from muster.look.installation import has_wheels, installation

    ready = "start the job with --stacks-ready"
    return f"{installation().command_to_add('py-spy')}, where the nodes see it; or {ready}" if has_wheels() else ready


def _as_json(roles: Sequence[_Ranks]) -> dict[str, object]:
    from muster_check.stacks.fold import culprits

    told = ((each, culprits(each.groups, each.size)) for each in roles)
    sentences = [f"role {each.role}: {text}" if each.role else text for each, text in told if text is not None]
    return {
        "ranks": sum(each.size for each in roles),
        "sentence": "; ".join(sentences) or None,
        "groups": [
            {
                **_role(each),
                "ranks": list(group.numbers),
                "hosts": sorted({rank.host for rank in group.ranks}),
                "what": group.what,
                "file": group.where.file if group.where else None,
                "line": group.where.line if group.where else None,
                "function": group.where.function if group.where else None,
                "in_collective": group.in_collective,
                "trouble": group.ranks[0].trouble,
            }
            for each in roles
            for group in each.groups
        ],
    }


COMMAND = CommandLine(
    name="stacks",
    start=main,
    summary="""\
Show at which line every rank of a running job stands, and which rank keeps the others waiting. Ranks at the same line
are shown together. The job goes on: each process stops for a few milliseconds.""",
    options=(
        option("--here", "look at the ranks of muster run on this machine"),
        option("--rank R", "look only at this rank", _rank),
        option("--role NAME", "look only at this role, of a job with several programs"),
        option("--native", "show the C functions too"),
        option("--full", "show every frame of every thread, for one rank of each group of equal ranks"),
        JSON,
    ),
    operands="[JOB]",
    most=1,
    hint="muster jobs lists yours",
    examples=("muster stacks 4711",),
)
