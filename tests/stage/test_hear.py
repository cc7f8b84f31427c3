"""What the batch script makes of a helper that ends before it answers: its last words, and never an empty reason."""

from __future__ import annotations

import pytest

from muster.render.parts import part
from muster.runner import run


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("srun: error: no such step\n\n   \n", "srun: error: no such step"),
        ("first\nsecond line\there  \n", "second line here"),
        ("\n", "a node does not answer"),
        ("", "a node does not answer"),
        ("muster-stage\tnode1\tstart\tfull\n", "/tmp/x on node1 is full, or you cannot write there"),
    ],
)
def test_the_last_words_of_a_helper_are_the_reason(said: str, trouble: str) -> None:
    script = f"""{part("stage")}
exec {{muster_stage_from}}<&0
muster_stage_nodes=1 muster_stage_top=/tmp/x muster_stage_trouble=
muster_stage_hear start ready
printf '<%s>' "$muster_stage_trouble"
"""
    assert run(["bash", "-c", script], stdin=said).stdout == f"<{trouble}>"
