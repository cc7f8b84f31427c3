"""muster report: what one would send to a site's support about a job, in one small file without secrets."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster import __version__
from muster.cli.asked_jobs import answer_for, cases, ids_or_newest, only_case, scheduler
from muster.cli.command_line import CommandLine, Words
from muster.cli.job_words import plain
from muster.errors import MusterError, RequestError
from muster.follow.cases import JobCase
from muster.job.option import option

if TYPE_CHECKING:
    from muster.follow.redact import Redactor
    from muster.follow.scheduler import Scheduler
    from muster.follow.support import ReportFile

_NEVER = (
    "values of variables that were passed on by name alone, or whose name looks like a secret",
    "changes.diff and snapshot/ of the run directory: they hold your source",
    "your data, your checkpoints, and all but the last lines of each log",
)
_SHOWS = "it shows your user name, your account, paths, host names and what your script printed: read it first"


def main(words: Words) -> int:
    """Pack the report, or list what would be in it."""
    job_id = ids_or_newest(words)[0]
    target = Path(words.output or "")
    if words.output and not words.list and target.exists():
        raise RequestError(f"{target} is already there", hint="remove it, or name another: -o FILE.tar.gz")
    slurm = scheduler()
    case, silent = _case(job_id, slurm)
    parts, missing = _parts(case, slurm)
    if silent:
        missing.insert(0, "Slurm did not answer: what is told of the job's state rests on Muster's record alone")
    summary = "\n".join(_summary(job_id, parts, missing))
    print(summary)
    if words.list:
        return 0
    from muster.follow.support import ReportFile, write_report

    if not words.output:
        target = _free_name(f"muster-report-{re.sub(r'[^0-9_+]', '-', job_id)}")
    write_report(target, [ReportFile("README.txt", f"{summary}\n", "this list"), *parts], int(time.time()))
    print(f"written to {plain(str(target))}, readable by you alone")
    return 0


def _free_name(stem: str) -> Path:
    names = (Path(f"{stem}{number}.tar.gz") for number in ("", *(f"-{suffix}" for suffix in range(2, 1000))))
    return next((name for name in names if not os.path.lexists(name)), Path(f"{stem}.tar.gz"))


def _case(job_id: str, slurm: Scheduler) -> tuple[JobCase, bool]:
    """Return the job, and whether Slurm was silent: of a job of Muster's the record is read then."""
    answer = answer_for(job_id, slurm)
    found_cases = cases([job_id], answer, records_do=True)
    case = only_case(job_id, found_cases, "report")
    return case, answer.silent and case.job is None


def _parts(case: JobCase, slurm: Scheduler) -> tuple[list[ReportFile], list[str]]:
    """Return the files of the report, and a sentence for each that could not be had."""
    from muster.follow.support import log_parts, record_parts, redactor_for

    clean = redactor_for(case.run, os.environ)
    parts: list[ReportFile] = []
    missing: list[str] = []
    for name, subject, make in _made(case, slurm):
        try:
            text, old_count = make(), clean.count
        except (MusterError, OSError) as error:
            missing.append(f"{name}: {clean.text(str(error))}")
            continue
        parts.append(_part(name, text, subject, clean, old_count))
    found_parts = [*log_parts(case.job, case.run, case.asked, clean)]
    if case.run is None:
        missing.append("Muster has no record of this job: neither script nor plan")
    else:
        found_parts = [*record_parts(case.run, clean), *found_parts]
    parts += [found_part for found_part in found_parts if not isinstance(found_part, str)]
    return parts, [*missing, *(clean.text(found_part) for found_part in found_parts if isinstance(found_part, str))]


def _part(name: str, text: str, subject: str, clean: Redactor, old_count: int) -> ReportFile:
    from muster.follow.support import ReportFile

    shown_text = clean.json(text) if name.endswith(".json") else clean.text(text)
    return ReportFile(name, shown_text, subject, clean.count - old_count)


