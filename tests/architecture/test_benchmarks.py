"""The benchmarks run rarely: what they take from the sources has to be there all the same."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_rows_that_need_no_lab_are_measured() -> None:
    """The prologue of a rank, whole plans and scripts, and ports beside squatters: counts and figures, but no bar."""
    benchmark = runpy.run_path(str(ROOT / "benchmarks/launch.py"))
    rows = [*benchmark["task_rows"](1, starts=1), *benchmark["pure_rows"](), benchmark["port_row"](8)]
    assert [row.figure.endswith("ms") for row in rows] == [True, True, True, False]
    assert rows[-1].held, rows[-1]
