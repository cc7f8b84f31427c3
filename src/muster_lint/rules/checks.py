"""Rules on checks that a script makes and that change nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import is_work

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"


@rule(
    "check-goes-on",
    Severity.FRAGILE,
    "a check that says what is missing, and goes on",
    why="echo ends nothing: the work runs without what the script has just looked for, in another folder or with other data.",
    instead="Write exit 1 behind the message.",
    source=sources.BASH,
    bad=_HEAD + 'if [ ! -d data ]; then\n    echo "data not found"\nfi\nsrun --kill-on-bad-exit=1 ./train\n',
    good=_HEAD
    + 'if [ ! -d data ]; then\n    echo "data not found"\n    exit 1\nfi\nsrun --kill-on-bad-exit=1 ./train\n',
)
def find_checks_without_end(job: BatchScript) -> Iterator[Hit]:
    """Yield the first test for something missing whose branch holds messages of an error alone, in front of work."""
    works = [
        each.command.place.line for each in job.launches if is_work(job, each) or each.command.program in _ELSEWHERE
    ]
    if not job.directives or job.shell.error is not None or not works:
        return
    written = {line for place, _ in job.shell.heredocs for line in range(place.line, place.end_line + 1)}
    written |= {line for place in job.shell.long_texts for line in range(place.line, place.end_line + 1)}
    for number, line in enumerate(job.lines, start=1):
        if number in written or not _ASKS.match(line):
            continue
        rest = [each.strip() for each in job.lines[number : number + _MOST_SAID]]
        alone = _IN_ONE_LINE.search(line)
        rest = [*alone[1].split(";"), "fi"] if alone is not None else rest
        body = [] if re.search(r";\s*then\b", line) else rest[:1]
        said = []
        for each in rest[len(body) :]:
            if not re.match(r"(echo|printf)\b(?!.*\b(exit|return)\b)[^|<>]*(>&2|1>&2)?\s*$", each):
                break
            said.append(each)
        following = rest[len(body) + len(said)] if len(rest) > len(body) + len(said) else ""
        text = " ".join(said)
        is_error = _OF_ERROR.search(text) and not _GOES_ON.search(text)
        end = max((place.end_line for place, _ in job.shell.blocks if place.line <= number), default=number)
        if said and is_error and following in {"fi", "else"} and works[-1] > end:
            yield Hit(TextSpan(number, 1, number, len(line) + 1), "it says so, and the script goes on")
            return


_ELSEWHERE = frozenset({"ssh", "pdsh", "parallel", "xargs"})
_MOST_SAID = 12
_IN_ONE_LINE = re.compile(r";\s*then\s+((?:echo|printf)\b[^|<>&;]*);?\s*fi\s*$")
_ASKS = re.compile(r"\s*if\s+(\[\[?|test)\s+(!\s+-[defs]\s|-z\s+\"?\$\{?\d|\"?\$#\"?\s+(-lt|-ne|-eq|<|!=)\s)")
_OF_ERROR = re.compile(
    r"error|missing|not (found|exist|set|given)|no such|can(no|')t (find|open|read)|required|does(n't| not) exist"
    r"|illegal|usage|(wrong|invalid) (number|arg|param)|not enough|too (few|many)|expected|(argument|parameter)s? (is|are)|no (argument|parameter|file|folder|dir)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"warn|skip|default|creat|download|will|using|from scratch|first|instead|continu|start|fall|generat|mak|build|try|nothing|run|install|ok\b|info",
    re.IGNORECASE,
)
