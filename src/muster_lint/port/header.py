"""The #SBATCH lines → options of Muster: one function, or one row of a table, for each of sbatch's flags. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from muster.errors import RequestError
from muster.job.option import convert
from muster.job.request import options_of
from muster.slurm.flags import instead_of, is_flag, refuse_flag
from muster_lint.job import BatchScript, HeaderOption
from muster_lint.port.values import Draft

SIZES = frozenset(
    """
    nodes ntasks ntasks-per-node cpus-per-task gpus gpus-per-node gpus-per-task gres ntasks-per-gpu cpus-per-gpu
    mem-per-gpu mem-per-cpu ntasks-per-socket gpus-per-socket
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""What is worked out together, when the step has been read too."""

# One flag of sbatch's is one field of the request.
_FIELDS = {
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "constraint": "constraint",
    "nodelist": "nodelist",
    "exclude": "exclude",
    "mem": "mem",
    "time": "time",
    "job-name": "job_name",
    "output": "output",
    "error": "error",
    "chdir": "chdir",
    "distribution": "distribution",
}
_NOISE = {
    "no-requeue": "Muster's jobs run again only if --requeue asks for it",
    "verbose": "says more about the submission, and nothing to the job",
    "quiet": "says less about the submission, and nothing to the job",
    "get-user-env": "the ranks get what the plan shows, whatever the login shell has",
    "open-mode": "each run of a job keeps logs of its own, and what is appended stays with --requeue",
    "gpu-bind": "none is what a job has whose GPUs are asked for by node; every rank sees them all",
    "cpu-bind": "the plan says which cores a rank gets, where the site needs it",
}


def read_header(job: BatchScript, draft: Draft) -> dict[str, HeaderOption]:
    """Read every directive into the draft; return those about sizes, which wait for the step."""
    sizes: dict[str, HeaderOption] = {}
    for index, directive in enumerate(job.directives):
        line, subject = directive.place.line, written(directive)
        if job.first_header is not None and index >= job.first_header:
            draft.leave(line, subject, "it is of another component of a heterogeneous job: roles are several programs")
        elif (last := job.header[directive.name]) is not directive:
            draft.drop(line, subject, f"line {last.place.line} says it again, and the last one counts")
        elif directive.name in SIZES:
            sizes[directive.name] = directive
        else:
            _read(directive, line, subject, draft)
    for directive in job.late_directives:
        draft.drop(directive.place.line, written(directive), "it stands after the first command: Slurm never read it")
    return sizes


def written(directive: HeaderOption) -> str:
    """Return a directive as it stands in its line."""
    is_whole = directive.value is None or re.match(r"--[^=]*=|-[^-].", directive.written)
    return f"#SBATCH {directive.written}" + ("" if is_whole else f" {directive.value}")


def _read(directive: HeaderOption, line: int, subject: str, draft: Draft) -> None:
    name, value = directive.name, directive.value
    if name in _SPECIAL:
        _SPECIAL[name](line, subject, value, draft)
    elif name in _NOISE:
        draft.drop(line, subject, _NOISE[name])
    elif name in _FIELDS:
        _take(line, subject, _FIELDS[name], value, draft)
    elif (advice := instead_of(name)) is not None:
        draft.drop(line, subject, f"--{name} {advice[0]}: {advice[1]}")
    elif is_flag(name):
        _pass_on(line, subject, name, value, draft)
    elif not directive.written.startswith("-"):
        draft.ask(line, subject, "it is a word, and not an option: sbatch refuses it")
    else:
        draft.ask(line, subject, f"sbatch has no --{name}: a plugin of one site, or a slip of the hand")


def _take(line: int, subject: str, field: str, value: str | None, draft: Draft) -> None:
    """Keep a value that the option takes too."""
    if value is None or not value.strip():
        draft.ask(line, subject, "it has no value")
        return
    if field == "chdir" and ("$" in value or value == "."):
        draft.drop(line, subject, "Muster's ranks work where the job was submitted; sbatch expands no variables here")
        return
    try:
        convert(options_of()[field], value, subject)
    except RequestError as error:
        draft.ask(line, subject, error.message.partition(": ")[2])
        return
    draft.keep(line, subject, field, value)


def _pass_on(line: int, subject: str, name: str, value: str | None, draft: Draft) -> None:
    """Hand a flag to sbatch as it is."""
    flag = f"--{name}" if value is None else f"--{name}={value}"
    if value == "":
        draft.drop(line, subject, "it has no value")
        return
    try:
        refuse_flag(name, value)
    except RequestError as error:
        draft.ask(line, subject, f"{error.message}; {error.hint}")
        return
    draft.keep(line, subject, "sbatch", flag, "a flag that Muster hands on")


def _exclusive(line: int, subject: str, value: str | None, draft: Draft) -> None:
    if value is None:
        draft.keep(line, subject, "exclusive")
    else:
        draft.keep(line, subject, "sbatch", f"--exclusive={value}")


def _export(line: int, subject: str, value: str | None, draft: Draft) -> None:
    words = [word for word in (value or "").split(",") if word]
    for word in words:
        name, equals, text = word.partition("=")
        if equals:
            draft.variable(line, subject, name, text)
        elif word.upper() not in {"ALL", "NONE", "NIL"}:
            draft.keep(line, subject, "env", word, "a variable of the ranks")
    if "ALL" in words and len(words) == 1:
        draft.drop(line, subject, "the ranks get what the plan shows; --export ALL passes the whole environment on")
    elif any(word.upper() in {"ALL", "NONE", "NIL"} for word in words):
        draft.note(line, subject, "", "Muster's own way: the ranks get what the plan shows")
    elif not words:
        draft.ask(line, subject, "it has no value")


def _requeue(line: int, subject: str, value: str | None, draft: Draft) -> None:
    del value
    draft.keep(line, subject, "requeue")


def _comment(line: int, subject: str, value: str | None, draft: Draft) -> None:
    if (value or "").startswith("muster:"):
        draft.note(line, subject, "", "Muster writes it again")
    else:
        draft.drop(line, subject, "by its own comment Muster finds its jobs again; --job-name names a job")


def _memory(line: int, subject: str, value: str | None, draft: Draft) -> None:
    if value == "0":
        draft.keep(line, subject, "mem", "0", "all memory of the node")
    else:
        _take(line, subject, "mem", value, draft)


def _signal(line: int, subject: str, value: str | None, draft: Draft) -> None:
    _pass_on(line, subject, "signal", value, draft)


_SPECIAL: Mapping[str, Callable[[int, str, str | None, Draft], None]] = {
    "exclusive": _exclusive,
    "export": _export,
    "requeue": _requeue,
    "comment": _comment,
    "mem": _memory,
    "signal": _signal,
}


def gpus_of(value: str | None) -> int | None:
    """Return the number in 4, a100:4, gpu:4, gpu:volta:2 or gpu:a100:4(S:0); None where none stands."""
    match = re.search(r"(?:^|:)(\d{1,4})(?:\(|,|$)", value or "")
    return int(match[1]) if match else None
