"""muster shell: an interactive shell on a compute node, in one line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from muster.cli.command_line import QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, warn
from muster.cli.output import say
from muster.errors import MachineLacks, RequestError
from muster.job.option import option, parse_count
from muster.job.options import read_words
from muster.rank.hostlist import expand

if TYPE_CHECKING:
    from muster.follow.cases import JobCase


def main(words: Words) -> int:
    """Become the shell."""
    if words.first is not None and words.first.isdigit():
        for field in words.launch.values:
            message = f"{words.launch.origins[field].where} is for a new job, but {words.first} has begun"
            raise RequestError(message, hint=f"omit it: muster shell {words.first}")
        return _attach(words)
    if words.role is not None or words.rank is not None:
        message = "--role and --rank name a rank of a running job, but no job is named"
        raise RequestError(message, hint="muster shell JOB --role serve --rank 0")
    from muster.act.kept_cluster import know_cluster
    from muster.act.launch import become_shell
    from muster.look.image_facts import look_at_image
    from muster.look.place import RunPlace, place_of
    from muster.look.size import refuse_parts
    from muster.plan.build import make_plan
    from muster.plan.interactive import for_a_shell
    from muster.sites.load import choose_site, overrides_from
    from muster.slurm.granted import read_granted
    from muster.start import place_parts

    facts, request = facts_and_request(words.launch, quiet=words.quiet)
    place, reason = place_of(request, facts)
    if place is RunPlace.WITHIN:
        refuse_parts(read_granted(facts.environment))
    if place is RunPlace.HERE:
        raise MachineLacks(
            "slurm",
            f"{reason}, and you already have a shell on this machine",
            hint="muster lab shell",
        )
    cluster = know_cluster(facts, fresh=request.fresh).facts if place is RunPlace.ALLOCATE else None
    site = choose_site(request.site, facts, overrides_from(request.site_set), cluster)
    program = "sh" if request.image else facts.environment.get("SHELL", "/bin/sh")  # the user's may not be in an image
    shell_request = for_a_shell(request, site, program)
    plan = make_plan(
        shell_request,
        site,
        look_at_image(shell_request, site, facts),
        typed=words.launch.typed,
        within=place is RunPlace.WITHIN,
        stream=True,
    )
    warn(plan.notes, quiet=words.quiet)
    if place is RunPlace.ALLOCATE and plan.shape.gpus_per_node and not plan.shape.cpus_per_task:
        text = "how many cores go with a GPU is not known here: Slurm gives its default, often one; -c N asks for more"
        say(text, quiet=words.quiet)
    place_parts(plan, say)
    return become_shell(plan, facts.environment, within=place is RunPlace.WITHIN, say=say)


def _attach(words: Words) -> int:
    """Become a shell beside a rank of a job that runs."""
    from muster.act.attach import attach
    from muster.cli.asked_jobs import ask, cases, running_case
    from muster.cli.job_words import other_owner
    from muster.follow.roles import role_of, stands_of

    job_id, *rest = words.operands
    behind = read_words(rest, {name: COMMAND.own[name] for name in ("role", "rank")})
    role, rank = behind.values.get("role", words.role), behind.values.get("rank", words.rank) or 0
    case = running_case(job_id, cases([job_id], ask([job_id])), "shell")
    owner = "" if case.job is None else other_owner(case.job)
    if owner and os.geteuid() != 0:
        raise RequestError(f"job {job_id} belongs to {owner}", hint="only its owner can open a shell in it")
    stands = stands_of(case.run.directory) if case.run is not None else ()
    if stands and role is None:
        names = ", ".join(stand.name for stand in stands)
        raise RequestError(f"job {job_id} has several roles: {names}", hint=f"muster shell {job_id} --role NAME")
    if role is not None and case.run is not None:
        host = role_of(case.run.directory, role).host_of(rank)
    else:
        host = _host_of(case, rank)
    command = behind.rest or (os.environ.get("SHELL", "/bin/sh"), "-i")
    parts = case.job.parts if case.job is not None else ()
    part = next((number for number, each in enumerate(parts) if host in expand(each.node_list or "")), None)
    attach(case.shown_id, host, role or "", rank, command, os.environ, part)


def _host_of(case: JobCase, rank: int) -> str:
    """Return the host of a rank of a job of one program, whose ranks fill one node after the other."""
    from muster.follow.find_output import find_output

    hosts = expand(case.job.node_list or "") if case.job is not None else []
    output = find_output(case.job, case.run, case.asked)
    ranks = output.ranks if output is not None else None
    if ranks is None:
        if rank:
            raise RequestError(
                f"where rank {rank} runs is not known", hint=f"muster shell {case.asked}: on its first node"
            )
        return hosts[0]
    if rank >= ranks:
        raise RequestError(f"the job has no rank {rank}", hint=f"its ranks are 0 to {ranks - 1}")
    return hosts[rank * len(hosts) // ranks]


_NOT_FOR_A_SHELL = (
    *("output", "error", "per_rank_files", "no_label", "launcher", "here", "snapshot", "check"),
    *("stage_env", "stage", "stage_out", "torchrun", "closed", "hang", "stacks_ready"),
    *("sweep", "sweep_at_once", "sweep_per_node", "requeue", "restart", "spares", "checkpoint"),
    *("until_done", "links", "save_before", "save_signal"),
)
COMMAND = CommandLine(
    name="shell",
    start=main,
    summary="""\
Open a shell on the first node: in the allocation where this is typed, else on the site's interactive or debug queue.
-g 2 asks for a part of a node, with the cores of its GPUs.

With the id of a running job: open the shell beside a rank of it, on the rank's host, in its environment and image.
Rank 0 unless --rank names another; of a job with roles --role says whose.""",
    operands="[JOB] [--] [COMMAND…]",
    most=None,
    runs=True,
    fields=fields_but(*_NOT_FOR_A_SHELL),
    options=(
        option("--role NAME", "with JOB: the role whose rank is meant", group="beside a rank"),
        option("--rank R", "with JOB: the rank (default: 0)", parse_count(0, 1_000_000), group="beside a rank"),
        QUIET,
    ),
    examples=("muster shell -g 1 -t 30", "muster shell 123 --role serve -- nvidia-smi"),
)
