"""One wrong bit anywhere in what a collective left is found and placed: every injected one, in every type.

The ranks really run the collectives; the bit is flipped in the memory that came out, as a bad link would.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

INJECT = Path(__file__).with_name("inject.py")


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_injected_bit_is_found_at_its_place_and_no_other(tmp_path: Path, ranks: int) -> None:
    command = [sys.executable, "-m", "muster", "run", "--here", "--no-label", "-N", "1"]
    words = [*command, "--ntasks-per-node", str(ranks), "--", sys.executable, str(INJECT), "50"]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    counted = re.findall(r"injected ([0-9]+) found ([0-9]+?)(?=injected|\n|$)", done.stdout)
    assert counted == [("200", "200")] * ranks
