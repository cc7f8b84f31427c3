"""A run whose rank has failed is over when its ranks are: nobody waits for what would have ended them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.labs import Lab

from .lab_runs import muster_run

pytestmark = pytest.mark.lab


def test_who_reads_a_failed_runs_output_does_not_wait_for_the_grace_time(lab: Lab, shared_directory: Path) -> None:
    words = [*("-N", "2", "--grace", "3000", "--"), "sh", "-c", "exit 3"]
    assert muster_run(lab, shared_directory, *words).status == 3
