"""Guards that the options of a hint lead to a queue which takes the request as it was typed."""

from __future__ import annotations

import pytest

from launch.plans import plan
from muster.errors import RequestError


@pytest.mark.parametrize(
    ("site", "words", "hint"),
    [
        ("trillium", "-A def-ada -t 200 -p debug", "--time 02:00:00"),
        ("meluxina", "-A p200000 -N 2 -g 4 -t 3000 -c 8", "-p gpu -q long, or --time 2-00:00:00"),
        ("horeka", "-g 4 -N 2 -t 3-1", "-p gpu-h200 (Muster does not know its limit of time), or --time 2-00:00:00"),
        ("juwels-booster", "-A proj -N 17 -t 200 -c 16", "--cpus-per-task 12"),
    ],
)
def test_no_queue_is_named_that_would_be_refused(site: str, words: str, hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        plan(*words.split(), "--", "python", "train.py", site=site)
    assert [each.hint for each in caught.value.refusals] == [hint]


def test_the_options_that_are_named_are_taken() -> None:
    words = "-A p200000 -N 2 -g 4 -t 3000 -c 8 -p gpu -q long -- python train.py"
    assert plan(*words.split(), site="meluxina").directives
