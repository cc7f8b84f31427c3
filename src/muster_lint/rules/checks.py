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


@rule(
    "value-of-no-branch",
    Severity.FRAGILE,
    "a value that some branches set, and others leave empty",
    why="With another argument none of the branches runs: the variable is empty, and the paths and options that are made of it are others.",
    instead='Add an else that ends the script: else echo "unknown: $1" >&2; exit 1; fi. In a case: *) … exit 1 ;;.',
    source=sources.BASH,
    bad=_HEAD
    + 'size="${1:?which size}"\nif [ "$size" = small ]; then\n    data=/project/small\nfi\nif [ "$size" = large ]; then\n    data=/project/large\nfi\nsrun --kill-on-bad-exit=1 ./train --data $data/train.bin\n',
    good=_HEAD
    + 'size="${1:?which size}"\nif [ "$size" = small ]; then\n    data=/project/small\nelif [ "$size" = large ]; then\n    data=/project/large\nelse\n    exit 1\nfi\nsrun --kill-on-bad-exit=1 ./train --data $data/train.bin\n',
)
def find_values_of_no_branch(job: BatchScript) -> Iterator[Hit]:
    """Yield the first use of a variable, in a path or an index, that branches over an argument alone set, none of them for all."""
    if not job.directives or job.sets("nounset", "u"):
        return
    held = {
        each.name for each in job.shell.assignments if each.value and any(name.isdigit() for name in each.value.names)
    }
    held |= {
        each.name
        for each in job.shell.assignments
        if each.value and _HOLDS_ARGUMENT.search("".join(each.value.substitutions))
    }
    asks = re.compile(
        rf"^\s*(el)?if\s+\[+\s+[\"']?\$\{{?({'|'.join(sorted(held | set('123456789')))})\}}?[\"']?\s+(=|==|-eq)\s+[\"']?\w"
    )
    sure: dict[str, bool] = {}
    for each in job.shell.assignments:
        around = [place for place, first in job.shell.blocks if place.line <= each.place.line <= place.end_line]
        text = "\n".join(job.lines[around[0].line - 1 : around[0].end_line]) if around else ""
        is_branch = (
            bool(around) and asks.match(text) is not None and re.search(r"^\s*(else|\*\))", text, re.MULTILINE) is None
        )
        sure[each.name] = sure.get(each.name, True) and is_branch and not each.appends
    names = {name for name, is_branch in sure.items() if is_branch and name not in job.declared - {name}}
    names = {
        name for name in names if not re.search(rf"(-z|-n|-v)\s+[\"']?(\$\{{?)?{name}\b|\$\{{{name}:?[-=?+]", job.text)
    }
    words = [word for each in job.shell.commands for word in each.words]
    words += [each.value for each in job.shell.assignments if each.value is not None]
    for word in sorted(words, key=lambda each: each.place):
        found = re.search(r"(?:[/_-]\$\{?(\w+)|\$\{(\w+)\[|\$\{?(\w+)\}?/)", word.text)
        name = next((each for each in found.groups() if each), "") if found else ""
        is_behind = name in names and all(each.place < word.place for each in job.shell.assigned(name))
        if is_behind and len(job.shell.assigned(name)) > 1:
            yield Hit(
                word.place, f"{name} is empty where none of the branches above runs", unknown="what sbatch is given"
            )
            return


_HOLDS_ARGUMENT = re.compile(r"\$\{?[1-9]")
