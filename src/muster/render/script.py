"""Plan → batch script. Pure: the same plan gives the same bytes, on any machine, at any time."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from muster.launchers import launcher_named
from muster.launchers.base import KEEPER, Launcher
from muster.model.plan import (
    SNAPSHOT_HERE,
    Condition,
    ConditionKind,
    Engine,
    Output,
    Plan,
    PreludeKind,
    Variable,
)
from muster.model.words import WIDTH, Fragment, Hidden, Template, Word, fold, in_lines, line, named, noted, quote
from muster.older import sha256_of
from muster.plan.secret import hidden_names
from muster.rank import contract
from muster.render.finish import supervise_lines
from muster.render.folder import file_of, is_read, read_words
from muster.render.image import definition_lines, step_words, with_step_flags
from muster.render.own_text import (
    chooses_address,
    chooses_port,
    counts_ends,
    keeps_attempts,
    may_run_again,
    own_text,
    parts_of_the_job,
    path_of_command,
    prologue_text,
    tells_logs,
)
from muster.render.roles import last_lines, role_function, role_lines
from muster.render.sweep import choose_row, pack_lines, row_job, row_lines
from muster.render.told import told_to_tasks
from muster.slurm.directives import format_header

RULE = "# " + "-" * 117
"""The line between the job and Muster's own text."""


def job_script(requested_plan: Plan) -> str:
    """Return the whole script: the job, a line of dashes, and Muster's own text, which does not depend on the job."""
    plan = with_step_flags(requested_plan)
    job, own_part = job_part(plan), own_text(plan)
    digest = _digest(own_part)
    sentence = f"Below is Muster's own text ({plan.version}, sha256 {digest}), explained in docs/explanation/script.md."
    return f"{job}\n{RULE}\n# {sentence}\n\n{own_part}\n{last_lines() if plan.roles else 'job' + chr(10)}"


def job_shown(requested_plan: Plan, whole: str = "into a file or a pipe, the whole script is written") -> str:
    """Return what a person reads of the script on a terminal: the job, how much stands below it, and what writes it."""
    plan = with_step_flags(requested_plan)
    count = len(own_text(plan).splitlines()) + 3
    rest = f"{count} lines of Muster's own text; {whole}"
    return f"{job_part(plan, _SHOWN_ROWS)}\n{RULE}\n# … {rest}.\n"


_SHOWN_ROWS = 5


def lines_of_job(requested_plan: Plan) -> list[tuple[str, str]]:
    """Return the commands of the job, each with the section that holds its reasons."""
    plan = with_step_flags(requested_plan)
    launcher = launcher_named(plan.launcher)
    opening_lines = [*_begin(plan), *_environment(plan, launcher)]
    labelled_lines = [(_SECTIONS.get(line.split(maxsplit=1)[0], "prelude"), line) for line in opening_lines]
    lines = [*labelled_lines, *(("step", line) for line in _step(plan, launcher))]
    return [(section, line) for section, line in lines if not line.lstrip().startswith("#")]


_SECTIONS = {"export": "environment", "unset": "environment", "[": "condition"}


def _digest(text: str) -> str:
    return sha256_of(text.encode(errors="surrogateescape"))[:8]


def job_part(plan: Plan, shown_rows: int | None = None) -> str:
    """Return what the user wrote and decided: title, header, the lines of the job, the table that it sweeps over.

    Of the table `shown_rows` are enough for a person; None: all.
    """
    launcher = launcher_named(plan.launcher)
    runs_with, verb = ("bash", "run") if plan.engine is Engine.HERE or plan.within else ("sbatch", "submit")
    typed_line = _one_line(shlex.join(plan.typed))
    lines = [
        "#!/bin/bash",
        f"# Written by muster {plan.version} for the site '{plan.site}'. It runs with {runs_with} alone.",
        *in_lines(f"muster {verb} {typed_line}", WIDTH, "#   ", "#     "),
        *format_header((directive.name, directive.value) for directive in plan.directives),
        *(
            line
            for part in plan.parts
            for line in ("#SBATCH hetjob", *format_header((each.name, each.value) for each in part))
        ),
        "# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged",
        "",
        "job() {",
        *(f"    {line}" if line else "" for line in _main(plan, launcher)),
        "}",
        *(row_job(_run(plan, launcher)) if plan.pack is not None else ()),
        *(line for role in plan.roles for line in role_function(role, _main_of_role(role.plan))),
        *row_lines(plan, shown_rows),
    ]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """Return a command as a comment shows it: a line break in it would end the comment."""
    return "".join(letter if letter.isprintable() else _bytes_of(letter) for letter in text)


