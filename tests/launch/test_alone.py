"""Guards what is said of ranks that ended well and never met: rank 0 looks at its end, and ends as its command did."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from muster.act.launch_here import somebody_met
from muster.look.script import look_at_script
from muster.model.plan import Engine, Plan
from muster.runner import ProgramResult

from .plans import FACTS, plan
from .shells import SLURM_RANK, each_shell, start, step

LOOKING = (*SLURM_RANK[:-3], "look", *SLURM_RANK[-3:])
WARNING = "Muster saw no connection to node1:"

SPAWNS = "import os, torch.multiprocessing as mp\nrank = os.environ.get('RANK')\nmp.spawn(print)\n"
CONDITION = """import argparse, torch, torch.distributed as dist
if argparse.ArgumentParser().parse_args().distributed:
    dist.init_process_group("gloo")
"""
SCRIPTS = {
    CONDITION: True,
    "import torch, accelerate\naccelerate.Accelerator()\n": True,
    "import json\nprint(json)\n": False,
    f"{CONDITION}dist.destroy_process_group()\n": False,  # its connections may be long gone when it ends
    # Whose ranks joined: Muster's, or those of each rank?
    f"{SPAWNS}dist.init_process_group()\ndist.destroy_process_group()\n": True,
    "import torch, muster\nwith muster.world() as world:\n    pass\n": False,
    "import torch, os\nshard = int(os.environ['RANK'])\n": False,
    "from mpi4py import MPI\nimport torch\n": False,
    "import torch\nprint(torch)\n": True,
    # They meet at addresses of their own, or may do so.
    "import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()\n": False,
    "import torch, tensorflow\nimport torch.distributed\n": False,
    "from dask_mpi import initialize\nfrom dask.distributed import Client\n": False,
    "import unknown_trainer\nunknown_trainer.fit()\n": False,
    "import torch, unknown_trainer\nunknown_trainer.fit()\n": False,
    "import torch, socket\nsocket.create_server(('', 0))\n": False,
    "import torch, wandb, torch.distributed as dist\n": True,
    f"{CONDITION}import mpi4py\n": False,
    CONDITION.replace('"gloo"', '"mpi"'): False,
    CONDITION.replace('"gloo"', '"gloo", init_method="env://"'): True,
    CONDITION.replace('"gloo"', '"gloo", init_method="file:///scratch/store"'): False,
    CONDITION.replace('"gloo"', '"gloo", init_method=place'): False,
    CONDITION.replace('"gloo"', '"gloo", store=store'): False,
    f"{CONDITION}import os\nos.environ['MASTER_PORT'] = '29500'\n": False,
    f"{CONDITION}import os\nprint(os.environ['MASTER_PORT'])\n": True,
    f"{SPAWNS}dist.init_process_group()\nos.environ['MASTER_PORT'] = '29500'\n": True,
    f"{CONDITION}import os\nos.environ[u'MASTER_PORT'] = '29500'\n": False,
    f"{CONDITION}x{'.a' * 900} = 2\n": True,
    f"{CONDITION}import os\nos.environ['NCCL_DEBUG'] = 'INFO'\n": True,
    CONDITION.replace('"gloo"', "backend=name"): True,
    f"{CONDITION}import muster\nprint(muster)\n": True,
    f"{CONDITION}import muster\nmuster.world()\n": False,
    f"{CONDITION}world()\n": True,
    "import torch.multiprocessing as mp, unknown_trainer\nmp.spawn(print)\n": True,
}


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


def ended(shell: tuple[str, ...], port: int, *command: str, rank: int = 0) -> ProgramResult:
    more = {"MUSTER_PORT": str(port), "MUSTER_PORT_CHOSEN": "1"}
    return start(LOOKING, step(rank=rank, more=more), command or ("true",), shell)


def meet(port: int) -> None:
    """One connection, closed by the client first."""
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        taken, _ = server.accept()
        client.close()
        taken.close()


@pytest.mark.parametrize(("text", "wanted"), SCRIPTS.items())
def test_only_a_script_that_leaves_it_open_is_looked_at(tmp_path: Path, text: str, wanted: bool) -> None:
    (tmp_path / "train.py").write_text(text)
    facts = look_at_script(("python", "train.py"), str(tmp_path))

    assert facts is not None
    assert facts.may_be_alone is wanted


@each_shell
def test_rank_0_says_that_nobody_met(shell: tuple[str, ...], port: int) -> None:
    result = ended(shell, port)

    assert result.status == 0
    assert f"the 8 ranks have ended, and {WARNING}{port}: each may" in result.stderr
    assert "hint: the script has to join its ranks" in result.stderr


@each_shell
def test_a_connection_of_the_last_minute_is_seen(shell: tuple[str, ...], port: int) -> None:
    meet(port)

    assert somebody_met(port)
    assert ended(shell, port).stderr == ""


def test_a_kernel_that_shows_no_connections_is_believed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.act.launch_here._TABLES", ("/proc/net/tcp", "/nowhere"))
    assert somebody_met(port)


def test_a_port_that_somebody_only_listens_at_is_no_meeting(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert not somebody_met(port)


@each_shell
def test_other_ranks_and_failed_ones_say_nothing(shell: tuple[str, ...], port: int) -> None:
    assert ended(shell, port, rank=1).stderr == ""
    failed = ended(shell, port, "sh", "-c", "exit 7")
    assert (failed.status, failed.stderr) == (7, "")


@each_shell
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_shell_ends_by_its_commands_signal_without_a_word(
    shell: tuple[str, ...], port: int, number: signal.Signals
) -> None:
    result = ended(shell, port, "sh", "-c", f"kill -{number.value} $$")

    assert result.status in {-number, 128 + number}
    assert result.stderr == ""


@each_shell
def test_a_signal_to_the_group_lets_the_command_end_in_its_own_way(shell: tuple[str, ...], port: int) -> None:
    result = ended(shell, port, "sh", "-c", "trap 'echo saved; exit 3' TERM; kill -TERM 0; sleep 5")

    assert (result.stdout, result.status) == ("saved\n", 3)


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "torchrun", "local"])
def test_who_looks_is_the_plans_to_say(tmp_path: Path, launcher: str) -> None:
    def planned(*words: str) -> Plan:
        from msgspec.structs import replace

        (tmp_path / "train.py").write_text(CONDITION)
        facts = replace(FACTS, script=look_at_script(("python", "train.py"), str(tmp_path)))
        engine = Engine.HERE if launcher == "local" else None
        return plan("-N2", *words, "--", "python", "train.py", facts=facts, launcher=launcher, engine=engine)

    # An agent's own meeting is at that port, whatever its ranks do.
    assert planned().may_be_alone is (launcher != "torchrun")
    assert not planned("--wireup", "dummy").may_be_alone
