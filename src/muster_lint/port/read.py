"""A batch script → the draft of a request: header, body and launch, with a row for everything in it. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from muster.errors import RequestError
from muster.plan.secret import without_values
from muster_lint.embedded import embedded_scripts
from muster_lint.job import BatchScript, read_job
from muster_lint.port.assignments import exported_ones, is_written, read_assignments
from muster_lint.port.body import read_commands, settle_folder, text_of
from muster_lint.port.expand import Values, users_of, values_of
from muster_lint.port.guards import is_guarded
from muster_lint.port.header import read_header
from muster_lint.port.own import is_own, read_own
from muster_lint.port.sizes import put_sizes
from muster_lint.port.step import Chain, chain_of, in_a_shell, read_chain
from muster_lint.port.values import Draft, Fate, PortRow, ask_all, holds_secret
from muster_lint.read import FileKind, SourceFile
from muster_lint.template import template_finding
from muster_lint.values import TextSpan


def read_draft_of(
    source: SourceFile, read_file: Callable[[str], str | None] = lambda _: None
) -> tuple[BatchScript, Draft]:
    """Return what a file means: a batch script, or a Python script with a header of its own."""
    if source.kind is FileKind.OTHER:
        program = source.text.partition("\n")[0].rpartition("/")[2].split()[0]
        raise RequestError(
            f"{source.path} is a {program} script, which Muster does not read",
            hint="#!/bin/bash is what sites document; muster lint reads the header of the file as it is",
        )
    template = template_finding(source)
    if template is not None:
        message = f"{source.path}:{template.place.line}: {template.message}"
        raise RequestError(message, hint="give a script that was made from the template")
    text = source.text.replace("\r\n", "\n")
    if source.kind is FileKind.PYTHON:
        job = read_job(source.path, "".join(f"{line}\n" for line in _comments_at_top(text)))
        draft = _python_draft(job, source)
    else:
        job = read_job(source.path, text)
        draft = read_draft(job, read_file)
    if text != source.text:
        draft.rows.insert(
            0, PortRow(1, "Windows line ends", Fate.CHANGED, "", "sbatch refuses them; Muster's script has none")
        )
    return job, draft


def _comments_at_top(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return
        yield line


def _python_draft(job: BatchScript, source: SourceFile) -> Draft:
    """Return the draft of `sbatch train.py`: the header counts, and the batch host runs the script once."""
    if not job.directives:
        raise RequestError(
            f"{source.path} is a Python script without #SBATCH lines: there is nothing to carry",
            hint=f"muster submit -N 1 -g 1 -- python {source.path}",
        )
    draft = Draft()
    sizes = read_header(job, draft)
    draft.command = ("python", source.path)
    draft.note(
        1,
        job.lines[0] if job.lines else "#!",
        f"python {source.path}",
        "the batch host ran it once, and ranks are Muster's",
    )
    put_sizes(sizes, {}, draft, uses_gpus=False)
    return draft


def read_draft(job: BatchScript, read_file: Callable[[str], str | None] = lambda _: None) -> Draft:
    """Return what a batch script means; `read_file` gives the text of a file that it names."""
    if is_own(job.text):
        return read_own(job)
    draft = Draft(read_file)
    sizes = read_header(job, draft)
    values = values_of(job.shell)
    chains = [chain_of(command, values) for command in job.shell.commands]
    launch = _launch(chains)
    if launch is None and not job.directives and not any(chain.stage("step") for chain in chains):
        raise RequestError(
            f"{job.path} starts nothing that has ranks: there is no srun, mpirun, torchrun or python in it",
            hint=next(
                (
                    f"sbatch gets the text behind line {each.before}: write it to a file of its own, and give that"
                    for each in embedded_scripts(job)
                ),
                "give the script that sbatch gets",
            ),
        )
    step: dict[str, str] = {}
    folder_of_step: list[str] = []
    settings_before = len(draft.values.get("env", ()))
    if launch is not None:
        launched_at, done = chains.index(launch), len(draft.rows)
        values = _known_at(launch, values, job)
        launch = chain_of(launch.command, values)
        chains[launched_at] = launch
        folder_of_header = draft.values.pop("chdir", [])
        step = read_chain(launch, draft)
        folder_of_step = draft.values.pop("chdir", [])
        draft.values.update({"chdir": folder_of_header} if folder_of_header else {})
        if is_guarded(job.lines, launch.command.place):
            ask_all(draft, draft.rows[done:], "in the script it runs only behind a test")
        _without_image(draft)
    given = {setting.partition("=")[0] for setting in draft.values.get("env", ())[settings_before:]}
    spans = (*job.shell.subshells, *job.shell.unnamed_bodies)
    apart = [span for span in spans if launch is None or not launch.command.place.is_within(span)]
    read_commands(chains, launch, draft, job.lines, apart)
    settle_folder(draft, folder_of_step)
    settings = read_assignments(
        exported_ones(job.shell),
        values,
        draft,
        used_in=draft.command,
        lines=job.lines,
        launched_at=None if launch is None or launch.command.function else launch.command.order,
        apart=apart,
        users=users_of(job.shell, values),
        given=given,
    )
    _name_job(job, draft)
    _ask_array(job, draft)
    _ask_defaults(values, draft)
    _ask_set_and_unset(draft)
    _put_settings(settings, draft)
    put_sizes(sizes, step, draft, uses_gpus=_uses_gpus(job))
    if launch is None:
        draft.command = ("COMMAND",)
        draft.ask(0, "(no command)", "the script starts no ranks: write the command behind --", "COMMAND")
    unread_lines = {line for place in job.shell.errors for line in (place.line, place.end_line)}
    ask_all(draft, [row for row in draft.rows if row.line in unread_lines], "Muster cannot read the bash of its line")
    draft.rows = [_once(job, row) for row in draft.rows]
    draft.rows += [*_oddities(job), *_left_over(job, draft.rows)]
    draft.rows += _blocks(job, draft.rows)
    draft.rows.sort(key=lambda row: row.line or 10**6)
    _find_secrets(job, draft)
    draft.rows = [_without_secrets(row, draft.secrets) for row in draft.rows]
    return draft


def _known_at(launch: Chain, values: Values, job: BatchScript) -> Values:
    """Return the values that the launch finds: what is set behind it, it does not know."""
    order = 10**9 if launch.command.function else launch.command.order
    late_names = {each.name for each in job.shell.assignments if each.order > order and not each.of_command}
    texts = {name: text for name, text in values.texts.items() if name not in late_names}
    return msgspec.structs.replace(values, texts=texts, defaults={})


def _name_job(job: BatchScript, draft: Draft) -> None:
    """Give a job without a name that of its file, as Slurm does, where the script or its logs use the name."""
    logs = " ".join(draft.get(field) or "" for field in ("output", "error"))
    if draft.get("job_name") is None and ("SLURM_JOB_NAME" in job.body or "%x" in logs):
        reason = "Slurm names a job after its file, and the script uses that name"
        draft.change(0, "(no --job-name)", "job_name", posixpath.basename(job.path), reason)


def _ask_array(job: BatchScript, draft: Draft) -> None:
    """Ask about a command that reads its place in an array, where the script does not say that it is one."""
    match = re.search(r"SLURM_ARRAY_\w+", " ".join(draft.command))
    if match is not None and "array" not in job.header:
        reason = "the script has no --array, and sbatch was given one: --sbatch=--array=LIST says it"
        draft.ask(0, f"${match[0]} …", reason, "in the command")


def _ask_defaults(values: Values, draft: Draft) -> None:
    """Ask about the variables whose defaults stand in the line: the submitting shell may set another value."""
    for name, default in values.defaults.items():
        reason = f"its default stands in the line: where your shell sets {name}, write that value"
        draft.ask(0, f"${{{name}:-{default}}}", reason)


def _ask_set_and_unset(draft: Draft) -> None:
    """Ask about variables that the script both sets and removes: the order decides, and the line has none."""
    names = {setting.partition("=")[0] for setting in draft.values.get("env", ())}
    for name in list(draft.values.get("unset_env", ())):
        if name in names:
            reason = "the script sets it and removes it: which holds for the ranks?"
            draft.revise_one("unset_env", name, Fate.ASKED, None, reason)


_GIVEN = re.compile(r"""(\w+)=(?:"([^"$]*)"|'([^']*)'|([^\s"'$,;]+))""")
_LOGIN = re.compile(r"\blogin\s+(?:--(?:\w+-)?(?:token|key)[= ]\s*)?([^\s$;-][^\s$;]{5,})")


