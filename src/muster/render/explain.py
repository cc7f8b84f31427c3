"""Plan → explanation: the same launch in words, each value with its reason and origin. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from muster.launchers import launcher_named
from muster.model.plan import Engine, Plan, Reason, Rendezvous
from muster.model.words import Hidden, Word, quote
from muster.plan.gate import REASON
from muster.render.functions import functions_in
from muster.render.image import with_step_flags
from muster.render.own_text import own_text
from muster.render.script import lines_of_job


def explain(plan: Plan) -> Iterator[tuple[str, str, Reason]]:
    """Yield every decision of the plan: its section, its text, its reason."""
    for name, reason in plan.shape.reasons:
        yield "shape of part 1" if plan.parts else "shape", f"{name} = {getattr(plan.shape, name)}", reason
    for number, directives in enumerate((plan.directives, *plan.parts), 1):
        section = f"header of part {number}" if plan.parts else "header"
        for directive in directives:
            text = f"--{directive.name}" + (f"={directive.value}" if directive.value is not None else "")
            yield section, f"#SBATCH {text}", directive.reason
    yield from _explain_sweep(plan)
    if not plan.roles:
        yield from _explain_ranks(plan)
    for role in plan.roles:
        yield from ((f"role {role.name}", text, reason) for text, reason in role.reasons)
        for name, reason in role.plan.shape.reasons:
            yield f"role {role.name}", f"{name} = {getattr(role.plan.shape, name)}", reason
        own_lines = _explain_ranks(role.plan)
        yield from ((f"{section} of {role.name}", text, reason) for section, text, reason in own_lines)


def _explain_ranks(plan: Plan) -> Iterator[tuple[str, str, Reason]]:
    """Yield every decision about the ranks of one program."""
    yield "launcher", plan.launcher, plan.launcher_reason
    for flag in launcher_named(plan.launcher).flags(with_step_flags(plan)):
        yield "step", quote(flag.word), flag.reason
    meeting = plan.rendezvous
    yield "rendezvous", f"MASTER_ADDR = {meeting.address or 'the first host of the step'}", meeting.address_reason
    yield "rendezvous", f"MASTER_PORT = {meeting.port or 'chosen in the job'}", meeting.port_reason
    if plan.engine is Engine.SLURM and launcher_named(plan.launcher).starts_ranks:
        yield "rendezvous", *_who_may_join(meeting)
    for prelude in plan.prelude:
        yield "prelude", " ".join(quote(word) for word in prelude.shown), prelude.reason
    for variable in plan.variables:
        assignment = "" if variable.value is None or variable.pass_on else f"={_shown(variable.value)}"
        verb = "pass on" if variable.pass_on else ("unset" if variable.value is None else "export")
        yield "environment", f"{verb} {variable.name}{assignment}", variable.reason
    if plan.rank_library is not None:
        why = Reason("import muster works in every rank; last, so that the environment's own packages win")
        yield "environment", f"PYTHONPATH += {plan.rank_library}", why
    ready = plan.ready or plan.image.ready
    if ready is not None:
        why = Reason("asked for with --stacks-ready: each rank shows its stack by itself on signal 57")
        yield "environment", f"PYTHONPATH = {ready}:…", why
    yield "devices", *_DEVICES[plan.visibility]
    if plan.gate:
        yield "check", plan.gate[1], REASON
    if plan.hang is not None:
        yield "hang", f"after {plan.hang.after_s} s without a sign of life", plan.hang.reason
    yield from _image(plan)
    yield from _staging(plan)
    for condition in plan.conditions:
        yield "condition", condition.sentence, condition.reason
    yield from _job(plan)


def _who_may_join(meeting: Rendezvous) -> tuple[str, Reason]:
    """Return who can reach the store where the ranks meet."""
    if meeting.closed:
        sentence = "the store asks, for each connection, whose process has opened it"
        return "only your processes on the job's nodes reach the store", Reason(sentence)
    sentence = "torch's store asks for no password: whoever reaches the port can read and write it; --closed shuts it"
    return "every process that reaches that port can join", Reason(sentence)


def _explain_sweep(plan: Plan) -> Iterator[tuple[str, str, Reason]]:
    if plan.sweep is not None:
        why = Reason("one run for each row; {COLUMN} in the command is its value", "--sweep")
        yield "sweep", f"{plan.sweep.path}: {len(plan.sweep.rows)} rows of {', '.join(plan.sweep.columns)}", why
    if plan.pack is not None:
        row = plan.pack.shape
        why = Reason("rows beside each other on one node, each a step of its own", "--sweep-per-node")
        yield "row", f"{plan.pack.rows} on a node, each {row.ntasks} ranks and {row.gpus_per_node} GPUs", why


def _job(plan: Plan) -> Iterator[tuple[str, str, Reason]]:
    """Return each line of the job with the section of its reason.

    Its function's own comment, or a section of its own.
    """
    step_plan = with_step_flags(plan)
    # What the script reads is explained by its own comments, not by what stands in its place.
    functions = dict(functions_in(own_text(step_plan) + own_text(replace(step_plan, texts=None))))
    for section, text in lines_of_job(plan):
        description = next((functions[name] for name in _CALLED.findall(text) if name in functions), None)
        if description is None or section in {"environment", "condition"}:
            description = f"the reasons stand under {section}"
        yield "job, line by line", text.splitlines()[0].strip(" \\"), Reason(description)


_CALLED = re.compile(r"muster_[a-z_0-9]+")


def _shown(value: Word) -> str:
    return "(hidden)" if isinstance(value, Hidden) else quote(value)


_DEVICES = {
    "all": (
        "every rank sees all GPUs of its node",
        Reason("set_device(LOCAL_RANK) is right in an unchanged script, and GPUs reach each other directly"),
    ),
    "one": (
        "every rank sees its own GPU alone",
        Reason("set_device(LOCAL_RANK) fails on every rank but 0 of a node: the script must say set_device(0)"),
    ),
}


def _image(plan: Plan) -> Iterator[tuple[str, str, Reason]]:
    image = plan.image
    yield "image", image.image or image.engine, image.reason
    if image.image is None:
        return
    yield "image", f"engine {image.engine}", image.engine_reason
    if image.program:
        yield "image", f"{image.engine} {image.verb}".rstrip(), image.verb_reason
    if image.venv is not None:
        yield "image", f"virtual environment {image.venv}", Reason("its bin comes first on the image's PATH", "--venv")
    if image.activation:
        reason = Reason("the image's environment is made ready first; the site or the image says so")
        yield "image", " ".join(image.activation), reason
    for flag in image.flags if image.program else ():
        yield "image", quote(flag.word), flag.reason
    for mount in image.mounts:
        names = mount.source if mount.source == mount.target else f"{mount.source} as {mount.target}"
        yield "image", f"bind {names}{' (read-only)' if mount.read_only else ''}", mount.reason


def _staging(plan: Plan) -> Iterator[tuple[str, str, Reason]]:
    staging = plan.staging
    if staging is None:
        return
    yield "staging", f"onto {quote(staging.folder)} of every node", staging.folder_reason
    for thing in staging.things:
        yield "staging", thing.name, thing.reason
        for path in thing.paths if thing.role == "environment" else ():
            yield "staging", path, Reason("in the same archive, and seen at its own name", thing.reason.origin)
    if staging.script is not None:
        why = "importing torch looks 161 times into it: the script is a copy there, all beside it links"
        yield "staging", f"the folder of {staging.script[1]}", Reason(why)
    if staging.out is not None:
        yield (
            "staging",
            f"{staging.out}, when the ranks have ended",
            Reason("they write to their node's disk", "set by you"),
        )
    for text, reason in staging.advice:
        yield "staging", text, reason


def reason_as_text(reason: Reason) -> str:
    """Return a reason with where it comes from."""
    place = reason.origin if reason.source is None else f"{reason.origin}; {reason.source}"
    checked = f", checked {reason.checked}" if reason.checked else ""
    return f"{reason.text} [{place}{checked}]"


def plan_as_text(plan: Plan) -> str:
    """Return what `plan --as why` prints."""
    lines = [f"{shlex.join(plan.typed)}", ""]
    section = ""
    for name, text, reason in explain(plan):
        if name != section:
            section = name
            lines.append(f"{name}:")
        lines.append(f"  {text}")
        lines.append(f"      {reason_as_text(reason)}")
    if plan.notes:
        lines += ["", "notes:", *(f"  {note.text}" for note in plan.notes)]
    return "\n".join(lines) + "\n"
