"""Draw docs/pictures/terminal.svg from outputs of the tutorial, which a test holds to what happens, and from a plan;
`--check` compares.

The picture loads no font and runs no script.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.plan.build import make_plan
from muster.render.explain import explain
from muster.sites.load import load

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial" / "first-job.md"
PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"
COLUMNS = 96
# (command, the lines of its output that are shown; None: all of them)
SHOWN: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("login$ muster run -N 4", None),
    ("login$ muster why 4", None),
    (
        "$ muster run --rehearse",
        (
            "muster: a rehearsal",
            "muster: shown on",
            "muster:   ok    16 ranks",
            "muster:   ok    every rank sees",
            "muster:   ok    srun took",
        ),
    ),
)
# What a plan says of three of its lines, for a job of two nodes there.
PLANNED = ("--site", "lumi", "-A", "project_465000000", "-N", "2", "-t", "30", "--", "python", "train.py")
DECISIONS = ("ntasks_per_node = 8", "cpus_per_task = 7", "#SBATCH --partition=standard-g")


def svg() -> str:
    """Return the picture: dark letters on a light page, and light ones where the reader's system is dark."""
    light, dark = _drawn(DEFAULT_TERMINAL_THEME), _drawn(SVG_EXPORT_THEME)
    light = re.sub(r'<rect fill="#\w+" stroke="[^"]*"', '<rect class="muster-page" stroke="#9e9e9e"', light)
    rules = [
        ".muster-page { fill: #ffffff }",
        "@media (prefers-color-scheme: dark) {",
        ".muster-page { fill: #292929 }",
    ]
    rules += [".muster-title { fill: #c5c8c6 }"]
    rules += re.findall(r"^ *(\.muster-r\d+ \{.*\})$", dark, flags=re.MULTILINE)
    return light.replace("</style>", "\n".join([*rules, "}", "</style>"]), 1)


def _drawn(theme: TerminalTheme) -> str:
    console = Console(record=True, width=COLUMNS, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115, PTH123
    for line in shown_lines(PAGE.read_text(encoding="utf-8")):
        console.print(line, highlight=False)
    form = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    text = console.export_svg(title="a login node", code_format=form, unique_id="muster", theme=theme)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def shown_lines(page: str) -> Iterator[Text]:
    """Yield the lines of the commands that are shown, coloured as a terminal would."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    pieces = [piece for block in blocks for piece in re.split(r"^(?=(?:login)?\$ )", block, flags=re.MULTILINE)]
    for wanted, heads in SHOWN:
        head, *output = next(piece for piece in pieces if piece.startswith(wanted)).splitlines()
        yield _typed(head)
        for line in output:
            if heads is None or line.startswith(heads):
                yield Text(line, style="dim" if line.startswith("muster:") and heads is None else _style(line))
        yield Text("")
    yield _typed(f"$ muster plan --as why {' '.join(PLANNED)}")
    yield from map(Text, _reasons())


def _typed(line: str) -> Text:
    prompt, _, command = line.partition(" ")
    return Text.assemble((f"{prompt} ", "bold green"), (command, "bold"))


def _reasons() -> Iterator[str]:
    """Yield what the plan says of a few lines, and why: without the documents that say it."""
    values, origins, command = parse(PLANNED)
    request = request_from({}, values, origins, command)
    plan = make_plan(request, load("lumi"), Facts(working_directory="/scratch/you", home="/home/you"), typed=PLANNED)
    for _, text, reason in explain(plan):
        if text in DECISIONS:
            yield f"  {text}"
            yield from wrap(reason.text, COLUMNS - 2, initial_indent="      ", subsequent_indent="      ")


def _style(line: str) -> str:
    return "bold red" if re.match(r"  first:|job \d+ .*FAILED", line) else ""


def main(words: Sequence[str]) -> int:
    """Write the picture, or say whether it is current."""
    if list(words) == ["--check"]:
        return 0 if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == svg() else 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
