"""Wide tests: one claim over every pair of sites, launchers and images, or over random text.

`make test` runs all of them. `make test-fast` runs a sample: the same claim, over a few of its cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["sampled"]


def sampled(cases: Iterable[Any], *, keep: int | Callable[[Any], bool]) -> list[Any]:
    """Return the cases, all but a sample of them marked as wide: one case of `keep`, or those that `keep` chooses."""
    chooses = keep if callable(keep) else None
    every = 1 if callable(keep) else keep
    return [
        case if (chooses(case) if chooses else number % every == 0) else _as_wide(case)
        for number, case in enumerate(cases)
    ]


def _as_wide(case: Any) -> Any:
    values, marks = (case.values, case.marks) if hasattr(case, "marks") else ((case,), ())
    return pytest.param(*values, marks=[*marks, pytest.mark.wide])
