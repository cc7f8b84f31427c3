"""Flags of sbatch and srun that a person passes on: how one is written, and which would break the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from muster.errors import RequestError, nearest_name
from muster.units import whole_number
from muster.words.slurm import LETTERS_OF_SBATCH, LETTERS_OF_SRUN, SBATCH_FLAGS

# What salloc does not take.
ONLY_OF_SBATCH = frozenset({"export", "output", "error", "open-mode", "requeue", "no-requeue", "array"})
# Two spellings of one flag.
_SAME = {"tasks-per-node": "ntasks-per-node"}
_REFUSED = {
    "gpus-per-task": ("gives each rank a device of its own and breaks peer access between them", "-g GPUS_PER_NODE"),
    "ntasks-per-gpu": ("is what the plan works out", "-g GPUS_PER_NODE with --ntasks-per-node RANKS"),
    "gpus": ("leaves open how many GPUs a node has", "-g GPUS_PER_NODE with -N NODES"),
    "ntasks": ("leaves open how many ranks a node has", "-N NODES with --ntasks-per-node RANKS"),
    "export": ("is what --export, --env and --unset-env are for", "--env KEY=VALUE"),
    "export-file": ("is what --env is for", "--env KEY=VALUE"),
    "wrap": ("would replace the script", "give the command after --"),
    "parsable": ("is added by submit itself", "muster submit prints the job id alone"),
    "test-only": ("is done by submit itself", "muster plan"),
    "wait": ("would hold the submission", "muster run, or muster logs -f"),
    "comment": ("is how Muster finds its jobs again", "--job-name NAME"),
    "input": ("would give every rank the same input", "muster run … <FILE: rank 0 reads it"),
}


def is_flag(name: str) -> bool:
    """Return whether sbatch has a flag of this name, written without its dashes."""
    return name in SBATCH_FLAGS


def name_of_letter(letter: str) -> str | None:
    """Return the name that a letter of sbatch's is short for."""
    return LETTERS_OF_SBATCH.get(letter)


def instead_of(name: str) -> tuple[str, str] | None:
    """Return why a flag of sbatch's would break the plan, and what to write instead; None: it would not."""
    return _REFUSED.get(name)


def refuse_flag(name: str, value: str | None) -> None:
    """Raise the reason for which a flag cannot be passed on to Slurm, if there is one."""
    spelling = f"--{name}"
    if name == "tres-per-task" and "gpu" in (value or ""):
        name, spelling = "gpus-per-task", f"--{name}={value}"
    to_whom, colon, rest = (value or "").partition(":")
    if name == "signal" and colon and "B" in to_whom.upper():
        raise RequestError(
            f"--signal={value} is for the batch script alone, which has no trap: the signal would end the whole job",
            hint=f"--sbatch=--signal={'R:' if 'R' in to_whom.upper() else ''}{rest} sends it to the ranks, under srun",
        )
    advice = instead_of(name)
    if advice is not None:
        raise RequestError(f"{spelling} {advice[0]}", hint=f"use {advice[1]}")


class SlurmFlag(msgspec.Struct, frozen=True):
    """A flag of sbatch's that is passed on."""

    name: str
    value: str | None
    origin: str
    is_typed: bool = True
    """Whether it was typed for this launch; what a settings file says is for many launches."""


def unknown_flags(flags: Iterable[SlurmFlag]) -> Iterator[str]:
    """Yield a sentence for each flag that sbatch does not have but nearly has.

    Others may be those of a site's plugin.
    """
    known_flags = sorted(SBATCH_FLAGS)
    for flag in flags:
        near_name = None if flag.name in SBATCH_FLAGS else nearest_name(flag.name, known_flags)
        if near_name is not None:
            yield f"{flag.origin}: sbatch has no --{flag.name}: did you mean {near_name!r}?"


def split_flag(text: str) -> tuple[str, str | None]:
    """Return the name and the value of a whole flag: --gres=gpu:4, '--mem 64G', -N2."""
    if any(ord(character) < 32 for character in text):
        raise RequestError(f"{text!r} holds a line break or another control character", hint="write it on one line")
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        if not equals:
            name, equals, value = text[2:].partition(" ")
        name = name.strip()
        if name and not name.startswith("-"):
            return _SAME.get(name, name), value.strip() if equals else None
    if len(text) >= 2 and text[0] == "-" and text[1] in LETTERS_OF_SBATCH:
        return LETTERS_OF_SBATCH[text[1]], text[2:].lstrip(" =") or None
    raise RequestError(f"{text!r} is not a whole flag", hint="for example --sbatch=--exclusive or --sbatch=--mem=64G")


# What srun takes too, and what the script itself says in the step's flags or depends on.
_OF_THE_STEP = {
    "export": ("would keep the wire-up from the ranks", "--env KEY=VALUE or --unset-env KEY"),
    "nodes": ("is part of the plan", "-N NODES"),
    "ntasks": ("is part of the plan", "-N NODES with --ntasks-per-node RANKS"),
    "ntasks-per-node": ("is part of the plan", "--ntasks-per-node RANKS"),
    "cpus-per-task": ("is part of the plan", "-c CPUS"),
    "distribution": ("is part of the plan", "-m HOW"),
    "output": ("would hide the output from muster logs", "-o FILE for a job; > FILE for a run"),
    "error": ("would hide the errors from muster logs", "-e FILE for a job; 2> FILE for a run"),
    "input": ("would give the input to another rank than 0", "<FILE: rank 0 reads it"),
    "mpi": ("is part of the plan", "--mpi TYPE"),
    "kill-on-bad-exit": ("is what the script does by itself, sooner", "--grace SECONDS"),
    "multi-prog": ("starts other commands than the plan's", "a command that looks at its RANK"),
    "pty": ("gives the terminal to one task alone", "muster shell"),
}


def whole_step_flags(flags: Iterable[str]) -> Iterator[str]:
    """Yield each flag as one word; refuse what contradicts the plan's words to srun, or would be its program."""
    for text in flags:
        if any(ord(character) < 32 for character in text):
            raise RequestError(f"{text!r} holds a line break or another control character", hint="write it on one line")
        if not text.startswith("-") or text.strip("-") == "":
            raise RequestError(f"--srun={text} is not a whole flag", hint=f"for example --srun=--{text or 'label'}")
        long, blank, value = text.partition(" ") if text.startswith("--") else (text, "", "")
        name = long[2:].partition("=")[0] if text.startswith("--") else LETTERS_OF_SRUN.get(text[1], "")
        if name in _OF_THE_STEP:
            reason, replacement = _OF_THE_STEP[name]
            raise RequestError(f"--srun={text} {reason}", hint=f"use {replacement}")
        yield f"{long}={value.strip()}" if blank and "=" not in long else text


def gpus_in_gres(gres: str | None) -> int | None:
    """Return GPUs per node in a --gres list: gpu:4, gpu:volta:2, gres/gpu=4."""
    gpu_count: int | None = None
    for item in (gres or "").split(","):
        name, *rest = item.removeprefix("gres/").partition("(")[0].replace("=", ":").split(":")
        if name == "gpu":
            gpu_count = (gpu_count or 0) + (whole_number(rest[-1]) or 0 if rest and rest[-1].isdigit() else 1)
    return gpu_count


def gpu_type_in_gres(gres: str | None) -> str | None:
    """Return the type of the first GPUs in a --gres list that name one: gpu:volta:2, gres/gpu:volta=2."""
    for item in (gres or "").split(","):
        name, *rest = item.removeprefix("gres/").partition("(")[0].replace("=", ":").split(":")
        if name == "gpu" and rest and not rest[0].isdigit():
            return rest[0]
    return None