def _bytes_of(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))


def _main(plan: Plan, launcher: Launcher) -> Iterator[str]:
    """Yield the lines of the job itself.

    A line may hold a line break of the user's, so nothing is indented afterwards.
    """
    yield from _begin(plan)
    if plan.pack is not None:
        yield from pack_lines(plan)
        return
    if plan.roles:
        yield from role_lines(plan)
        return
    yield from _run(plan, launcher)


def _main_of_role(requested_plan: Plan) -> Iterator[str]:
    """Yield the lines of a role: those of any other launch."""
    plan = with_step_flags(requested_plan)
    return _main(plan, launcher_named(plan.launcher))


def _run(plan: Plan, launcher: Launcher) -> Iterator[str]:
    """Yield the lines that start the ranks: those of the job, or of one row that shares its node."""
    yield from _environment(plan, launcher)
    yield from _step(plan, launcher)


def _begin(plan: Plan) -> Iterator[str]:
    """Return where the job lives and how large it is; and what holds for that size only."""
    shape = plan.shape
    is_short = plan.within or plan.engine is Engine.HERE
    place = SNAPSHOT_HERE if plan.snapshot else plan.working_directory
    words = [named("dir", place), named("tasks", shape.ntasks_per_node)]
    if shape.cpus_per_task:
        words.append(named("cpus", shape.cpus_per_task))
    if is_short:
        words.append(named("nodes", shape.nodes))
    if plan.output is Output.MOVED:
        yield "muster_find_moved_run"
    yield fold(("muster_begin", *words))
    if tells_logs(plan):
        yield "muster_tell_logs"
    if plan.pack is None:
        yield from choose_row(plan)
    yield from supervise_lines(plan)
    if may_run_again(plan) or keeps_attempts(plan):
        yield "muster_attempt"
    conditions_of: dict[tuple[str, ConditionKind], list[Condition]] = {}
    for condition in plan.conditions:
        conditions_of.setdefault((condition.holds, condition.kind), []).append(condition)
    for (holds, kind), conditions in conditions_of.items():
        sentence = _of_all(conditions)
        is_of_size = kind is ConditionKind.SIZE
        stop = ("muster_other_size", sentence) if is_of_size else ("muster_stop", sentence, conditions[0].hint)
        yield fold((Fragment(f"{holds} ||"), *stop))
    if plan.texts is not None and not plan.roles:
        yield from _read(plan, plan.texts)


def _read(plan: Plan, folder: str) -> Iterator[str]:
    """Yield the line that reads large texts from Muster's folder."""
    launcher = launcher_named(plan.launcher)
    words: list[Word] = [file_of(name) for name in parts_of_the_job(plan, launcher) if is_read(plan, name)]
    if plan.staging is not None:
        words += ["stage.sh", "muster_stage_node=stage_node.sh"]
    for prologue in launcher.prologues(plan):
        words += read_words(prologue.variable, prologue_text(plan, prologue))
        words += [f"{prologue.variable}={file_of(name)}" for name in prologue.last if prologue.variable == KEEPER]
    if words:
        yield from noted(fold(("muster_read", folder, *words)), "the rest of Muster's text")


