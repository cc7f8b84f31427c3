"""The Container Engine of CSCS: an EDF, a file in TOML, named in srun's --environment and never in the header.

The script writes the EDF beside the run's record. An EDF of the user's own is what ours builds on
(`base_environment`): mounts and variables add up, what ours says wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from muster.images.base import StepEngine, enroot_name
from muster.model.plan import Flag, ImageUse, Plan, Reason, Variable
from muster.model.words import Fragment, Hidden, Template, Word


class ContainerEngine(StepEngine):
    """An EDF and the flag that names it."""

    name = "cscs"
    step_option = "environment"
    runs = frozenset({"squashfs", "registry", "edf"})

    def step_flags(self, plan: Plan) -> tuple[Flag, ...]:
        definition_flag = Flag(
            Fragment('--environment="$muster_run_dir"/image.toml'),
            Reason("for the ranks alone: in the header it would put this script, and its srun, into the image"),
        )
        return (definition_flag, *plan.image.flags)

    def definition(self, plan: Plan) -> tuple[Word, ...] | None:
        image = plan.image
        return (
            _source(image),
            f"workdir = {_text(plan.working_directory)}",
            "mounts = [",
            *(f"    {_text(mount.words)}," for mount in image.mounts),
            Fragment("'    \"'\"$muster_run_dir:$muster_run_dir\"'\",'"),
            "]",
            *(("entrypoint = true",) if image.entrypoint else ()),
            *_table("env", _variables(plan.variables)),
            *_table("annotations", (f"{_key(name)} = {_text(value)}" for name, value in image.annotations)),
        )


def _source(image: ImageUse) -> str:
    if image.kind == "edf":
        return f"base_environment = {_text(image.image or '')}"
    return f"image = {_text(enroot_name(image))}"


def _variables(variables: Iterable[Variable]) -> Iterator[Word]:
    for variable in variables:
        if isinstance(variable.value, Template):
            yield Template(f"{variable.name} = {_text(variable.value.text)}", variable.value.columns)
        elif variable.value is not None and not isinstance(variable.value, Hidden):  # the environment carries those
            yield f"{variable.name} = {_text(str(variable.value))}"


def _table(name: str, rows: Iterable[Word]) -> Iterator[Word]:
    """Yield a table; nothing where there is no row."""
    for number, row in enumerate(rows):
        if number == 0:
            yield ""
            yield f"[{name}]"
        yield row


def _key(name: str) -> str:
    """Return com.hooks.cxi.enabled, its parts as TOML wants them."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _text(part) for part in name.split("."))


def _text(value: str) -> str:
    """Return a TOML string of which the engine expands nothing: it reads $$ as $.

    JSON's escapes are TOML's, but for DEL.
    """
    import json

    return json.dumps(value.replace("$", "$$"), ensure_ascii=False).replace("\x7f", "\\u007f")
