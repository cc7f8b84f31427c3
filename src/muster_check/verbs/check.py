"""muster check: is this place fit for a run? Here, in a job, the two compared; or what a log says went wrong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import msgspec
from msgspec.structs import replace

from muster.act.prepare import plan_for
from muster.cli.command_line import JSON, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, start_by_name
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError
from muster.images.reference import NO_IMAGE
from muster.job.option import option
from muster.job.request import Request
from muster.launchers import launcher_named
from muster.runner import own_command

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.model.plan import Plan
    from muster.rank.finding import Finding
    from muster_check.ranks.facts import CheckedWorld


def main(words: Words) -> int:
    """Look, judge, tell."""
    start_by_name("check", words.without())
    for option_name, file_name in (("--log", words.log), ("--read", words.read)):
        if file_name is not None:
            _refuse_beside(option_name, words)
            return _log(file_name, words) if option_name == "--log" else _tell_saved(file_name, words)
    facts, request = facts_and_request(words.launch, is_first=False)
    return _tell(*_gathered(request, words.launch.typed, facts, words), words)


def _refuse_beside(option_name: str, words: Words) -> None:
    """Refuse what is typed beside the option of a file to read: nothing is started that it could be for."""
    others = [*words.launch.typed, *(f"--{name}" for name in ("read", "save") if words.typed.values.get(name))]
    other = next((word for word in others if word != option_name), None)
    if other is not None:
        message = f"{option_name} reads a file, and runs nothing that {other} could be for"
        raise RequestError(message, hint=f"muster check {option_name} FILE")


def _gathered(request: Request, rest: Sequence[str], facts: Facts, words: Words) -> tuple[CheckedWorld, list[Finding]]:
    from muster.look.place import stands_in_allocation
    from muster_check.ranks.facts import CheckedWorld
    from muster_check.ranks.gather import node_facts

    if words.save:
        _check_place(Path(words.save))
    login = node_facts(facts.environment, facts.working_directory)
    if not (_asks_for_a_job(request) or stands_in_allocation(facts)):
        if words.save:
            _save(Path(words.save), (), login, {})
        return CheckedWorld(login=login), []
    from muster_check.job import expected_of, look_at_job

    plan = _plan(request, facts, rest)
    expected = expected_of(plan)
    say("looking at every node, and at the network between them: some seconds", quiet=words.quiet)
    gathered = look_at_job(
        [*own_command(), "run", *rest, *_rank_by_rank(plan)],
        expected,
        Path(plan.gate[1]),
        host=login["host"],
        job_name=None if request.given("job_name") else "muster-check",
        image=request.image not in {None, NO_IMAGE},
    )
    if gathered.stranger is not None:
        login["stranger"] = gathered.stranger
    if words.save:
        _save(Path(words.save), gathered.documents, login, expected)
    from muster_check.ranks.facts import world_of

    return world_of(gathered.documents, login, expected), list(gathered.findings)


def _rank_by_rank(plan: Plan) -> list[str]:
    """Return the words for a check without torchrun's agents, which hold the port at which its ranks meet."""
    replacement = launcher_named(plan.launcher).rank_by_rank(plan.engine)
    return [] if replacement is None else ["--launcher", replacement]


def _asks_for_a_job(request: Request) -> bool:
    """Return whether anything but the site was asked for: nodes, an account, this machine …"""
    return bool(set(request.origins) - {"site", "site_set", "facts", "venv", "chdir", "account", "export"})


def _plan(request: Request, facts: Facts, typed_words: Sequence[str]) -> Plan:
    """Return the plan of this very launch; that of the launch itself is the same."""
    from muster.look.place import RunPlace, place_of
    from muster.model.plan import Engine

    place, _ = place_of(request, facts)
    engine = Engine.HERE if place is RunPlace.HERE else Engine.SLURM
    return plan_for(
        replace(request, command=("true",), check=True),
        facts,
        typed_words,
        engine=engine,
        is_within=place is RunPlace.WITHIN,
        stream=True,
    )


def _check_place(path: Path) -> None:
    """Refuse a file of --save that cannot be written, before any node is asked."""
    if not path.parent.is_dir():
        raise RequestError(f"--save {path}: there is no directory {path.parent}", hint="make it")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        reason = "it is a directory" if path.is_dir() else "you cannot write it"
        raise RequestError(f"--save {path}: {reason}", hint="name a file you can write")


def _save(path: Path, documents: Sequence[Any], login: Any, expected: Any) -> None:
    text = json.dumps({"muster_check": 1, "ranks": list(documents), "login": login, "expected": expected})
    from muster.act.record import write_whole

    try:
        if path.exists() and not path.is_file():  # /dev/stdout
            path.write_text(text + "\n", encoding="utf-8")
        else:
            write_whole(path, text + "\n", mode=0o666)
    except OSError as error:
        raise RequestError(f"--save {path}: {error.strerror}", hint="name a file you can write") from None


