"""Rules on what a job fetches while its nodes wait, and on what it starts outside of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.samples import STEP, TASKS
from muster_lint.values import Hit, Severity
from muster_lint.works import is_work, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"
_URL = "https://example.org/data.tar"


@rule(
    "download-in-job",
    Severity.STYLE,
    "data or images fetched by the job",
    why="""Compute nodes may reach nothing outside, or through a proxy only. Where they do, every run fetches the same again while its nodes wait, jobs that
    run beside each other write one file, and what comes may be another version.""",
    instead="Fetch it once on a login node, before you submit.",
    source="docs/sites (at some sites compute nodes reach the internet through a proxy only)",
    bad=_HEAD + f"wget {_URL}\nsrun --kill-on-bad-exit=1 ./train data.tar\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 ./train /project/data.tar\n",
)
def find_downloads(job: BatchScript) -> Iterator[Hit]:
    """Yield the first download of a job that does other work with it."""
    works = [each for each in job.launches if is_work(job, each) and not _fetches(each.command)]
    if not job.directives or not works or "@sha256:" in job.text:
        return  # by its sum it is the same each time
    for launch in job.launches:
        each = launch.command
        what = "" if each.in_substitution or each.in_loop or each.function else _fetches(each) or _fetches_image(launch)
        alone = each.is_conditional or each.is_guarded or each.is_tested
        if what and not alone and any(work.command.order >= each.order for work in works):
            does = f"fetches with {what}" if _fetches(each) else f"asks a registry for the image, by {what}"
            yield Hit(each.place, f"every run {does}", unknown="whether the compute nodes reach the internet")
            return
    for launch in works:
        words = [word for word in launch.command.words if _FILE_OF_WEB.match(job.shell.filled(word.value))]
        if words and not launch.command.in_substitution:
            unknown = "whether the compute nodes reach the internet, and whether the program keeps the file"
            yield Hit(words[0].place, f"the program is given {job.shell.filled(words[0].value)}", unknown=unknown)
            return


_FILE_OF_WEB = re.compile(
    r"(-\S+=)?https?://(?!(localhost|127\.|\$))\S+\.(pth?|bin|safetensors|ckpt|tar|t?gz|zip|h5|onnx|npz|model)$"
)
"""A file of weights or data by its address in the web."""


def _fetches(command: SimpleCommand) -> str:
    """Return the program that a command fetches with; empty for another command."""
    text = text_of(command)
    if re.search(
        r"localhost|127\.0\.0\.1|\$\{?(HEAD|head|node|host|NODE|HOST)\w*|file://|--help|hooks\.slack|/health", text
    ):
        return ""
    if command.program == "curl":
        keeps = re.search(r"\s(-\w*[oO]\b|--output|--remote-name)", text) or command.writes or command.pipes_on
        sends = re.search(r"\s(-X|--request|-d|--data\S*|-F|--form|-T|--upload-file|-I|--head)\b", text)
        return "curl" if keeps and not sends and "://" in text else ""
    found = _FETCHES.match(text)
    return found[0] if found else ""


_FETCHES = re.compile(
    r"wget(?=.*(://|\s\w+(\.\w+)+/))|gdown(?=\s)|git clone(?=\s.*(://|git@))|(huggingface-cli|hf) download|kaggle (datasets|competitions) download"
    r"|(singularity|apptainer) pull|enroot import(?=.*docker://)|docker pull|shifterimg pull|prefetch(?=\s)"
)


def _fetches_image(launch: LaunchCommand) -> str:
    """Return the container program that starts an image of a registry; each start asks the registry for it."""
    stage = launch.stage("container")
    is_remote = stage is not None and any(re.match(r"(docker|library|oras)://", word.value) for word in stage.before)
    return stage.name if stage is not None and is_remote and stage.name != "enroot" else ""


@rule(
    "code-changes-in-job",
    Severity.FRAGILE,
    "a job that changes the code which others run",
    why="git pull and git checkout change the files for every job that reads them: those that run now, and those that wait.",
    instead="Choose the version before you submit, or give each job a copy: git worktree add.",
    source="git/git Documentation/git-checkout.txt (it updates the files in the working tree)",
    bad=_HEAD + "cd /home/me/code\ngit pull\nsrun --kill-on-bad-exit=1 ./train\n",
    good=_HEAD + "cd /home/me/code\nsrun --kill-on-bad-exit=1 ./train\n",
)
def find_changed_code(job: BatchScript) -> Iterator[Hit]:
    """Yield the first git command that changes a working tree which the job has not made itself."""
    if not job.directives or not any(is_work(job, each) for each in job.launches):
        return
    for each in job.shell.commands:
        text = text_of(each)
        if re.match(r"git clone|git worktree add|git init", text) or (each.program == "cd" and _OWN.search(text)):
            return  # the tree is the job's own
        changes = re.match(r"git (-C \S+ )?(pull|checkout|switch|reset --hard|stash|rebase|merge)\b", text)
        if changes and not (each.is_conditional or each.in_substitution or each.function):
            yield Hit(
                each.place,
                f"{changes[0]} changes the code of your other jobs",
                unknown="whether others read this folder",
            )
            return


_OWN = re.compile(r"TMP|tmp|SLURM_JOB|SLURM_ARRAY|mktemp|local", re.IGNORECASE)


@rule(
    "docker-in-job",
    Severity.FRAGILE,
    "a Docker container, which is not a part of the job",
    why="""Docker's daemon starts the container, not the job: Slurm neither counts its memory and CPUs nor ends it with the job, and --gpus all takes
    the GPUs of the other jobs on the node.""",
    instead="Use Apptainer, Podman, Enroot or Slurm's own containers, which run inside the job.",
    source="SchedMD/slurm doc/html/containers.shtml (rootless Docker or Podman)",
    bad=_HEAD + "docker run --rm --gpus all image python train.py\n",
    good=_HEAD + "apptainer exec --nv image.sif python train.py\n",
)
def find_docker(job: BatchScript) -> Iterator[Hit]:
    """Yield the first container of Docker."""
    if not job.directives or re.search(r"podman|rootless", job.text):
        return
    for each in job.shell.commands:
        text = text_of(each)
        found = re.match(r"(sudo )?(nvidia-)?docker (run|exec|start|compose up)\b|(docker-compose) up\b", text)
        if found and not each.is_conditional and not re.search(r"true|hello-world", text):
            yield Hit(each.place, "this container runs beside the job, not in it", unknown="how the site set Docker up")
            return


@rule(
    "environment-in-child",
    Severity.FRAGILE,
    "settings that are read by a shell of their own",
    why="bash FILE starts another shell: what the file sets, activates or loads ends with it, and the script goes on without.",
    instead="Write source FILE.",
    source=sources.BASH,
    bad=TASKS + "bash ~/.bashrc\n" + STEP,
    good=TASKS + "source ~/.bashrc\n" + STEP,
)
def find_settings_of_children(job: BatchScript) -> Iterator[Hit]:
    """Yield each file of settings that is run, not sourced."""
    for each in job.shell.commands if job.directives else ():
        text = text_of(each)
        if not each.in_substitution and re.fullmatch(rf"((ba|z|da)?sh (-\w+ )?)\S*{_SETTINGS}|\S*/{_SETTINGS}", text):
            yield Hit(each.place, f"what {each.words[-1].value} sets is gone with the shell that reads it")


_SETTINGS = r"(\.bashrc|\.bash_profile|\.profile|conda\.sh|bin/activate|/env\.sh|(^|/|\s)setup_?env\w*\.sh|(^|/)modules\.sh|activate_?env\w*\.sh)"
