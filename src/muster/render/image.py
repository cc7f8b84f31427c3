"""Where the image enters the script: in the step's flags, around the command, at the end of the prologue. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from muster.images import engine_named
from muster.launchers import launcher_named
from muster.model.plan import Plan
from muster.model.words import Word, fold
from muster.render.folder import compose_read, is_read
from muster.render.parts import part


def with_step_flags(plan: Plan) -> Plan:
    """Return the plan, its step's flags with those of the image."""
    return replace(plan, step_flags=(*plan.step_flags, *engine_named(plan.image.engine).step_flags(plan)))


def step_words(plan: Plan) -> tuple[Word, ...]:
    """Return the line that starts the ranks, in their image."""

    def wrap(command: Sequence[Word]) -> tuple[Word, ...]:
        return engine_named(plan.image.engine).wrap(plan, command)

    return launcher_named(plan.launcher).words(plan, wrap)


def prologue_end(plan: Plan) -> str:
    """Return what stands before the last part of a prologue: only what the launcher itself starts meets the image."""
    engine = engine_named(plan.image.engine)
    lines = engine.prologue(plan)
    if not lines:
        return ""
    from muster.render.functions import without_unused

    calls = "\n".join(fold(line, indent=0) for line in lines)
    parts = engine.parts(plan)
    # What only a text calls that the script reads stands here too.
    callers = "\n".join((calls, *(part(name) for name in parts if is_read(plan, name))))
    functions = without_unused(compose_read(plan, parts), callers)
    return f"{functions.rstrip()}\n\n{calls}\n"


def definition_lines(plan: Plan) -> Iterator[str]:
    """Yield what an engine that lives in the step's flags finds in the run directory, and the directory itself."""
    engine = engine_named(plan.image.engine)
    if not engine.in_step:
        return
    lines = engine.definition(plan)
    yield "muster_define" if lines is None else fold(("muster_define", *lines))
