"""The flags of a step: what each wish adds to them, and which launchers make each rank a task."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.launchers import launcher_named
from muster.model.words import Fragment
from muster.render.script import job_script

_ALWAYS = (
    '--nodes="$muster_nodes"',
    '--ntasks="$((muster_nodes * muster_ntasks_per_node))"',
    '--ntasks-per-node="$muster_ntasks_per_node"',
    *("--kill-on-bad-exit=0", "--export=ALL", "--label", "--input=0"),
)
_FILE = '"${muster_output_flags[@]}"'


@pytest.mark.parametrize(
    ("words", "how", "added"),
    [
        ("-g 4", {}, ["--mpi=none", _FILE]),
        ("-g 4", {"stream": True}, ["--mpi=none"]),
        ("-g 4 --mpi pmix", {}, ["--mpi=pmix", _FILE]),
        ("-g 4 -c 8", {}, ["--mpi=none", '--cpus-per-task="$muster_cpus_per_task"', _FILE]),
        ("-g 4", {"within": True}, ["--mpi=none", "--gpus-per-node=4", _FILE]),
        ("-g 0", {"within": True}, ["--mpi=none", _FILE]),
    ],
)
def test_each_wish_adds_its_flag_to_the_step(words: str, how: dict[str, Any], added: list[str]) -> None:
    made = plan("-N2", *words.split(), "--", "python", "x.py", launcher="srun", **how)

    for overlap in (False, True):
        flags = launcher_named("srun").flags(replace(made, overlap=overlap))
        found = [flag.word.text if isinstance(flag.word, Fragment) else str(flag.word) for flag in flags]
        assert sorted(found) == sorted([*_ALWAYS, *added, *(["--overlap"] if overlap else [])])
    mpi = next(flag.reason.text for flag in flags if str(flag.word).startswith("--mpi"))
    assert ("was asked for" in mpi) is ("pmix" in words)
    assert ('srun "${muster_error[@]}"' in job_script(made)) is ("stream" in how)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("srun", True), ("torchrun", False), ("mpirun", False), ("local", False), ("shell", False)],
)
def test_each_rank_is_a_task_of_slurm_under_srun_alone(name: str, expected: bool) -> None:
    assert launcher_named(name).rank_tasks is expected
