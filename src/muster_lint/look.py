"""Files → findings: every rule over every file, the Python scripts that a batch script starts among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from msgspec import structs

from muster.errors import MusterError
from muster.sites.site import Site
from muster_lint.embedded import embedded_scripts
from muster_lint.ignore import ignored_lines, wrong_marks
from muster_lint.job import BatchScript, read_job, too_deep
from muster_lint.program import read_program
from muster_lint.read import FileKind, SourceFile, read_source
from muster_lint.rule import all_rules
from muster_lint.site import is_short_try, site_findings
from muster_lint.sizes import scripts_beside
from muster_lint.template import template_finding
from muster_lint.values import Hit, LintFinding, LintResult, Rule, Severity, TextSpan, UnreadFile


def lint_files(paths: Sequence[str], site: Site | None = None) -> LintResult:
    """Return what the rules find in these files and in the Python scripts that they start.

    A file that cannot be read is told beside the findings of all the others.
    """
    findings: list[LintFinding] = []
    unread: list[UnreadFile] = []
    done_paths: set[str] = set()
    sources: list[SourceFile] = []
    waiting = [(path, True) for path in reversed(paths)]
    while waiting:
        path, is_named = waiting.pop()
        absolute = str(Path(path).absolute())
        if absolute in done_paths:
            continue
        done_paths.add(absolute)
        try:
            source = read_source(path)
            job = _job_of(source)
            findings += lint_source(source, site if is_named else None, job)
            waiting += [(str(script), False) for _, script in (scripts_beside(job) if job is not None else ())]
            sources.append(source)
        except MusterError as error:
            if is_named:  # a Python script beside the job was not asked for
                unread.append(UnreadFile(path, str(error), error.hint or ""))
        except Exception as error:  # noqa: BLE001  # a fault of a rule in one file must not hide what is in the others
            message = f"{path} was not judged, by a bug in Muster: {type(error).__name__}: {error}"
            unread.append(UnreadFile(path, message, "please report it, with the file"))
    findings.sort(key=lambda finding: (finding.path, finding.place, finding.severity.rank, finding.rule))
    return LintResult(tuple(findings), tuple(unread), tuple(sources))


def lint_source(source: SourceFile, site: Site | None = None, job: BatchScript | None = None) -> list[LintFinding]:
    """Return what the rules find in one text."""
    try:
        return _lint(source, site, job)
    except (RecursionError, MemoryError):
        raise too_deep(source.path) from None


def _lint(source: SourceFile, site: Site | None, job: BatchScript | None) -> list[LintFinding]:
    template = template_finding(source)
    if template is not None:
        return _without_ignored(source, [template])
    if source.kind is FileKind.PYTHON:
        return _lint_python(source)
    if source.kind is FileKind.OTHER:
        return _without_ignored(source, [*_header_findings(source)])
    job = job or read_job(source.path, source.text)
    findings = [*_findings(source, "batch", job), *(site_findings(job, site) if site is not None else ())]
    for script in embedded_scripts(job):
        found = _findings(source, "batch", script.job)
        findings += [script.placed(each) for each in found if script.can_tell(each)]
    end = min((each.place.line for each in findings if each.rule == "not-bash"), default=None)
    # bash stops there; sbatch has read the header before it, and a key is readable wherever it stands
    reached = [each for each in findings if end is None or each.rule in _WITHOUT_BASH or _is_reached(each, end)]
    return _without_ignored(source, reached)


def _is_reached(finding: LintFinding, end: int) -> bool:
    """Tell whether a fault bites in a script that bash stops reading at this line."""
    return finding.place.line <= end and finding.rule not in {"status-lost-at-end", "status-lost-in-pipe"}


_LOSES_A_RUN = frozenset(
    """
    output-of-every-run log-of-every-run requeue-overwrites status-lost-at-end status-lost-in-pipe wait-forgets-status
    build-may-fail copy-may-fail argument-unchecked
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""What costs a run or a log: a job of some minutes is done again, and there it is a matter of style."""
_WITHOUT_BASH = frozenset({"secret-in-script", "directive-after-command"})


def _job_of(source: SourceFile) -> BatchScript | None:
    """Return a batch script as a job; None for another kind of file."""
    return read_job(source.path, source.text) if source.kind is FileKind.BATCH else None


def _lint_python(source: SourceFile) -> list[LintFinding]:
    try:
        program = read_program(source.path, source.text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError) as error:
        line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
        place = TextSpan(line, max(1, column), line, max(1, column) + 1)
        reason = "Python stops before the first line runs, on every rank."
        return [
            LintFinding(
                "not-python",
                Severity.BREAKS,
                source.path,
                place,
                f"this is not Python: {getattr(error, 'msg', error)}",
                reason,
                "Correct it.",
                "Python's own parser",
            )
        ]
    return _without_ignored(source, [*_header_findings(source), *_findings(source, "python", program)])


def _header_findings(source: SourceFile) -> Iterator[LintFinding]:
    """Yield what the rules on the header find in a program of another language that sbatch takes as it is."""
    lines = source.text.splitlines(keepends=True)
    header = "".join(takewhile(lambda line: line.startswith("#") or not line.strip(), lines))
    if "\n#SBATCH" in header:
        yield from _findings(source, "batch", read_job(source.path, header), room=("header", "output"))


@cache
def _rules_of(language: str, room: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in all_rules() if rule.language == language and rule.check.__module__.endswith(room))


def _findings(source: SourceFile, language: str, value: object, room: tuple[str, ...] = ("",)) -> Iterator[LintFinding]:
    is_try = isinstance(value, BatchScript) and is_short_try(value)
    for rule in _rules_of(language, room):
        of_try = {"severity": Severity.STYLE} if is_try and rule.name in _LOSES_A_RUN else {}
        for hit in dict.fromkeys(structs.replace(each, **of_try) for each in rule.check(value)):
            runs = value.runs_at(hit.place) if isinstance(value, BatchScript) else True
            if rule.name in _WITHOUT_BASH or rule.name == "not-bash" or runs:
                yield _finding(source.path, rule, hit)
            elif runs is None:
                severity = _severity(rule, hit)
                unknown = "whether this branch runs" if severity in {Severity.BREAKS, Severity.HANGS} else ""
                yield _finding(source.path, rule, structs.replace(hit, unknown=hit.unknown or unknown))


def _finding(path: str, rule: Rule, hit: Hit) -> LintFinding:
    return LintFinding(
        rule.name,
        _severity(rule, hit),
        path,
        hit.place,
        f"{hit.message} (not known: {hit.unknown})" if hit.unknown else hit.message,
        rule.why,
        hit.instead or rule.instead,
        rule.source,
        hit.edits,
        unknown=hit.unknown,
    )


def _severity(rule: Rule, hit: Hit) -> Severity:
    """Return how bad a hit is: a job breaks or hangs only where that follows from what was read."""
    severity = hit.severity or rule.severity
    return Severity.FRAGILE if hit.unknown and severity in {Severity.BREAKS, Severity.HANGS} else severity


def _without_ignored(source: SourceFile, findings: list[LintFinding]) -> list[LintFinding]:
    ignored = ignored_lines(source.text)
    kept = [finding for finding in findings if finding.rule not in ignored.get(finding.place.line, frozenset())]
    return [*kept, *wrong_marks(source.path, source.text)]
