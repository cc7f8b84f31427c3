"""Write docs/reference/known-errors.md from the data of `muster check --log`; `--check` says whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from muster.follow.signatures import Signature, signatures

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/known-errors.md"
HEAD = """\
# Known errors

`muster check --log FILE` looks for these {count} in a log, and names the one that came first and explains the rest.
An *echo* follows when another rank has failed; it is named only where nothing else is."""
FOOT = """\
---

Made by `scripts/make_known_errors.py` from `src/muster_check/signatures.toml`. To add an error, add an entry there: a
line that a program really wrote, one like it that means something else, and where it was read.
"""


def page() -> str:
    """The whole text."""
    return "\n".join([HEAD.format(count=len(signatures())), *_families(), FOOT])


def _families() -> Iterator[str]:
    for family, members in groupby(signatures(), key=lambda each: each.family):
        yield f"\n## {family}\n"
        for each in members:
            yield from _entry(each)


def _entry(each: Signature) -> Iterator[str]:
    source = f"<{each.source}>" if each.source.startswith("https://") else each.source
    yield f"**{each.id}**{' (echo)' if each.echo else ''}: {each.cause}.  "
    yield f"*What to do*: {each.remedy}.  "
    yield f"`{each.line.strip()}`  "
    yield f"Read in: {source}\n"


def main(words: Sequence[str]) -> int:
    """Write, or compare."""
    if "--check" not in words:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
        print(f"{PAGE} is not current: python scripts/make_known_errors.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
