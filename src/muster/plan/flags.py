"""Whole scheduler flags (--sbatch=FLAG): what touches the arithmetic is understood, never appended blindly. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from muster.errors import RequestError, nearest_hint
from muster.job.options import convert
from muster.job.request import Request, options_of
from muster.units import whole_number

__all__ = ["absorb_flags", "gpus_in_gres", "split_flag", "unknown_flags", "whole_step_flags"]

# sbatch's letters for what is also ours.
_LETTERS = {
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "t": "time",
    "A": "account",
    "p": "partition",
    "q": "qos",
    "C": "constraint",
    "w": "nodelist",
    "x": "exclude",
    "m": "distribution",
    "J": "job-name",
    "o": "output",
    "e": "error",
    "D": "chdir",
    "a": "array",
    "d": "dependency",
    "L": "licenses",
    "b": "begin",
    "s": "oversubscribe",
    "k": "no-kill",
    "M": "clusters",
}
_FIELDS = {
    "nodes": "nodes",
    "gpus-per-node": "gpus_per_node",
    "ntasks-per-node": "ntasks_per_node",
    "tasks-per-node": "ntasks_per_node",
    "cpus-per-task": "cpus_per_task",
    "mem": "mem",
    "gres": "gres",
    "exclusive": "exclusive",
    "time": "time",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "constraint": "constraint",
    "nodelist": "nodelist",
    "exclude": "exclude",
    "distribution": "distribution",
    "job-name": "job_name",
    "output": "output",
    "error": "error",
    "chdir": "chdir",
}
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

# What else sbatch takes: `sbatch --help` of 22.05, 24.11 and 26.05, and what was taken away between them. A site's
# plugins add to it.
_SLURMS = frozenset(
    """
    array batch bb bbf begin cluster-constraint clusters container container-id container-type contiguous core-spec
    cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot dependency extra extra-node-info get-user-env gid
    gpu-bind gpu-freq gpus-per-socket gres-flags hint hold ignore-pbs kill-on-invalid-dep licenses mail-type
    mail-user mcs-label mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue nodefile
    ntasks-per-core ntasks-per-gpu ntasks-per-socket oom-kill-step open-mode overcommit oversubscribe power prefer
    priority profile propagate quiet reboot requeue reservation resv-ports segment signal sockets-per-node
    spread-job spread-segments stepmgr switches thread-spec threads-per-core time-min tmp tres-bind tres-per-task
    uid use-min-nodes verbose wait-all-nodes wckey
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)


def unknown_flags(flags: Iterable[tuple[str, str | None, str]]) -> Iterator[str]:
    """A sentence for each flag that sbatch does not have but nearly has; others may be those of a site's plugin."""
    known = sorted({*_SLURMS, *_FIELDS, *_REFUSED})
    for name, _, origin in flags:
        if name not in known and (hint := nearest_hint(name, known)).startswith("did you mean"):
            yield f"{origin}: sbatch has no --{name}: {hint}"


def split_flag(text: str) -> tuple[str, str | None]:
    """Name and value of a whole flag: --gres=gpu:4, '--mem 64G', -N2."""
    if any(ord(character) < 32 for character in text):
        raise RequestError(f"{text!r} holds a line break or another control character", hint="write it on one line")
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        if not equals:
            name, blank, value = text[2:].partition(" ")
            equals = blank
        return name.strip(), value.strip() if equals else None
    if len(text) >= 2 and text[0] == "-" and text[1] in _LETTERS:
        return _LETTERS[text[1]], text[2:].lstrip(" =") or None
    raise RequestError(f"{text!r} is not a whole flag", hint="for example --sbatch=--exclusive or --sbatch=--mem=64G")


def absorb_flags(request: Request) -> tuple[Request, tuple[tuple[str, str | None, str], ...]]:
    """The request with what its --sbatch flags say, and the flags that are left: (name, value, origin)."""
    table = options_of()
    values: dict[str, Any] = {}
    origins = dict(request.origins)
    left: list[tuple[str, str | None, str]] = []
    for text in request.sbatch:
        name, value = split_flag(text)
        origin = f"--sbatch={text}"
        if name in _REFUSED:
            why, instead = _REFUSED[name]
            raise RequestError(f"--{name} {why}", hint=f"use {instead}")
        if name == "tres-per-task" and "gpu" in (value or ""):
            why, instead = _REFUSED["gpus-per-task"]
            raise RequestError(f"--tres-per-task={value} {why}", hint=f"use {instead}")
        if name not in _FIELDS:
            left.append((name, value, origin))
            continue
        field = _FIELDS[name]
        option = table[field]
        if option.is_switch and value is not None:
            left.append((name, value, origin))  # --exclusive=user means less than the whole node
            continue
        parsed = True if option.is_switch else convert(option, value or "", f"--sbatch={text}")
        if request.given(field) and getattr(request, field) != parsed:
            message = f"{request.origin(field)} and {origin} contradict each other"
            raise RequestError(message, hint="give the value once")
        values[field], origins[field] = parsed, origin
    return replace(request, sbatch=(), origins=origins, **values), tuple(left)


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
_STEP_LETTERS = {**_LETTERS, "i": "input", "K": "kill-on-bad-exit"}


def whole_step_flags(flags: Iterable[str]) -> Iterator[str]:
    """Each as one word; what contradicts the plan's own words to srun, or would be its program, is refused."""
    for text in flags:
        if any(ord(character) < 32 for character in text):
            raise RequestError(f"{text!r} holds a line break or another control character", hint="write it on one line")
        if not text.startswith("-") or text.strip("-") == "":
            raise RequestError(f"--srun={text} is not a whole flag", hint=f"for example --srun=--{text or 'label'}")
        long, blank, value = text.partition(" ") if text.startswith("--") else (text, "", "")
        name = long[2:].partition("=")[0] if text.startswith("--") else _STEP_LETTERS.get(text[1], "")
        if name in _OF_THE_STEP:
            why, instead = _OF_THE_STEP[name]
            raise RequestError(f"--srun={text} {why}", hint=f"use {instead}")
        yield f"{long}={value.strip()}" if blank and "=" not in long else text


def gpus_in_gres(gres: str | None) -> int | None:
    """GPUs per node in a --gres list: gpu:4, gpu:volta:2, gres/gpu=4."""
    found: int | None = None
    for item in (gres or "").split(","):
        name, *rest = item.removeprefix("gres/").partition("(")[0].replace("=", ":").split(":")
        if name == "gpu":
            found = (found or 0) + (whole_number(rest[-1]) or 0 if rest and rest[-1].isdigit() else 1)
    return found
