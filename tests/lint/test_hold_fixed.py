"""Guards `scripts/hold_fixed.py`: a repair that changes what a script does is seen."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from muster_lint import fix
from muster_lint.read import source_of

_SPEC = importlib.util.spec_from_file_location("hold_fixed", Path(__file__).parents[2] / "scripts/hold_fixed.py")
assert _SPEC is not None
assert _SPEC.loader is not None
hold_fixed = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hold_fixed)

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap: no script runs without its box"),
]

_SCRIPT = (
    "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=4 --time=10\n"
    "cd /proj\nexport DATA=/data\necho one > notes\nsrun python train.py --lr 1\n"
)


def _hold(text: str) -> tuple[str, str]:
    held = hold_fixed.hold(source_of("job.sbatch", text))
    assert held is not None
    return held[0], held[1]


def test_a_repair_that_keeps_what_a_script_does_is_the_same() -> None:
    assert _hold(_SCRIPT)[0] == "same"


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ("--lr 1", "--lr 2", "words"),
        ("python train.py --lr 1", "python train.py", "words"),
        ("DATA=/data", "DATA=/other", "DATA"),
        ("export DATA=/data\n", "", "DATA"),
        ("cd /proj", "cd /else", "/else"),
        ("ntasks-per-node=2", "ntasks-per-node=3", "4 ranks before, 6 after"),
        ("echo one > notes\n", "", "files"),
        ("--lr 1\n", "--lr 1\nexit 3\n", "status 0 before, 3 after"),
    ],
)
def test_a_repair_that_does_something_else_differs(
    old: str, new: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fix.fixed_text
    monkeypatch.setattr(fix, "fixed_text", lambda text, findings: whole(text, findings).replace(old, new))
    word, why = _hold(_SCRIPT)

    assert word == "differs"
    assert seen in why


def test_a_script_without_a_repair_is_not_held() -> None:
    assert hold_fixed.hold(source_of("job.sbatch", "#!/bin/bash\n#SBATCH --time=10\ntrue\n")) is None
