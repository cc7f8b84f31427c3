"""`muster site`: what is known of the clusters, where that is documented, and which of them this is."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import hanging, print_json, print_table, say
from muster.job.option import option
from muster.parts import service_if_there

if TYPE_CHECKING:
    from muster.facts import Facts


def _look() -> Facts:
    """Return the facts of this host; say where a folder of the administrator is named that is not there."""
    from pathlib import Path

    from muster.look.probe import look
    from muster.rank.contract import SYSTEM_DIRECTORY

    facts = look()
    folder = facts.environment.get(SYSTEM_DIRECTORY)
    if folder and not Path(folder).is_dir():
        say(f"{SYSTEM_DIRECTORY} names {folder}, which is not a folder here: nothing of an administrator is read")
    return facts


def _list(words: Words) -> int:
    from muster.sites.heads import SearchPath, heads

    found_heads = heads(SearchPath.of(_look()))
    if words.json:
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
                for head in found_heads
            ]
        )
        return 0
    rows = [(head.name, head.title, head.summary, "complete" if head.complete else "") for head in found_heads]
    print_table("Sites", ("SITE", "TITLE", "GPUS AND FABRIC", "KNOWN"), rows)
    return 0


def _show(words: Words) -> int:
    from muster.look.cluster import with_cluster_name
    from muster.plan.site_terms import say_ran, say_trust
    from muster.sites.load import choose_site
    from muster.sites.tell import as_json, lines, missing_keys, remarks

    site = choose_site(words.first, with_cluster_name(_look()))
    for note in (*site.notes, *filter(None, [say_trust(site), say_ran(site)])):
        say(note)
    if words.json:
        print_json(as_json(site))
        return 0
    width = min(44, max(len(line.key) for line in lines(site)))
    for line in lines(site):
        _print_value(line.key, line.value, width)
        if words.why:
            for text in filter(None, (line.origin.reason, line.origin.words())):
                _print_value("", text, width + 2)
    for offer in site.profile.unverified:
        _print_value(offer.key, f"unverified: {offer.value} ({offer.reason}; {offer.checked})", width)
    for key, absent in site.profile.unpublished.items():
        note = f": {absent.note}" if absent.note else ""
        _print_value(key, f"not published, looked for on {absent.checked}{note}", width)
    if any(layer.kind != "bundled" for layer in site.layers):  # the others were checked when they were made
        say("no mistake found")
    missing = 0 if site.profile.complete else len(list(missing_keys(site)))
    if missing:
        say(f"{missing} keys of a complete profile are not set (`missing` of --json lists them)")
    for remark in remarks(site):
        say(f"warning: {remark}")
    return 0


def _print_value(key: str, value: str, width: int) -> None:
    """Print a key and its value: folded on a terminal, one line elsewhere."""
    head = f"{key:<{width}}  "
    screen = get_terminal_size().columns if sys.stdout.isatty() else 0
    print("\n".join(hanging(head, value, screen)) if screen else f"{head}{value}".rstrip())


def _detect(words: Words) -> int:
    from muster.look.cluster import with_cluster_name
    from muster.sites.heads import DEFAULT_SITE, SearchPath, evidence_from, heads
    from muster.sites.load import recognise
    from muster.sites.match import weak_signs

    facts = with_cluster_name(_look())
    found_heads = heads(SearchPath.of(facts))
    evidence = evidence_from(facts, found_heads)
    weak = [(head.name, sign) for head in found_heads for sign in weak_signs(evidence, head.detect)]
    sighting = recognise(evidence, found_heads)
    if words.json:
        hints = [{"site": site, "sign": sign} for site, sign in weak]
        print_json({"site": sighting.name or DEFAULT_SITE, "evidence": list(sighting.evidence), "not_decisive": hints})
        return 0
    print(sighting.name or DEFAULT_SITE)
    for sign in sighting.evidence:
        say(sign)
    if sighting.name is None:
        say(f"no site profile matches this host, so {DEFAULT_SITE} is used; --site NAME chooses another")
    for site, sign in weak:
        if site != sighting.name:
            say(f"not decisive: {sign}, as at {site}")
    return 0


COMMAND = CommandLine(
    name="site",
    summary="""\
Show what is known of the clusters, with the document and the date of each fact. A site is a name of the list, or a
TOML file.""",
    verbs=(
        CommandLine(name="site list", start=_list, summary="List all profiles.", options=(JSON,)),
        CommandLine(
            name="site show",
            start=_show,
            summary="Show a profile (default: that of this host).",
            operands="[SITE]",
            most=1,
            options=(
                option("--why", "show the reason, document, date and trust of each value"),
                JSON,
            ),
        ),
        CommandLine(
            name="site detect",
            start=_detect,
            summary="Say which site this is, and by what it was found.",
            options=(JSON,),
        ),
        *service_if_there("site-verbs", ()),
    ),
)
