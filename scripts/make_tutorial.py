"""Make every output of the tutorial by running it; `--check` says where what it shows is not what happens today.

In docs/tutorial/first-job.md, or in another page that is named, a block ```python that begins with `# NAME.py` is a
file, and a block ```console holds commands: behind `$` one is typed on this machine, behind `login$` in `muster lab
shell`. What follows a command is its output. A line `…` stands for any number of lines; times, dates and the names of
run directories may differ, and lines of different ranks may come in any order. An output that still holds is left.

    make_tutorial.py [--check] [PAGE]
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from muster.runner import run, spawn
from muster_lab.apptainer import apptainer_cache, prepared_apptainer, relocated

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial" / "first-job.md"
COLUMNS = 100
HOME = "/home/you"
# Verbs that ask: what they answer may need a moment to become what the page shows.
ASKING = ("muster why", "muster status", "muster jobs", "muster queues", "muster logs")
PATIENCE_S = 20.0
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Command(NamedTuple):
    """A command of the page and what it prints."""

    prompt: str
    words: str
    output: tuple[str, ...]


class Reader:
    """Somebody who types the page in a folder of their own, with labs of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "first"
        self.project.mkdir(parents=True)
        self.environment = {
            **{name: value for name, value in os.environ.items() if name in {"HOME", "LANG", "USER", "LOGNAME"}},
            "VIRTUAL_ENV": str(Path(sys.executable).parent.parent),  # as after `activate`
            "PATH": f"{Path(sys.executable).parent}:{self._apptainer()}{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TERM": "dumb",
            "COLUMNS": str(COLUMNS),
        }

    def _apptainer(self) -> str:
        """Return where Apptainer lies, as the beginning of a PATH; nothing where this machine has its own."""
        if run(["sh", "-c", "command -v apptainer"]).ok:
            return ""
        packages = prepared_apptainer(apptainer_cache(os.environ), lambda _: None)
        return f"{relocated(packages, self.folder / 'apptainer').parent}:"

    def type(self, command: Command) -> tuple[str, ...]:
        """Run a command until it prints what the page shows, once where it does not only ask."""
        until = time.monotonic() + (PATIENCE_S if command.words.startswith(ASKING) else 0)
        while True:
            printed = self._print_of(command)
            if agree(command.output, printed) or time.monotonic() > until:
                return printed
            time.sleep(0.5)

    def _print_of(self, command: Command) -> tuple[str, ...]:
        words = ["bash", "-c", command.words]
        if command.prompt == "login$":
            words = ["muster", "lab", "exec", "--", *words]
        text = on_terminal(words, self.environment, self.project)
        for ours, yours in self._places():
            text = text.replace(ours, yours)
        return tuple(in_order_of_ranks(line.rstrip() for line in text.strip("\n").splitlines()))

    def _places(self) -> Iterator[tuple[str, str]]:
        yield str(self.project), f"{HOME}/first"
        yield str(Path(sys.executable).parent.parent), f"{HOME}/venv"
        yield str(self.folder), HOME

    def leave(self) -> None:
        """End the lab, if one is still up."""
        run(["muster", "lab", "down"], env=self.environment, cwd=self.project)


def on_terminal(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = spawn(
        ["setsid", "--ctty", "sh", "-c", 'cd "$0" && exec "$@"', str(folder), *words],
        environment,
        files={0: theirs, 1: theirs, 2: theirs},
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            printed += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    os.waitpid(process, 0)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode(errors="replace").replace("\r\n", "\n"))


def rank_of(line: str) -> int:
    """Return the rank whose line it is, or -1."""
    label = re.match(r"(\d+): ", line)
    return int(label[1]) if label else -1


def in_order_of_ranks(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines of ranks that follow each other by rank: nobody orders the ranks."""
    for _, group in groupby(lines, key=lambda line: rank_of(line) >= 0):
        yield from sorted(group, key=rank_of)  # others have the same key, and stay as they are


MASKS = (
    (r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?", "DATE"),
    (r"\d\d:\d\d:\d\d", "TIME"),
    (r"-\d{8}-\d{6}\S*", "-STAMP"),
    (r"\d+(\.\d+)? (s|seconds)\b", "SECONDS"),
    (r"port \d+", "port N"),
    (r"[━─]+|  +", " "),  # a table is as wide as its times
)


def masked(line: str) -> str:
    """Return a line without what differs each time."""
    for pattern, word in MASKS:
        line = re.sub(pattern, word, line)
    return line.strip()


def agree(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Say whether these lines are what was printed; `…` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(masked(line)) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{masked(line)}\n" for line in printed)) is not None


def commands_in(block: str) -> Iterator[Command]:
    """Yield each command of a block, with the lines below it."""
    for piece in re.split(r"^(?=(?:login)?\$ )", block, flags=re.MULTILINE):
        if piece:
            head, *output = piece.splitlines()
            prompt, _, words = head.partition(" ")
            yield Command(prompt, words, tuple(output))


def walk(text: str, reader: Reader) -> Iterator[tuple[Command, tuple[str, ...]]]:
    """Do what the page says, in its order; yields each command and what it printed."""
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            name = re.match(r"# (\S+\.py)\n", block)
            if name:
                (reader.project / name[1]).write_text(block, encoding="utf-8")
            continue
        for command in commands_in(block):
            yield command, reader.type(command)


def main(words: Sequence[str]) -> int:
    """Exit status: 1 if the page is not what happens."""
    cache = ROOT / ".cache"  # every host of a lab sees it, wherever the checkout lies
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="tutorial-") as folder:
        reader = Reader(Path(folder))
        try:
            pages = [Path(word) for word in words if word != "--check"]
            return _walk(reader, pages[0] if pages else PAGE, check="--check" in words)
        finally:
            reader.leave()


def _walk(reader: Reader, page: Path, *, check: bool) -> int:
    text = old = page.read_text(encoding="utf-8")
    for command, printed in walk(old, reader):
        if agree(command.output, printed):
            continue
        shown = "\n".join([f"{command.prompt} {command.words}", *command.output])
        happens = "\n".join([f"{command.prompt} {command.words}", *printed])
        print(f"--- the page shows\n{shown}\n--- today it is\n{happens}\n", file=sys.stderr)
        text = text.replace(f"\n{shown}\n", f"\n{happens}\n", 1)
    if text != old and not check:
        page.write_text(text, encoding="utf-8")
    return 1 if text != old and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
