"""A script → the batch scripts that it writes into sbatch as here-documents, each with its place in the file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from muster_lint.bash import with_its_end
from muster_lint.job import BatchScript, directives_of, read_job
from muster_lint.values import LintFinding, TextSpan


class EmbeddedScript(msgspec.Struct, frozen=True):
    """A batch script in a here-document of sbatch."""

    job: BatchScript
    before: int
    """The lines of the file in front of its own first one."""

    around: BatchScript
    """The script that holds it."""

    is_open: bool
    """Bash puts values in the places of the variables before sbatch reads the text: its mark is not quoted."""

    def placed(self, finding: LintFinding) -> LintFinding:
        """Return a finding of this script at its place in the file; a repair would be one of another text."""
        place = finding.place
        if place.line == 1:  # the copy of its first line
            place = TextSpan(self.before + 1, place.column, self.before + place.end_line, place.end_column)
        return msgspec.structs.replace(finding, place=place, edits=())

    def can_tell(self, finding: LintFinding) -> bool:
        """Tell whether a finding holds although bash has put other values into the text."""
        if not self.is_open:
            return True
        line = self.around.lines[finding.place.line - 1].lstrip("\t")
        is_filled = line.startswith(("#SBATCH", "$")) and re.search(r"[$`]", line) is not None
        return not is_filled and finding.rule not in _OF_VARIABLES


def embedded_scripts(job: BatchScript) -> Iterator[EmbeddedScript]:
    """Yield the batch scripts that a script gives to sbatch, those left out whose options cannot be read here."""
    for place, text in job.shell.heredocs[:_MOST]:
        mark = _TO_SBATCH.search(job.lines[place.line - 2])
        options = (mark["options"] or mark["behind"] or "").strip() if mark is not None else ""
        if mark is None or not text.startswith(("#!", "\t#!")) or "$" in options:
            continue
        is_open = not (mark["quote"] or mark["quote_2"])
        body = re.sub(r"^\t+", "", text, flags=re.MULTILINE) if mark["strips"] or mark["strips_2"] else text
        read = _as_sbatch_reads(job, body) if is_open else body
        before = place.line - 1
        inner = read_job(job.path, read.partition("\n")[0] + "\n" * before + read)  # its lines keep their numbers
        told = tuple(directives_of(f"#SBATCH {options}", before)) if options else ()
        yield EmbeddedScript(
            msgspec.structs.replace(inner, directives=(*inner.directives, *told)), before, job, is_open
        )


def open_texts(job: BatchScript) -> Iterator[tuple[int, str]]:
    """Yield the texts for sbatch in which bash fills in the variables first, each with the lines in front of it."""
    for place, text in job.shell.heredocs:
        mark = _TO_SBATCH.search(job.lines[place.line - 2])
        if mark is not None and not (mark["quote"] or mark["quote_2"]):
            yield place.line - 1, text


_MOST = 60
"""How many of them are read: each costs as much as the file is long."""


_TO_SBATCH = re.compile(
    r"(?:^|[\s;&|(`=])sbatch(?P<options>(?:\s[^|;&<>`()]*)?)<<(?P<strips>-?)\s*(?P<quote>[\"'\\]?)\w+[\"']?\s*([|)`]|$)"
    r"|^\s*cat\s*<<(?P<strips_2>-?)\s*(?P<quote_2>[\"'\\]?)\w+[\"']?\s*\|\s*sbatch\b(?P<behind>[^|;&<>`()]*)$"
)


def _as_sbatch_reads(job: BatchScript, text: str) -> str:
    r"""Return a text as bash hands it on: with the values that are known here, and \$ as a sign of its own."""

    def value_of(match: re.Match[str]) -> str:
        word = job.shell.value_of(match[1] or match[2])
        if word is None or not word.is_literal or "\n" in word.value:
            return match[0]
        return with_its_end(word.value, match)

    text = re.sub(r"^[ \t]*\$(\w+|\{\w+\})[ \t]*$", "#", text, flags=re.MULTILINE)  # whole lines that are not known
    filled = re.sub(r"(?<!\\)\$(?:\{(\w+)\}|([A-Za-z_]\w*))", value_of, text)
    return re.sub(r"\\([$`\\])", r"\1", filled)


_OF_VARIABLES = frozenset(
    """
    directive-expands variable-never-set variable-never-read meeting-variable-unset argument-unchecked array-facts
    slurm-variable-unset unset-under-nounset not-exported
    rank-in-batch-shell hostname-too-early task-variable-too-early variable-unread port-missing
    not-bash placeholder path-not-there file-beside-script
    environment-of-submission no-directives source-relative environment-in-child
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""The rules on what variables hold, and on what lies beside the script."""