def _find_secrets(job: BatchScript, draft: Draft) -> None:
    """Note the secrets that stand anywhere in the script."""
    for match in _GIVEN.finditer(job.text):
        value = next(filter(None, match.groups()[1:]), "")
        if holds_secret(match[1], value):
            draft.secrets.setdefault(match[1], value)
    for number, match in enumerate(_LOGIN.finditer(job.text)):
        draft.secrets[f"login {number}"] = match[1]


def _without_secrets(row: PortRow, secrets: Mapping[str, str]) -> PortRow:
    """Return the row without the values of secrets, however short they are."""
    texts = []
    for text in (row.what, row.now, row.why):
        for name, value in secrets.items():
            quoted = rf"""(["']?){re.escape(value)}\1"""
            text = re.sub(rf"\b{re.escape(name)}={quoted}", f"{name}=…", text)  # noqa: PLW2901  # one after the other
        texts.append(without_values(text, secrets.values()))
    return msgspec.structs.replace(row, what=texts[0], now=texts[1], why=texts[2])


def _oddities(job: BatchScript) -> Iterator[PortRow]:
    """Yield a row for what is wrong with the file itself."""
    if not job.text.startswith("#!"):
        yield PortRow(1, "(no #!)", Fate.CHANGED, "#!/bin/bash", "sbatch refuses a script without it; Muster's has one")
    lines = sorted({each.line for each in job.shell.errors})
    if job.shell.error is not None:
        more = f" and {len(lines) - _FEW} more" if len(lines) > _FEW else ""
        others = f", nor lines {', '.join(map(str, lines[1:_FEW]))}{more}" if len(lines) > 1 else ""
        reason = f"Muster cannot read this bash{others}: what stands from here on may be read wrongly"
        yield PortRow(job.shell.error.line, f"column {job.shell.error.column}", Fate.ASKED, "", reason)


