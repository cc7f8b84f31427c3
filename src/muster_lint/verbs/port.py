"""muster port: a batch script of any Slurm site → the one line that does the same, and the job for another site."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError
from muster.job.option import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.facts import Facts
    from muster.sites.site import Site
    from muster_lint.job import BatchScript
    from muster_lint.port.target import Carried
    from muster_lint.port.values import Draft


def main(words: Words) -> int:
    """Print the line, the table, and the script for the site; return 1 if it refuses the job or a row is open."""
    from muster_lint.port.read import read_draft_of
    from muster_lint.read import read_source
    from muster_lint.verbs.lint import check_reader

    if not words.operands:
        raise RequestError("there is no script to read", hint="muster port job.sbatch --site SITE")
    source = read_source(words.operands[0])
    check_reader(source)
    job, draft = read_draft_of(source, _reader_beside(words.operands[0]))
    if words.site is None:
        _show(draft, None, words)
        return _status(draft, None)
    target, origin = _target(words), _origin(job, words)
    from muster_lint.port.carry import carry

    carried_job = carry(draft, target, origin, _facts(), account=words.account)
    _show(draft, carried_job, words)
    return _status(carried_job.draft, carried_job)


def _reader_beside(script: str) -> Callable[[str], str | None]:
    """Return a reader of small files that the script names: from here, as the job would, or from its own folder."""
    from pathlib import Path

    def read(name: str) -> str | None:
        for folder in (Path.cwd(), Path(script).parent):
            try:
                path = folder / Path(name).expanduser()
                if path.is_file() and path.stat().st_size < _LARGEST_BYTES:
                    return path.read_text(encoding="utf-8")
            except (OSError, ValueError, RuntimeError):
                continue
        return None

    return read


_LARGEST_BYTES = 1 << 20


def _status(draft: Draft, carried_job: Carried | None) -> int:
    """Return 1 where the line is not yet the same job: a row is asked or not carried, or the site refuses it."""
    from muster_lint.port.values import is_open

    refused = carried_job is not None and carried_job.refusal is not None
    return int(refused or any(map(is_open, draft.rows)))


def _target(words: Words) -> Site:
    from muster.look.probe import look
    from muster.sites.load import choose_site

    return choose_site(words.site, look())


def _origin(job: BatchScript, words: Words) -> Site | None:
    """Return the site that a script comes from: as typed, as Muster wrote it, or by the names in it."""
    from muster.sites.heads import heads
    from muster.sites.load import load
    from muster_lint.port.origin import guess_origin
    from muster_lint.port.own import site_of

    origin_name = words.typed.values.get("from") or site_of(job.text)
    if origin_name:
        return load(origin_name)
    guess = guess_origin(job, (load(head.name) for head in heads() if head.name not in {"generic", "laptop"}))
    if guess is None:
        say("which site the script comes from is not in it: --from SITE says more of what changes")
        return None
    site, signs = guess
    say(f"the script is one of {site.profile.title} ({signs})")
    return site


def _facts() -> Facts:
    from pathlib import Path

    from muster.look.probe import look
    from muster_lint.port.target import facts_of

    facts = look()
    return facts_of(str(Path.cwd()), facts.home, facts.user)


def _show(draft: Draft, carried_job: Carried | None, words: Words) -> None:
    form = words.form("as", "all")
    if form == "json":
        print_json(_as_json(draft, carried_job, words))
    elif form == "script":
        print(_script(carried_job, is_shown=False), end="")
        _say_open(draft)
    elif form == "line":
        print(_line(draft, words))
        _say_open(draft)
    else:
        _print_table(draft)
        print(f"\n{_line(draft, words)}")
        if carried_job is not None and form == "all":
            print()
            print(_script(carried_job, is_shown=True), end="")
    if carried_job is not None and carried_job.refusal is not None and form != "script":
        print(
            f"muster: the plan refuses it: {carried_job.refusal.message}\n\nhint: {carried_job.refusal.hint}",
            file=sys.stderr,
        )


def _line(draft: Draft, words: Words) -> str:
    from muster_lint.port.values import line_of

    return line_of([*draft.words(), *(("--site", words.site) if words.site else ())], draft.command)


def _print_table(draft: Draft) -> None:
    rows = [(row.line or "", row.what, row.verdict, row.now, row.why) for row in draft.rows]
    print_table("what became of the script", ("line", "by hand", "verdict", "now", "why"), rows)
    _say_open(draft)


def _say_open(draft: Draft) -> None:
    """Say how many rows a person has to read, since the line alone does not do what they speak of."""
    counts = [(sum(row.verdict == verdict for row in draft.rows), verdict) for verdict in ("asked", "not carried")]
    open_counts = [f"{count} {'is' if count == 1 else 'are'} {verdict}" for count, verdict in counts if count]
    if open_counts:
        say(f"of {len(draft.rows)} rows {' and '.join(open_counts)}: read them before you submit")


def _script(carried_job: Carried | None, *, is_shown: bool) -> str:
    from muster.render.script import job_script, job_shown

    if carried_job is None:
        raise RequestError("a script is for one site", hint="--site SITE; --as line for the line alone")
    if carried_job.plan is None:
        if is_shown:
            return ""
        assert carried_job.refusal is not None  # noqa: S101  # a carried job has a plan or a refusal
        raise carried_job.refusal
    return (
        job_shown(carried_job.plan, "--as script writes the whole script") if is_shown else job_script(carried_job.plan)
    )


def _as_json(draft: Draft, carried_job: Carried | None, words: Words) -> dict[str, object]:
    refusal = carried_job.refusal if carried_job else None
    return {
        "line": _line(draft, words),
        "options": draft.words(),
        "command": list(draft.command),
        "rows": [
            {"line": row.line or None, "what": row.what, "verdict": str(row.verdict), "now": row.now, "why": row.why}
            for row in draft.rows
        ],
        "script": _script(carried_job, is_shown=False)
        if carried_job is not None and carried_job.plan is not None
        else None,
        "refusal": {"message": refusal.message, "hint": refusal.hint} if refusal else None,
    }


COMMAND = CommandLine(
    name="port",
    start=main,
    summary="""\
Read a batch script of any Slurm site. Print the line of `muster submit` that does the same, and a table with a row
for each thing that the script says: what became of it, and why. With --site, print the job for that site and its script
too. Nothing is run.

Status 0: the line does the same; 1: a row is asked or not carried, or the site's rules refuse the new job.""",
    operands="FILE",
    most=1,
    hint="muster port job.sbatch --site SITE",
    options=(
        option("--site SITE", "site to carry the job to", group="where"),
        option(
            "--from SITE", "site that the script was written for (default: found by the names in it)", group="where"
        ),
        option("-A --account NAME", "your account at the new site", group="where"),
        option(
            "--as FORM",
            "what to print: all, table, line, script or json (default: all)",
            choices=("all", "table", "line", "script", "json"),
        ),
        JSON,
    ),
    examples=("muster port job.sbatch", "muster port job.sbatch --site SITE --as script > there.sbatch"),
    more="""\
A row says: kept; changed: written in Muster's words or the site's; dropped: not needed, with the reason;
not carried: the script did it and the job will not; asked: read it before you submit, since Muster cannot know it.""",
)