def _saved(path: Path) -> CheckedWorld:
    from muster_check.ranks.facts import Expected, Node, Rank, world_of

    hint = "give a file of muster check --save"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"--read {path}: {error.strerror}", hint=hint) from None
    except (ValueError, RecursionError):
        raise RequestError(f"--read {path}: this is not JSON", hint=hint) from None
    if not isinstance(document, dict) or document.get("muster_check") != 1:
        raise RequestError(f"--read {path}: the file does not hold the facts of a check", hint=hint)
    try:
        return world_of(
            msgspec.convert(document["ranks"], list[Rank]),
            msgspec.convert(document["login"], Optional[Node]),
            msgspec.convert(document["expected"], Expected),
        )
    except (KeyError, msgspec.ValidationError) as error:
        raise RequestError(f"--read {path}: it is not whole: {error}", hint=hint) from None


# --- what is told ---------------------------------------------------------------------------------------------------


def _tell_saved(name: str | Path, words: Words) -> int:
    """Judge and show what a file holds: its values have the right kinds, and may still be nonsense."""
    try:
        return _tell(_saved(Path(name)), [], words)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RequestError(
            f"--read {name}: the facts in it cannot be judged: {error!r}", hint="give a file of muster check --save"
        ) from None


def _tell(world: CheckedWorld, start_findings: list[Finding], words: Words) -> int:
    from muster.rank.finding import BROKEN
    from muster_check.ranks.table import judge

    findings = [
        *start_findings,
        *(finding for finding in judge(world) if not (start_findings and finding.what == "meeting")),
    ]
    if words.json:
        print_json(_document(world, findings))
    else:
        _show(world, findings, words)
    return 1 if any(finding.status == BROKEN for finding in findings) else 0


def _document(world: CheckedWorld, findings: Sequence[Finding]) -> dict[str, Any]:
    from muster_check.origins import variables_of
    from muster_check.ranks.table import CHECKS

    return {
        "hosts": world.hosts,
        "ranks": len(world.ranks),
        "checks": list(dict.fromkeys(check.name for check in CHECKS)),
        "findings": [{**finding._asdict(), "hosts": list(finding.hosts)} for finding in findings],
        "variables": [variable._asdict() for variable in variables_of(world)],
    }


def _show(world: CheckedWorld, findings: Sequence[Finding], words: Words) -> None:
    from muster.rank.finding import NOTE

    quiet = words.quiet
    if words.picture:
        from muster_check.picture import pictures

        print("\n\n".join(pictures(world)) or "nothing is known of any node")
        print()
    if words.variables:
        from muster_check.origins import variables_of

        rows = [(variable.name, variable.value, variable.origin, variable.holders) for variable in variables_of(world)]
        print_table("Variables in force", ("variable", "value", "set by", "ranks"), rows)
        print()
    for finding in findings:
        print(f"{finding.status}: {finding.what}: {finding.evidence}\n    hint: {finding.remedy}", flush=True)
    wrong = [finding for finding in findings if finding.status != NOTE]
    ranks, hosts = len(world.ranks), len(world.hosts)
    place = f"{ranks} rank{'s' * (ranks != 1)} on {hosts} host{'s' * (hosts != 1)}" if ranks else "this node"
    if not wrong:
        say(f"{place}: nothing wrong was found", quiet=quiet)
    if not world.ranks and not findings:
        say("muster check -N 2 looks at two compute nodes, and at what differs from here", quiet=quiet)


# --- a log ----------------------------------------------------------------------------------------------------------


def _log(name: str, words: Words) -> int:
    from muster.follow.known_causes import read_log

    if name == "-":
        report = read_log(sys.stdin.buffer)
    else:
        try:
            with Path(name).open("rb") as file:
                report = read_log(file)
        except OSError as error:
            raise RequestError(f"--log {name}: {error.strerror}", hint="give the output of a job") from None
    if words.json:
        print_json(report.as_json())
    else:
        for line in report.lines(quiet=words.quiet):
            print(line)
    return 1 if report.is_broken else 0


COMMAND = CommandLine(
    name="check",
    start=main,
    summary="""\
Find what would make a run fail, hang or crawl, before it does. Alone it looks at this node. With the options of a
launch it starts the same ranks as a job would, looks at every node and at the network between them, and compares them
with this one. It takes seconds, and needs neither torch nor a compiler.

Status 0: nothing is broken; 1: something is.""",
    fields=fields_but(
        *("output", "error", "per_rank_files", "no_label", "check", "snapshot", "stage_env", "stage", "stage_out")
    ),
    hint="muster run --check -- COMMAND checks first, and then runs it",
    options=(
        option("--picture", "draw the nodes: cores, NUMA domains, GPUs, network cards, and where each rank runs"),
        option(
            "--variables", "list the variables that change how ranks communicate: value, who set it, which ranks differ"
        ),
        JSON,
        option("--save FILE", "write what the ranks reported to a file, for --read"),
        option("--read FILE", "judge a file of --save, and run nothing", Path),
        option(
            "--log FILE",
            "read a log instead: what went wrong first, why, what to do, and which network NCCL or RCCL "
            "chose; -: stdin",
        ),
        option("--quiet", "show findings only"),
    ),
    examples=("muster check -N 2 -g 4", "muster check --log slurm-4711.out"),
)
