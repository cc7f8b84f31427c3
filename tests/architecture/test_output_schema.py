"""output.schema.json describes what `--json` prints: real outputs are read with the types that it is made from."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.stubs import Stub, row
from muster.cli.command_line import CommandLine
from muster.cli.verbs import VERBS, command_of
from plugins.forked import run_muster
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


def with_json(command: CommandLine) -> Iterator[str]:
    """The names of the verbs that have --json."""
    if any("--json" in option.flags for option in command.options):
        yield command.name
    for verb in command.verbs:
        yield from with_json(verb)


def test_every_verb_with_json_has_a_schema() -> None:
    names = {name for verb in VERBS for name in with_json(command_of(verb))}
    # What `site check` prints changes still; `lab up` prints what `lab status` does.
    assert names - set(schemas.OUTPUTS) == {"site check", "lab up"}


def test_a_key_that_the_schema_lacks_is_noticed() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `x`"):
        read("cancel", '{"cancelled": [], "over": [], "x": 1}')
    with pytest.raises(msgspec.ValidationError, match="missing required field `over`"):
        read("cancel", '{"cancelled": []}')


@pytest.mark.parametrize("verb", ["docs", "site list"])
def test_what_needs_no_slurm(verb: str) -> None:
    done = run_muster([*verb.split(), "--json"], env=os.environ)
    assert len(read(verb, done.stdout)) > 20


SCRIPT_OF_OTHERS = """#!/bin/bash
#SBATCH -N 2 --gres=gpu:4
#SBATCH --time=99:99:99:99
srun torchrun --nnodes 2 --nproc-per-node 4 --rdzv-endpoint=$HOSTNAME:29500 train.py
"""
LOG = """[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
node1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
srun: error: node2: task 3: Exited with exit code 1
"""


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("lint", "lint job.sh"),
        ("port", "port job.sh"),
        ("port", "port job.sh --site lumi"),
        ("check", "check"),
        ("check --log", "check --log job.log"),
        ("site show", "site show lumi"),
        ("site detect", "site detect"),
        ("clean", "clean"),
        ("build lock", "build lock --requirements r.txt"),
        ("plan", "plan -N 2 -g 8 -A a -t 30 --site lumi -- python train.py"),
        ("plan", "plan -N 2 -g 4 -t 30 --restart 2 --spares 1 --launcher torchrun --site generic -- python train.py"),
        (
            "plan",
            "plan --until-done -t 60 --checkpoint c --stage-out out:/s --env A={job_id} --env B -- python train.py",
        ),
        ("plan", "plan --here --ntasks-per-node 2 -- python train.py"),
    ],
)
def test_what_reads_files_only(verb: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT_OF_OTHERS)
    (tmp_path / "job.log").write_text(LOG)
    (tmp_path / "r.txt").write_text("numpy==2.0.0\n")
    (tmp_path / "train.py").write_text("import torch.distributed as dist\n")
    done = run_muster(
        [*words.partition(" -- ")[0].split(), "--json", *_after_dashes(words)],
        env={**os.environ, "HOME": str(tmp_path), "B": "secret"},
        cwd=tmp_path,
    )
    assert done.stdout, done.stderr
    assert read(verb, done.stdout) is not None


def _after_dashes(words: str) -> list[str]:
    _, dashes, command = words.partition(" -- ")
    return ["--", *command.split()] if dashes else []


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
        done = run_muster([verb, *([] if verb == "jobs" else ["41"]), "--json"], env=environment, cwd=tmp_path)
        assert done.ok, done.stderr
        (job,) = read(verb, done.stdout)
        assert (job.job, job.state) == ("41", fields["state"])


def test_a_job_that_is_queued_and_cancelled(tmp_path: Path) -> None:
    stub = Stub.at(tmp_path / "slurm")
    stub.say("EMPTY")
    environment = {**os.environ, "PATH": f"{stub.folder}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    words = ("-N", "1", "-t", "5", "--", "true")
    plain = run_muster(["submit", *words], env=environment, cwd=tmp_path)
    assert (plain.stdout, plain.status) == ("41\n", 0), plain.stderr
    done = run_muster(["submit", "--json", *words], env=environment, cwd=tmp_path)
    queued = read("submit", done.stdout)
    assert (queued.job, Path(queued.directory).parent.parent) == ("41", tmp_path), done.stderr


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


@pytest.mark.lab
def test_what_a_cluster_answers_and_a_lab(ask: Callable[..., str], lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "wait.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    words = ("-N", "2", "--ntasks-per-node", "1", "-t", "5", "--", "python3", "wait.py")
    submitted = read("submit", ask("submit", "--json", *words))
    assert Path(submitted.directory).is_dir()
    _wait_for(lambda: "up" in ask("logs", submitted.job))
    stacks = read("stacks", ask("stacks", submitted.job, "--json"))
    assert {rank for group in stacks.groups for rank in group.ranks} == {0, 1}
    (job,) = read("why", ask("why", submitted.job, "--json"))
    assert job.running is not None
    assert read("cancel", ask("cancel", submitted.job, "--json")).cancelled == [submitted.job]
    assert isinstance(read("nodes", ask("nodes", "--json")), list)
    assert read("nodes --clear", ask("nodes", "--clear", "--json")).cleared == []
    assert isinstance(read("clean", ask("clean", "--json")), list)
    status = read("lab status", lab.muster("status", "--json").stdout)
    assert [host.faults for host in status.hosts] == [[]] * len(status.hosts)


def _wait_for(has_come: Callable[[], bool]) -> None:
    while not has_come():
        time.sleep(0.2)
