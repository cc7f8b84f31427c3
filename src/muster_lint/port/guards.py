"""Whether a command of a script runs only if another one says so: `[ -d x ] && cd x`, `a || b`. Pure."""

from __future__ import annotations

import re

from muster_lint.values import TextSpan

_TEST = re.compile(r"^\s*(!\s|\[|\(\(|test\s|command\s|which\s|type\s|grep\s|hash\s|if\s|true\b|false\b)")
_DECLARED = re.compile(r"\b(export|declare|typeset|readonly|local)\s[^;&|]*$")


def is_guarded(lines: list[str], place: TextSpan) -> bool:
    """Tell whether what stands at a place runs only behind a test and &&, or behind ||."""
    before = _DECLARED.sub("", lines[place.line - 1][: place.column - 1])
    number = place.line - 1
    while number > 0 and re.search(r"(\\|&&|\|\|)\s*$", lines[number - 1]):
        before = f"{lines[number - 1].rstrip().rstrip(chr(92))} {before}"
        number -= 1
    statement = re.split(r";|(?<!\\)\n", before)[-1] if "{" not in before else before
    if re.search(r"\|\|\s*(\{[^}]*)?$", statement):
        return True
    if re.search(r"&&\s*(\{[^}]*)?$", statement) or ("{" in statement and "&&" in statement):
        return _TEST.match(statement) is not None or "||" in statement
    return False
