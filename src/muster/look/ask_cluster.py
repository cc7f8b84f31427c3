"""Ask Slurm what this cluster is: two clients, three starts, bounded in time together. Asks, and changes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from muster.errors import MusterError
from muster.look.programs import on_path
from muster.runner import Runner, run
from muster.slurm.cluster_answers import CONTROLLER_FACTS, ask_accounting, ask_accounts, with_accounting, with_accounts
from muster.slurm.cluster_facts import ClusterFacts
from muster.slurm.question import Question
from muster.slurm.silence import last_words
from muster.slurm.submit import is_without_cluster
from muster.slurm.variables import scheduler_environment

PATIENCE_S = 2.0
"""All answers together may take so long, before a plan."""

_LAST_S = 0.8
"""So long the last answer may take, whatever is left: the others are there."""


class Silence(msgspec.Struct, frozen=True):
    """Slurm's clients are here, and did not say what the cluster is."""

    reason: str
    """Empty: no cluster is set up for them."""


def ask_cluster(
    user: str, environment: Mapping[str, str], runner: Runner = run, *, patience_s: float = PATIENCE_S
) -> ClusterFacts | Silence:
    """Return what Slurm says of this cluster and of this user; without its partitions nothing is known."""
    ends = time.monotonic() + patience_s
    clean = scheduler_environment(environment)
    unanswered: list[str] = []

    def ask(question: Question[Any], least_s: float = 0.1) -> Any:
        name = question.argv[0]
        try:
            answer = runner(
                question.argv,
                env=clean,
                stdin=question.stdin,
                timeout_s=max(least_s, round(ends - time.monotonic(), 1)),
            )
        except MusterError as error:
            unanswered.append(error.message)
            return None
        if is_without_cluster(answer.stderr):
            unanswered.append("")
            return None
        said = question.read(answer.stdout) if answer.stdout.strip() else None
        if said is None:
            unanswered.append(f"{name} {last_words(answer.status, answer.stderr)}")
        return said

    cluster: ClusterFacts | None = ask(CONTROLLER_FACTS)
    if cluster is None or not cluster.partitions or not cluster.name:
        return Silence(unanswered[0] if unanswered else "scontrol shows no partition")
    if cluster.keeps_accounts and on_path("sacctmgr", environment) is not None:
        accounting = ask(ask_accounting(user))
        cluster = cluster if accounting is None else with_accounting(cluster, accounting)
    if cluster.associations and "limits" in cluster.enforces:
        accounts = ask(ask_accounts(cluster.name), _LAST_S)
        cluster = cluster if accounts is None else with_accounts(cluster, accounts)
    return msgspec.structs.replace(cluster, unanswered=tuple(unanswered), user_groups=_groups())


def _groups() -> tuple[str, ...]:
    """Return the groups of this user by name; those without a name are left out."""
    import grp

    names = []
    for number in (os.getgid(), *os.getgroups()):
        with suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return tuple(dict.fromkeys(names))
