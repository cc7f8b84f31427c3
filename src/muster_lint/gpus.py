"""What says of a job that its work is for GPUs, and what says that it is not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint.job import BatchScript, HeaderOption
from muster_lint.values import TextSpan
from muster_lint.works import is_work, text_of

_OF_GPUS = re.compile(
    r"nvidia-smi|CUDA_VISIBLE|--gpu|--device[= ]cuda|torchrun|deepspeed|gpu\w*\.py|accelerate launch", re.IGNORECASE
)
"""The signs of a program that uses a GPU."""


def zero_of(job: BatchScript) -> HeaderOption | None:
    """Return the directive that asks for no GPU by a number."""
    gres = job.header.get("gres")
    names = ("gpus", "gpus-per-node", "gpus-per-task")
    if gres is not None and re.fullmatch(r"gpu:(\w+:)?0+", gres.value or ""):
        return gres
    return next((job.header[name] for name in names if name in job.header and job.header[name].value == "0"), None)


def signs_of_gpus(job: BatchScript) -> Iterator[tuple[TextSpan, str]]:
    """Yield what says by itself that the work is for GPUs: each with its place."""
    for assignment in job.shell.assignments:
        value = assignment.value.value if assignment.value is not None else ""
        is_shown = _SHOWS.fullmatch(assignment.name) and value[:1].isdigit()
        is_tuned = (assignment.exported or assignment.of_command) and _TUNES.match(assignment.name)
        if is_shown or is_tuned:
            yield assignment.place, assignment.name
    for launch in job.launches:
        is_own = is_work(job, launch) and not launch.command.in_substitution
        name = (launch.script.value if launch.script is not None else launch.stages[-1].name) if is_own else ""
        if _IS_FOR_GPUS.search(name.rpartition("/")[2]) and "cpu" not in name.lower() and not name.endswith(".sh"):
            yield launch.command.place, name.rpartition("/")[2]
        told = _TELLS_GPUS.search(" ".join(word.value for word in launch.stages[-1].words)) if launch.stages else None
        if told is not None and is_own and "cpu" not in name.lower():
            yield launch.command.place, f"{told[1]} of the program"
        agent = launch.stage("agent")
        if agent is not None and zero_of(job) is not None:
            yield agent.word.place, agent.name
    for each in job.shell.commands:
        words = [word.value for word in each.words[1:]]
        modules = " ".join(words) if each.program in {"module", "ml"} and words[:1] not in (["unload"], ["rm"]) else ""
        asks_card = each.program in {"nvidia-smi", "rocm-smi"} or re.search(
            r"\bray start\b.*--num-gpus[= ][1-9]", text_of(each)
        )
        if asks_card or (each.program in {"singularity", "apptainer"} and {"--nv", "--rocm"} & set(words)):
            yield each.place, "this"
        elif re.search(r"(^|\s)rocm\b", modules) or (_LOADS_CUDA.search(modules) and _OF_GPUS.search(job.text)):
            yield each.place, "this module"


_SHOWS = re.compile(r"(CUDA|HIP|ROCR)_VISIBLE_DEVICES")
_TUNES = re.compile(
    r"(NCCL|RCCL|MIOPEN)_(?!DEBUG)[A-Z]|(PYTORCH_(CUDA|HIP)_ALLOC_CONF|TF_FORCE_GPU_ALLOW_GROWTH)$"
    r"|XLA_PYTHON_CLIENT_[A-Z]"
)
_IS_FOR_GPUS = re.compile(r"(^|[_-])(gpus?|cuda)(?=[_.]|$)", re.IGNORECASE)
"""The name of a program that is made for GPUs: gpu.py, lmp_cuda."""

OF_GPUS = re.compile(
    r"gpu|dgx|volta|rtx|nvidia|(?<!\d)([avph]100|h200|gh200|k[48]0|l40s?|a40|mi\d{2,3}x?)(?!\d)",
    re.IGNORECASE,
)
"""The name of a partition whose nodes have GPUs."""
_LOADS_CUDA = re.compile(r"(^|\s)(cuda|cudnn|nccl|cudatoolkit)\b", re.IGNORECASE)
_TELLS_GPUS = re.compile(
    r"(?:^|\s)((?:--?|trainer\.)(?:num[-_]?|n[-_]?)?gpus(?:[-_]per[-_]node)?[= ][1-9]\d*|--device[= ]cuda(?::\d+)?"
    r"|--accelerator[= ]gpu|--\w+:cuda=T(?:rue)?\b|--(?:use[-_])?(?:cuda|gpu)(?:[= ](?:true|\d))?(?=\s-|$))",
    re.IGNORECASE,
)
"""The options by which a program is told to use GPUs."""
