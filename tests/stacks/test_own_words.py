"""What torch's flight recorder and NCCL's RAS hold of ranks that wait → one sentence: who did not come, to what.

No NCCL runs here. Its records are made from facts. The format of an entry of NCCL is that of pytorch/tutorials,
unstable_source/flight_recorder_tutorial.rst (version 2.5). The lines of RAS are those of the NCCL user guide
(docs.nvidia.com/deeplearning/nccl, "RAS", 2.24 to 2.31) and of NVIDIA/nccl issues 1911 (NCCL 2.26.2) and 1762 (2.27.3).
The records of gloo are torch's own, of a world that runs here, and torch's own analyser is asked of them too.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.runner import DEVNULL, end_group, run, start
from muster_check.stacks.ask import StackQuestion, ask_here, jobs_here
from muster_check.stacks.own_words import own_words
from muster_check.stacks.ras import read_ras
from muster_check.stacks.read import RankStack
from muster_check.stacks.record import read_record, what_records_say
from stacks.answers import read_answers

MUSTER = str(Path(sys.executable).with_name("muster"))


def _entry(
    number: int, name: str = "all_reduce", sizes: object = ((3, 4),), group: str = "default_pg"
) -> dict[str, Any]:
    return {
        "record_id": number - 1,
        "pg_id": 0,
        "process_group": ("0", group),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{name}",
        "input_sizes": sizes,
        "state": "scheduled",
        "is_p2p": False,
        "time_discovered_started_ns": None,
    }


def _rank(rank: int, *entries: dict[str, Any], form: str = "pickle") -> RankStack:
    record: dict[str, Any] = {"version": "2.5", "pg_config": {}, "entries": list(entries)}
    text = json.dumps([record]) if form == "json" else base64.b64encode(pickle.dumps(record)).decode()
    return RankStack(rank, 3, "node1", 1, "S", record=f"{form} {text}")


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_rank_that_did_not_come_is_named_with_the_collective(form: str) -> None:
    there = [_entry(1), _entry(2), _entry(3, "_all_gather_base", ((8,),))]
    stacks = [_rank(0, *there, form=form), _rank(1, *there[:2], form=form), _rank(2, *there, form=form)]
    said = "torch's record: rank 1 has not come to collective 3, _all_gather_base of 8, which ranks 0,2 have begun"
    assert what_records_say(stacks) == said
    assert own_words(stacks) == (said,)


def test_the_records_of_two_roles_are_of_two_worlds() -> None:
    there = [_entry(1), _entry(2)]
    server = msgspec.structs.replace(_rank(0, _entry(1)), role="serve")
    trainers = [msgspec.structs.replace(_rank(rank, *there), role="train") for rank in (0, 1)]
    assert own_words([server, *trainers]) == ()
    late = msgspec.structs.replace(_rank(1, _entry(1)), role="train")
    (sentence,) = own_words([server, trainers[0], late])
    assert sentence.startswith("role train: torch's record: rank 1 has not come to collective 2, ")


def test_a_call_that_differs_is_named() -> None:
    def said(other: dict[str, Any]) -> str | None:
        return what_records_say(
            [_rank(0, _entry(1), _entry(2)), _rank(1, _entry(1), other), _rank(2, _entry(1), _entry(2))]
        )

    begin = "torch's record: collective 2: rank 1 calls"
    assert said(_entry(2, "broadcast")) == f"{begin} broadcast of 3×4, ranks 0,2 all_reduce of 3×4"
    assert said(_entry(2, sizes=((3, 5),))) == f"{begin} all_reduce of 3×5, ranks 0,2 all_reduce of 3×4"
    assert said(_entry(2)) is None


def test_what_may_differ_is_no_difference() -> None:
    uneven = [_rank(0, _entry(1, "all_to_allv", ((1,),))), _rank(1, _entry(1, "all_to_allv", ((9,),)))]
    assert what_records_say(uneven) is None
    # The buffer of a rank holds the newest entries alone.
    assert what_records_say([_rank(0, *map(_entry, range(1, 50))), _rank(1, *map(_entry, range(40, 50)))]) is None
    # Who is not in a group has no record of it.
    assert (
        what_records_say([_rank(0, _entry(1, group="mesh_tp")), _rank(1, _entry(1)), _rank(2, _entry(1))]) is not None
    )


def test_what_is_no_record_is_passed_over() -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("exit 3",)

    harm = base64.b64encode(pickle.dumps(Harm())).decode()
    for text in ("", "json", "json {", "pickle !", f"pickle {harm}", "pickle gASVCgAAAA=="):
        assert read_record(text) is None
    assert read_record('json ["RuntimeError: no"]') == {}


_SUMMARY = """\
NCCL version 2.26.2 compiled with CUDA 12.6

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======

{errors}
Warnings
========

