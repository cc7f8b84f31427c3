"""What shellcheck finds in batch scripts, where it is installed: only the codes that say something about the job."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from muster.errors import MusterError
from muster.runner import run
from muster_lint.values import LintFinding, Severity, TextSpan

CODES = {
    1037: "${10} is the tenth argument; $10 is the first one with a 0 behind it.",
    1118: "The here-document has no end: the rest of the job becomes its text.",
    1119: "The here-document has no end: the rest of the job becomes its text.",
    1120: "The here-document has no end: the rest of the job becomes its text.",
    2050: "The test is always the same: a $ is missing.",
    2070: "The test is true where the variable is empty.",
    2071: "The numbers are compared as texts, or a file is written: -gt and -lt compare numbers.",
    2077: "The test is always true: blanks are missing around its sign.",
    2078: "The test is always the same: a $ is missing.",
    2088: "A tilde in quotes stays a tilde, and no such folder is there.",
    2089: "Quotes in a variable reach the program as quotes.",
    2090: "Quotes in a variable reach the program as quotes.",
    2091: "What a command prints is executed as a command.",
    2093: "Nothing behind exec runs.",
    2157: "The test is always the same: a $ is missing.",
    2170: "-eq compares numbers, and this is none.",
    2193: "The two can never be equal.",
    2210: "A file with a number for a name is written.",
    2218: "The function is called before it is there.",
    2281: "The shell runs the value as a command, and sets nothing.",
    2309: "-eq compares numbers: a text counts as 0, and the test is always the same.",
    2319: "$? is the end of the test before it, not of the program.",
    2320: "$? is the end of echo, which is always well.",
}
"""The codes that are asked for, each with what it does to a job; what a rule of Muster finds is not among them."""

_WIKI = "https://www.shellcheck.net/wiki"
_AT_ONCE = 50
_READ_AGAIN = (2088, 2089, 2090)
_HARMLESS = {
    2071: r"\n.*\[\[.*[<>]\s*\d\b",
    2078: r"\n.*(while|until)\s+\[+ \S+ \]",  # a loop without an end
    2320: r"^.*\b(echo|printf)\b.*>.*\n",  # the file may not be written
}
"""What the line of a comment, or the one before it, has where the shell does what is meant."""


class _Comment(msgspec.Struct, rename="camel"):
    """One comment of shellcheck's, as its json1 has it."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    code: int
    message: str


class _Answer(msgspec.Struct):
    comments: list[_Comment]


def is_there() -> bool:
    """Tell whether shellcheck is installed."""
    return shutil.which("shellcheck") is not None


def shellcheck_findings(paths: Sequence[str]) -> Iterator[LintFinding]:
    """Yield what shellcheck finds in these scripts; nothing where it cannot read one."""
    codes = ",".join(f"SC{code}" for code in CODES)
    head = ["shellcheck", "--format=json1", f"--include={codes}", "--severity=style"]
    for start in range(0, len(paths), _AT_ONCE):
        batch = paths[start : start + _AT_ONCE]
        try:
            answer = run([*head, "--", *batch], timeout_s=10 * len(batch) + 30)
            comments = msgspec.json.decode(answer.stdout, type=_Answer).comments
        except (MusterError, msgspec.MsgspecError):
            continue
        yield from (_finding(each) for each in comments if not _is_harmless(each))


def _is_harmless(comment: _Comment) -> bool:
    """Tell whether a shell reads the text again, or a comparison of texts does what one of numbers would."""
    if comment.code in _READ_AGAIN:
        return _is_evaluated(comment.file)
    harmless = _HARMLESS.get(comment.code)
    return harmless is not None and re.search(harmless, _lines_of(comment)) is not None


def _lines_of(comment: _Comment) -> str:
    lines = Path(comment.file).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(["", *lines][max(0, comment.line - 1) : comment.line + 1])


def _is_evaluated(path: str) -> bool:
    """Tell whether a shell reads the text of a variable again: bash -c "$CMD", eval."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return re.search(r"\beval\b|\s-l?c\s+\W?\$", text) is not None


def _finding(comment: _Comment) -> LintFinding:
    code = f"SC{comment.code}"
    span = TextSpan(comment.line, comment.column, comment.end_line, max(comment.end_column, comment.column + 1))
    return LintFinding(
        code,
        Severity.FRAGILE,
        comment.file,
        span,
        comment.message.rstrip("."),
        CODES[comment.code],
        f"See {_WIKI}/{code}.",
        f"shellcheck {code}",
    )
