"""Ask a cluster what may be asked, for the draft of its profile. A refusal is an answer too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from muster.errors import MachineLacks, SchedulerSilent
from muster.facts import Facts
from muster.runner import Runner, run
from muster.sites.schema import Profile
from muster.slurm.allocation import ask_new_nodes
from muster.slurm.cluster import ask_accounts
from muster.survey.draft import JOB_SCRIPT, QUESTIONS, Survey, node_answers
from muster.survey.nodes import Answers, answers_of, node_script

__all__ = ["ask_two_nodes", "survey"]

_PATIENCE_S = 20.0
_QUEUE_PATIENCE_S = 540.0


def survey(facts: Facts, *, job: Sequence[str] | None = None, runner: Runner = run) -> Survey:
    """Ask the login node, and with `job` (options for srun) one compute node for a minute."""
    answers, refused = {}, {}
    for name, argv in QUESTIONS.items():
        words = ask_accounts(facts.user).argv if name == "accounts" else argv
        said, trouble = _ask(words, runner, _PATIENCE_S)
        if said:
            answers[name] = said
        else:
            refused[name] = trouble
    node = {}
    if job is not None:
        said, _ = _ask(ask_new_nodes(1, job, JOB_SCRIPT).argv, runner, _QUEUE_PATIENCE_S)
        node = node_answers(said)
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return Survey(today, facts.hostname, facts.user, answers, refused, node)


def ask_two_nodes(profile: Profile, flags: Sequence[str], runner: Runner = run) -> tuple[Answers, str]:
    """What two compute nodes show of the profile, in a step of a minute; and what was complained of."""
    said, trouble = _ask(ask_new_nodes(2, flags, node_script(profile)).argv, runner, _QUEUE_PATIENCE_S)
    return answers_of(said), trouble if not said else ""


def _ask(argv: Sequence[str], runner: Runner, timeout_s: float) -> tuple[str, str]:
    """What was said, and what was complained of."""
    try:
        done = runner(argv, timeout_s=timeout_s)
    except (MachineLacks, SchedulerSilent) as error:
        return "", error.message
    # srun --mpi=list speaks on stderr.
    said = done.stdout or (done.stderr if done.ok else "")
    return said if done.ok else "", done.stderr.strip()
