"""--launcher horovod: which launcher starts the ranks, what they are told, and the starts that would train alone."""

from __future__ import annotations

import shutil

import pytest

from muster.errors import MusterError, RequestError
from muster.job.request import Request
from muster.launchers import launcher_named
from muster.model.plan import Engine, Plan
from muster.plan.launcher import pmi_of
from muster.render.parts import compose
from muster.runner import run
from muster.sites.load import load
from sites.golden_scripts import Case, plan_of
from sites.profiles import SITES, bundled

from .plans import plan
from .shells import SHELLS

PAIR = ("-N", "2", "--ntasks-per-node", "2")
LUMI = ("-N", "2", "-g", "8", "-A", "project_465000001", "-p", "standard-g", "-t", "10:00")


@pytest.mark.parametrize("site", SITES)
def test_every_site_has_a_way_to_start_horovod_or_says_what_it_needs(site: str) -> None:
    """No profile lists horovod: what starts its ranks is what the site says of mpirun and of srun's PMI."""
    case = Case(site, "one-node", "horovod", "venv")
    made = plan_of(case)
    allowed = bundled(site).profile.launch.allowed

    if isinstance(made, MusterError):
        assert made.hint
        assert "PMI" in made.message
    else:
        assert made.launcher == ("mpirun+horovod" if allowed is None or "mpirun" in allowed else "srun+horovod")


def planned(*words: str, site: str | None = None, engine: Engine | None = None) -> Plan:
    return plan(*words, "--", "python", "train.py", launcher="horovod", site=site, engine=engine)


def test_mpirun_starts_the_ranks_where_it_may() -> None:
    made = planned(*PAIR)

    assert made.launcher == "mpirun+horovod"
    assert {each.name: each.value for each in made.variables}["HOROVOD_CONTROLLER"] == "mpi"
    assert planned(*PAIR, engine=Engine.HERE, site="laptop").launcher == "mpirun+horovod"


def test_a_pmi_that_is_named_is_sruns() -> None:
    made = planned(*PAIR, "--mpi", "pmix")

    assert (made.launcher, made.mpi) == ("srun+horovod", "pmix")
    assert "--mpi=pmix" in [flag.word for flag in launcher_named(made.launcher).flags(made)]


def test_a_site_without_mpirun_starts_them_with_srun() -> None:
    made = planned(*LUMI, "--mpi", "cray_shasta", site="lumi")
    assert made.launcher == "srun+horovod"

    assert made.mpi == "cray_shasta"


def test_without_mpirun_and_without_a_known_pmi_it_says_what_it_lacks() -> None:
    with pytest.raises(RequestError, match="does not name the PMI by which srun starts") as refused:
        pmi_of(Request(command=("x",), launcher="horovod"), load("generic"), None)
    assert "--mpi pmix" in str(refused.value.hint)


def test_what_would_make_worlds_of_one_is_refused() -> None:
    with pytest.raises(RequestError, match=r"each rank of .* would run alone") as refused:
        planned(*PAIR, "--mpi", "none")
    assert refused.value.hint


def test_what_the_user_says_wins() -> None:
    made = planned(*PAIR, "--env", "HOROVOD_CONTROLLER=gloo")

    assert {each.name: each.value for each in made.variables}["HOROVOD_CONTROLLER"] == "gloo"


def test_nobody_chooses_it_but_the_user() -> None:
    assert "horovod" not in plan(*PAIR, "--", "python", "train_horovod.py").launcher


def test_every_other_word_is_its_starters() -> None:
    made = planned(*PAIR)
    ours, theirs = launcher_named("mpirun+horovod"), launcher_named("mpirun")

    assert ours.words(made, tuple) == theirs.words(made, tuple)
    assert ours.flags(made) == theirs.flags(made)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_rank_without_mpi_ends_with_a_sentence(shell: tuple[str, ...]) -> None:
    program = shutil.which(shell[0])
    assert program is not None

    def started(size: int, **more: str) -> tuple[int, str]:
        text = f"{compose(('stop',))}\nmuster_rank=1 muster_size={size}\n{compose(('horovod',))}\nexec env"
        result = run([program, *shell[1:], "-c", text], env={"PATH": "/usr/bin:/bin", **more})
        return result.status, result.stdout + result.stderr

    status, said = started(2)
    assert status == 2
    assert "rank 1 was started without MPI" in said
    assert "hint: " in said
    assert started(1)[0] == 0
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PALS_RANKID"):
        status, said = started(2, **{name: "1"}, HOROVOD_RANK="7", HOROVOD_GLOO_RENDEZVOUS_ADDR="elsewhere")
        assert status == 0
        assert "HOROVOD_" not in said, "what an outer horovodrun told its own ranks is gone"