def _of_all(conditions: Sequence[Condition]) -> str:
    """Return one sentence for conditions that hold together: the first, and how many more variables it is about."""
    first = conditions[0]
    if len(conditions) == 1:
        return first.sentence
    count = "one more" if len(conditions) == 2 else f"{len(conditions) - 1} more"
    return f"{first.variable} and {count} were decided for {first.decided_for}"


def _environment(plan: Plan, launcher: Launcher) -> Iterator[str]:
    yield from _prelude(plan)
    has_path = path_of_command(plan) is not None
    yield from _variables(
        _before_path(variable) if has_path and variable.name == "PATH" else variable
        for variable in plan.variables
        if not isinstance(variable.value, Hidden)
    )
    if hidden_names(plan):
        yield fold(("muster_pass", *hidden_names(plan)))
    if plan.rank_library is not None:
        yield from noted(
            f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{quote(plan.rank_library)}',
            "import muster works in every rank",
        )
    if plan.ready is not None:
        yield from noted(
            f'export PYTHONPATH={quote(plan.ready)}"${{PYTHONPATH:+:$PYTHONPATH}}"',
            "each rank can show its stack",
        )
    if not launcher.starts_ranks:
        return
    written_names = {contract.JOB, contract.RUN_DIRECTORY, contract.EXPECTED_TASKS, contract.TASKS_PER_NODE}
    task_values = {
        name.removeprefix("MUSTER_"): value for name, value in told_to_tasks(plan).items() if name not in written_names
    }
    starter = "AGENTS=1: a program of its own" if launcher.leaves_daemons else "AGENTS=0: Slurm itself"
    yield f"# The ranks compare these with what they find. {starter} starts them."
    yield fold(("muster_expect", *(Fragment(f"{name}={quote(value)}") for name, value in task_values.items())))
    if plan.staging is not None:
        from muster.render.staging import stage_lines

        yield from stage_lines(plan, plan.staging)
    if chooses_port(plan, launcher):
        yield from noted("muster_choose_port", "a free one, where the ranks meet")
    if chooses_address(plan, launcher):
        kind, *interface = plan.rendezvous.rule
        text = fold(("muster_choose_address", named(kind, interface[0] if interface else "yes")))
        yield from noted(text, "the host's name is not enough here")
    if plan.rendezvous.closed:
        yield from noted("muster_make_door_key", "strangers cannot reach the ranks' store")
    yield from launcher.prepare(plan, tuple(variable.name for variable in plan.variables if variable.value is not None))


def _before_path(variable: Variable) -> Variable:
    """Return a PATH that stands before the job's own, in which srun and the shell are found."""
    first = f"{quote(variable.value)}:" if variable.value else ""
    return replace(variable, value=Fragment(f'{first}"$PATH"'))


def _prelude(plan: Plan) -> Iterator[str]:
    """Yield the commands before the ranks; modules that follow each other are loaded in one line."""
    for kind, group in groupby(plan.prelude, key=lambda prelude: prelude.kind):
        if kind is PreludeKind.MODULE_LOAD:
            yield fold(("muster_load", *(word for prelude in group for word in prelude.words[1:])))
            continue
        for prelude in group:
            stop: tuple[Word, ...] = ("muster_stop", prelude.failure, prelude.hint)
            if prelude.folder:
                stop = ("muster_not_there", prelude.failure)
            command = line(prelude.words)
            yield command if prelude.stops_itself else fold((Fragment(f"{command} ||"), *stop))


def _variables(variables: Iterable[Variable]) -> Iterator[str]:
    """Yield as few lines as hold the variables in their order; a value that the shell fills in sees those before it."""
    verb, note, words, names = "", "", list[Word](), set[str]()
    for variable in _unset_first(tuple(variables)):
        own = "unset" if variable.value is None else "export"
        sees_those_before = (
            isinstance(variable.value, Fragment) and any(name in variable.value.text for name in names)
        ) or (isinstance(variable.value, Template) and "TMPDIR" in names)
        if words and (own != verb or variable.reason.note != note or sees_those_before):
            yield from noted(fold((verb, *words)), note)
            words, names = [], set()
        verb, note = own, variable.reason.note
        names.add(variable.name)
        words.append(_word_of(variable))
    if words:
        yield from noted(fold((verb, *words)), note)


