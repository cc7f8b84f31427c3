"""submitit's functions run over two hosts, launched by Muster through the executor of examples/."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from plugins.labs import MUSTER, Lab

pytestmark = [pytest.mark.lab, pytest.mark.torch]
EXAMPLE = Path(__file__).parents[2] / "examples/submitit_muster.py"
PROGRAM = """\
import json, os, sys
from submitit import JobEnvironment
from submitit_muster import MusterExecutor


def where(factor):
    place = JobEnvironment()
    print("rank", place.global_rank)
    return factor * 10 + place.global_rank, place.num_tasks, os.environ["WORLD_SIZE"]


def fail():
    raise ValueError("on purpose")


executor = MusterExecutor("log of jobs")
executor.update_parameters(nodes=2, ntasks_per_node=1, time=10)
job = executor.submit(where, 4)
both = job.results()
executor.update_parameters(nodes=1)
one = [each.result()[0] for each in executor.map_array(where, [1, 2])]
failed = repr(executor.submit(fail).exception())
executor.update_parameters(wckey="a")
try:
    executor.submit(where, 1)
except ValueError as error:
    refused = str(error)
print(json.dumps([both, "rank 0" in job.stdout(), one, failed, refused]))
"""


def test_functions_of_submitit_run_over_two_hosts_and_bring_their_results(lab: Lab, shared_directory: Path) -> None:
    pytest.importorskip("submitit")
    shutil.copy(EXAMPLE, shared_directory)
    (shared_directory / "program.py").write_text(PROGRAM)
    path = f"PATH={Path(MUSTER).parent}:/usr/bin:/bin"

    said = lab.exec(["env", "-C", str(shared_directory), path, sys.executable, "program.py"], timeout_s=300)

    assert said.ok, said.stdout + said.stderr
    both, stdout, one, failed, refused = json.loads(said.stdout.splitlines()[-1])
    assert both == [[40, 2, "2"], [41, 2, "2"]]
    assert stdout
    assert one == [10, 20]
    assert "ValueError: on purpose" in failed
    assert refused.endswith("not wckey")
