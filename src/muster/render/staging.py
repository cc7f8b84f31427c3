"""Staging → the lines of the script that bring copies to the nodes, and those of the ranks that use them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.images import engine_named
from muster.model.plan import Plan, Staged, Staging
from muster.model.words import Fragment, Word, fold, named, quote
from muster.render.functions import without_unused
from muster.render.parts import kept, part


def stage_texts(lines: Iterable[str]) -> Iterator[str]:
    """Yield what a script with these lines of staging needs: its own functions, and the helper of each node."""
    own_text = without_unused(part("stage"), "\n".join(lines))
    yield own_text
    yield "# What runs on every node beside the ranks, for as long as they do: POSIX sh, no Python."
    yield f"{kept('muster_stage_node', without_unused(part('stage_node'), own_text))}\n"


STAGE_END = "muster_stage_end"
"""The line that ends staging."""


def stage_lines(plan: Plan, staging: Staging) -> Iterator[str]:
    """Bring everything; then each copy is used in the place of the shared one."""
    yield "# Copies on the nodes' own disks. If a thing cannot be staged, a warning names it; the shared one is used."
    out = (named("out", staging.out),) if staging.out else ()
    yield fold(("muster_stage_begin", named("folder", staging.folder), *out))
    for number, thing in enumerate(staging.things, start=1):
        yield from _thing(number, thing, staging)
    if staging.script is not None:
        word, path = staging.script
        # A copy of the project has the script at the same place.
        is_in_snapshot = plan.snapshot and not word.startswith("/")
        file = Fragment(f'"$PWD"/{quote(word)}') if is_in_snapshot else path
        yield fold(("muster_stage_script", named("name", word), named("file", file)))
    if plan.rank_library is not None and any(thing.role == "environment" for thing in staging.things):
        yield fold(("muster_stage_library", plan.rank_library))
    yield from _used(plan, staging)


def _thing(number: int, thing: Staged, staging: Staging) -> Iterator[str]:
    next_words: tuple[Word, ...] = ("muster_stage_over", *thing.paths)
    if thing.role == "image":
        next_words = ("muster_stage_image", named("name", staging.word or ""), named("file", thing.paths[0]))
    next_commands = [fold(next_words, indent=8)]
    if thing.role == "environment":
        next_commands.append(fold(("muster_stage_environment", thing.paths[0]), indent=8))
    yield from thing_lines(number, thing, *next_commands)


def thing_lines(number: int, thing: Staged, *next_commands: str) -> Iterator[str]:
    """Bring it; where that is done on all nodes, what makes it seen."""
    words = [named("number", number), named("name", thing.name), named("packed", thing.packed)]
    words += [named("path", path) for path in thing.paths]
    words += [named("unchanged", path) for path in thing.signs]
    yield fold(("muster_stage_thing", *words, Fragment("&& {")))
    yield from (f"    {fold(('muster_stage_except', path), indent=8)}" for path in thing.leave_out)
    yield from (f"    {command}" for command in next_commands)
    yield "}"


def _used(plan: Plan, staging: Staging) -> Iterator[str]:
    engine = engine_named(plan.image.engine)
    if engine.bind_variable:
        yield f"muster_stage_bind {engine.bind_variable}"
        return
    yield f"muster_stage_mount || muster_stage_closed{' relocatable=yes' if staging.word else ''}"
