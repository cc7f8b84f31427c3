"""WHAT you ask for: options (one field, one option, one help line) and the request made of them.

`muster.job(ID)` is a call of this room, which has that name too: it is `muster.api.job`.
"""

import sys
from types import ModuleType
from typing import Any


class _CallableJob(ModuleType):
    def __call__(self, *words: Any, **options: Any) -> Any:
        return sys.modules["muster"].from_login_side("job")(*words, **options)


sys.modules[__name__].__class__ = _CallableJob
