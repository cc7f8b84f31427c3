"""output.schema.json describes what `--json` prints: real outputs are read with the types that it is made from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.stubs import Stub, row
from plugins.labs import MUSTER, Lab

from .paths import ROOT

sys.path.append(str(ROOT / "scripts"))
import make_output_schema as schemas  # its types are looked up by the name of their module

SCRIPT = "echo hello of $RANK; [ $MUSTER_ATTEMPT = 2 ] || [ $RANK = 0 ] || exit 7"


def read(verb: str, text: str) -> Any:
    """Return the output of a verb; a key too many, one that lacks, or another type is an error."""
    if verb == "logs":
        return [msgspec.json.decode(line, type=schemas.OUTPUTS[verb]) for line in text.splitlines()]
    return msgspec.json.decode(text, type=schemas.OUTPUTS[verb])


def test_the_file_is_the_one_that_is_made() -> None:
    assert schemas.PAGE.read_text() == schemas.schema()
    document = json.loads(schemas.schema())
    assert set(document["properties"]) == set(schemas.OUTPUTS)
    assert document["$defs"]["Job"]["additionalProperties"] is False
    assert "attempts" in document["$defs"]["WhyJob"]["required"]


def test_a_key_that_the_schema_lacks_is_noticed() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `x`"):
        read("cancel", '{"cancelled": [], "over": [], "x": 1}')
    with pytest.raises(msgspec.ValidationError, match="missing required field `over`"):
        read("cancel", '{"cancelled": []}')


@pytest.mark.parametrize("verb", ["docs", "site list"])
def test_what_needs_no_slurm(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "muster", *verb.split(), "--json"], capture_output=True, text=True, check=True
    )
    assert len(read(verb, done.stdout)) > 20


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "PENDING", "reason": "Priority"},
        {"state": "COMPLETED", "node_list": "node[1-2]"},
        {"state": "FAILED", "exit": "7:0", "node_list": "node[1-2]", "reason": "NonZeroExitCode"},
        {"state": "NEWWORD"},
    ],
)
def test_a_job_that_slurm_tells_of(fields: dict[str, str], tmp_path: Path) -> None:
    stub = Stub.at(tmp_path / "slurm")
    stub.say(row(**fields))
    environment = {**os.environ, "PATH": f"{stub.folder}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for verb in ("jobs", "status", "why"):
        words = [sys.executable, "-m", "muster", verb, *([] if verb == "jobs" else ["41"]), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        (job,) = read(verb, done.stdout)
        assert (job.job, job.state) == ("41", fields["state"])


@pytest.fixture
def ask(lab: Lab, shared_directory: Path) -> Callable[..., str]:
    def ask(*words: str) -> str:
        done = lab.exec(["env", f"XDG_STATE_HOME={shared_directory}/state", MUSTER, *words], cwd=shared_directory)
        assert done.ok, done.stderr
        return done.stdout

    return ask


@pytest.mark.lab
def test_a_real_job_from_the_queue_to_its_end(ask: Callable[..., str]) -> None:
    held = ask(
        "submit", "--quiet", "-N", "2", "--ntasks-per-node", "1", "-t", "5", "--sbatch=--hold", "--", "true"
    ).strip()
    (job,) = read("why", ask("why", held, "--json"))
    assert job.waiting.code == "JobHeldUser"
    assert read("cancel", ask("cancel", held, "--json")).cancelled == [held]
    words = ("-N", "2", "--ntasks-per-node", "1", "-t", "5", "--restart", "1", "--", "sh", "-c", SCRIPT)
    tried = ask("submit", "--quiet", *words).strip()
    ask("logs", "-f", tried)
    (job,) = read("why", ask("why", tried, "--json"))
    assert job.attempts[0].status == 7
    assert {line.text for line in read("logs", ask("logs", tried, "--json")) if line.rank == 1} == {"hello of 1"}
    assert tried in {each.job for each in read("jobs", ask("jobs", "--json"))}
    assert [each.is_default for each in read("queues", ask("queues", "--json"))].count(True) == 1
