"""Write docs/explanation/script.md from the shell parts; `--check` says whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from muster.render.folder import IN_PLACE_OF
from muster.render.functions import functions_in, opening_of
from muster.render.parts import SHELL

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/script.md"

HEAD = """\
# The script, part by part

A script of `muster plan` or `muster submit` has two parts, with a line of dashes between them. Above it stands **your
job**: the header, and the function `job`, whose lines are what you asked for and what your site wants;
`muster plan --as why` explains each of them. Below it stands **Muster's own text**, made of the parts that this job
needs; its version and its digest stand in its first line. One file holds both, and `sbatch FILE` runs it.

Large parts stand in another place: `muster_read` reads them from `~/.local/share/muster/texts/ID`, a folder of yours.
`ID` follows from the texts, so a job that waits over an upgrade reads what it was made for. `muster submit`, `run` and
`plan` write the folder, and `muster clean` leaves it while a job of yours waits or runs.

The script holds everything where Muster finds no Slurm, where it can make no such folder, and where nothing shows that
it stands at the site of the plan: `muster plan --site OTHER` writes a script that can be carried there. No job
reads another user's folder, so a colleague types the line that `muster plan --as words` prints, or gets the script of
`XDG_DATA_HOME=/dev/null muster plan …`, which holds everything.

Where the first node of a job does not see the folder, a warning names what is missing. A closed job, and one that
stages copies, then stops before its ranks start; the ranks of any other job run:

| not read | what the job does without it |
|---|---|
| `watch` | srun itself ends all ranks when one fails; the job ends with the status of that rank |
| `agent_keeper.py` | torchrun runs by itself: no labels, and lines of different ranks may mix |
| `report_ends` | the ends of the ranks are counted as ever; an unknown one is reported by its host alone |
| `silence`, `silence_ends`, `mpirun_waits`, `hydra_watch` | nobody notices that ranks, or an mpirun, hang |
| `left`, `look`, `leave` | what left a rank is not ended; no warning of ranks that never met, or of a full disk |
| `image_unpack`, `unpacked`, `stack` | the image's engine does what it can; the image is not compared with the GPUs |
| `stage`, `stage_node`, `stage_rank` | a job with `--stage` stops with a sentence before its ranks start |
| `door`, `door_owner`, `door_store` (`.py`) | a job with `--closed` stops with a sentence before its ranks start |

On a terminal `muster plan` shows the job and counts the rest; into a file or a pipe it writes everything.

This page explains Muster's own text function by function. It is made from `src/muster/render/shell` by
`scripts/make_script_page.py`: a script holds only the parts that it needs, and each function once."""

SECTIONS = {
    "begin": "How a job begins and ends",
    "step": "How its ranks start, and how their end is seen",
    "rank": "What every started process runs before the command",
    "image": "Images",
    "stage": "Staged copies",
    "again": "Jobs that go on: restarts, saves, links, spare nodes",
    "nodes": "What the supervisor of such a job runs on its nodes (not in the script)",
}
"""The rooms of the parts, in the order of the page."""


def page() -> str:
    """Return the whole text."""
    return "\n".join([HEAD, *_sections(), ""])


def _sections() -> Iterator[str]:
    for room, title in SECTIONS.items():
        yield f"\n## {title}"
        for path in sorted(Path(SHELL, room).glob("*.sh")):
            yield from _part(path)


def _part(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    is_read = path.stem in IN_PLACE_OF
    yield f"\n### {path.parent.name}/{path.name}{' (read from the folder of texts)' if is_read else ''}\n"
    opening = opening_of(text)
    if opening:
        yield opening
    functions = list(functions_in(text))
    if opening and functions:
        yield ""
    for name, comment in functions:
        yield f"- `{name}`{': ' if comment else ''}{comment}"


def main(words: Sequence[str]) -> int:
    """Write the page, or say whether it is current."""
    text = page()
    if list(words) == ["--check"]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
