"""muster lint: the faults of batch scripts and training scripts, found by reading them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json, print_table, say
from muster.errors import MachineLacks, RequestError
from muster.job.option import option

if TYPE_CHECKING:
    from muster.sites.site import Site
    from muster_lint.read import SourceFile
    from muster_lint.settings import LintSettings, LintTable
    from muster_lint.values import LintFinding, LintResult


def main(words: Words) -> int:
    """Report the findings in each file; return 0 where nothing serious was found, 2 where a file cannot be read."""
    if words.rules:
        return _show_rules(words.operands)
    if words.server:
        from muster_lint.server import serve

        return serve(_site_named(words.site))
    if not words.operands:
        raise RequestError("there is no file to read", hint="muster lint job.sbatch")
    from muster_lint.look import lint_files
    from muster_lint.read import scripts_below
    from muster_lint.rule import broken_parts

    typed = _typed_table(words)
    paths = [path for operand in words.operands for path in scripts_below(operand)]
    _check_readers(paths)
    for sentence in broken_parts():
        say(f"warning: its rules do not look: {sentence}")
    looked = lint_files(paths, _site_named(words.site))
    if words.diff or words.fix:
        is_changed = _fix(looked, words, typed)
        if words.diff:
            _say_unread(looked)
            return 2 if looked.unread else int(is_changed)
        looked = lint_files(paths, _site_named(words.site))
    findings, silenced, is_failed = _judged(looked, typed)
    _show(findings, looked, silenced, words)
    _say_unread(looked)
    return 2 if looked.unread else int(is_failed)


def _typed_table(words: Words) -> LintTable:
    """Return what the options say of the rules."""
    from muster_lint.settings import LintTable, check_names

    named = {field: tuple(name for text in words.typed.values.get(field, ()) for name in text.split(",") if name)
             for field in ("select", "ignore")}  # fmt: skip
    table = LintTable(select=named["select"], ignore=named["ignore"], fail_on=words.fail_on)
    check_names(table, "the command line")
    return table


def _judged(looked: LintResult, typed: LintTable) -> tuple[list[LintFinding], int, bool]:
    """Return the findings that are reported, how many the settings silence, and whether one of them fails."""
    from muster_lint.report import grouped
    from muster_lint.settings import settings_for

    settings = {source.path: settings_for(source.path, typed) for source in looked.sources}
    found = [*looked.findings, *_of_shellcheck(looked, settings)]
    found.sort(key=lambda finding: (finding.path, finding.place, finding.severity.rank, finding.rule))
    judged = [settings[finding.path].judged(finding) for finding in found]
    findings = [finding for finding in judged if finding is not None]
    is_failed = any(settings[finding.path].fails(finding) for finding in findings)
    return grouped(findings), len(judged) - len(findings), is_failed


def _of_shellcheck(looked: LintResult, settings: Mapping[str, LintSettings]) -> Iterator[LintFinding]:
    """Yield what shellcheck finds in the batch scripts, where it is installed and wanted."""
    from muster_lint.ignore import ignored_lines
    from muster_lint.read import FileKind
    from muster_lint.shellcheck import is_there, shellcheck_findings

    texts = {
        source.path: source.text
        for source in looked.sources
        if source.kind is FileKind.BATCH and source.path != "-" and settings[source.path].table.shellcheck
    }
    if not texts or not is_there():
        return
    ignored = {path: ignored_lines(text) for path, text in texts.items()}
    for finding in shellcheck_findings(list(texts)):
        if finding.rule not in ignored[finding.path].get(finding.place.line, ()):
            yield finding


def _say_unread(looked: LintResult) -> None:
    """Say on stderr which files could not be read, and why."""
    for file in looked.unread:
        print(f"muster: error: {file.message}\n\nhint: {file.hint}", file=sys.stderr)


def _check_readers(paths: Sequence[str]) -> None:
    """Raise where one of the files cannot be read for want of a part of Muster's."""
    from muster_lint.read import read_source

    if _lacks_reader():
        for path in paths:
            try:
                source = read_source(path)
            except RequestError:
                continue  # what is wrong with it is told beside the others
            check_reader(source)


def _lacks_reader() -> bool:
    from importlib.util import find_spec

    return None in (find_spec("tree_sitter"), find_spec("tree_sitter_bash"))


def check_reader(source: SourceFile) -> None:
    """Raise where a batch script cannot be read here; a Python script needs Python alone."""
    from muster_lint.read import FileKind

    if source.kind is not FileKind.PYTHON and _lacks_reader():
        from muster.look.installation import has_wheels, installation

        message = "bash is read with tree-sitter, which this installation of Muster lacks"
        compiler = "" if has_wheels() else "    (it is compiled on this processor: that needs a C compiler)"
        hint = f"{installation().command_to_add('tree-sitter', 'tree-sitter-bash')}{compiler}"
        raise MachineLacks("tree-sitter", message, hint)