_FEW = 8
"""How many lines that are not bash a row names."""


def _launch(chains: list[Chain]) -> Chain | None:
    """Return the command that starts the training: the heaviest; the last of several, the first of two branches."""
    functions = {chain.command.function for chain in chains} - {None}
    aliases = (chain.command.words[1:] for chain in chains if chain.command.program == "alias")
    functions |= {word.value.partition("=")[0] for words in aliases for word in words}
    weighed = [chain for chain in chains if chain.weight and chain.stages[0].name not in functions]
    best = max((chain.weight for chain in weighed), default=0)
    heavy = [chain for chain in weighed if chain.weight == best]
    certain = [chain for chain in heavy if not chain.command.is_conditional and not chain.command.function]
    if certain:
        return certain[-1]
    return heavy[0] if heavy else None


def _uses_gpus(job: BatchScript) -> bool:
    """Tell whether a script that asks for no GPUs speaks of them all the same."""
    code = "\n".join(line for line in job.lines if not line.lstrip().startswith("#"))
    return (
        re.search(r"--nv\b|--rocm\b|\bNCCL_|\bCUDA_VISIBLE|\bcuda\b|GPUS_PER_NODE|\bROCR_|-environment", code)
        is not None
    )


def _without_image(draft: Draft) -> None:
    """Ask about the binds of a container whose image the script does not name."""
    if draft.get("image") is None:
        for bind in list(draft.values.get("bind", ())):
            reason = "the image is not in the script: --image IMAGE --bind PATH"
            draft.revise_one("bind", bind, Fate.ASKED, None, reason)


