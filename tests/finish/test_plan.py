"""What a job that goes on asks for, and what is refused before anybody waits."""

from __future__ import annotations

import pytest

from launch.plans import plan
from muster.errors import RequestError
from muster.model.plan import Engine
from muster.render.script import job_script

_COMMAND = ("-N", "2", "--ntasks-per-node", "2", "--", "python", "train.py")


def test_without_the_options_the_script_has_none_of_it() -> None:
    script = job_script(plan(*_COMMAND))

    for word in ("muster_again", "muster_ranks", "MUSTER_ATTEMPT", "MUSTER_CHECKPOINT", "no-kill"):
        assert word not in script


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
def test_spare_nodes_are_asked_for_and_have_no_ranks(launcher: str) -> None:
    made = plan("--spares", "1", "--restart", "2", *_COMMAND, launcher=launcher)
    header = {each.name: each.value for each in made.directives}

    assert (header["nodes"], made.shape.nodes, made.shape.ntasks) == ("3", 2, 4)
    assert "no-kill" in header
    assert "muster_keep_spares 1\n" in job_script(made)
    assert "muster_again 3 " in job_script(made)


@pytest.mark.parametrize(
    ("words", "engine", "within", "sentence"),
    [
        (("--restart", "1"), Engine.HERE, False, "--restart 1: it is for jobs of Slurm"),
        (("--checkpoint", "saved"), Engine.HERE, False, "--checkpoint saved: it is for jobs of Slurm"),
        (("--spares", "1"), Engine.SLURM, True, "--spares 1: the allocation stands already"),
        (("--spares", "1", "--nodelist", "a[1-2]"), Engine.SLURM, False, "a spare node has none of the names of"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], engine: Engine, within: bool, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        plan(*words, *_COMMAND, engine=engine, within=within)
