"""muster.submit(…, here=True): ranks on this machine, with the results, logs and events of a job."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from muster.api import Ended, LocalJob, Running, TookTooLong, submit
from muster.errors import RequestError
from muster.slurm.states import Phase

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")
SCRIPT = """\
import os, sys, time
rank = int(os.environ["RANK"])
print("hello of", rank, flush=True)
if sys.argv[1:] == ["fail"] and rank == 1:
    raise ValueError("a typo of mine")
if sys.argv[1:] == ["stay"]:
    time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/s.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path / "work")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return tmp_path / "work"


def start(*words: str, ranks: int = 2) -> LocalJob:
    return submit([sys.executable, "s.py", *words], here=True, ntasks_per_node=ranks)


def test_it_ends_well_with_the_lines_of_each_rank(folder: Path) -> None:
    job = start()
    result = job.result(timeout=120)
    assert (result.ok, result.status, result.rank, result.cause) == (True, 0, None, None)
    assert sorted(job.logs().splitlines()) == ["0: hello of 0", "1: hello of 1"]
    assert (job.stdout(), job.stdout(1)) == ("hello of 0\n", "hello of 1\n")
    assert result.directory == job.directory
    assert job.directory.parent == folder / "muster-runs"
    assert (job.directory / "plan.json").is_file()
    assert job.state().phase is Phase.ENDED_WELL


def test_the_one_rank_has_all_lines() -> None:
    job = start(ranks=1)
    job.wait(timeout=120)
    assert job.logs() == "0: hello of 0\n"
    assert job.stdout(0) == "hello of 0\n"


def test_the_rank_that_failed_first_is_named_with_its_last_lines() -> None:
    job = start("fail")
    first, end = job.events(timeout=120)
    assert isinstance(first, Running)
    assert isinstance(end, Ended)
    assert (end.result.ok, end.result.status, end.result.rank) == (False, 1, 1)
    # Its output and its errors are two streams: which of their last lines comes last is not promised.
    assert "ValueError: a typo of mine" in end.result.last_lines[-2:]
    assert end.result.cause is not None
    assert end.result.cause.startswith("rank 1 on ")
    assert end.result.cause.endswith(": exit status 1")


def test_it_can_be_waited_for_a_while_and_cancelled() -> None:
    job = start("stay")
    with pytest.raises(TookTooLong, match=r"was not over after 0\.2 s\n\nhint: it goes on"):
        job.wait(timeout=0.2)
    assert job.state().phase is Phase.RUNNING
    while "hello of 1" not in job.logs():
        time.sleep(0.05)
    job.cancel()
    result = job.result(timeout=120)
    assert (result.ok, result.status, result.rank, result.state.name) == (False, 143, None, "CANCELLED")
    job.cancel()


def test_rows_of_a_sweep_are_no_run_of_this_machine() -> None:
    with pytest.raises(RequestError, match="here=True starts one run"):
        submit(["echo", "{lr}"], here=True, sweep=[{"lr": 1}, {"lr": 2}])


def test_several_are_awaited_at_once() -> None:
    async def both() -> list[bool]:
        return [result.ok for result in await asyncio.gather(start(ranks=1), start("fail"))]

    assert asyncio.run(both()) == [True, False]
