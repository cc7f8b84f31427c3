"""Plan → JSON. Pure, and apart from the explanation: every submission needs it, and few need the reasons."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

import msgspec

from muster.model.plan import Plan
from muster.model.words import Fragment, Hidden


def plan_as_json(plan: Plan) -> str:
    """Return what `plan --as json` prints and the run directory keeps."""
    text = json.dumps({"schema": 1, **_value(plan)}, indent=2, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace").decode()  # a byte that is not UTF-8 is \\udcXX in JSON, and valid


def _value(thing: Any) -> Any:
    if isinstance(thing, Fragment):
        return {"shell": thing.text}
    if isinstance(thing, Hidden):
        return {"hidden": True}
    if isinstance(thing, Enum):
        return thing.value
    if isinstance(thing, msgspec.Struct):
        return {name: _value(getattr(thing, name)) for name in thing.__struct_fields__}
    if isinstance(thing, (tuple, list)):
        return [_value(item) for item in thing]
    return thing
