"""Rules on slips of the hand in commands that everybody uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.embedded import open_texts
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
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


@rule(
    "filled-in-by-submission",
    Severity.FRAGILE,
    "a variable of the job that the submitting shell fills in",
    why="""In a here-document whose mark has no quotes bash puts the values in before sbatch reads the text. Where the job is submitted there is no job yet: the
    variable is empty, and the script holds nothing in its place.""",
    instead="Write a backslash in front of it, \\$SLURM_JOB_ID, or quote the mark: <<'EOF'.",
    source=sources.BASH,
    bad="#!/bin/bash\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 ./train $SLURM_JOB_ID\nEOF\n",
    good="#!/bin/bash\nsbatch <<'EOF'\n#!/bin/bash\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 ./train $SLURM_JOB_ID\nEOF\n",
)
def find_early_fillings(job: BatchScript) -> Iterator[Hit]:
    """Yield the first variable of Slurm that is empty in a text which a script that is not a job itself gives to sbatch."""
    for before, text in open_texts(job) if not job.directives else ():
        for number, line in enumerate(text.splitlines(), start=before + 1):
            found = _OF_A_JOB.search(line) if not re.match(r"\s*#(?!SBATCH)", line) else None
            if found is not None and not job.shell.assigned(found[1]) and found[1] not in job.declared:
                place = TextSpan(number, found.start() + 1, number, found.end() + 1)
                yield Hit(place, f"the shell that submits puts its own ${found[1]} here, which is empty")
                return


_OF_A_JOB = re.compile(
    r"(?<!\\)\$\{?(SLURM_(?:JOB_?ID|JOB_\w+|ARRAY_\w+|(?:STEP_)?NODELIST|NTASKS\w*|NPROCS|CPUS_\w+|PROCID|LOCALID|NODEID|TMPDIR|GPUS\w*|NNODES))\b"
)
