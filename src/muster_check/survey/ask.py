"""Ask a cluster what may be asked, for the draft of its profile. A refusal is an answer too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from muster.errors import MachineLacks, SchedulerSilent
from muster.facts import Facts
from muster.look.ask_cluster import Silence, ask_cluster
from muster.runner import Runner, run
from muster.sites.schema import Profile
from muster.slurm.allocation import ask_new_nodes
from muster.slurm.silence import last_words
from muster_check.survey.draft import (
    ACCOUNTING,
    CLUSTER,
    JOB_SCRIPT,
    NODE_END,
    QUESTIONS,
    Survey,
    is_readable,
    node_answers,
)
from muster_check.survey.nodes import Answers, answers_of, node_script
from muster_check.survey.place import PLACES, reach_script
from muster_check.survey.report import Private

_PATIENCE_S = 20.0
_QUEUE_PATIENCE_S = 540.0


def survey(facts: Facts, *, job: Sequence[str] | None = None, reach: str | None = None, runner: Runner = run) -> Survey:
    """Ask the login node, and with `job` (options for srun) one compute node for a minute.

    `reach`: a host to which the compute node tries one connection.
    """
    answers, refusals = {}, {}
    said = ask_cluster(facts.user, facts.environment, runner, patience_s=_PATIENCE_S)
    cluster = None if isinstance(said, Silence) else said
    if isinstance(said, Silence):
        refusals[CLUSTER] = said.reason or "no cluster is set up for Slurm's clients here"
    elif said.unanswered:
        refusals[ACCOUNTING] = said.unanswered[0]
    for name, argv in QUESTIONS.items():
        if name == "shares" and cluster is not None and cluster.associations:
            continue
        answer, trouble = _ask(argv, runner, _PATIENCE_S)
        if answer and is_readable(name, answer):
            answers[name] = answer
        else:
            refusals[name] = f"its answer cannot be read: {answer.strip()[:80]!r}" if answer.strip() else trouble
    node = {}
    if job is not None:
        script = JOB_SCRIPT + (reach_script(reach) if reach else "")
        answer, trouble = _ask(ask_new_nodes(1, job, script).argv, runner, _QUEUE_PATIENCE_S)
        if NODE_END in answer.splitlines():
            node = node_answers(answer)
        else:
            refusals["node"] = trouble or f"what it said is not whole: {answer.strip()[-80:]!r}"
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    return Survey(today, facts.hostname, facts.user, cluster, answers, refusals, node)


def private_of(facts: Facts, survey: Survey) -> Private:
    """Return what of this user must not stand in a report."""
    environment = facts.environment
    paying = survey.cluster.associations or () if survey.cluster else ()
    accounts = (
        *(association.account for association in paying),
        # As they are written, whatever form the accounts of the profile have.
        *(line.partition("|")[0].strip() for line in survey.answers.get("shares", "").splitlines()),
        *(environment.get(name, "") for name in ("SLURM_ACCOUNT", "SBATCH_ACCOUNT", "SALLOC_ACCOUNT")),
    )
    names = (facts.user, survey.user, environment.get("USER", ""), environment.get("LOGNAME", ""))
    home = facts.home.rstrip("/")
    places = (environment.get(name, "") for name in PLACES)
    return Private(
        tuple(dict.fromkeys((*names, *accounts, home.rpartition("/")[2]))),
        tuple(dict.fromkeys((facts.working_directory, home, *places))),
    )


def ask_two_nodes(profile: Profile, flags: Sequence[str], runner: Runner = run) -> tuple[Answers, str]:
    """Return what two compute nodes show of the profile, in a step of a minute; and what was complained of."""
    answer, trouble = _ask(ask_new_nodes(2, flags, node_script(profile)).argv, runner, _QUEUE_PATIENCE_S)
    return answers_of(answer), trouble if not answer else ""


def _ask(argv: Sequence[str], runner: Runner, timeout_s: float) -> tuple[str, str]:
    """Return what was said, and what was complained of."""
    try:
        result = runner(argv, timeout_s=timeout_s)
    except (MachineLacks, SchedulerSilent) as error:
        return "", error.message
    if not result.ok:
        return "", result.stderr.strip() or last_words(result.status, "")
    # srun --mpi=list speaks on stderr.
    return result.stdout or result.stderr, ""
