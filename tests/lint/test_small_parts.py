"""Small parts of the reader of scripts, at their edges."""

from __future__ import annotations

import pytest

from muster.errors import RequestError
from muster_lint.job import read_job
from muster_lint.port.guards import is_guarded
from muster_lint.read import source_of
from muster_lint.values import TextSpan


def test_no_line_stands_before_the_first() -> None:
    assert not is_guarded(["cd x", "true &&"], TextSpan(1, 1, 1, 5))


def test_a_script_whose_first_line_names_no_program_is_refused() -> None:
    with pytest.raises(RequestError, match="is a strange script"):
        source_of("job", "#!/\necho\n")


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ("--ntasks=2 --ntasks-per-node=1", 2),
        ("--ntasks=8 --ntasks-per-node=4", 2),
        ("--ntasks=3 --ntasks-per-node=2", None),  # two or three
        ("--ntasks=8", None),
        ("--ntasks-per-node=4", None),
        ("--nodes=4 --ntasks=2 --ntasks-per-node=1", 2),
        ("--nodes=1-4 --ntasks=4 --ntasks-per-node=1", None),
    ],
)
def test_nodes_follow_from_the_tasks_where_the_header_names_none(options: str, nodes: int | None) -> None:
    assert read_job("job.sh", f"#!/bin/bash\n#SBATCH {options}\ndate\n").nodes == nodes
