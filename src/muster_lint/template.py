"""A text that another program fills in before it is a script: recognised, and not judged as a script."""

from __future__ import annotations

import re

from muster_lint.read import SourceFile
from muster_lint.values import LintFinding, Severity, TextSpan

# In a directive nothing else can stand for these: sbatch expands no braces, no @ and no % but its own letters.
_IN_DIRECTIVE = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|(?<!\$)\{[^{}$,|]*[A-Za-z][^{}$,|]*\}|(?<![\w@.])@[A-Za-z_]\w*@|%\([a-z_]\w*\)\d*[sdif]|<%=?.*?%>"
    r"|\$[A-Z_]+ \w+\$"
    r"|%%[A-Za-z_-]+%%|%[A-Z_]{3,}%|\*\*\w+\*\*|(?<==)#{1,2}[A-Z]\w*#{1,2}|!TBG_\w+"
    r"|--(?:nodes|ntasks\S*|time|cpus\S*|mem\S*|array)[= ]\S*?(?<![A-Za-z${_])(?!UNLIM|INFIN)[A-Z][A-Z_]{3,}(?=\s|$)"
    r"|(?<![A-Za-z0-9])(_{1,2}[A-Z][A-Z0-9_]*_{1,2}|__[a-z][a-z0-9_]*__)(?![A-Za-z0-9])|\[\[\s*[a-z_.]+\s*\]\]"
)
_BLOCK = re.compile(r"^\s*\{%-?\s*\w+|^\s*\{\{[^}]*\}\}\s*$|^\s*<[A-Z][A-Z0-9_]+>\s*$", re.MULTILINE)
_OWN_NAME = re.compile(r"^#SBATCH +--([a-z-]+)=(\w*_(\w+)_\w*)(?=\s|$)", re.MULTILINE)
"""A directive whose value holds the option's own name between marks: --time=g_time_g."""
_IN_HEADER = re.compile(r"^#SBATCH\s[^#\n]*\$\{?(?!SLURM_)([A-Z]\w+)", re.MULTILINE)
_OF_SHELLS = {"USER", "HOME", "PWD", "HOSTNAME", "SCRATCH", "WORK", "TMPDIR", "PROJECT", "ACCOUNT"}


def template_finding(source: SourceFile) -> LintFinding | None:
    """Return the note that a file is a template; None where it is a script."""
    marks = _first_mark(source.text)
    if marks is None:
        return None
    line, mark = marks
    text = source.text.splitlines()[line - 1]
    return LintFinding(
        "template",
        Severity.STYLE,
        source.path,
        TextSpan(line, 1, line, len(text) + 1),
        f"{mark!r} is filled in before this is a script, so the script itself cannot be judged",
        "What stands in the place of the mark decides what the job is.",
        "Look at a script that was made from the template.",
        "jinja.palletsprojects.com, Template Designer Documentation",
    )


def _first_mark(text: str) -> tuple[int, str] | None:
    lines = text.splitlines()
    doubled = [number for number, line in enumerate(lines, start=1) if re.search(r"\$\$[({A-Za-z]", line)]
    if len(doubled) > 2 and re.search(r"\$\$[({]", text):
        return doubled[0], "$$"  # Python's string.Template all over
    own = [match[2] for match in _OWN_NAME.finditer(text) if match[1].replace("-", "_") in match[2].lower()]
    if len(own) > 2:
        return next((number, own[0]) for number, line in enumerate(lines, start=1) if own[0] in line)
    names = set(_IN_HEADER.findall(text)) - _OF_SHELLS
    if len(names) > 1 and not any(re.search(rf"\b{name}=", text) for name in names):
        return next((number, "$") for number, line in enumerate(lines, start=1) if _IN_HEADER.match(line))
    header = next((number for number, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"), 0)
    for number, line in enumerate(lines, start=1):
        found = _IN_DIRECTIVE.search(re.sub(r"\s#.*", "", line)) if line.startswith("#SBATCH") else _BLOCK.match(line)
        if number <= header and any(each.startswith("#SBATCH") for each in lines[number:]):
            # where the directives stand no shell has set it
            found = found or re.match(r"\$\{?[A-Za-z_]\w*\}?\s*$", line)
        found = found or re.match(r"\w+=\S*(\$\$[({]\w+[)}])", line)  # Python's string.Template: $$ becomes $
        if found is not None:
            return number, found[0].strip()
    return None
