"""`muster site`: what is known of the clusters, where that is documented, and which of them this is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from muster.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from muster.sites.draft import Survey

_HELP = """\
usage: muster site VERB [OPTION…]

What is known of the clusters, with the document and the date of each fact.

verbs:
  list              the profiles there are
  show [SITE]       one profile; the one of this host if none is named
  detect            which site this is, and the evidence
  probe [NAME]      a draft of this cluster's profile, of what may be asked; on stdout
  check [SITE]      does the profile hold here? a line for each fact that does not

options:
  --why             show: each value with its reason, document, date and trust
  --json            one JSON document with stable keys
  --job             probe, check: ask a compute node too, by a job of a minute
  --srun=FLAG       probe, check: one more flag for that job, whole (-A, -p, …); repeatable
  -h, --help        show this page and leave

A site is a name of the list, or a TOML file.
"""


def main(words: list[str]) -> int:
    """Run one verb of `muster site`; returns its exit status."""
    from muster.errors import RequestError, UnknownName

    switches = {word for word in words if word.startswith("-")}
    flags = tuple(word.removeprefix("--srun=") for word in words if word.startswith("--srun="))
    switches -= {f"--srun={flag}" for flag in flags}
    names = [word for word in words if not word.startswith("-")]
    if not words or switches & {"-h", "--help"}:
        print(_HELP, end="")
        return 0 if words else 2
    verbs: dict[str, tuple[Callable[[list[str], set[str]], int], int, set[str]]] = {
        "list": (_list, 0, {"--json"}),
        "show": (_show, 1, {"--json", "--why"}),
        "detect": (_detect, 0, {"--json"}),
        "probe": (partial(_probe, flags), 1, {"--job"}),
        "check": (partial(_check, flags), 1, {"--job", "--json"}),
    }
    if not names or names[0] not in verbs:
        raise UnknownName("verb of muster site", names[0] if names else "", verbs)
    verb, most, known = verbs[names[0]]
    for switch in sorted(switches - known):
        raise UnknownName(f"option of muster site {names[0]}", switch, sorted(known))
    if len(names) - 1 > most:
        raise RequestError(
            f"muster site {names[0]} takes {most} names, not {len(names) - 1}", hint="muster site --help"
        )
    return verb(names[1:], switches)


def _list(names: list[str], switches: set[str]) -> int:
    del names
    from muster.act.probe import look
    from muster.sites.heads import SearchPath, heads

    found = heads(SearchPath.of(look()))
    if "--json" in switches:
        print_json(
            [
                {
                    "name": head.name,
                    "title": head.title,
                    "summary": head.summary,
                    "complete": head.complete,
                    "layer": head.layer,
                    "file": head.file,
                }
                for head in found
            ]
        )
        return 0
    rows = [(head.name, head.title, head.summary, "complete" if head.complete else "") for head in found]
    print_table("Sites", ("SITE", "TITLE", "GPUS AND FABRIC", "KNOWN"), rows)
    return 0


def _show(names: list[str], switches: set[str]) -> int:
    from muster.act.probe import look
    from muster.sites.load import choose_site
    from muster.sites.tell import as_json, lines, missing_keys

    site = choose_site(names[0] if names else None, look())
    for note in site.notes:
        say(note)
    if "--json" in switches:
        print_json(_plain(as_json(site)))
        return 0
    width = min(44, max(len(line.key) for line in lines(site)))
    for line in lines(site):
        print(f"{line.key:<{width}}  {line.value}")
        if "--why" in switches:
            for said in (line.origin.reason, line.origin.words()):
                if said:
                    print(f"{'':{width}}    {said}")
    for offer in site.profile.unverified:
        print(f"{offer.key:<{width}}  unverified: {offer.value} ({offer.reason}; {offer.checked})")
    for key, absent in site.profile.unpublished.items():
        note = f": {absent.note}" if absent.note else ""
        print(f"{key:<{width}}  not published, looked for on {absent.checked}{note}")
    missing = [] if site.profile.complete else list(missing_keys(site))
    if missing:
        print(f"{len(missing)} keys have no value: {', '.join(missing)}", file=sys.stderr)
    return 0


def _plain(value: Any) -> Any:
    """Dates as text, tuples as lists."""
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _detect(names: list[str], switches: set[str]) -> int:
    del names
    from muster.act.probe import look
    from muster.sites.heads import DEFAULT_SITE, SearchPath, evidence_from, heads
    from muster.sites.match import decide

    facts = look()
    found = heads(SearchPath.of(facts))
    sighting = decide(evidence_from(facts, found), {head.name: head.detect for head in found})
    if "--json" in switches:
        hints = [{"site": site, "sign": sign} for site, sign in sighting.hints]
        print_json({"site": sighting.name or DEFAULT_SITE, "evidence": list(sighting.evidence), "not_decisive": hints})
        return 0
    print(sighting.name or DEFAULT_SITE)
    for sign in sighting.evidence:
        say(sign)
    if sighting.name is None:
        say(f"no site profile matches this host, so {DEFAULT_SITE} is used; --site NAME chooses another")
    for site, sign in sighting.hints:
        if site != sighting.name:
            say(f"not decisive: {sign}, as at {site}")
    return 0


def _survey(flags: Sequence[str], switches: set[str]) -> Survey:
    """Ask this cluster; an error where nothing could be asked."""
    from muster.act.probe import look
    from muster.act.survey import survey

    found = survey(look(), job=flags if "--job" in switches or flags else None)
    if not found.answers:
        from muster.errors import MachineLacks

        why = next(iter(found.refused.values()), "")
        raise MachineLacks(
            "Slurm", f"nothing could be asked here: {why}", hint="type it on a login node of the cluster"
        )
    if not found.node:
        say("the login node alone was asked; --job asks a compute node for a minute")
    return found


def _probe(flags: Sequence[str], names: list[str], switches: set[str]) -> int:
    from muster.sites.draft import draft

    print(draft(_survey(flags, switches), names[0] if names else "mine"), end="")
    say("keep it as ~/.config/muster/sites/NAME.toml, or give it to --site")
    return 0


def _check(flags: Sequence[str], names: list[str], switches: set[str]) -> int:
    from muster.act.probe import look
    from muster.sites.draft import seen_profile
    from muster.sites.load import choose_site
    from muster.sites.verify import verify

    site = choose_site(names[0] if names else None, look())
    findings = verify(site, seen_profile(_survey(flags, switches)))
    if "--json" in switches:
        rows = [{"key": each.key, "says": each.says, "seen": each.seen, "line": each.origin.line} for each in findings]
        print_json({"site": site.name, "findings": rows})
        return 1 if findings else 0
    for finding in findings:
        print(finding.words())
    say(
        f"{len(findings)} facts of {site.name} do not hold here"
        if findings
        else f"what could be asked of {site.name} holds"
    )
    help_address = site.profile.help.support or site.profile.help.guide
    if findings and help_address:
        say(f"if the site has changed, tell us; if it is broken: {help_address}")
    return 1 if findings else 0
