"""The oracle from outside: the scripts that the sites publish, beside Muster's for the same job.

A difference without an entry that says why, with its source, fails.
"""

from __future__ import annotations

import re

import pytest

from muster.sites.consistency import OPENABLE

from .differences import FOLDER, Row, Said, Script, compare, proof_of, published, rows_of, sentences
from .profiles import SITES, bundled

SCRIPTS = [(site, script) for site in SITES for script in published(site).script]
MISSING = {"karolina"}
"""Sites of which no script for several nodes could be opened."""


def test_every_site_has_a_file_and_two_scripts_or_the_reason_why_not() -> None:
    files = {path.stem for path in FOLDER.glob("*.toml")}
    assert files == {*SITES, "all", "said"}, "two published job scripts for each site: tests/sites/published/NAME.toml"
    few = {site for site in SITES if len(published(site).script) < 2}
    assert few <= {*MISSING, "supercloud"}
    assert {site for site in SITES if published(site).missing} == MISSING


@pytest.mark.parametrize(("site", "script"), SCRIPTS, ids=lambda each: each if isinstance(each, str) else each.name)
def test_a_published_script_can_be_opened_again(site: str, script: Script) -> None:
    assert OPENABLE.search(script.at), f"{site}: {script.at}"
    assert script.dated.year >= 2022


@pytest.mark.parametrize("name", [*SITES, "all"])
def test_every_entry_has_a_source(name: str) -> None:
    for entry in published(name).difference:
        assert entry.source == "muster" or OPENABLE.search(entry.source), entry


@pytest.mark.parametrize(("site", "script"), SCRIPTS, ids=lambda each: each if isinstance(each, str) else each.name)
def test_every_difference_from_a_published_script_is_explained(site: str, script: Script) -> None:
    unexplained = [row for row in compare(site, script) if not row.same and row.why is None]
    said = "\n".join(f"{row.line}: theirs {row.theirs!r}, ours {row.ours!r}" for row in unexplained)
    assert not unexplained, f"{script.at}\n{said}\nhint: an entry in tests/sites/published/{site}.toml, or the profile"


@pytest.mark.parametrize("name", [*SITES])
def test_every_entry_of_a_site_explains_something(name: str) -> None:
    """An entry for a difference that is gone would hide the next one."""
    differing = {row.line for rows in rows_of(name).values() for row in rows if not row.same}
    assert {entry.line for entry in published(name).difference} <= differing


@pytest.mark.parametrize(("site", "script"), SCRIPTS, ids=lambda each: each if isinstance(each, str) else each.name)
def test_a_line_that_only_muster_writes_has_a_sentence_from_outside_its_profile(site: str, script: Script) -> None:
    without = [row for row in compare(site, script) if row.theirs is None and proof_of(site, row) is None]
    said = "\n".join(f"{row.line}: {row.ours!r} ({row.source})" for row in without)
    assert not without, f"{said}\nhint: the document's own sentence, in tests/sites/published/said.toml"


@pytest.mark.parametrize("said", sentences().said, ids=lambda each: f"{each.site}-{each.line}".replace(" ", "-"))
def test_a_sentence_names_the_line_and_its_value(said: Said) -> None:
    assert OPENABLE.search(said.at)
    kind, _, name = said.line.partition(" ")
    text = said.says.lower().replace("re-queued", "requeue")
    words = {"header": said.value or name, "module": name.removeprefix("load ")}.get(
        kind, name if " " not in name else ""
    )
    assert words.lower() in text, said
    fixed = re.split(r"\$|\"", said.value.lower())[0].rstrip("/")
    if kind in {"environment", "annotation"} and fixed and "no_proxy" not in said.line.lower():
        assert fixed.partition("/triton")[0] in text, said


def test_what_no_document_says_is_listed_and_does_not_grow() -> None:
    """The profiles are as wide as this list says: a new line of Muster's alone wants a sentence."""
    assert len(sentences().unproved) <= 17
    only_ours = {
        (site, row.line) for site in SITES for rows in rows_of(site).values() for row in rows if row.theirs is None
    }
    assert {(each.site, each.line) for each in sentences().unproved} <= only_ours
    assert {(each.site, each.line) for each in sentences().said} <= only_ours


def test_a_line_without_a_sentence_is_seen() -> None:
    """What the second audit found at Trillium: a partition that the page forbids, explained by the profile itself."""
    row = Row("header partition", None, "compute", "everything else", "the profile")
    assert proof_of("trillium", row) is None
    assert proof_of("olivia", Row("header partition", None, "accel", None)) is not None


def test_an_unexplained_difference_is_seen() -> None:
    script = published("jean-zay").script[0]
    bent = Script(name="bent", at=script.at, kind="site", dated=script.dated, ask=script.ask, directives={"mem": "1G"})
    (row,) = [row for row in compare("jean-zay", bent) if row.line == "memory a node"]
    assert row == Row("memory a node", "1024", None, None)


def figures() -> dict[str, int]:
    """Return how much is compared: sites, scripts, lines, those that are the same, those that are explained."""
    rows = [row for site in SITES for each in rows_of(site).values() for row in each]
    return {
        "sites": sum(bool(published(site).script) for site in SITES),
        "scripts": len(SCRIPTS),
        "lines": len(rows),
        "same": sum(row.same for row in rows),
        "explained": sum(not row.same and row.why is not None for row in rows),
        "unexplained": sum(not row.same and row.why is None for row in rows),
    }


def test_the_figures_add_up() -> None:
    found = figures()
    assert found["lines"] == found["same"] + found["explained"]
    assert found["scripts"] >= 30


@pytest.mark.parametrize("site", SITES)
def test_the_page_shows_the_table(site: str) -> None:
    page = (FOLDER.parents[2] / "docs" / "sites" / f"{site}.md").read_text()
    assert "## What your site's page says, and what Muster does instead" in page
    for script in published(site).script:
        assert script.at in page
    assert not re.search(r"\| *\|$", page.partition("what Muster does instead")[2].partition("\n## ")[0], re.MULTILINE)
    assert bundled(site).name == site
