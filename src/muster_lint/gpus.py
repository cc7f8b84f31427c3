"""What says of a job that its work is for GPUs, and what says that it is not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint.job import BatchScript, HeaderOption
from muster_lint.values import TextSpan
from muster_lint.works import is_work


def zero_of(job: BatchScript) -> HeaderOption | None:
    """Return the directive that asks for no GPU by a number."""
    gres = job.header.get("gres")
    names = ("gpus", "gpus-per-node", "gpus-per-task")
    if gres is not None and re.fullmatch(r"gpu:(\w+:)?0+", gres.value or ""):
        return gres
    return next((job.header[name] for name in names if name in job.header and job.header[name].value == "0"), None)


def signs_of_gpus(job: BatchScript) -> Iterator[tuple[TextSpan, str]]:
    """Yield where the script chooses GPUs by number, or tells its program to use them."""
    for assignment in job.shell.assignments:
        value = assignment.value.value if assignment.value is not None else ""
        if re.fullmatch(r"(CUDA|HIP|ROCR)_VISIBLE_DEVICES", assignment.name) and value[:1].isdigit():
            yield assignment.place, assignment.name
    for launch in job.launches:
        is_own = is_work(job, launch) and not launch.command.in_substitution
        name = (launch.script.value if launch.script is not None else launch.stages[-1].name) if is_own else ""
        told = _TELLS_GPUS.search(" ".join(word.value for word in launch.stages[-1].words)) if launch.stages else None
        if told is not None and is_own and "cpu" not in name.lower():
            yield launch.command.place, f"{told[1]} of the program"
        agent = launch.stage("agent")
        if agent is not None and zero_of(job) is not None:
            yield agent.word.place, agent.name


_TELLS_GPUS = re.compile(
    r"(?:^|\s)((?:--?|trainer\.)(?:num[-_]?|n[-_]?)?gpus(?:[-_]per[-_]node)?[= ][1-9]\d*|--device[= ]cuda(?::\d+)?"
    r"|--accelerator[= ]gpu|--\w+:cuda=T(?:rue)?\b|--(?:use[-_])?(?:cuda|gpu)(?:[= ](?:true|\d))?(?=\s-|$))",
    re.IGNORECASE,
)
"""The options by which a program is told to use GPUs."""
