"""What becomes of each line of a script: the words, the command and all rows, at home and at another site.

The scripts stand in the golden file itself: write another line that begins with `$` there, and let --update-golden fill
in what becomes of it. `⏎` ends a line of the script. A script that names no size has two nodes with four GPUs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from muster.errors import RequestError
from muster_lint.port.carry import carry
from muster_lint.port.own import is_own
from muster_lint.port.read import unread
from muster_lint.port.values import Draft, PortRow
from muster_lint.read import FileKind
from sites.profiles import bundled

from .scripts import FACTS, read

_GOLDEN = Path(__file__).parent.parent / "golden/ported.txt"
_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=10\n"
_USUAL = {(row.what, row.verdict, row.why) for row in read(f"{_HEAD}srun python a.py\n")[1].rows}


def _shown(row: PortRow) -> str:
    now = f" → {row.now}" if row.now else ""
    return f"{row.line or '-'}: {row.what} {row.verdict}{now}{f' ({row.why})' if row.why else ''}"


def _told(draft: Draft) -> str:
    words = draft.words()
    words = words[6:] if words[:6] == ["-N", "2", "-g", "4", "-t", "10"] else words
    rows = [row for row in draft.rows if (row.what, row.verdict, row.why) not in _USUAL]
    return f"{shlex.join([*words, '--', *draft.command])}{''.join(f'; {_shown(row)}' for row in rows)}"


def _ported(place: str, text: str) -> str:
    """What becomes of a script; each part of it has a row."""
    script = text.replace(" ⏎ ", "\n")
    is_whole = place == "a script" or " to " in place or "#SBATCH -N" in script
    head = "" if script.startswith("#!") else "#!/bin/bash\n" if is_whole else _HEAD
    script += "\nsrun python a.py" if place == "before a launch" else ""
    try:
        job, draft = read(f"{head}{script}\n", FileKind.PYTHON if "/python" in script[:30] else FileKind.BATCH)
    except RequestError as error:
        return f"refused: {error.message}; hint: {error.hint}"
    assert is_own(job.text) or unread(job, draft) == [], text
    source, carries, target = place.partition(" to ")
    if not carries:
        return _told(draft)
    account = "mine" if " as mine" in target else None
    origin = bundled(source) if source != "nowhere" else None
    there = carry(draft, bundled(target.partition(" as ")[0]), origin, FACTS, account=account)
    return f"{_told(there.draft)}{f'; refused: {there.refusal.message}' if there.refusal else ''}"


def test_what_becomes_of_each_line_of_a_script(golden: Callable[[Path, str], None]) -> None:
    lines, place = [], ""
    for line in _GOLDEN.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            place = line[3:]
        text = line.partition("  # ")[0]
        lines.append(f"{text}  # {_ported(place, text[2:])}" if line.startswith("$ ") else line)
    golden(_GOLDEN, "\n".join([*lines, ""]))