def _site_named(name: str | None) -> Site | None:
    if name is None:
        return None
    from muster.look.probe import look
    from muster.sites.load import choose_site

    return choose_site(name, look())


def _fix(looked: LintResult, words: Words, typed: LintTable) -> bool:
    """Write the certain edits into the files, or only show them; tell whether there were any."""
    import difflib

    from muster_lint.fix import settled_text
    from muster_lint.look import lint_source
    from muster_lint.settings import settings_for

    is_changed = False
    sources = {source.path: source for source in looked.sources}
    for path in dict.fromkeys(finding.path for finding in looked.findings if finding.edits):
        if path == "-":
            raise RequestError("the standard input cannot be edited", hint="give the file's name")
        source, settings = sources[path], settings_for(path, typed)
        text = _exact_text(path, source)
        if text is None:
            say(f"{path} is left as it is: it has a byte order mark, or bytes that are not UTF-8")
            continue

        def look(text: str, source: SourceFile = source, settings: LintSettings = settings) -> list[LintFinding]:
            found = lint_source(msgspec.structs.replace(source, text=text))
            return [finding for finding in found if settings.judged(finding) is not None]

        better, repaired = settled_text(text, look)
        if not repaired:
            continue
        is_changed = True
        lines = difflib.unified_diff(text.splitlines(), better.splitlines(), path, path, lineterm="", n=1)
        print("\n".join(lines), file=sys.stdout if words.diff else sys.stderr)
        if not words.diff:
            Path(path).write_bytes(better.encode())
            say(f"{path} is written")
    return is_changed


def _exact_text(path: str, source: SourceFile) -> str | None:
    """Return the text of a file whose places are those of what was looked at; None where bytes are not text."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text == source.text else None


def _show(findings: list[LintFinding], looked: LintResult, silenced: int, words: Words) -> None:
    from muster_lint.report import FORMS, as_json, as_sarif, as_text

    form = words.form("format", "text")
    if form == "sarif":
        print_json(as_sarif(findings, looked.unread))
    elif form == "json":
        print_json(as_json(findings))
    elif form == "text":
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        texts = {source.path: source.text for source in looked.sources}
        if looked.sources or findings:  # of files that could not be read nothing is known
            print("\n".join(as_text(findings, texts, silenced=silenced, coloured=coloured)))
    else:
        print("".join(f"{line}\n" for line in FORMS[form](findings)), end="")


def _show_rules(names: Sequence[str]) -> int:
    from muster_lint.rule import all_rules, rule_named

    if not names:
        rows = [(rule.name, rule.severity, rule.language, rule.title) for rule in all_rules()]
        print_table("rules", ("rule", "severity", "of", "what"), rows)
        return 0
    for rule in map(rule_named, names):
        print(f"{rule.name} ({rule.severity}): {rule.title}\n\n{rule.why}\n\nhint: {rule.instead}\n")
        print(f"bad:\n{_indented(rule.bad)}\ngood:\n{_indented(rule.good)}\nsource: {rule.source}")
    return 0


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


COMMAND = CommandLine(
    name="lint",
    start=main,
    summary="""\
Read batch scripts, and the Python scripts that they start. Report what breaks, hangs or is slow, and what to write
instead. Nothing is run. A folder stands for the batch scripts in it.

Status 0: nothing certainly breaks or hangs; 1: something does; 2: a file cannot be read. A finding that depends on
what nobody read (a variable, the site) says so, is one of the weaker ones, and does not count.
""",
    operands="FILE…",
    most=None,
    options=(
        option("--site SITE", "apply the rules of this site too"),
        option("--fix", "correct the file where that is certain, and show the difference"),
        option("--diff", "show what --fix would write, and write nothing"),
        option(
            "--select RULE,…",
            "report these rules alone: names, severities, patterns (default: all but those of style)",
            repeated=True,
            group="rules",
        ),
        option("--ignore RULE,…", "do not report these rules", repeated=True, group="rules"),
        option(
            "--fail-on SEVERITY",
            "least severe of the certain findings that make the status 1 (default: hangs)",
            group="rules",
            choices=("breaks", "hangs", "slow", "fragile", "style"),
        ),
        option("--rules", "list all rules, or explain those that are named", group="rules"),
        option(
            "--format FORM",
            "what to print: text, short (a line for each finding), json, sarif (2.1.0), github or gitlab",
            choices=("text", "short", "json", "sarif", "github", "gitlab"),
        ),
        JSON,
        option("--server", "talk to an editor on stdin and stdout (Language Server Protocol)"),
    ),
    examples=("muster lint job.sbatch", "muster lint --format=short --ignore=style jobs/"),
    more="""\
A comment on the line, or on the line above it, silences a rule. It needs a reason:
  # muster: ignore[port-fixed] this node is never shared
[lint] of .muster.toml, or [tool.muster.lint] of pyproject.toml, does so for a project: select, ignore,
per-file-ignores, severity, fail-on, shellcheck. shellcheck is asked for what matters to a job, where it is there.""",
)
