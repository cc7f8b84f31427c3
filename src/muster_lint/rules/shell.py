"""Rules on the shell around the job: text that is not bash, lost statuses, places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


@rule(
    "not-bash",
    Severity.BREAKS,
    "text that bash cannot read",
    why="bash stops at the first place that it cannot read; what stands before it has run already.",
    instead="Close the quote, bracket or block that is open.",
    source=sources.BASH,
    bad=_HEAD + "if [ -d data ]; then\n    srun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "if [ -d data ]; then\n    srun --kill-on-bad-exit=1 hostname\nfi\n",
)
def find_syntax_errors(job: BatchScript) -> Iterator[Hit]:
    """Yield the first place that bash itself refuses, where the grammar sees one."""
    if job.shell.error is None:
        return
    from muster.runner import run

    # The grammar refuses a little that bash takes, and an open quote leads it astray: bash says whether and where.
    asked = run(["bash", "-n"], stdin=job.text, timeout_s=10)
    if not asked.ok:
        yield Hit(_named_line(job, asked.stderr) or job.shell.error, "the text is not bash from here on")


def _named_line(job: BatchScript, message: str) -> TextSpan | None:
    """Return the line that bash's message names, where it is one of the file."""
    match = re.search(r"line (\d+):", message)
    number = int(match[1]) if match else 0
    return TextSpan(number, 1, number, len(job.lines[number - 1]) + 1) if 0 < number <= len(job.lines) else None


@rule(
    "continuation-broken",
    Severity.BREAKS,
    "a blank behind a backslash",
    why="A backslash continues a line only as its last character; with a blank behind it the command ends here and the next line is a command of its own.",
    instead="Remove the blank.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 \\ \n    hostname\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 \\\n    hostname\n",
)
def find_broken_continuations(job: BatchScript) -> Iterator[Hit]:
    """Yield a backslash followed by blanks at a line's end."""
    from muster_lint.values import Edit

    for number, line in enumerate(job.lines, start=1):
        match = re.search(r"(?<!\\)\\([ \t]+)$", line)
        if match and not line.lstrip().startswith("#"):
            place = TextSpan(number, match.start(1) + 1, number, match.end(1) + 1)
            # A line of options is not a command of its own; another line may be one, which the edit would swallow.
            goes_on = number < len(job.lines) and re.match(r"\s*--?[a-zA-Z]", job.lines[number])
            inside = any(text.line <= number <= text.end_line for text, _ in job.shell.heredocs)
            edits = (Edit(place, ""),) if goes_on and not inside else ()
            yield Hit(place, "the command ends here", edits=edits)


@rule(
    "continuation-comment",
    Severity.BREAKS,
    "a comment inside a continued command",
    why="The comment line ends the command: the options after it are a command of their own.",
    instead="Move the comment above the command.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 \\\n    # --exclusive \\\n    hostname\n",
    good=_HEAD + "# --exclusive\nsrun --kill-on-bad-exit=1 \\\n    hostname\n",
)
def find_comments_in_commands(job: BatchScript) -> Iterator[Hit]:
    """Yield comment lines that follow a continued line."""
    for number, (line, following) in enumerate(zip(job.lines, job.lines[1:]), start=2):
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#") and re.match(r"\s*#", following):
            yield Hit(TextSpan(number, 1, number, len(following) + 1), "the command ends before this comment")


