"""Rules on slips of the hand in commands that everybody uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity
from muster_lint.works import text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


@rule(
    "words-of-another-command",
    Severity.FRAGILE,
    "a command among the words of another",
    why="""A line is one command: what looks like the next one are words of the first. pip looks for packages called pip and install, module for modules called module
    and load, cd refuses a second word.""",
    instead="Write one command in a line, or put && between them.",
    source=sources.BASH,
    bad=_HEAD + "set -e\nmodule load module load cuda\nsrun --kill-on-bad-exit=1 ./train\n",
    good=_HEAD + "set -e\nmodule load cuda\nsrun --kill-on-bad-exit=1 ./train\n",
)
def find_mixed_commands(job: BatchScript) -> Iterator[Hit]:
    """Yield the first well-known command that holds the beginning of another, or an option that means something else."""
    for each in job.shell.commands if job.directives else ():
        message = _slip(each) if each.place.line == each.place.end_line else ""
        if message:
            yield Hit(each.place, message)
            return


def _slip(command: SimpleCommand) -> str:
    """Return what a command makes of the words of another one; nothing where it holds none."""
    text, words = text_of(command), [word.value for word in command.words[1:]]
    if command.program in {"python", "python3"} and words[:1] == [command.program]:
        return f"{command.program} looks for a script called {command.program}"
    if command.program == "cd" and len(words) > 1 and all(word.is_literal for word in command.words):
        is_marked = re.search(r"[\[\]{}<>]|^-", " ".join(words)) is not None
        return "" if is_marked else f"cd takes one folder, and gets {len(words)} words: it goes nowhere"
    for pattern, message in _SLIPS:
        found = pattern.match(text)
        if found is not None:
            return message.format(*found.groups())
    return ""


_SLIPS = (
    (re.compile(r"(?:python\S* -m )?pip\d? install\b.* (pip\d?|conda) install(?= |$)"), "pip looks for packages called {0} and install"),
    (re.compile(r"(?:module|ml) load\b.* (module|ml) load\b"), "it looks for modules called {0} and load"),
    (re.compile(r"(?:source|\.) activate conda activate\b"), "it activates an environment called conda"),
    (re.compile(r"mkdir .*\b(mkdir|cd) "), "it takes {0} for the name of a folder"),
    (re.compile(r"squeue\b.* -q\s*(\$\(hostname|`hostname|\$\{?HOSTNAME|\$\{?SLURMD_NODENAME)"), "-q asks for a QOS: the jobs of a node are asked for by -w"),
)  # fmt: skip