def _put_settings(settings: list[str], draft: Draft) -> None:
    """Put what only a task can set before the command."""
    if not settings or not draft.command:
        return
    draft.command = tuple(in_a_shell(settings, list(draft.command)))


_NOTHING = frozenset({"then", "else", "fi", "do", "done", "esac", ";;", "{", "}", ")", "(", "EOF", "\\"})


def _left_over(job: BatchScript, rows: list[PortRow]) -> Iterator[PortRow]:
    """Yield a row for each line that no other row covers: branches, loops, tests, functions."""
    covered = {row.line for row in rows}
    outer = (command for command in job.shell.commands if not command.in_substitution)
    places = [
        *(item.place for item in outer),
        *(item.place for item in job.shell.assignments if is_written(item, job.lines)),
    ]
    read_lines = {line for place in places for line in _lines_read(place, job)}
    read_lines |= {line for place, _ in job.shell.heredocs for line in range(place.line, place.end_line + 1)}
    for number, text in enumerate(map(str.strip, job.lines), start=1):
        names = re.fullmatch(r"export((?: +\w+)+)", text)
        is_told = names is not None and all(map(job.shell.assigned, names[1].split()))
        if not text or text.startswith("#") or text in _NOTHING or is_told or number in covered | read_lines:
            continue
        shown_text = text if len(text) < 100 else f"{text[:99]}…"
        yield PortRow(number, shown_text, Fate.ASKED, "", _NO_BLOCKS)


def _lines_read(place: TextSpan, job: BatchScript) -> range:
    """Return the lines of a command or an assignment; of one that holds what is not bash, the first alone."""
    holds_other_lines = any(each.is_within(place) and each.end_line > each.line for each in job.shell.errors)
    return range(place.line, place.line + 1 if holds_other_lines else place.end_line + 1)


def _once(job: BatchScript, row: PortRow) -> PortRow:
    """Return the row, and say so where its line stands in a branch or a loop: what it became holds once and always."""
    for place, word in job.shell.blocks:
        if place.line <= row.line <= place.end_line and row.verdict in {Fate.KEPT, Fate.CHANGED, Fate.ASKED}:
            why = f"in the script it stands in the {word} of line {place.line}, here it holds once and always"
            return msgspec.structs.replace(row, why="; ".join(filter(None, [row.why, why])), verdict=Fate.ASKED)
    return row


def _blocks(job: BatchScript, rows: list[PortRow]) -> Iterator[PortRow]:
    """Yield a row for each branch or loop that no row names yet: the lines inside have their own rows."""
    asked = {row.line for row in rows if row.verdict is Fate.ASKED}
    for place, word in job.shell.blocks:
        if place.line not in asked:
            yield PortRow(place.line, f"{word} …", Fate.ASKED, "", _NO_BLOCKS)


_NO_BLOCKS = "Muster's script has no branches, loops or functions of yours: is it needed?"


def unread(job: BatchScript, draft: Draft) -> list[str]:
    """Return what the table lacks: a directive or a command without a row on its line."""
    lines = {row.line for row in draft.rows}
    commands = [command for command in job.shell.commands if not command.in_substitution]
    directives = (*job.directives, *job.late_directives)
    return [
        *(text_of(command) for command in commands if command.place.line not in lines),
        *(directive.line for directive in directives if directive.place.line not in lines),
        *(
            assignment.name
            for assignment in job.shell.assignments
            if not assignment.of_command and assignment.place.line not in lines
        ),
    ]
