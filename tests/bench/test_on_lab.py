"""On four real hosts of a lab: the host behind a slow link is named, and a queued series leaves its results."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from architecture.test_output_schema import read as read_json
from plugins.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.torch]

BENCH = (sys.executable, "-m", "muster", "bench", "-N", "4", "--no-history", "--quiet", "--json")
WITH_TORCH = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # the ranks' python


def test_the_host_behind_a_slow_link_is_named_and_a_queued_series_is_read(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "4")
    assert lab.muster("fault", "slow-link", "node3", "200mbit").ok
    pairs = ("--parts", "pairs", "--pair-size", "1MiB", "--trials", "3")
    done = lab.exec([*BENCH, *pairs], cwd=shared_directory, env=WITH_TORCH)
    assert done.status == 1, done.stderr
    read_json("bench", done.stdout)
    document = json.loads(done.stdout)
    named = [one["text"].partition(":")[0] for one in document["findings"] if one["what"] == "slow node"]
    # On a busy machine others may be slow too, but none as slow.
    assert named[:1] == ["node3"]
    assert lab.muster("fault", "restore").ok

    order = ("--parts", "nodes", "--collective", "all_reduce", "--sizes", "64KiB", "--trials", "3")
    queued = lab.exec([*BENCH[:6], "--submit", "-g", "0", *order], cwd=shared_directory, env=WITH_TORCH)
    assert queued.ok, queued.stderr
    [directory] = [path for path in (shared_directory / "muster-runs").iterdir() if path.is_dir()]
    results = directory / "bench.jsonl"
    for _ in range(120):
        if results.exists() and '"kind": "end"' in results.read_text():
            break
        time.sleep(0.5)
    read = lab.exec([*BENCH[:4], "--json", "--read", str(directory)], cwd=shared_directory, env=WITH_TORCH)
    assert read.ok, read.stderr
    assert {row["nodes"] for row in json.loads(read.stdout)["rows"]} == {2, 4}
