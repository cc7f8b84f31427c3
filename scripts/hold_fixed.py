"""Hold `muster lint --fix` to what runs: each script of a folder before and after its repairs, with stub programs.

    scripts/hold_fixed.py FOLDER

FOLDER holds the scripts, files that end in .sbatch, .slurm or .sh. A script that a repair changes runs twice in the box
of `tests/port/box.py`. One result for each, by the first of these that holds:

    again          a second repair changes the text once more
    not compared   neither text starts a rank with these programs
    differs        the ranks, the files or the exit status differ: only what the finding speaks of may
    same           nothing differs
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from muster_lint.fix import settled_text  # noqa: E402
from muster_lint.look import lint_source  # noqa: E402
from muster_lint.read import SourceFile, read_source  # noqa: E402
from muster_lint.values import LintFinding  # noqa: E402
from port.box import Outcome, run_boxed  # noqa: E402

_OF_THIS_RUN = {"run", "line", "environment"}


def main() -> int:
    """Print a line for each script that a repair changes, and the counts; 1 if one does something else afterwards."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("folder", type=Path, help="the scripts: files that end in .sbatch, .slurm or .sh")
    if shutil.which("bwrap") is None:
        print("hold_fixed: bubblewrap is missing: no script of somebody else runs without its box", file=sys.stderr)
        return 1
    counts: Counter[str] = Counter()
    for path in sorted(words.parse_args().folder.iterdir()):
        if path.suffix in {".sbatch", ".slurm", ".sh"} and (held := hold(read_source(str(path)))):
            word, why = held
            counts[word] += 1
            print(f"{path.name}: {word}: {why[:600]}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return 1 if counts["differs"] or counts["again"] else 0


def hold(source: SourceFile) -> tuple[str, str] | None:
    """Return what the repairs of a script do to its ranks, and where; None where nothing is repaired."""

    def look(text: str) -> list[LintFinding]:
        return lint_source(msgspec.structs.replace(source, text=text))

    text, repaired = settled_text(source.text, look)
    if not repaired:
        return None
    rules = ", ".join(sorted({finding.rule for finding in repaired}))
    if settled_text(text, look)[1]:
        return "again", rules
    before, after = run_boxed(source.text), run_boxed(text)
    if not before.ranks and not after.ranks:
        return "not compared", f"{rules}: status {before.status}: {before.said}"
    difference = first_difference(before, after)
    return ("differs", f"{rules}: {difference}") if difference else ("same", rules)


def first_difference(before: Outcome, after: Outcome) -> str:
    """Return in words where two outcomes differ first; empty where they do not."""
    if len(before.ranks) != len(after.ranks):
        return f"{len(before.ranks)} ranks before, {len(after.ranks)} after"
    for old, new in zip(_in_order(before), _in_order(after)):
        for one, other in ((old, new), (_variables(old), _variables(new))):
            for key in sorted(one.keys() | other.keys()):
                if key not in _OF_THIS_RUN and one.get(key) != other.get(key):
                    return f"{key}: {one.get(key)!r} before, {other.get(key)!r} after"
    if before.files.keys() != after.files.keys():
        return f"files: {sorted(before.files.keys() ^ after.files.keys())}"
    return f"status {before.status} before, {after.status} after" if before.status != after.status else ""


def _variables(rank: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in rank["environment"].items() if not name.startswith("STUB_")}


def _in_order(outcome: Outcome) -> list[dict[str, Any]]:
    return sorted(outcome.ranks, key=lambda rank: (str(rank["words"]), int(rank["rank"])))


if __name__ == "__main__":
    sys.exit(main())
