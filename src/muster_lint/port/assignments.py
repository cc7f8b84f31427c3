"""The variables of a script → those of the ranks: exported ones, and what only a task can work out. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from muster.plan.secret import is_secret
from muster_lint.bash import Assignment, ShellText, read_shell
from muster_lint.port.expand import OF_ARRAY, TASKS, WIRED, Values, names_in, open_text, with_home
from muster_lint.port.guards import is_guarded
from muster_lint.port.values import Draft, Fate, ask_all
from muster_lint.values import TextSpan

_ALWAYS = frozenset("PATH HOME USER LOGNAME SHELL LANG LC_ALL TERM TMPDIR LD_LIBRARY_PATH".split())  # noqa: SIM905
"""Variables that are exported before a script begins: a value that it gives them reaches the ranks."""

SHOWS = frozenset(
    """
    echo printf date hostname env printenv nvidia-smi rocm-smi which pwd lscpu squeue sinfo scontrol sacct numactl free
    df ls cat sleep true type command uname whoami nvcc gcc head tail wc nproc ip ibstat lsb_release sstat seff module
    """.split()  # noqa: SIM905
)
"""Programs that show something, and change nothing."""

_WORK_OUT = SHOWS | frozenset(
    "awk basename cut dirname expr find grep readlink realpath sed seq sort tr uuidgen".split()  # noqa: SIM905
)
"""Programs that are started for what they print alone."""


def exported_ones(shell: ShellText) -> tuple[Assignment, ...]:
    """Return the assignments of a script; after `set -a` all are exported, and those of PATH and its kin always."""
    sets = [command for command in shell.commands if command.program == "set"]
    switches = [(each.order, exports_all([word.value for word in each.words[1:]])) for each in sets]
    return tuple(
        msgspec.structs.replace(each, exported=True)
        if (each.name in _ALWAYS and not each.of_command)
        or next((is_on for order, is_on in reversed(switches) if order < each.order and is_on is not None), False)
        else each
        for each in shell.assignments
    )


def exports_all(words: Sequence[str]) -> bool | None:
    """Tell whether `set` with these words exports all variables from there on; None where it says nothing of that."""
    match = re.search(r"(?:^| )([-+])(?:[a-z]*a[a-z]*|[a-z]*o allexport)(?: |$)", " ".join(words).partition("-- ")[0])
    return match[1] == "-" if match else None


APART = "it holds within its parentheses, or its function, and no rank is started there"


def read_assignments(
    assignments: Iterable[Assignment],
    values: Values,
    draft: Draft,
    *,
    used_in: Iterable[str],
    lines: list[str],
    launched_at: int | None,
    apart: Sequence[TextSpan] = (),
    users: Mapping[str, set[int]] = {},
    given: Collection[str] = (),
) -> list[str]:
    """Read the variables of the script; return the settings that only a task can make.

    What stands behind the launch, which is the command of this order, reaches no rank, and no more does what stands
    apart, in parentheses without the launch. `users` are the lines that use each variable, `given` those that the
    launch sets itself.
    """
    of_job = [each for each in assignments if not each.of_command]
    reaching = [each for each in of_job if launched_at is None or each.order < launched_at]
    used = {*users, *names_in(" ".join(used_in))}
    settings: list[str] = []
    for index, each in sorted(enumerate(of_job), key=lambda place: not place[1].exported):  # whose lines use others
        line, subject, done = each.place.line, _shown(each), len(draft.rows)
        if not is_written(each, lines):  # the command that gives it a value has its own row
            if each.exported:
                draft.ask(line, f"export {each.name}", _BY_HAND.format(each.name))
            continue
        void = _why_void(each, launched_at, apart)
        if each.exported and each.name in given:
            void = ("the launch gives it a value of its own",)
        question = _question(each, of_job[:index], reaching, lines)
        if void is not None:
            draft.drop(line, subject, *void)
        elif question is not None:
            draft.ask(line, subject, question)
        elif each.exported:
            settings += _exported(each, subject, values, draft)
        elif each.name in used:
            _used(each, subject, values, draft, users.get(each.name, set()))
        else:
            draft.drop(line, subject, "a variable of the script alone: no rank sees it")
        if is_guarded(lines, each.place):
            ask_all(draft, draft.rows[done:], "in the script it holds only behind a test")
    return settings


_BY_HAND = "the batch host works it out: --env {0}=VALUE gives it a fixed value"


def is_written(assignment: Assignment, lines: Sequence[str]) -> bool:
    """Tell whether NAME= stands in the script, and no command or arithmetic gives the value."""
    place = assignment.place
    end = "" if assignment.value is not None else r"(?!\S)"
    return re.match(rf"{assignment.name}\+?={end}", lines[place.line - 1][place.column - 1 :]) is not None


def _shown(assignment: Assignment) -> str:
    value = assignment.value.text if assignment.value else ""
    text = f"{'export ' if assignment.exported else ''}{assignment.name}={value}"
    text = re.sub(r"\s*\\?\n\s*", " ", text)
    return text if len(text) < 100 else f"{text[:99]}…"


def _why_void(
    assignment: Assignment, launched_at: int | None, apart: Sequence[TextSpan]
) -> tuple[str] | tuple[str, str] | None:
    """Return why no rank gets the value of an assignment, and the field of its row; None: a rank may get it."""
    if launched_at is not None and assignment.order > launched_at:
        return ("it stands behind the launch: the ranks know nothing of it",)
    if any(assignment.place.is_within(span) for span in apart):
        return (APART,)
    if assignment.name in WIRED and not _counts_tasks(assignment):
        return "every rank has it, right for its own place", f"variable {assignment.name}"
    return None


def _counts_tasks(assignment: Assignment) -> bool:
    return assignment.value is not None and "SLURM_ARRAY" in assignment.value.text


def _question(
    assignment: Assignment, before: Sequence[Assignment], reaching: Sequence[Assignment], lines: list[str]
) -> str | None:
    """Return what only a reader can say of an assignment; None: its value is clear."""
    name = assignment.name
    if name == "IFS":
        return "it changes how words are split: are those of the command right?"
    if name in WIRED and _counts_tasks(assignment):
        return OF_ARRAY
    if not assignment.exported:
        return None
    if assignment.value is not None and "$'" in assignment.value.text:
        return f"bash makes other signs of it: --env {name}=VALUE gives it them"
    used = names_in(_written(assignment))
    late = [each for each in reaching if each.name in used and each.name != name and each.order > assignment.order]
    if late:
        return f"line {late[0].place.line} sets {late[0].name} behind it: --env {name}=VALUE gives it all"
    again = [each for each in reaching if each.name == name and each.order > assignment.order]
    if not all(_extends(each) for each in again):
        return f"line {again[-1].place.line} sets it again: which holds?"
    if _repeats(assignment, before):
        return f"the script puts it together: --env {name}=VALUE gives it all"
    if _appends(assignment, lines):
        return f"it adds to what {name} holds: --env {name}=VALUE gives it all"
    return None


def _used(assignment: Assignment, subject: str, values: Values, draft: Draft, lines: set[int]) -> None:
    """Say what became of a value that lines of the script use: it stands in the job, or the job has none of it."""
    value = values.of(_written(assignment))
    rows = [row for row in draft.rows if row.line in lines and row.verdict in {Fate.KEPT, Fate.CHANGED, Fate.ASKED}]
    texts = (" ".join(draft.command) if row.field == "command" else f"{row.what} {row.now}" for row in rows)
    kept = _without_braces("\n".join([*texts, *(draft.get("chdir") or "" for row in rows if row.field == "chdir")]))
    pieces = re.findall(r"\$\([^()]*\)|`[^`]*`", value) or value.replace('"', "").split()
    if not value or any(_without_braces(piece) in kept for piece in pieces):
        draft.note(assignment.place.line, subject, "", "its value stands where it is used")
    elif any(command.program not in _WORK_OUT for command in read_shell(value).commands if command.in_substitution):
        draft.ask(assignment.place.line, subject, "a command works it out, and the job does not run it: is it needed?")
    else:
        draft.drop(
            assignment.place.line, subject, "the job has no word of it: the lines that use it have their own rows"
        )


def _without_braces(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", r"$\1", text)


def _repeats(assignment: Assignment, before: Sequence[Assignment]) -> bool:
    """Tell whether an assignment gives a variable what the lines before it have put together."""
    value = assignment.value.value if assignment.value else ""
    is_its_own = value in {f"${assignment.name}", f"${{{assignment.name}}}"}
    return is_its_own and any(each.name == assignment.name for each in before)


def _extends(assignment: Assignment) -> bool:
    """Tell whether an assignment adds to what its variable holds: PATH=/x:$PATH."""
    return assignment.value is not None and assignment.name in names_in(_written(assignment))


def _appends(assignment: Assignment, lines: list[str]) -> bool:
    place = assignment.place
    return lines[place.line - 1][place.column - 1 :].startswith(f"{assignment.name}+=")


def _exported(assignment: Assignment, subject: str, values: Values, draft: Draft) -> list[str]:
    line, value = assignment.place.line, values.of(_written(assignment)) if assignment.value else ""
    if "$(" in value or "`" in value:
        if assignment.name in values.used:
            draft.drop(line, subject, "its value stands where it is used: no rank gets the variable")
        elif is_secret(assignment.name):
            draft.pass_on(line, subject, assignment.name, "the batch host reads a secret")
        else:
            draft.ask(line, subject, _BY_HAND.format(assignment.name))
        return []
    if assignment.name in values.used and (re.search(r"\s", value) or value.startswith("-")):
        draft.drop(line, subject, "its words stand where it is used: no rank gets the variable")
        return []
    if value.startswith("("):
        draft.drop(line, subject, "an array cannot be exported: no rank sees it")
        return []
    resolved = re.sub(r"\$\{?SLURM_JOB_?ID\}?", "{job_id}", value)
    if not names_in(resolved):
        draft.variable(line, subject, assignment.name, re.sub(r"\\([$`])", r"\1", resolved))
        return []
    if value in {f"${assignment.name}", f"${{{assignment.name}}}"}:
        draft.keep(line, subject, "env", assignment.name, "yours is passed on")
        return []
    unknown = [name for name in names_in(value) if name not in TASKS and not name.startswith("SLURM_")]
    if unknown:
        reason = f"{', '.join(unknown)} is set outside the script: is it known where the ranks run?"
        draft.ask(line, subject, reason, "in the command", field=f"setting {assignment.name}")
    else:
        draft.note(
            line,
            subject,
            "in the command",
            "only the task knows its value: it is set there",
            f"setting {assignment.name}",
        )
    return [f'export {assignment.name}="{value}"']


def _written(assignment: Assignment) -> str:
    """Return the value of an assignment with $HOME for a tilde, and with the old value before NAME+=…."""
    word = assignment.value
    if word is None:
        return ""
    value = open_text(word).replace("\\\n", "")
    return value if word.quoted else with_home(value, between=":")