{warnings}"""
_COMM = "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different {} operation counts\n"
_PART = "  {} ranks have launched up to operation {}\n"
_PLACE = "  Rank {} -- GPU {} managed by process {} on node {}\n"


@pytest.mark.parametrize(
    ("errors", "warnings", "said"),
    [
        ("", "", []),
        (
            "",
            _COMM.format("collective") + _PART.format(29, 6650) + _PART.format(3, 6649)
            + "".join(_PLACE.format(rank, rank, 4000 + rank, "172.16.64.210") for rank in (0, 2, 3)),
            ["NCCL says: ranks 0,2-3 on 172.16.64.210 are at collective 6649, 29 others at 6650"],
        ),
        (
            "",
            _COMM.format("AllGather") + _PART.format(30, 640) + _PART.format(2, 641)
            + _PLACE.format(12, 4, 323032, "10.137.190.124") + _PLACE.format(13, 5, 323033, "10.137.190.124"),
            ["NCCL says: ranks 12-13 on 10.137.190.124 are at AllGather 641, 30 others at 640"],
        ),
        (
            "",
            _COMM.format("AllReduce") + _PART.format(7, 64)
            + "  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1\n",
            ["NCCL says: rank 7 on node1 is at AllReduce 60, 7 others at 64"],
        ),
        (
            ("INCOMPLETE\n  Missing communicator data from 1 job process\n"
            "  Process 60004 on node 10.4.109.13 managing GPU 0\n\n"
            "#0-0 (b3398875b8b2a063) INCOMPLETE\n  Missing communicator data from 1 rank\n"
            "  Rank 1 -- GPU 0 managed by process 60004 on node 10.4.109.13\n"),
            "",
            [
                "NCCL says: process 60004 on 10.4.109.13 does not answer",
                "NCCL says: rank 1 on 10.4.109.13 does not answer",
            ],
        ),
        (
            ("DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
            "  Process 3487984 on node 172.16.64.213 managing GPU 5\n"),
            "",
            ["NCCL says: process 3487984 on 172.16.64.213 is dead"],
        ),
    ],
)  # fmt: skip
def test_the_text_of_nccl_s_own_watch(errors: str, warnings: str, said: list[str]) -> None:
    assert list(read_ras(_SUMMARY.format(errors=errors, warnings=warnings))) == said


_WORLD = """\
import os, pickle, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for _ in range(2):
    dist.all_reduce(torch.ones(5))
from torch._C._distributed_c10d import _dump_fr_trace
if rank == 1 and sys.argv[1] == "late":
    time.sleep(600)
import threading
def dump():
    time.sleep(1)
    with open("trace_" + str(rank), "wb") as file:
        file.write(_dump_fr_trace())
threading.Thread(target=dump, daemon=True).start()
if rank == 1 and sys.argv[1] == "shape":
    dist.broadcast(torch.ones(7), 1)
else:
    dist.all_reduce(torch.ones(3))
time.sleep(600)
"""


@pytest.mark.torch
def test_torch_s_own_record_of_a_world_that_waits(tmp_path: Path) -> None:
    (tmp_path / "world.py").write_text(_WORLD)
    before = set(jobs_here())
    words = [MUSTER, "run", "--here", "--ntasks-per-node", "2", "--stacks-ready", "--", sys.executable, "world.py"]
    process = start([*words, "late"], cwd=tmp_path, stdout=DEVNULL, stderr=DEVNULL, own_group=True)
    try:
        said: tuple[str, ...] = ()
        for _ in range(100):
            if "collective 3" in "".join(said):
                break
            jobs = set(jobs_here()) - before
            said = own_words(
                [each for job in jobs for each in read_answers(ask_here(job, StackQuestion(records=True)))]
            )
            time.sleep(0.1)
    finally:
        end_group(process, grace_s=20)
    assert said == ("torch's record: rank 1 has not come to collective 3, all_reduce of 3, which rank 0 has begun",)


@pytest.mark.torch
@pytest.mark.long
def test_torch_s_analyser_finds_the_same(tmp_path: Path) -> None:
    (tmp_path / "world.py").write_text(_WORLD)
    words = [MUSTER, "run", "--here", "--ntasks-per-node", "2", "--", sys.executable, "world.py", "shape"]
    process = start(words, cwd=tmp_path, stdout=DEVNULL, stderr=DEVNULL, own_group=True)
    files = [tmp_path / f"trace_{rank}" for rank in (0, 1)]
    try:
        while not all(file.is_file() and file.stat().st_size for file in files):
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        end_group(process, grace_s=20)
    stacks = [
        RankStack(rank, 2, "node1", 1, "S", record=f"pickle {base64.b64encode(file.read_bytes()).decode()}")
        for rank, file in enumerate(files)
    ]
    sentence = what_records_say(stacks)
    assert sentence is not None
    assert "collective 3: rank 1 calls broadcast of 7, rank 0 all_reduce of 3" in sentence
    folder = tmp_path / "traces"
    folder.mkdir()
    for file in files:
        # The analyser of torch 2.13 looks the group up by its name, and gloo's group has none in this table.
        record = pickle.loads(file.read_bytes())  # noqa: S301  # ours, of a moment ago
        record["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
        (folder / file.name).write_bytes(pickle.dumps(record))
    analyser = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "--prefix", "trace_"]
    done = run(analyser, cwd=tmp_path)
    assert "broadcast" in done.stdout + done.stderr
    assert "all_reduce" in done.stdout + done.stderr
