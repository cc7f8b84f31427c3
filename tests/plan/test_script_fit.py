"""Guards what is read in a script before anything waits: that it would train alone, twice over, or without its MPI."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from launch.plans import FACTS, plan
from muster.errors import RequestError
from muster.facts import ScriptFacts
from muster.job.request import Request
from muster.look.script import look_at_script
from muster.model.plan import Engine, Plan
from muster.plan.launcher import choose_launcher
from muster.render.script import job_script
from muster.sites.load import load

ROOT = Path(__file__).resolve().parents[2]

ALONE = """import torch
model = torch.nn.Linear(2, 2)
for step in range(3):
    model(torch.ones(1, 2)).sum().backward()
torch.save(model.state_dict(), "model.pt")
"""
JOINS = "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
SPAWNS = """import os, torch.multiprocessing as mp, torch.distributed as dist
def work(rank, size):
    os.environ['MASTER_ADDR'] = 'localhost'
    os.environ['RANK'] = str(rank)
    dist.init_process_group('gloo', rank=rank, world_size=size)
def main():
    mp.spawn(work, args=(4,), nprocs=4)
if __name__ == '__main__':
    main()
"""
IMAGENET = """import argparse, os, torch.multiprocessing as mp, torch.distributed as dist
args = argparse.ArgumentParser().parse_args()
if args.multiprocessing_distributed:
    mp.spawn(print, nprocs=4)
else:
    print(4)
