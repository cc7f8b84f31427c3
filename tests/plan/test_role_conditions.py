"""Several programs in one job: one row for each condition that decides what they get, and what is refused."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from muster.errors import RequestError
from plan.test_roles import flags, job
from sites.profiles import HEAD, written

_A, _B = ("--role", "a", "-N", "1"), ("--role", "b", "-N", "1")
_OF_ROLES = {"nodes", "ntasks-per-node", "gpus-per-node"}
_WHOLE = f"{HEAD}[request]\ngpus = 'whole-node'\n[nodes.n]\ngpus = 4\ncores = 64\ncores_per_gpu = 16\n"


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ((*_A, "--", "x", *_B, "--", "y"), None),
        (("-w", "n[1-2]", *_A, "--", "x", *_B, "--", "y"), None),
        (("-w", "n[1-2]", *_A, "-p", "p", "--", "x", *_B, "-p", "q", "--", "y"), "nodes of the job are of several"),
        ((*_A, "--launcher", "mpirun", "--", "x", *_B, "--", "y"), None),
        (
            (*_A, "-p", "p", "--launcher", "mpirun", "--", "x", *_B, "-p", "q", "--", "y"),
            "mpirun starts nothing in a part of a job",
        ),
        ((*_A, "--preset", "ray", "--", *_B, "--", "y"), None),
        ((*_A, "--", *_B, "--", "y"), "role a has no command"),
        ((*_A, "--", "x", "{b.host}", *_B, "--", "y"), None),
        ((*_A, "--", "x", "{b.hostt}", *_B, "--", "y"), r"\{b.hostt\} is not an address of role b"),
        ((*_A, "--", "x", "{c.hostt}", *_B, "--", "y"), None),  # it may be the program's own
        ((*_A, "--", "x", "{c.host}", *_B, "--", "y"), "names c, but no role is called so"),
        ((*_A, "--ready", "http://{b.host}:{port}/x", "--", "x", *_B, "--", "y"), None),
        ((*_A, "--ready", "http://{hostt}:80/x", "--", "x"), r"\{hostt\} is not an address of a role"),
        ((*_A, "--until-done", "--", "x"), "--until-done: it is not known to a job with roles"),
        (("--hang", "off", *_A, "--", "x"), None),
        (("--hang", "5m", *_A, "--", "x"), "--hang 5m: it is not known to a job with roles"),
        (("-t", "60", *_A, "-t", "60", "--", "x", *_B, "--", "y"), None),
        (("-t", "60", *_A, "-t", "30", "--", "x", *_B, "--", "y"), "role a: -t 30 is for the whole job"),
    ],
)
def test_roles_of_a_job(words: tuple[str, ...], refused: str | None) -> None:
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        assert job(*words).roles


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ((*_A, "-g", "2", "--", "x", "--role", "b", "--beside", "a", "-g", "2", "--", "y"), "shares GPUs"),
        ((*_A, "-g", "4", "--", "x", "--role", "b", "--beside", "a", "-g", "0", "--", "y"), None),
        (
            (
                *(*_A, "-g", "4", "--", "x", "--role", "b", "--beside", "a", "-g", "0", "-c", "4", "--", "y"),
                *("--role", "c", "-N", "1", "-g", "4", "--", "x"),
                *("--role", "d", "--beside", "c", "-g", "0", "-c", "4", "--", "y"),
            ),
            None,
        ),
        ((*_A, "-g", "4", "--", "x", *_B, "-g", "4", "--", "y"), None),
    ],
)
def test_roles_share_gpus_where_slurm_gives_single_ones_out(
    tmp_path: Path, words: tuple[str, ...], refused: str | None
) -> None:
    site = str(written(tmp_path, _WHOLE))
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        assert job(*words, site=site).roles


def test_a_role_has_what_the_roles_beside_it_leave_and_not_those_elsewhere(tmp_path: Path) -> None:
    site = str(written(tmp_path, _WHOLE.replace("whole-node", "gres")))
    made = job(
        *(*_A, "--", "x", "--role", "b", "--beside", "a", "-g", "1", "-c", "2", "--", "y"),
        *("--role", "c", "-N", "1", "--", "x", "--role", "d", "--beside", "c", "-g", "2", "-c", "2", "--", "y"),
        site=site,
    )
    assert {role.name: role.plan.shape.gpus_per_node for role in made.roles} == {"a": 3, "b": 1, "c": 2, "d": 2}


def test_a_role_that_shares_its_nodes_keeps_the_flags_of_its_step_that_bind_nothing() -> None:
    made = job(
        *(*_A, "-g", "2", "--srun=--label", "--srun=--cpu-bind=cores", "--", "x"),
        *("--role", "b", "--beside", "a", "-g", "2", "--", "y"),
    )
    assert "--label" in flags(made, "a")
    assert not [flag for flag in flags(made, "a") if flag.startswith("--cpu-bind")]


def test_a_note_of_the_job_is_told_once_and_one_of_a_role_with_its_name(tmp_path: Path) -> None:
    site = str(written(tmp_path, _WHOLE))
    texts = [
        note.text for note in job(*_A, "-g", "4", "--visibility", "one", "--", "x", *_B, "--", "y", site=site).notes
    ]
    told = [text for text in texts if "set_device(LOCAL_RANK) fails" in text]
    assert [text.partition(": ")[0] for text in told] == ["role a"]
    assert len(texts) == len(set(texts))


def test_the_header_of_roles_has_what_they_need_together_and_says_so() -> None:
    made = job(*_A, "-g", "2", "--", "x", *_B, "-g", "4", "--", "y")
    assert {line.name: (line.value, line.reason.origin) for line in made.directives if line.name in _OF_ROLES} == {
        "nodes": ("2", "the roles"),
        "ntasks-per-node": ("4", "the roles"),
        "gpus-per-node": ("4", "the roles"),
    }


def test_one_role_that_is_too_large_for_a_node_shares_it_with_none(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refused:
        job(*_A, "-g", "1", "-c", "80", "--", "x", site=str(written(tmp_path, _WHOLE)))
    assert "share" not in refused.value.message
