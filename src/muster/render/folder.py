"""Large texts that a script reads from Muster's folder instead of holding them. Pure.

Without them the ranks run too, with less around them; a closed job, and one that stages copies, stops before.

The folder's name follows from the texts, so a job that waits over an upgrade reads what it was made for.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping

from muster.launchers.base import DOOR_PIECES, Part
from muster.model.plan import Plan
from muster.render.parts import part

IN_PLACE_OF: dict[Part, Part | None] = {
    "agent_keeper.py": "agent_plain.py",
    "leave": "leave_else",
    "watch": "watch_else",
    **dict.fromkeys(DOOR_PIECES),
    "report_ends": "report_ends_else",
    "silence": "silence_else",
    "silence_ends": None,
    "hydra_watch": "hydra_watch_else",
    "mpirun_waits": "mpirun_waits_else",
    "left": None,
    "look": None,
    "image_unpack": "image_unpack_else",
    "unpacked": "unpacked_else",
    "stack": "stack_else",
    "stage": "stage_else",
    "stage_node": None,
    "stage_rank": None,
}
"""The parts that are read, each with the part that a script has in its place, if it needs one. A closed job stops where
it has not read its door (begin/door_key.sh).

Who the ranks are, their threads and GPUs, where they meet and the count of their ends stand in every script.
"""


def is_read(plan: Plan, name: Part) -> bool:
    """Return whether the script of this plan reads the part."""
    return plan.texts is not None and name in IN_PLACE_OF


def text_of(plan: Plan, name: Part) -> str:
    """Return what the script itself holds of a part."""
    if not is_read(plan, name):
        return part(name)
    other_name = IN_PLACE_OF[name]
    return "" if other_name is None else part(other_name)


def compose_read(plan: Plan, names: Iterable[Part]) -> str:
    """Return the parts of a process as one text, with a comment in the place of each that is read."""
    lines = (
        (text_of(plan, name), f"# muster_read {file_of(name)}\n\n" if is_read(plan, name) else "") for name in names
    )
    return "".join(text for pair in lines for text in pair)


def file_of(name: Part) -> str:
    """Return the file of a part in the folder."""
    return str(name) if str(name).endswith(".py") else f"{name}.sh"


def read_words(variable: str, text: str) -> list[str]:
    """Return the words of muster_read for the text of a process, which the script keeps in this variable."""
    return [f"{variable}+={file}" for file in re.findall(_LINE, text)]


_LINE = r"(?m)^# muster_read (\S+)$"


def texts_of_folder() -> dict[str, str]:
    """Return what the folder holds: the texts of all its files, by their names. A job takes none that lacks its end."""
    return {file_of(name): f"{part(name)}# end\n" for name in sorted(IN_PLACE_OF, key=str)}


def folder_name(texts: Mapping[str, str] | None = None) -> str:
    """Return the name of the folder of these texts, else of those of this version: another one for other texts."""
    whole_text = "\n".join(f"{name}\n{text}" for name, text in (texts_of_folder() if texts is None else texts).items())
    return f"{zlib.crc32(whole_text.encode()):08x}"
