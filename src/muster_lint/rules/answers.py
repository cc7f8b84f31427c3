"""Rules on commands that want a person, and on texts of Slurm that differ from version to version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity
from muster_lint.works import text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"
_STEP = "srun --kill-on-bad-exit=1 ./train\n"


@rule(
    "asks-a-person",
    Severity.FRAGILE,
    "a command that asks a question",
    why="A batch job has no terminal and an empty input: the command stops, or changes nothing.",
    instead="Do it once before you submit, or give the answer otherwise: the key in a variable, --token, -y.",
    source="huggingface/huggingface_hub src/huggingface_hub/_login.py (it asks for the token by getpass)",
    bad=_HEAD + "huggingface-cli login\n" + _STEP,
    good=_HEAD + _STEP,
)
def find_questions(job: BatchScript) -> Iterator[Hit]:
    """Yield the first command whose question nobody answers."""
    for each in job.commands if job.directives else ():
        asks = "" if each.reads or each.in_substitution or _is_answered(job, each) else _question_of(job, text_of(each))
        if asks:
            unknown = (
                "whether a key is there already: in ~/.netrc, or from the shell that submits" if "key" in asks else ""
            )
            yield Hit(each.place, f"{asks}, and a batch job has nobody who answers", unknown=unknown)
            return


def _is_answered(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether a pipe answers, or the command is a test."""
    line = job.lines[command.place.line - 1]
    return re.search(rf"\|\s*(sudo )?{re.escape(command.words[0].value)}|<<<", line) is not None or command.is_tested


def _question_of(job: BatchScript, text: str) -> str:
    """Return what a command asks for; empty where it asks nothing."""
    if re.fullmatch(r"wandb login( --relogin)?", text) and "WANDB_API_KEY" not in job.text:
        return "wandb asks for a key"
    if re.match(r"(huggingface-cli|hf auth) login\b(?!.*(--token|\$))", text):
        return "it asks for a token"
    if re.match(r"(apt|apt-get|yum|dnf) install\b(?!.*\s-(\w*y|-yes|-assume-yes))", text):
        return "it asks whether to proceed"
    if re.match(r"jupyter[ -]\w+ password$", text):
        return "it asks for a password"
    return ""


@rule(
    "arguments-split-again",
    Severity.FRAGILE,
    "arguments in the text of another shell",
    why="bash -c reads its text as a script: an argument with a blank becomes two, and brackets and quotes are signs of the shell (a=[1,2] of Hydra, a JSON text).",
    instead='Hand them on as words: srun bash -c \'exec python train.py "$@"\' bash "$@". Or quote each: printf "%q " "$@".',
    source=sources.BASH,
    bad=_HEAD + 'srun --kill-on-bad-exit=1 bash -c "cd /work && ./train $*"\n',
    good=_HEAD + 'srun --kill-on-bad-exit=1 bash -c \'cd /work && ./train "$@"\' bash "$@"\n',
)
def find_split_arguments(job: BatchScript) -> Iterator[Hit]:
    """Yield the first text of bash -c, by itself or in a variable, into which all arguments are written without quotes."""
    for launch in job.launches if job.directives else ():
        if launch.inner is None or not launch.early or re.search(r"%q|@Q\}|jq ", job.text):
            continue
        held = [job.shell.value_of(name) for name in launch.early[0].names]
        for word in [launch.early[0], *(each for each in held if each is not None)]:
            found = _ALL.search(word.text)
            if found and word.quoted == '"':
                unknown = "whether an argument holds a blank or a sign of the shell"
                yield Hit(
                    word.place_of(found[1] or "@"),
                    f"{found[0]} is split again by the shell that reads it",
                    unknown=unknown,
                )
                return


_ALL = re.compile(r"(?<!\\)\$(?:\{(\w+)\[[*@]\]\}|([*@])|\{([*@])\})")
