"""Wide tests: one claim over every pair of sites, launchers and images, or over random text.

`make test-fast` runs a sample: the same claim, over a few of its cases. `make test` runs all cases, or a larger sample
where the whole takes long: the rest then belongs to `make test-long`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Union

import pytest

__all__ = ["sampled"]


Sample = Union[int, Callable[[Any], bool]]


def sampled(cases: Iterable[Any], *, keep: Sample, test: Sample = 1) -> list[Any]:
    """Return the cases, all but a sample of them marked as wide: one case of `keep`, or those that `keep` chooses.

    `test`: the sample of `make test`, in the same way; what is in neither is long. Without it `make test` has all.
    """
    return [
        case
        if _is_in(keep, number, case)
        else _marked(case, pytest.mark.wide)
        if _is_in(test, number, case)
        else _marked(case, pytest.mark.wide, pytest.mark.long)
        for number, case in enumerate(cases)
    ]


def _is_in(sample: Sample, number: int, case: Any) -> bool:
    return sample(case) if callable(sample) else number % sample == 0


def _marked(case: Any, *more: pytest.MarkDecorator) -> Any:
    values, marks, name = (case.values, case.marks, case.id) if hasattr(case, "marks") else ((case,), (), None)
    return pytest.param(*values, marks=[*marks, *more], id=name)
