"""muster url: where a role of a job listens, and how it is reached from outside."""

from __future__ import annotations

import socket

from muster.cli.asked_jobs import ask, cases, only_case
from muster.cli.command_line import QUIET, CommandLine, Words
from muster.cli.output import say
from muster.errors import RequestError
from muster.follow.roles import RoleStand, role_of, stands_of


def main(words: Words) -> int:
    """Print the address alone on stdout; how to reach it from another machine goes to stderr."""
    from muster.slurm.jobs import parse_job_id

    job_id = parse_job_id(words.operands[0])
    case = only_case(job_id, cases([job_id], ask([job_id]), records_do=True), "url")
    if case.run is None:
        message = f"no record of job {job_id} is here, so its roles are not known"
        raise RequestError(message, hint="type it as the user, and on the cluster, that submitted the job")
    names = [stand.name for stand in stands_of(case.run.directory)]
    if len(words.operands) < 2 and len(names) > 1:
        raise RequestError(f"job {job_id} has several roles", hint=f"muster url {job_id} {names[0]}")
    stand = role_of(case.run.directory, words.operands[1] if len(words.operands) > 1 else "".join(names))
    if not case.phase.is_over and not stand.has_answered and stand.stand == "ready" and refuses(stand):
        message = f"role {stand.name} of job {job_id} runs, but {stand.url} refuses a connection from this host"
        raise RequestError(message, hint="type this again later; with --ready port the job waits until it listens")
    say(way_to(job_id, stand, case.phase.is_over, socket.gethostname()), quiet=words.quiet)
    print(stand.url)
    return 0


_PATIENCE_S = 1.0


def refuses(stand: RoleStand) -> bool:
    """Return whether the role's host refuses a connection: no program listens there, or a firewall says so."""
    try:
        socket.create_connection((stand.hosts[0], stand.port), _PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def way_to(job_id: str, stand: RoleStand, is_over: bool, login_host: str) -> str:
    """Return how the role is reached from another machine, or that it is not ready. One that has ended is refused."""
    if is_over or stand.stand in {"ended", "failed"}:
        what = f"job {job_id}" if is_over else f"role {stand.name} of job {job_id}"
        raise RequestError(f"{what} has ended: no program listens at {stand.url}", hint=f"muster why {job_id}")
    if stand.stand != "ready":
        return f"role {stand.name} is not ready: {stand.sentence}"
    scheme = stand.url.partition("://")[0]
    tunnel = f"ssh -N -L {stand.port}:{stand.hosts[0]}:{stand.port} {login_host}"
    way = f"from your own machine: {tunnel}, then {scheme}://localhost:{stand.port}"
    if not stand.has_answered:
        return f"the command of role {stand.name} has begun, but whether it listens is not known (--ready port); {way}"
    return way


COMMAND = CommandLine(
    name="url",
    start=main,
    summary="""\
Print the address of a role of a job, alone on stdout. How it is reached from your own machine goes to stderr.""",
    operands="JOB [ROLE]",
    least=1,
    most=2,
    hint="muster jobs lists your jobs, muster status JOB the roles of one",
    options=(QUIET,),
    examples=("muster url 123 serve", 'curl "$(muster url 123 serve)"/health'),
)
