"""Every option that an sbatch of each version shows is known by name: a new one is not taken for a misspelt old one."""

from __future__ import annotations

import re

import pytest

from muster.slurm.flags import SlurmFlag, unknown_flags
from plugins.labs import Lab

pytestmark = pytest.mark.lab


def test_no_option_of_this_sbatch_is_called_misspelt(lab: Lab) -> None:
    shown = lab.exec(["sbatch", "--help"])
    assert shown.ok, shown.stderr
    names = set(re.findall(r"--([a-z0-9][a-z0-9-]+)", shown.stdout)) - {"help", "usage", "version"}
    assert len(names) > 80
    assert list(unknown_flags([SlurmFlag(name, None, f"--sbatch=--{name}") for name in sorted(names)])) == []


def test_a_misspelt_one_is() -> None:
    (said,) = unknown_flags([SlurmFlag("reservaton", "x", "--sbatch=--reservaton=x")])
    assert "sbatch has no --reservaton: did you mean" in said
    assert "reservation" in said
