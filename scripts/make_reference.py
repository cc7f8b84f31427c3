"""Write docs/reference/options.md from the options themselves; `--check` says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from muster.job.request import options_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"

_HEAD = """\
# Options of run, submit and plan

Each option is also a key of the settings files
(`/etc/muster/config.toml`, `~/.config/muster/config.toml`, `muster.toml` in the project) and a variable `MUSTER_KEY`;
what is typed wins over the variable, the variable over the project, the project over the user, the user over /etc.

Settings can run things as you. A file is read only where you or root own it and its directory, and nobody else can
write either; a warning names one that is not read. The project's file is the nearest from the working directory
upward, as far as the directory with `.git`, your home, or the border of the file system; a file from above is reported.
`MUSTER_SAFE_DIRECTORY=/proj/x:/proj/y` names directories that you trust although others write in them.

`muster VERB --help all` shows which of them a verb takes, and its own options, which are typed only.
"""

_MADE = "---\n\nMade by `scripts/make_reference.py` from `src/muster/job/request_options.py`.\n"


def page() -> str:
    """The page: one table for each group of options."""
    groups: dict[str, list[str]] = {}
    for name, option in options_of().items():
        flags = ", ".join(f"`{flag}{f' {option.metavar}' if option.metavar else ''}`" for flag in option.flags)
        help_text = option.help.replace("|", "\\|")
        groups.setdefault(option.group, []).append(f"| {flags.replace('|', chr(92) + '|')} | `{name}` | {help_text} |")
    parts = [_HEAD]
    for group, rows in groups.items():
        parts += [
            f"## {group.capitalize()}\n",
            "| option | key | what it does |\n|---|---|---|\n" + "\n".join(rows) + "\n",
        ]
    return "\n".join([*parts, _MADE])


def main() -> int:
    """Write the page, or with --check compare it."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
