"""WHAT WILL HAPPEN AND WHY: a frozen value, made of request, site and facts. Pure.

`muster.plan(command, …)` is a call of this room, which has that name too: it is `muster.api.plan`.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePlan(ModuleType):
    def __call__(self, *words: Any, **options: Any) -> Any:
        return sys.modules["muster"].from_login_side("plan")(*words, **options)


sys.modules[__name__].__class__ = _CallablePlan
