"""Agents that start their ranks again themselves: torchrun's, and NVIDIA's where it is installed."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from muster.runner import run
from plugins.labs import MUSTER

pytestmark = pytest.mark.torch

_RANK = """\
echo "start $TORCHELASTIC_RESTART_COUNT of $RANK"
[ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ] || exit 7
"""


@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("ft", marks=pytest.mark.long)])
def test_the_agent_starts_its_ranks_again(launcher: str, tmp_path: Path) -> None:
    if launcher == "ft" and find_spec("nvidia_resiliency_ext") is None:
        pytest.skip("by design: nvidia-resiliency-ext is not installed")
    (tmp_path / "rank.sh").write_text(_RANK)
    words = ("run", "--here", "--quiet", "-N", "1", "--ntasks-per-node", "2", "--launcher", launcher)
    own_first = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = run([MUSTER, *words, "--torchrun=--max-restarts=1", "--", "sh", "rank.sh"], env=own_first, cwd=tmp_path)

    assert result.status == 0, result.stderr
    lines = sorted(line for line in result.stdout.splitlines() if "start" in line)
    assert {"0: start 1 of 0", "1: start 1 of 1"} <= set(lines)
    assert "1: start 0 of 1" in lines
