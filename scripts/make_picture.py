"""Draw docs/pictures/terminal.svg from outputs of the tutorial, which a test holds to what happens; `--check` compares.

The picture loads no font and runs no script.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial" / "first-job.md"
PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"
SHOWN = ("muster run -N 4", "muster why 4")
COLUMNS = 84


def svg() -> str:
    """Return the picture."""
    console = Console(record=True, width=COLUMNS, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115, PTH123
    for line in shown_lines(PAGE.read_text(encoding="utf-8")):
        console.print(line, highlight=False)
    form = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    text = console.export_svg(title="a login node", code_format=form, unique_id="muster")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def shown_lines(page: str) -> Iterator[Text]:
    """Yield the lines of the commands that are shown, coloured as a terminal would."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    pieces = [piece for block in blocks for piece in re.split(r"^(?=(?:login)?\$ )", block, flags=re.MULTILINE)]
    for wanted in SHOWN:
        head, *output = next(piece for piece in pieces if piece.startswith(f"login$ {wanted}")).splitlines()
        yield Text.assemble(("login$ ", "bold green"), (head.removeprefix("login$ "), "bold"))
        for line in output:
            yield Text(line, style="dim" if line.startswith("muster:") else _style(line))
        yield Text("")


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