def _made(case: JobCase, slurm: Scheduler) -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Yield name, meaning and maker of each file that is not copied from the run directory."""
    from muster.cli.why import case_as_json, explain_case

    yield "why.txt", "what `muster why` says", lambda: "\n".join(explain_case(case)) + "\n"
    yield "why.json", "the same, for programs", lambda: _document(case_as_json(case))
    yield "attempts.json", "the attempts and their ends", lambda: _document(_attempts(case))
    yield "slurm.txt", "what Slurm says of the job", lambda: _slurm(case, slurm)
    yield (
        "versions.json",
        "Muster, Slurm, Python; torch where a record names it",
        lambda: _document(_versions(case, slurm)),
    )
    yield "site.json", "the site's profile, with the origin and the trust of its values", lambda: _document(_site(case))


def _document(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def _attempts(case: JobCase) -> dict[str, Any]:
    return {"told": case.earlier_runs(), "attempts": case.attempts_over()}


def _slurm(case: JobCase, slurm: Scheduler) -> str:
    """Return the state as `status` tells it, and Slurm's own lines while the controller has them."""
    from muster.cli.status import describe

    lines = "\n".join(describe(case))
    details = slurm.details(case.job.id) if case.job is not None else ""
    return f"{lines}\n\n{details or 'The controller does not have the job any more, or does not answer.'}\n"


def _versions(case: JobCase, slurm: Scheduler) -> dict[str, Any]:
    from muster.follow.support import plan_of, torch_of

    return {
        "muster": __version__,
        "muster_at_submission": plan_of(case.run).get("version"),
        "python_of_muster": sys.version.split()[0],
        "slurm": slurm.version(),
        "kernel": platform.release(),
        "environment": torch_of(case.run),
    }


def _site(case: JobCase) -> dict[str, Any]:
    from muster.follow.support import plan_of
    from muster.look.probe import look
    from muster.plan.site_terms import say_trust
    from muster.sites.load import choose_site
    from muster.sites.tell import as_json

    site_name = plan_of(case.run).get("site")
    site = choose_site(site_name if isinstance(site_name, str) else None, look())
    return {"trust": site.profile.trust, "says": say_trust(site), "notes": list(site.notes), **as_json(site)}


def _summary(job_id: str, parts: list[ReportFile], missing: list[str]) -> Iterator[str]:
    """Yield what is in the report, and what is not."""
    yield f"A report on job {job_id}, for the support of its site"
    width = max(len(part.name) for part in parts)
    for part in parts:
        note = f"; {part.omitted} secret{'s' * (part.omitted != 1)} omitted" if part.omitted else ""
        yield f"  {part.name:<{width}}  {len(part.text.encode(errors='replace')):>8,} bytes  {part.what}{note}"
    if missing:
        yield "could not be had:"
        yield from (f"  {plain(text)}" for text in missing)
    yield "omitted:"
    yield from (f"  {text}" for text in _NEVER)
    yield f"  {sum(part.omitted for part in parts)} secrets that were seen in the texts: … stands in their place"
    yield _SHOWS


COMMAND = CommandLine(
    name="report",
    start=main,
    summary="""\
Pack what a site's support needs to know of a job into one small file: the script, the plan and its reasons,
versions, the attempts and their ends, what `muster why` finds, the last lines of the logs, what Slurm says, the site.

Secrets are omitted: values of variables that were passed on by name alone or whose name looks like a secret, and
tokens of a known form in the logs. The list that is printed says what the file holds and what was omitted. Only you
can read the file: look at it before you send it.""",
    options=(
        option(
            "-o --output FILE",
            "file to write, .tar.gz or .tgz; another name makes a new folder (default: muster-report-JOB.tar.gz, here)",
        ),
        option("--list", "list what would be in it, and write nothing"),
    ),
    operands="[JOB]",
    most=1,
    hint="muster jobs lists yours",
)
