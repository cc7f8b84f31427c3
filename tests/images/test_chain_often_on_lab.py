"""Jobs in an image that Slurm ends go on in exactly one next link or attempt, where they saved: many at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from finish.chains import HOSTS, KINDS, SETTINGS, go_on_side_by_side
from muster.runner import checked
from plugins.labs import Lab, Person, lab_up

from .conftest import Images

pytestmark = [pytest.mark.lab, pytest.mark.long]

_COUNT = int(os.environ.get("MUSTER_TEST_CHAINS", "20"))
_KINDS = tuple(os.environ.get("MUSTER_TEST_KINDS", ",".join(KINDS)).split(","))


@pytest.fixture(scope="module")
def mixed_lab(tester: Person, slurm_version: str) -> Iterator[Lab]:
    """Hosts for each way in which Slurm ends a job."""
    with lab_up(tester, "mixed", *HOSTS, "--slurm", slurm_version) as made:
        checked(made.exec(["sh", "-c", SETTINGS]))
        yield made


def test_each_goes_on_once_where_it_saved(
    mixed_lab: Lab, images: Images, image_with_torch: tuple[str, ...], shared_directory: Path
) -> None:
    """The image's Python is this machine's."""
    words = image_with_torch
    assert go_on_side_by_side(mixed_lab, shared_directory, _KINDS, "srun", _COUNT, *words, path=images.path) == []