@rule(
    "assignment-with-blanks",
    Severity.BREAKS,
    "blanks around = in an assignment",
    why="bash runs NAME as a command with = as its first word.",
    instead="Write NAME=VALUE without blanks.",
    source=sources.BASH,
    bad=_HEAD + "DATA = /scratch/data\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "DATA=/scratch/data\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_spaced_assignments(job: BatchScript) -> Iterator[Hit]:
    """Yield commands whose first argument is =."""
    for each in job.commands:
        if len(each.words) > 1 and each.words[1].text == "=" and re.fullmatch(r"[A-Za-z_]\w*", each.words[0].text):
            yield Hit(each.place, f"bash runs {each.words[0].text!r} as a command")
        elif each.program == "export" and any(word.text == "=" for word in each.words):
            yield Hit(each.place, "export does not take blanks around =")


@rule(
    "cd-may-fail",
    Severity.FRAGILE,
    "cd whose failure is not noticed",
    why="If the folder is missing the job goes on in another one, and reads or writes there.",
    instead="Write cd DIR || exit 1, or set -e.",
    source=sources.BASH,
    bad=_HEAD + "cd /scratch/project/run\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "cd /scratch/project/run || exit 1\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_unchecked_cd(job: BatchScript) -> Iterator[Hit]:
    """Yield cd to a fixed place without a check."""
    from muster_lint.rules.step import _sets

    if _sets(job, "errexit", "e") or re.match(r"#!.*\s-\w*e", job.lines[0] if job.lines else ""):
        return
    for each in job.shell.commands:
        target = each.words[1].value if len(each.words) > 1 else ""
        made = {word.text for other in job.shell.commands if _makes(other, each) for word in other.words[1:]}
        given = each.words[1].text in made if len(each.words) > 1 else False
        of_slurm = "SLURM_SUBMIT_DIR" in target or "SLURM_TMPDIR" in target
        if each.program == "cd" and not each.is_conditional and target and not of_slurm and not given:
            following = job.lines[each.place.end_line - 1][each.place.end_column - 1 :].lstrip()
            if not following.startswith(("||", "&&")):
                yield Hit(each.place, f"the job goes on elsewhere if {target} is missing")


def _makes(command: SimpleCommand, before: SimpleCommand) -> bool:
    return command.program == "mkdir" and command.order < before.order


@rule(
    "sleep-for-order",
    Severity.FRAGILE,
    "a sleep that stands for an order",
    why="How long the other process takes depends on the machine: on a busy node the sleep is too short.",
    instead="Wait for what you need: a file, a port, or the process (wait).",
    source=sources.COTAINR_BASICS,
    bad=_HEAD
    + "srun --kill-on-bad-exit=1 bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then rocm-smi; fi; sleep 2; python train.py'\n",
    good=_HEAD
    + "srun --kill-on-bad-exit=1 bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then rocm-smi; fi; python train.py'\n",
)
def find_sleeps(job: BatchScript) -> Iterator[Hit]:
    """Yield sleeps between local ranks."""
    for task in job.tasks:
        by_local_rank = "SLURM_LOCALID" in task.shell.text or "LOCAL_RANK" in task.shell.text
        for each in task.shell.commands:
            if each.program == "sleep" and by_local_rank and not each.in_loop:
                yield Hit(each.place, "the other local ranks may be slower than this")


@rule(
    "temporary-folder-of-batch-host",
    Severity.BREAKS,
    "a temporary folder made on the batch host alone",
    why="mktemp -d makes the folder on one node; the tasks of the other nodes do not have it.",
    instead="Make it in the task: srun bash -c 'export DIR=$(mktemp -d); …', or use the job's own $TMPDIR.",
    source=sources.COTAINR_BASICS,
    bad=_HEAD.replace("nodes=1", "nodes=2")
    + "export MIOPEN_USER_DB_PATH=$(mktemp -d)\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_HEAD.replace("nodes=1", "nodes=2")
    + "srun --kill-on-bad-exit=1 bash -c 'export MIOPEN_USER_DB_PATH=$(mktemp -d); python train.py'\n",
)
def find_lone_folders(job: BatchScript) -> Iterator[Hit]:
    """Yield exported folders of mktemp in a job of several nodes."""
    if job.nodes is not None and job.nodes < 2:
        return
    for each in job.shell.assignments:
        texts = each.value.substitutions if each.value is not None and each.exported else ()
        if any(
            re.search(r"mktemp\b.*-d|mktemp --directory", text) and "--tmpdir" not in text and "-p" not in text.split()
            for text in texts
        ):
            yield Hit(each.place, "only the batch host has this folder")
