"""Guards the helpers of a training script: each does what one process on the whole data would do."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from muster.rank.describe import differing, ranks_in_words, variables_in_force
from muster.rank.training import start_method, workers

from .ranks import together
from .test_world import well

pytestmark = pytest.mark.torch


def test_gradients_are_those_of_the_whole_batch() -> None:
    def body() -> None:
        import torch

        import muster

        data = torch.arange(12, dtype=torch.double).reshape(6, 2)

        def one_step(model: Any, batch: Any) -> Any:
            model(batch).pow(2).mean().backward()
            return [parameter.grad.clone() for parameter in model.parameters()]

        with muster.world() as world:
            torch.manual_seed(world.rank)  # different weights: rank 0's are the ones that count
            parallel = one_step(world.ddp(torch.nn.Linear(2, 1).double()), data[world.rank * 2 : world.rank * 2 + 2])
            torch.manual_seed(0)
            whole = one_step(torch.nn.Linear(2, 1).double(), data)
            assert all(torch.allclose(one, other) for one, other in zip(parallel, whole, strict=True))

    well(together(3, body))


@pytest.mark.parametrize("stride", [1, 2])
def test_batch_norm_takes_its_statistics_over_its_own_group_only(stride: int) -> None:
    def body() -> None:
        import torch

        import muster

        torch.manual_seed(0)
        data = torch.randn(4, 5, 3, 7, dtype=torch.double)  # rank, batch, channel, length
        with muster.world() as world:
            members = {1: ([0, 1], [2, 3]), 2: ([0, 2], [1, 3])}[stride]
            mine = next(ranks for ranks in members if world.rank in ranks)
            model = torch.nn.Sequential(torch.nn.BatchNorm1d(3)).double()
            parallel = world.ddp(model, batchnorm_group=2, stride=stride)
            batch = data[world.rank].clone().requires_grad_()
            result = parallel(batch)
            (result * result.detach().sin()).sum().backward()

            alone = torch.nn.BatchNorm1d(3).double()
            whole = data[mine].flatten(0, 1).clone().requires_grad_()
            expected = alone(whole)
            (expected * expected.detach().sin()).sum().backward()
            position = slice(mine.index(world.rank) * 5, mine.index(world.rank) * 5 + 5)
            assert torch.allclose(result, expected[position])
            assert torch.allclose(batch.grad, whole.grad[position])
            layer = parallel.module[0]
            assert torch.allclose(layer.running_mean, alone.running_mean)
            assert torch.allclose(layer.running_var, alone.running_var)
            assert torch.allclose(parallel.eval()(batch), alone.eval()(whole)[position])

    well(together(4, body))


def test_a_model_that_lies_elsewhere_is_refused() -> None:
    def body() -> None:
        import torch

        import muster

        with muster.world() as world, pytest.raises(muster.WireupError, match="the model's weight lies on meta"):
            world.ddp(torch.nn.Linear(2, 1, device="meta"))

    well(together(1, body))


def test_training_shares_the_data_and_evaluation_counts_each_item_once() -> None:
    def body() -> None:
        import muster

        with muster.world() as world:
            part = world.sampler(range(10))
            assert len(part) == len(list(part)) == 4
            first = world.gather(list(part))
            part.set_epoch(1)
            second = world.gather(list(part))
            assert first != second
            assert set(chain(*first)) == set(chain(*second)) == set(range(10))
            whole = world.sampler(range(10), train=False)
            assert world.gather(list(whole)) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
            assert len(whole) == len(list(whole))
            assert list(world.sampler([])) == []

    ended = together(3, body)
    assert well(ended)[0].count("call loader.sampler.set_epoch(epoch)") == 1
    assert ended[1].out == ""


def test_the_order_is_torchs_own() -> None:
    def body() -> None:
        from torch.utils.data import DistributedSampler

        import muster

        with muster.world() as world:
            theirs: Any = DistributedSampler(range(11), world.size, world.rank, seed=5)
            theirs.set_epoch(2)
            ours = world.sampler(range(11), seed=5)
            ours.set_epoch(2)
            assert list(ours) == list(theirs)

    well(together(2, body))


def test_a_loader_gives_each_rank_its_part() -> None:
    def body() -> None:
        import torch

        import muster

        with muster.world() as world:
            data = torch.utils.data.TensorDataset(torch.arange(8))
            quiet = world.loader(data, 2, train=False, num_workers=0)
            assert [batch[0].tolist() for batch in quiet] == [
                [world.rank, world.rank + 2],
                [world.rank + 4, world.rank + 6],
            ]
            os.environ["MUSTER_START_METHOD"] = "spawn"
            world.loader(data, 2, num_workers=1)
            spawning = world.loader(data, 2, num_workers=1)
            assert spawning.multiprocessing_context.get_start_method() == "spawn"
            chosen = world.loader(data, 2, num_workers=1, multiprocessing_context="fork")
            assert chosen.multiprocessing_context.get_start_method() == "fork"
            assert world.loader(data, 4, num_workers=0, drop_last=True).drop_last

    ended = together(2, body)
    well(ended)
    assert ended[0].err.count("data loading workers start by spawn") == 1
    assert ended[1].err == ""


def test_workers_are_spawned_beside_an_open_cxi_device(tmp_path: Path) -> None:
    assert start_method({}, str(tmp_path)) is None
    assert start_method({"FI_PROVIDER": "cxi"}, str(tmp_path)) == "forkserver"
    (tmp_path / "cxi0").touch()
    assert start_method({}, str(tmp_path)) == "forkserver"
    assert start_method({"MUSTER_START_METHOD": "spawn"}, str(tmp_path)) == "spawn"


@pytest.mark.parametrize(
    ("mine", "machine", "ranks", "expected"),
    [(7, 64, 8, 6), (1, 64, 8, 0), (64, 64, 8, 7), (64, 64, 1, 8), (2, 2, 4, 0)],
    ids=["bound", "bound to one core", "not bound", "not bound, alone", "more ranks than cores"],
)
def test_workers_are_as_many_as_the_ranks_own_cores_but_one(
    monkeypatch: pytest.MonkeyPatch, mine: int, machine: int, ranks: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(mine)))
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    assert workers(ranks) == expected


def test_a_mean_counts_each_sample_once() -> None:
    def body() -> None:
        import math

        import torch

        import muster

        with muster.world() as world:
            assert world.mean(world.rank) == 1.0
            assert world.mean(torch.tensor(float(world.rank)), weight=world.rank) == pytest.approx(5 / 3)
            assert math.isnan(world.mean(1.0, weight=0))

    well(together(3, body))


def test_the_learning_rate_grows_with_the_world_and_says_so() -> None:
    def body() -> None:
        import torch

        import muster

        with muster.world() as world:
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
            scheduler = world.scale_learning_rate(optimizer, warmup_steps=2)
            seen = []
            for _ in range(4):
                seen.append(round(optimizer.param_groups[0]["lr"], 6))
                optimizer.step()
                scheduler.step()
            assert seen == [0.1, 0.25, 0.4, 0.4]
            with pytest.raises(muster.WireupError, match="no rule 'cubic'"):
                world.scale_learning_rate(optimizer, 1, rule="cubic")

    said = well(together(4, body))
    assert said == ["muster: learning rate 0.1 to 0.4 within 2 steps (linear, 4 ranks)\n", "", "", ""]


def test_what_is_saved_is_whole_and_there_for_all(tmp_path: Path) -> None:
    def body() -> None:
        import torch

        import muster

        with muster.world() as world:
            world.save({"weights": torch.ones(2), "rank": world.rank}, tmp_path / "model.pt")
            assert torch.load(tmp_path / "model.pt")["rank"] == 0
            missing = tmp_path / "no such directory" / "model.pt"
            with pytest.raises((muster.WireupError, RuntimeError, OSError)):
                world.save({}, missing)
            world.barrier()

    well(together(2, body))
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]


def test_the_logger_names_the_rank_that_warns() -> None:
    def body() -> None:
        import muster

        with muster.world() as world:
            world.logger.info("begun")
            world.logger.warning("hot")

    ended = together(2, body)
    well(ended)
    assert ended[0].err == "muster: begun\nmuster: hot\n"
    assert ended[1].err == f"muster: rank 1 on {os.uname().nodename}: hot\n"


def test_a_description_marks_what_differs() -> None:
    def body() -> None:
        import muster

        os.environ["NCCL_DEBUG"] = "WARN"
        os.environ["OMP_NUM_THREADS"] = "1" if os.environ["RANK"] == "1" else "2"
        os.environ["MY_TOKEN"] = "secret"  # noqa: S105
        with muster.world() as world:
            world.describe()

    said, *silent = well(together(3, body))
    assert silent == ["", ""]
    assert "3 ranks on 1 host (" in said
    assert "method auto, chosen by what the environment offers, identity from env: rank from RANK" in said
    assert "  NCCL_DEBUG=WARN\n" in said
    assert "! OMP_NUM_THREADS=2 on ranks 0, 2\n" in said
    assert "! OMP_NUM_THREADS=1 on rank 1\n" in said
    assert "secret" not in said


def test_ranks_and_differences_in_words() -> None:
    assert ranks_in_words([0, 1, 2, 5]) == "ranks 0-2, 5"
    assert differing("A", ["1", "1"]) == ["  A=1"]
    told = variables_in_force(
        {
            "OMPI_MCA_orte_hnp_uri": "x",
            "OMPI_COMM_WORLD_RANK": "3",
            "OMPI_COMM_WORLD_SIZE": "8",
            "OMPI_MCA_btl": "tcp",
            "NCCL_X": "a\nb",
            "FI_PROVIDER": "cxi",
            "HOME": "/root",
        }
    )
    assert told == {"FI_PROVIDER": "cxi", "NCCL_X": "a\\nb", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_MCA_btl": "tcp"}


def test_importing_the_library_is_cheap_and_needs_nothing() -> None:
    """Counted, not timed: the files that `import muster` opens, and what a rank's first look at `world` loads."""
    script = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None)\n"
        "before = set(sys.modules)\n"
        "import muster\n"
        "assert len(opened) <= 30, opened\n"
        "assert set(sys.modules) - before == {'muster'}, set(sys.modules) - before\n"
        "muster.world\n"
        "ours = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert ours <= set(sys.stdlib_module_names) | {'muster'}, ours\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {source!r})\n{script}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_folder_runs_copied_out_alone(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(Path(__file__).parents[2] / "src" / "muster" / "rank", tmp_path / "theirs" / "ranks")
    script = "from ranks.world import world\nwith world() as w: print(w.size, w.backend)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "theirs")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1 gloo\n"), done.stderr
