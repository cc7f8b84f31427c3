"""The rules of a site, asked of a batch script's header: the same rules that `plan` asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.errors import Refusal, RequestError
from muster.policy.elsewhere import name_others
from muster.policy.names import say_unlisted, unlisted_names
from muster.policy.rules import Ask, refusals, say_origin
from muster.sites.site import Site
from muster.units import Memory, parse_walltime_s
from muster_lint.job import BatchScript
from muster_lint.values import LintFinding, Severity, TextSpan

_OWN = frozenset(
    {"nodes", "ntasks-per-node", "cpus-per-task", "time", "mem", "partition", "qos", "account", "constraint"}
)


def site_findings(job: BatchScript, site: Site) -> Iterator[LintFinding]:
    """Yield what this site would refuse."""
    ask = _ask(job)
    yield from _unlisted(job, site, ask)
    for refusal in name_others(site, ask, (ask.partition, ask.qos), list(refusals(site.profile, ask))):
        word = refusal.rule.partition("-")[2] if refusal.rule.startswith("required-") else _option_of(refusal.rule)
        directive = job.header.get(word)
        place = directive.place if directive else TextSpan(1, 1, 1, 2)
        yield LintFinding(
            f"site-{refusal.rule}",
            Severity.BREAKS,
            job.path,
            place,
            refusal.message,
            f"{site.name} refuses the job, or it never starts.",
            _what_to_write(refusal),
            say_origin(site, refusal),
        )


def _unlisted(job: BatchScript, site: Site, ask: Ask) -> Iterator[LintFinding]:
    """Yield each name that the profile does not list: the site may have it."""
    for unlisted in unlisted_names(site.profile, ask):
        word = _OPTION_OF_KIND.get(unlisted.kind, "nodes")
        directive = job.header.get(word) or job.header.get("gpus-per-node" if word == "gres" else word)
        yield LintFinding(
            f"site-unknown-{unlisted.kind.replace(' ', '-').lower()}",
            Severity.FRAGILE,
            job.path,
            directive.place if directive else TextSpan(1, 1, 1, 2),
            say_unlisted(site, unlisted),
            f"Slurm refuses the job where {site.name} has no such {unlisted.kind}.",
            f"Muster knows {', '.join(unlisted.known_names)}.",
            site.origin(unlisted.key).words(),
        )


_OPTION_OF_KIND = {
    "partition": "partition",
    "QOS": "qos",
    "GPU type": "gres",
    "account": "account",
    "feature": "constraint",
}


def _what_to_write(refusal: Refusal) -> str:
    """Return the hint as a sentence where it is an option as it is to be typed."""
    is_option = refusal.rule != "forbidden-flag" and any(refusal.accepted.values())
    return f"Write {refusal.hint}." if is_option else refusal.hint


def _option_of(rule: str) -> str:
    for word, option in (
        ("queue", "partition"),
        ("nodes", "nodes"),
        ("time", "time"),
        ("gpu", "gres"),
        ("mem", "mem"),
        ("account", "account"),
        ("cores", "cpus-per-task"),
    ):
        if word in rule:
            return option
    return "nodes"


def _ask(job: BatchScript) -> Ask:
    header = {name: directive.value for name, directive in job.header.items()}
    return Ask(
        nodes=job.nodes or 1,
        gpus_per_node=job.gpus_per_node or 0,
        gpu_type=_gpu_type(header.get("gres"), header.get("gpus-per-node")),
        ntasks_per_node=job.tasks_per_node or 1,
        cpus_per_task=_number(header.get("cpus-per-task")),
        time_s=seconds_of(header.get("time")),
        is_unlimited=_is_unlimited(header.get("time")),
        mem=_memory(header.get("mem")),
        partition=header.get("partition"),
        qos=header.get("qos"),
        account=header.get("account"),
        constraint=header.get("constraint"),
        modules=_modules(job),
        flags={name: value for name, value in header.items() if name not in _OWN},
    )


def seconds_of(text: str | None) -> int | None:
    """Return a time limit; None where there is none, or where it is not one that Slurm takes."""
    try:
        return parse_walltime_s(text) if text else None
    except RequestError:
        return None


def time_limit_of(job: BatchScript) -> int | None:
    """Return the seconds of the header's --time; None where there is none that Slurm takes."""
    return seconds_of(job.header["time"].value) if "time" in job.header else None


def is_short_try(job: BatchScript) -> bool:
    """Tell whether somebody only tries the script out, by its time limit, or works in it by a server of notebooks."""
    serves = re.search(r"\b(jupyter[ -](lab|notebook|server)|code-server|rserver)\b", job.body) is not None
    return serves or 0 < (time_limit_of(job) or 0) <= _A_TRY_S


_A_TRY_S = 1800


def _is_unlimited(text: str | None) -> bool:
    """Return whether a time is one that Slurm takes, and sets no limit."""
    try:
        return bool(text) and not parse_walltime_s(text or "")
    except RequestError:
        return False


def _memory(text: str | None) -> Memory | None:
    """Return a size; None where there is none, or where it is not one that Slurm takes."""
    try:
        return Memory.parse(text) if text else None
    except RequestError:
        return None


def _gpu_type(gres: str | None, per_node: str | None) -> str | None:
    match = re.search(r"gpu:([A-Za-z]\w*)", gres or "") or re.match(r"([A-Za-z]\w*):\d", per_node or "")
    return match[1] if match else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _modules(job: BatchScript) -> tuple[str, ...]:
    words = [command.words for command in job.shell.commands if command.program in {"module", "ml"}]
    return tuple(
        word.value
        for line in words
        for word in line[1:]
        if word.is_literal and word.value not in {"load", "add", "purge"}
    )
