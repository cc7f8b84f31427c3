"""Rules on jobs that hold more than they use: no work at all, or one process for many tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import INSTALLERS, switched_off, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n#SBATCH --time=01:00:00\n"


@rule(
    "work-switched-off",
    Severity.FRAGILE,
    "a job whose programs are all comments",
    why="The job waits in the queue, takes its nodes and GPUs, and ends at once without the work.",
    instead="Remove the # in front of the program, or do not submit the script.",
    source=sources.BASH,
    bad=_HEAD + "module load cuda\nhostname\n#python train.py --epochs 4\n",
    good=_HEAD + "module load cuda\nhostname\npython train.py --epochs 4\n",
)
def find_empty_jobs(job: BatchScript) -> Iterator[Hit]:
    """Yield the first program that is a comment, in a script that starts no other one."""
    off = switched_off(job)
    if not job.directives or not off or job.shell.error is not None or "hetjob" in job.text:
        return
    if all(_is_preparation(each) for each in job.shell.commands):
        line = job.lines[off[0] - 1]
        others = f", as {len(off) - 1} more" if len(off) > 1 else ""
        installs = [each for each in job.shell.commands if each.program in INSTALLERS and each.program != "nvcc"]
        does = "installs packages and ends" if any("install" in text_of(each) for each in installs) else "starts none"
        place = TextSpan(off[0], 1, off[0], len(line) + 1)
        yield Hit(place, f"this program is a comment{others}: the job {does}")


def _is_preparation(command: SimpleCommand) -> bool:
    """Tell whether a command only looks around, or prepares what no command then uses."""
    text = text_of(command)
    if command.program in {"source", "."}:
        return re.search(r"activate|rc$|profile|conda\.sh|init|module|env|setup", text) is not None
    if command.program in {"conda", "mamba", "micromamba"} and " run " in text:
        return False
    if command.program in {"python", "python3", "nvcc", "gcc", "julia"}:
        return re.search(r" (-V|--version)$", text) is not None
    return command.program in _PREPARES and not command.writes and not command.in_background


_PREPARES = frozenset(
    """
    [ [[ : alias cd conda mamba micromamba date declare deactivate df echo export false free hostname id let local ls mkdir module ml nproc
    nvidia-smi popd printenv printf pushd pwd readonly return set shift shopt true type ulimit umask uname unset which pip pip3 lscpu rocm-smi exit
    whoami env cat clear
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that look around or prepare: a job of these alone does no work."""
