"""Which site a script was written for: its queues, accounts, modules and paths, held against the profiles. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from muster.sites.schema import Profile
from muster.sites.site import Site
from muster_lint.job import BatchScript

_CERTAIN = 3


def guess_origin(job: BatchScript, sites: Iterable[Site]) -> tuple[Site, str] | None:
    """Return the one site whose names stand in a script, with what shows it; None where several fit, or none."""
    points = [(signs, site) for site in sites if (signs := tuple(_signs(job, site.profile)))]
    ranked = sorted(points, key=lambda entry: -sum(weight for weight, _ in entry[0]))
    totals = [sum(weight for weight, _ in signs) for signs, _ in ranked]
    if not ranked or totals[0] < _CERTAIN or (len(totals) > 1 and totals[1] == totals[0]):
        return None
    signs, site = ranked[0]
    return site, ", ".join(dict.fromkeys(sign for _, sign in signs))


def _signs(job: BatchScript, profile: Profile) -> Iterable[tuple[int, str]]:
    value = {name: directive.value or "" for name, directive in job.header.items()}
    for name, queues in (("partition", profile.partitions), ("qos", profile.qos)):
        queue = value.get(name, "")
        if queue and (queue in queues or queue in profile.queues_renamed):
            yield (1 if queue in _COMMON else 3), f"--{name}={queue}"
    account, pattern = value.get("account", ""), profile.request.account_pattern
    if account and pattern and re.fullmatch(pattern, account):
        yield 2, f"--account={account}"
    for feature in profile.request.features or ():
        if value.get("constraint") == feature:
            yield (1 if feature in _COMMON else 2), f"--constraint={feature}"
    kind = re.match(r"gpu:([A-Za-z]\w*)", value.get("gres", ""))
    if kind and f"gpu:{kind[1]}" in (profile.request.gres_names or ()):
        yield (1 if kind[1] in _COMMON else 3), f"--gres=gpu:{kind[1]}"
    for place in profile.filesystems.values():
        root = place.path.partition("$")[0].rstrip("/")
        if root.count("/") >= 1 and len(root) > 5 and root not in _EVERYWHERE and f"{root}/" in job.text:
            yield 2, root
    for module in (*profile.modules.renamed, *(profile.modules.catalogue or ())):
        if "/" not in module and len(module) > 12 and re.search(rf"\b{re.escape(module)}\b", job.text):
            yield 3, module


_COMMON = frozenset(
    """
    gpu gpus debug normal standard regular batch long short low a100 h100 v100 h200 test interactive
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
_EVERYWHERE = frozenset({"/scratch", "/project", "/projects", "/home", "/work", "/data", "/users"})
