"""The manual pages of Muster, in the form of man(7), made from the same command lines as `--help`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from muster import __version__
from muster.cli.help_page import default_of, options_by_title
from muster.cli.verbs import VERBS, command_of

if TYPE_CHECKING:
    from muster.cli.command_line import CommandLine
    from muster.job.option import Option

_FILES = (
    ("/etc/muster, or $MUSTER_SYSTEM_DIRECTORY", "the administrator's settings and sites"),
    ("~/.config/muster, or $XDG_CONFIG_HOME/muster", "your settings and sites"),
    ("muster.toml, muster-site.toml", "those of a project"),
    ("muster-runs/JOB", "what a job leaves: the script, the plan, the logs"),
)


def write_man_pages(folder: Path) -> list[Path]:
    """Write a page for Muster, each verb, and each verb of a verb into man1 of this folder; return the paths."""
    target = folder / "man1"
    target.mkdir(parents=True, exist_ok=True)
    texts = {"muster": _first_page()}
    for verb in VERBS:
        command = command_of(verb)
        texts[_name(command)] = man_page(command, verb.help)
        texts.update((_name(each), man_page(each, _sentence(each.summary))) for each in command.verbs)
    paths = [target / f"{name}.1" for name in texts]
    for path, text in zip(paths, texts.values()):
        path.write_text(text, encoding="utf-8")
    return paths


def man_page(command: CommandLine, sentence: str) -> str:
    """Return the page of one verb, with all of its options; `sentence` is what whatis(1) shows of it."""
    first, _, rest = command.summary.strip().partition("\n\n")
    words = "VERB [OPTION…]" if command.verbs else f"[OPTION…] {command.operands}".strip()
    lines = [*_head(_name(command), sentence, f"muster {command.name}", words)]
    lines += [".SH DESCRIPTION", *_paragraphs(f"{first}\n\n{rest}")]
    if command.verbs:
        lines += [".SH VERBS"]
        lines += [line for verb in command.verbs for line in _item(_bold(_name(verb)) + "(1)", _sentence(verb.summary))]
    for title, options in options_by_title(command).items() if not command.verbs else ():
        lines += [f".SH {_text(title.upper())}", *(line for option in options for line in _of_option(option))]
    lines += [".SH NOTES", *_paragraphs(command.more)] if command.more else []
    lines += _examples(command.examples)
    others = ["muster", *(["muster-" + command.name.split()[0]] if " " in command.name else [])]
    lines += [".SH SEE ALSO", ", ".join(f"{_bold(other)}(1)" for other in others)]
    return "\n".join(lines) + "\n"


def _first_page() -> str:
    lines = [*_head("muster", "one unchanged PyTorch script, distributed, on any Slurm cluster", "muster", "VERB …")]
    lines += [
        ".SH DESCRIPTION",
        *_paragraphs(
            "Muster runs a command as ranks over the nodes of a Slurm job, and on a laptop. `muster` alone says what "
            "can be typed here, and `muster docs first-job` is the tutorial."
        ),
        ".SH VERBS",
    ]
    lines += [line for verb in VERBS for line in _item(f"{_bold(f'muster-{verb.name}')}(1)", verb.help)]
    lines += [".SH EXIT STATUS", *_paragraphs(_STATUSES), ".SH FILES"]
    lines += [line for path, use in _FILES for line in _item(_text(path), use)]
    return "\n".join(lines) + "\n"


_STATUSES = (
    "0: done. 1: a check found something broken. 2: the request cannot be understood or done as asked. 3: the site or "
    "Slurm refused or did not answer. 70: a bug in Muster. `muster run` ends as the first rank that failed did. "
    "`muster docs exit-status` has the whole table."
)


def _head(name: str, sentence: str, command: str, words: str) -> Iterator[str]:
    """Yield the title, the name and the synopsis; whatis(1) reads the line below NAME."""
    yield f'.TH {name.upper()} 1 "" "Muster {__version__}" "Muster"'
    yield from (".nh", ".ad l")
    yield from (".SH NAME", f"{_text(name)} \\- {_text(sentence)}", ".SH SYNOPSIS", f"{_bold(command)} {_text(words)}")


def _name(command: CommandLine) -> str:
    return f"muster-{command.name.replace(' ', '-')}"


def _sentence(summary: str) -> str:
    """Return the first sentence of a summary as whatis shows it: on one line, in small letters, without its dot."""
    sentence = " ".join(re.split(r"\.(?:\s|$)", summary.strip())[0].split())
    return sentence[0].lower() + sentence[1:]


def _of_option(option: Option) -> Iterator[str]:
    flags = ", ".join(_bold(flag) for flag in option.flags)
    value = f" \\fI{_text(option.metavar)}\\fR" if option.metavar else ""
    repeat_note = ". It may be repeated." if option.repeated else ""
    return _item(flags + value, f"{option.help}{default_of(option)}{repeat_note}")


def _item(head: str, text: str) -> Iterator[str]:
    yield from (".TP", head, _text(text))


def _examples(examples: tuple[str, ...]) -> Iterator[str]:
    if examples:
        yield from (".SH EXAMPLES", ".nf", *map(_text, examples), ".fi")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs; a line that begins with a blank is an example or a table, and keeps its shape."""
    for paragraph in text.strip("\n").split("\n\n"):
        yield ".PP"
        kept = False
        for line in paragraph.splitlines():
            if line.startswith(" ") is not kept:
                kept = not kept
                yield ".nf" if kept else ".fi"
            yield _text(line)
        if kept:
            yield ".fi"


def _text(text: str) -> str:
    """Return a text that troff prints as it stands: its own signs mean nothing in it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    text = text.replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{text}" if text[:1] in {".", " "} else text


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"