def _unset_first(variables: tuple[Variable, ...]) -> list[Variable]:
    """Return the variables with those in front that are unset, where nothing before them speaks of them."""
    first: list[Variable] = []
    other_variables: list[Variable] = []
    for variable in variables:
        alone = variable.value is None and not any(_meets(other, variable) for other in other_variables)
        (first if alone else other_variables).append(variable)
    return [*first, *other_variables]


def _meets(other_variable: Variable, unset: Variable) -> bool:
    """Return whether `other` sets what `unset` removes, or has a value that the shell makes of it."""
    name = unset.name.rstrip("*")
    if other_variable.name.startswith(name) if unset.name.endswith("*") else other_variable.name == name:
        return True
    return isinstance(other_variable.value, (Fragment, Template)) and name in other_variable.value.text


def _word_of(variable: Variable) -> Word:
    if variable.value is not None and not variable.pass_on:
        return Fragment(f"{variable.name}={quote(variable.value)}")
    if variable.name.endswith("*"):
        return Fragment(f'"${{!{variable.name[:-1]}@}}"')
    return variable.name


def _counted(plan: Plan, launcher: Launcher, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the step, and the line that counts the ends of its processes."""
    if not counts_ends(plan, launcher):
        yield from lines
        return
    yield from lines
    counted = named("of", "agents" if launcher.agent else "ranks")
    yield from noted(fold(("muster_count_ends", counted)), "a 0 is believed after counting")


def _watched(plan: Plan, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the step, and around them those that watch whether it hangs."""
    if plan.hang is None:
        yield from lines
        return
    words = [named("seconds", plan.hang.after_s), named("python", plan.hang.python)]
    if plan.hang.folder is not None:
        words.append(named("folder", plan.hang.folder))
    if plan.hang.ends:
        words.append(named("then", "restart"))
    yield from noted(
        fold(("muster_watch_silence", *words), indent=plan.step_indent),
        "reports ranks that hang",
        indent=plan.step_indent,
    )
    yield from lines
    yield "muster_end_watch"


def _notes(plan: Plan, launcher: Launcher) -> Iterator[str]:
    """Yield why the line that starts the ranks has its flags that are not plain Slurm, in as few lines as hold them."""
    notes = [f"{_name_of(flag.word)}: {flag.reason.note}" for flag in launcher.flags(plan) if flag.reason.note]
    text = "# "
    for note in notes:
        if len(text) > 2 and plan.step_indent + len(text) + len(note) + 1 > WIDTH:
            yield text.rstrip("; ")
            text = "# "
        text += f"{note}; "
    if notes:
        yield text.rstrip("; ")


def _name_of(word: Word) -> str:
    """Return a flag as a comment names it: a long value is not read there."""
    text = "".join(letter for letter in quote(word) if letter.isprintable())
    return text if len(text) <= _LONGEST_NAME else text.partition("=")[0]


_LONGEST_NAME = 30


def _step(plan: Plan, launcher: Launcher) -> Iterator[str]:
    yield from definition_lines(plan)
    step_lines = (*_notes(plan, launcher), *launcher.step(plan, step_words(plan)))
    lines = _watched(plan, _counted(plan, launcher, step_lines))
    yield from lines
    if not launcher.starts_ranks:
        return
    # What is left on the nodes goes; the script ends as its ranks did.
    last = (
        ("muster_remove_unpacked", plan.image.may_be_unpacked),
        ("muster_stage_end", plan.staging is not None),
        # The supervisor removes it where there is one.
        ("muster_passed_on", plan.finish is None and may_run_again(plan) and bool(hidden_names(plan))),
    )
    yield from (name for name, is_needed in last if is_needed)
    yield "muster_finish"
