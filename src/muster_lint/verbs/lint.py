"""muster lint: the faults of batch scripts and training scripts, found by reading them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json, print_table, say
from muster.errors import MachineLacks, RequestError
from muster.job.option import option

if TYPE_CHECKING:
    from muster.sites.site import Site
    from muster_lint.read import SourceFile
    from muster_lint.values import LintFinding


def main(words: Words) -> int:
    """Report the findings in each file; return 0 where nothing serious was found."""
    if words.rules:
        return _show_rules(words.operands)
    if not words.operands:
        raise RequestError("there is no file to read", hint="muster lint job.sbatch")
    from muster_lint.look import lint_files
    from muster_lint.read import read_source

    if "-" not in words.operands:  # the standard input can be read only once, and lint_files does that
        for path in words.operands:
            check_reader(read_source(path))
    findings = lint_files(words.operands, _site_named(words.site))
    if words.fix:
        findings = _fix(findings, words)
    _show(findings, words)
    return int(any(finding.severity.rank < 3 for finding in findings))


def check_reader(source: SourceFile) -> None:
    """Raise where a batch script cannot be read here; a Python script needs Python alone."""
    from importlib.util import find_spec

    from muster_lint.read import FileKind

    if source.kind is FileKind.PYTHON:
        return
    if find_spec("tree_sitter") is None or find_spec("tree_sitter_bash") is None:
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


def _fix(findings: list[LintFinding], words: Words) -> list[LintFinding]:
    """Write the certain edits into the files, show each difference, and look again."""
    import difflib

    from muster_lint.fix import fixed_text
    from muster_lint.look import lint_files

    for path in dict.fromkeys(finding.path for finding in findings if finding.edits):
        if path == "-":
            raise RequestError("the standard input cannot be edited", hint="give the file's name")
        file = Path(path)
        text = file.read_bytes().decode("utf-8")
        better = fixed_text(text, [finding for finding in findings if finding.path == path])
        lines = difflib.unified_diff(text.splitlines(), better.splitlines(), path, path, lineterm="", n=1)
        print("\n".join(lines), file=sys.stderr)
        file.write_bytes(better.encode())
        say(f"{path} is written")
    return lint_files(words.operands, _site_named(words.site))


def _show(findings: list[LintFinding], words: Words) -> None:
    from muster_lint.report import as_json, as_sarif, as_text

    if words.sarif:
        print_json(as_sarif(findings))
    elif words.json:
        print_json(as_json(findings))
    else:
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        texts = {path: _text(path) for path in {finding.path for finding in findings}}
        print("\n".join(as_text(findings, texts, coloured=coloured)))


def _text(path: str) -> str:
    return "" if path == "-" else Path(path).read_text(encoding="utf-8", errors="replace")


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
instead. Nothing is run.

Status 0: nothing serious was found; 1: something breaks, hangs or is slow.""",
    operands="FILE…",
    most=None,
    options=(
        option("--site", metavar="SITE", group="output", help="apply the rules of this site too"),
        option("--fix", group="output", help="correct the file where that is certain, and show the difference"),
        option("--rules", group="output", help="list all rules, or explain those that are named"),
        JSON,
        option("--sarif", group="output", help="print a SARIF 2.1.0 log, which code hosts read"),
    ),
    examples=("muster lint job.sbatch",),
    more="""\
A comment on the line, or on the line above it, silences a rule. It needs a reason:
  # muster: ignore[port-fixed] this node is never shared""",
)
