"""What each verb says of a job, whole: its text, its JSON and its status, for jobs of many states and outputs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.stubs import Stub, row
from muster.cli.app import main

GOLDEN = Path(__file__).parent.parent / "golden/looks.txt"
_ON = {"node_list": "node[1-2]", "nodes": "2", "cpus": "8", "time_limit": "1:30:00", "submitted": "1790000000"}
_RAN = {**_ON, "batch": "1", "started": "1790000060", "ended": "1790003660", "partition": "gpu", "account": "chem"}
_WAITS = {"state": "PENDING", "nodes": "4", "time_limit": "30:00", "qos": "long"}
_OUTPUT = """step begins
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
muster: warning: the disk of node1 is full
muster: more of it
hint: remove what is not needed
srun: error: node2: task 3: Exited with exit code 1
"""
# The words for it → the job as Slurm tells it, and its output.
_JOBS: dict[str, tuple[dict[str, str], str | None]] = {
    "is held": ({**_WAITS, "reason": "JobHeldUser", "account": "chem"}, None),
    "waits for another": ({**_WAITS, "reason": "Dependency", "dependency": "afterok:40(unfulfilled)"}, None),
    "waits for what nobody knows": ({**_WAITS, "reason": "NewReason", "started": "1790009999"}, None),
    "runs": ({**_RAN, "state": "RUNNING", "ended": "1790009999"}, "begun\n"),
    "ended well beside a step that failed": ({**_RAN, "state": "COMPLETED"}, _OUTPUT),
    "failed": ({**_RAN, "state": "FAILED", "exit": "1:0", "reason": "NonZeroExitCode"}, _OUTPUT),
    "failed and its output is gone": ({**_RAN, "state": "FAILED", "exit": "127:0"}, None),
    "was killed": ({**_RAN, "state": "FAILED", "exit": "0:9", "reason": "RaisedSignal:9(Killed)"}, "a\n" + "b" * 900),
    "had too little memory": ({**_RAN, "state": "OUT_OF_MEMORY", "exit": "0:125"}, "Killed\n"),
    "lost a node": ({**_RAN, "state": "NODE_FAIL"}, "srun: error: node2: task 3: Exited with exit code 1\n"),
    "was cancelled": (
        {**_RAN, "state": "CANCELLED", "reason": "JobHeldAdmin", "user": "ada", "name": "a\x1b[31mb"},
        "epoch 1\n",
    ),
    "was cancelled as it waited": (
        {**_WAITS, "state": "CANCELLED", "reason": "Priority", "started": "1790003660", "ended": "1790003660"},
        None,
    ),
    "is in a state of tomorrow": ({**_RAN, "state": "TELEPORTING"}, "x\n"),
}
_ASKED = ("jobs", "status 41", "why 41", "logs 41", "logs 41 --rank 3", "why 41 --json", "cancel 41")


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock of Greenwich, as the reader's."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_all_that_is_said_of_a_job(
    tmp_path: Path,
    golden: Callable[[Path, str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stub = Stub.at(tmp_path / "slurm")
    monkeypatch.chdir(tmp_path)
    for name, text in {"PATH": f"{stub.folder}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, text)
    output = tmp_path / "slurm-41.out"

    def told() -> Iterator[str]:
        said_before: dict[str, list[str]] = {}
        for name, (fields, text) in _JOBS.items():
            output.unlink(missing_ok=True)
            if text is not None:
                output.write_text(text)
            stub.say(row(**{"stdout": str(output), **fields}))
            yield f"\n== a job that {name}"
            for words in _ASKED:
                status = main(words.split())
                out, err = capsys.readouterr()
                lines = [*_short(out, words), *(f"! {line}" for line in err.splitlines())]
                if lines != said_before.get(words):  # what is said of many jobs stands once
                    yield f"$ {words}" + (f"  → {status}" if status else "")
                    yield from (f"    {line}".rstrip() for line in lines)
                said_before[words] = lines

    golden(GOLDEN, "\n".join(told()).replace(str(tmp_path), "/home/ada").lstrip() + "\n")


def _short(text: str, words: str) -> list[str]:
    """The lines of an output; of a document what is not null, since a schema has the keys."""
    if not words.endswith("--json"):
        return text.splitlines()
    return [json.dumps({key: each[key] for key in each if each[key] not in (None, [])}) for each in json.loads(text)]
