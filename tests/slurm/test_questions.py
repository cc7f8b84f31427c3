"""Every question to Slurm is a pair: words that a client takes, and a reader that stands any answer."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.slurm.cluster import (
    CONFIGURATION,
    CONTROLLER,
    MPI_TYPES,
    ask_gpus_of,
)
from muster.slurm.fit import NODES
from muster.slurm.jobs import ask_accounting, ask_comments, ask_controller, ask_memory
from muster.slurm.partitions import PARTITIONS, WAITING
from muster.slurm.question import Question

QUESTIONS: dict[str, Question[Any]] = {
    "configuration": CONFIGURATION,
    "controller": CONTROLLER,
    "mpi types": MPI_TYPES,
    "gpus of a job": ask_gpus_of("7"),
    "nodes": NODES,
    "jobs": ask_controller(["7", "8_1"]),
    "own jobs": ask_controller(),
    "ended jobs": ask_accounting(["7"]),
    "memory": ask_memory("7"),
    "comments": ask_comments(),
    "partitions": PARTITIONS,
    "waiting": WAITING,
}
OF_THE_CONTROLLER = {"squeue", "sinfo", "scontrol"}
ASKS = {"squeue", "sinfo", "scontrol", "sacct", "sacctmgr"}


@pytest.mark.parametrize("name", QUESTIONS)
@given(text=st.text())
def test_no_answer_whatever_is_a_traceback(name: str, text: str) -> None:
    QUESTIONS[name].read(text)


@pytest.mark.parametrize(
    "text",
    [
        # As 20.11.4 and 22.05.8 print them.
        "srun: MPI types are...\nsrun: pmix\nsrun: pmix_v4\nsrun: none\nsrun: cray_shasta\nsrun: pmi2\n",
        "MPI plugin types are...\n\tpmix\n\tpmix_v4\n\tnone\n\tcray_shasta\n\tpmi2\n",
    ],
    ids=["20.11", "22.05"],
)
def test_the_types_of_mpi_are_read_in_each_versions_words(text: str) -> None:
    assert MPI_TYPES.read(text) == ("pmix", "pmix_v4", "none", "cray_shasta", "pmi2")


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_words_of_a_client_of_slurms(name: str) -> None:
    argv = QUESTIONS[name].argv
    assert argv[0] in {*ASKS, "srun"}
    assert all(word and "\n" not in word for word in argv)


@pytest.mark.lab
@pytest.mark.parametrize("name", ["configuration", "controller", "jobs", "own jobs"])
def test_a_real_slurm_takes_the_words(name: str, lab: object) -> None:
    done = lab.exec(list(QUESTIONS[name].argv))  # type: ignore[attr-defined]
    assert done.ok or "Invalid job id" in done.stderr, done.stderr
    QUESTIONS[name].read(done.stdout)


def test_slurm_is_asked_in_its_own_words_in_one_room_only() -> None:
    """No file outside slurm/, the lab and life/ spells a question: a list or tuple that begins with a client's name.

    What lies in life/ runs in the job, alone.
    """
    package = Path(muster.__file__).parent
    spelled = []
    for path in package.rglob("*.py"):
        source = path.read_text()
        if {"slurm", "lab", "life"} & set(path.relative_to(package).parts) or not any(name in source for name in ASKS):
            continue
        for node in ast.walk(ast.parse(source)):
            first = node.elts[0] if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1 else None
            if isinstance(first, ast.Constant) and first.value in ASKS and isinstance(node, ast.List):
                spelled.append(f"{path.relative_to(package)}:{node.lineno}")
    assert spelled == []
