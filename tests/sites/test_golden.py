"""What each site makes of one GPU, of one node and of several: the header, and every other line that its profile
brings, with reason and document. What all scripts share is in tests/golden/*.sh. `pytest --update-golden` writes the
files anew and fails once.
"""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

import pytest

from launch.plans import plan
from muster.errors import MusterError
from muster.model.plan import Plan
from muster.render.explain import explain, plan_as_text, reason_as_text

from .profiles import SITES, bundled

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "sites"
SIZES = ("one-gpu", "one-node", "four-nodes")


def plan_of(name: str, size: str) -> Plan:
    """The plan of the job on the site's page, in this size."""
    page = (ROOT / "docs" / "sites" / f"{name}.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("muster plan "))
    words = shlex.split(line)[4 : shlex.split(line).index("--as")]
    gpus = next(iter(bundled(name).profile.nodes.values())).gpus or 1
    nodes, asked = {"one-gpu": (1, 1), "one-node": (1, gpus), "four-nodes": (4, gpus)}[size]
    words[words.index("-N") + 1] = str(nodes)
    words[words.index("-g") + 1] = str(asked)
    return plan(*words, "--", "python", "train.py", site=name)


def told(made: Plan) -> str:
    """The header, and what else comes from the site."""
    lines = []
    for section, text, reason in explain(made):
        ours = section == "header" and not text.startswith(("#SBATCH --comment", "#SBATCH --export"))
        if ours or (section != "condition" and reason.origin.startswith("site ")):
            lines.append(f"{section}: {text}\n    {reason_as_text(reason)}\n")
    return "".join(lines)


def same_as_golden(path: Path, made: str, request: pytest.FixtureRequest) -> None:
    """Compare, and write anew where that was asked for."""
    kept = path.read_text() if path.exists() else ""
    if made != kept and request.config.getoption("--update-golden"):
        path.write_text(made)
    difference = "".join(difflib.unified_diff(kept.splitlines(True), made.splitlines(True), "golden", "made"))
    assert made == kept, f"{difference}\nhint: pytest --update-golden, then read the difference"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SITES)
def test_the_reasons_are_the_golden_ones(name: str, size: str, request: pytest.FixtureRequest) -> None:
    try:
        made = told(plan_of(name, size))
    except MusterError as error:
        made = f"refused: {error.message}\nhint: {error.hint}\n"
    same_as_golden(GOLDEN / f"{name}-{size}.txt", made, request)


def test_a_part_of_a_node_has_no_masks_and_a_whole_one_has() -> None:
    assert "mask_cpu" not in plan_as_text(plan_of("lumi", "one-gpu"))
    assert "mask_cpu:0xfe000000000000,0xfe00000000000000" in plan_as_text(plan_of("lumi", "one-node"))


def test_no_golden_file_is_left_over() -> None:
    wanted = {f"{name}-{size}.txt" for name in SITES for size in SIZES}
    assert {path.name for path in GOLDEN.glob("*.txt")} == wanted
