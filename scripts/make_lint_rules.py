"""Write docs/reference/lint-rules.md from the rules of `muster lint`; `--check` says whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from muster.lint.rule import all_rules
from muster.lint.values import Rule

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/lint-rules.md"
HEAD = """\
# Rules of muster lint

`muster lint FILE…` looks for these {count} faults in batch scripts and in the Python scripts that they start. It runs
nothing. *breaks*: the job fails, or computes the wrong thing. *hangs*: it waits until its time limit. *slow*: it is
right, but slower than it could be. *fragile*: it works until something beside it changes. *style*: it is better
written otherwise.

The page is made from `src/muster/lint/rules/` by `scripts/make_lint_rules.py`. To add a rule, add a function there,
with a file that breaks the rule and the same file as it should be: the tests run both."""
_TITLES = {
    "header": "The header",
    "step": "srun",
    "agents": "torchrun, accelerate, deepspeed, mpirun",
    "meeting": "Where the ranks meet",
    "shell": "The shell",
    "environment": "Modules, environments, containers",
    "variables": "Variables",
    "python_devices": "Python: devices",
    "python_groups": "Python: process groups and collectives",
    "python_data": "Python: data, checkpoints, seeds",
}


def page() -> str:
    """Return the whole text."""
    rules = all_rules()
    return "\n".join([HEAD.format(count=len(rules)), *_rooms(rules), ""])


def _rooms(rules: Sequence[Rule]) -> Iterator[str]:
    for room, members in groupby(rules, key=lambda rule: rule.check.__module__.rpartition(".")[2]):
        yield f"\n## {_TITLES[room]}\n"
        for rule in members:
            yield from _entry(rule)


def _entry(rule: Rule) -> Iterator[str]:
    language = "python" if rule.language == "python" else "bash"
    yield f"### {rule.name}\n"
    yield f"*{rule.severity}*: {rule.title}. {rule.why}  "
    yield f"**Instead**: {rule.instead}\n"
    yield f"```{language}\n# bad\n{_shown(rule.bad)}```\n\n```{language}\n# good\n{_shown(rule.good)}```\n"
    yield f"Source: {rule.source}\n"


def _shown(text: str) -> str:
    return text.replace("\r", "␍")


def main(words: Sequence[str]) -> int:
    """Write the page, or compare it."""
    if "--check" in words:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