"""
MPI4PY = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.Get_rank())\n"
OLD = """import argparse, torch, torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument('--local_rank', type=int, default=0)
dist.init_process_group('nccl')
"""


def of(folder: Path, text: str, *words: str) -> ScriptFacts | None:
    (folder / "train.py").write_text(text)
    return look_at_script(words or ("python", "-u", "train.py"), str(folder))


@pytest.mark.parametrize(("line", "is_alone"), [("layer(rank=8)", True), ("layer(rank)", False), ("rank = 8", False)])
def test_a_keyword_that_is_called_rank_is_no_knowledge_of_others(tmp_path: Path, line: str, is_alone: bool) -> None:
    """Adapters of low rank have one."""
    script = of(tmp_path, f"{ALONE}\n{line}\n")

    assert script is not None
    assert script.never_joins == is_alone


def planned(script: ScriptFacts | None, *words: str, launcher: str = "auto", engine: Engine | None = None) -> Plan:
    facts = msgspec.structs.replace(FACTS, script=script)
    return plan(
        "-N2", "--ntasks-per-node=2", *words, "--", "python", "train.py", facts=facts, launcher=launcher, engine=engine
    )


@pytest.mark.parametrize(
    ("text", "launcher", "sentence", "hint"),
    [
        (ALONE, "srun", "never joins the other ranks: each of the 4", "muster.world()"),
        (ALONE, "torchrun", "never joins", "--wireup dummy"),
        (SPAWNS, "srun", "train.py, line 7: it starts ranks of its own", "LOCAL_RANK"),
        (
            SPAWNS.replace("os, torch.multiprocessing as mp", "os; from torch import multiprocessing; import torch", 1)
            .replace(", torch.dist", "; import torch.dist")
            .replace("mp.spawn", "multiprocessing.spawn"),
            "srun",
            "line 7: it starts ranks of its own",
            "LOCAL_RANK",
        ),
        (MPI4PY, "srun", "takes its ranks from mpi4py", "--mpi pmix"),
        (MPI4PY, "torchrun", "takes its ranks from mpi4py", "--launcher mpirun"),
        ("import horovod.torch as hvd\nhvd.init()\n", "srun", "takes its ranks from Horovod", "--launcher mpirun"),
    ],
)
def test_what_would_be_alone_is_refused_before_it_waits(
    tmp_path: Path, text: str, launcher: str, sentence: str, hint: str
) -> None:
    with pytest.raises(RequestError) as refused:
        planned(of(tmp_path, text), launcher=launcher)

    assert sentence in refused.value.message
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (JOINS, ()),
        ("import torch\nfrom framework import Trainer\nTrainer()\n", ()),
        ("import torch, os\nprint(os.environ['RANK'])\n", ()),
        ("import torch, subprocess\nsubprocess.run(['x'])\n", ()),
        ("print('hello')\n", ()),
        (ALONE, ("--wireup", "dummy")),
        (ALONE, ("-N1", "--ntasks-per-node=1")),
        (SPAWNS, ("-N1", "--ntasks-per-node=1")),
        (SPAWNS.replace("import os,", "import os; os.environ.get('LOCAL_RANK'); import "), ()),
        (IMAGENET, ()),
        (MPI4PY, ("--mpi", "pmix")),
        (MPI4PY.replace("from", "try:\n  from", 1).replace("MPI\n", "MPI\nexcept ImportError: pass\n", 1), ()),
        ("import torch\ndef (:\n", ()),
    ],
)  # fmt: skip
def test_what_may_be_right_is_let_through(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert not [note for note in planned(of(tmp_path, text), *words, launcher="srun").notes if "train.py" in note.text]


def test_a_switch_of_the_scripts_own_may_ask_for_ranks_of_its_own(tmp_path: Path) -> None:
    typed = of(tmp_path, IMAGENET, "python", "train.py", "--multiprocessing-distributed")

    assert typed is not None
    assert typed.spawns == "train.py, line 4"


def test_modules_beside_the_script_may_join_for_it(tmp_path: Path) -> None:
    (tmp_path / "setup_ranks.py").write_text(JOINS)

    found = of(tmp_path, "import torch, setup_ranks\n")

    assert found is not None
    assert not found.never_joins


@pytest.mark.parametrize(
    ("text", "launcher", "part"),
    [
        (OLD, "srun", "takes --local_rank"),
        ("import torchft\n", "srun", "which only torchrun's agent serves"),
        ("import torch\nfrom torch.distributed import TCPStore\nTCPStore(h, p, 4, False)\n", "mpirun", "only torch"),
    ],
)  # fmt: skip
def test_what_may_be_a_mistake_is_said(tmp_path: Path, text: str, launcher: str, part: str) -> None:
    notes = planned(of(tmp_path, text), launcher=launcher).notes

    assert [note for note in notes if part in note.text and note.warning and "hint: " in note.text]
    assert not [note for note in planned(of(tmp_path, JOINS), launcher="torchrun").notes if part in note.text]


def test_a_script_that_waits_for_an_agents_store_gets_the_launcher_that_serves_it(tmp_path: Path) -> None:
    """Under the default launcher it was warned of, and then waited until its time limit."""
    made = planned(of(tmp_path, "import torchft\n"), launcher="auto")

    assert made.launcher == "torchrun"
    assert "only torchrun's agent serves" in made.launcher_reason.text
    assert planned(of(tmp_path, JOINS), launcher="auto").launcher == "srun"


@pytest.mark.parametrize(("allowed", "name"), [(("srun",), "srun"), (("srun", "torchrun"), "torchrun")])
def test_where_a_site_starts_no_agents_the_script_does_not_get_one(allowed: tuple[str, ...], name: str) -> None:
    site = load("generic")
    launch = msgspec.structs.replace(site.profile.launch, allowed=allowed)
    site = msgspec.structs.replace(site, profile=msgspec.structs.replace(site.profile, launch=launch))
    script = ScriptFacts("t.py", waits_for_store=True)

    assert choose_launcher(Request(command=("x",)), site, Engine.SLURM, script)[0].name == name


def test_mpi4py_has_the_sites_own_pmi() -> None:
    facts = msgspec.structs.replace(FACTS, script=ScriptFacts("t.py", needs_mpi=True))
    words = ("-A", "d1", "-t", "9", "-N2", "-g4", "--", "python", "t.py")

    assert plan(*words, site="vega", facts=facts, launcher="srun").mpi == "pmix_v3"


@pytest.mark.parametrize(
    ("command", "text", "sentence"),
    [
        (("./job.sbatch",), "#!/bin/bash\n#SBATCH -N 2\nsrun python t.py\n", "is a batch script"),
        (("job.sbatch",), "#!/bin/bash\n#SBATCH -N 2\npython t.py\n", "is a batch script"),
        (("bash", "run.sh"), "torchrun --nproc-per-node 2 t.py\n", "a launcher of its own (torchrun)"),
        (("./run.sh",), "#!/bin/sh\nexec uv run torchrun --nnodes 2 t.py\n", "launcher of its own (torchrun)"),
    ],
)  # fmt: skip
def test_a_shell_script_is_read_too(tmp_path: Path, command: tuple[str, ...], text: str, sentence: str) -> None:
    (tmp_path / Path(command[-1]).name).write_text(text)
    facts = msgspec.structs.replace(FACTS, script=look_at_script(command, str(tmp_path)))

    with pytest.raises(RequestError) as refused:
        plan("-N2", "--", *command, facts=facts)

    assert sentence in refused.value.message


@pytest.mark.parametrize(
    "script",
    [
        *sorted((ROOT / "examples").glob("*.py")),
        *sorted((ROOT / "tests/launch/frameworks").glob("*.py")),
    ],
    ids=lambda path: path.name,
)
def test_our_own_examples_raise_no_false_alarm(script: Path) -> None:
    facts = look_at_script(("python", script.name), str(script.parent))

    assert facts is not None
    assert facts.never_joins == (script.name == "train_single.py")
    assert facts.spawns is None
    assert not facts.waits_for_store
    assert not facts.local_rank_argument


def test_jax_has_slurms_names_where_no_slurm_is(tmp_path: Path) -> None:
    script = of(tmp_path, "import jax\njax.distributed.initialize()\n")

    here = planned(script, launcher="local", engine=Engine.HERE)

    assert "MUSTER_SLURM_NAMES" in {each.name for each in here.variables}
    assert "MUSTER_SLURM_NAMES" not in {each.name for each in planned(script).variables}


@pytest.mark.parametrize(
    ("launcher", "words", "hint"),
    [
        ("local", (), "--launcher mpirun; --wireup dummy"),
        ("srun", (), "--launcher mpirun, or --mpi pmix under srun"),
        ("torchrun", (), "--launcher mpirun; "),
        ("srun", ("--mpi", "pmix"), None),
        ("srun", ("--wireup", "dummy"), None),
        ("mpirun", (), None),
    ],
)
def test_a_program_of_mpi_is_not_started_without_it(launcher: str, words: tuple[str, ...], hint: str | None) -> None:
    facts = msgspec.structs.replace(FACTS, script=ScriptFacts("./mpt", linked_mpi=True))
    engine = Engine.HERE if launcher == "local" else None
    typed = (*words, "--ntasks-per-node", "2", "--", "./mpt")

    if hint is None:
        assert plan(*typed, facts=facts, launcher=launcher, engine=engine)
        return
    with pytest.raises(RequestError, match=r"\./mpt is linked with an MPI, but .* each would be alone") as refused:
        plan(*typed, facts=facts, launcher=launcher, engine=engine)
    assert hint in (refused.value.hint or "")


def test_one_rank_of_a_program_of_mpi_needs_no_launcher_of_mpi() -> None:
    facts = msgspec.structs.replace(FACTS, script=ScriptFacts("./mpt", linked_mpi=True))

    assert plan("-N1", "--ntasks-per-node", "1", "--", "./mpt", facts=facts, launcher="srun")


@pytest.mark.parametrize(("launcher", "joins"), [("mpirun", True), ("torchrun", False), ("srun", False)])
def test_the_mpi_in_an_image_hears_the_mpi_outside(launcher: str, joins: bool) -> None:
    words = ("-N", "2", "--ntasks-per-node", "2", "--image", "x.sif", "--", "python", "t.py")
    made = plan(*words, launcher=launcher)

    assert made.image.joins_mpi is joins
    assert ("muster_image_joins APPTAINERENV_" in job_script(made)) is joins
