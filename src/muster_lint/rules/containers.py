"""Rules on what a container does not get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint.job import BatchScript
from muster_lint.launch import Stage
from muster_lint.rule import rule
from muster_lint.samples import TASKS
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity
from muster_lint.works import text_of

_RUN = "srun --kill-on-bad-exit=1 apptainer exec --nv {} image.sif python train.py\n"


@rule(
    "container-drops-environment",
    Severity.STYLE,
    "a container that is not told which GPUs are its own",
    why="""A clean environment keeps TERM and the proxies alone, with --nv too: in the container there is neither CUDA_VISIBLE_DEVICES nor any variable of Slurm. Where
    the site does not hide the other GPUs of the node, the program takes the first one, whoever has it; and each rank takes itself for the only one.""",
    instead="Omit it; or hand over what is needed: --env CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES.",
    source="apptainer/apptainer internal/pkg/util/env/clean.go @22523aeadcba",
    bad=TASKS + _RUN.format("--cleanenv"),
    good=TASKS + _RUN.format("--no-home"),
)
def find_clean_containers(job: BatchScript) -> Iterator[Hit]:
    """Yield the first Apptainer with a clean environment in a job that has some GPUs of a node, or several ranks."""
    if not job.asks_for_gpus or _HANDED_OVER.search(job.text):
        return
    for launch in job.all_launches:
        stage = launch.stage("container")
        if stage is None or stage.name not in {"apptainer", "singularity"} or launch.unknown or not _uses(stage):
            continue
        option = next((name for name, _ in stage.options if name in _CLEANS), None)
        is_rank = launch.stage("step") is not None and not job.has_one_task
        is_told = re.search(r"--env[= ]\S*(VISIBLE_DEVICES|SLURM_)|--env-file", text_of(launch.command))
        if option is not None and not is_told and (is_rank or not has_whole_nodes(job)):
            lost = "SLURM_PROCID nor CUDA_VISIBLE_DEVICES" if is_rank else "CUDA_VISIBLE_DEVICES nor SLURM_*"
            unknown = "whether this site hides the other GPUs of the node"
            yield Hit(stage.word.place, f"with {option} the container gets neither {lost}", unknown=unknown)
            return


def _uses(stage: Stage) -> bool:
    """Tell whether the container is given the GPUs, and runs something."""
    return stage.has("--nv", "--rocm", "--nvccli") and any(word.value in {"exec", "run"} for word in stage.before)


_CLEANS = frozenset({"--cleanenv", "-e", "--containall", "-C"})
_HANDED_OVER = re.compile(r"(APPTAINER|SINGULARITY)ENV_(CUDA|ROCR|HIP)_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES")
