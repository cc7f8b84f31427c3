"""Guards that ranks which were started together become one world, and that nobody waits for a rank that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .environments import slurm_step
from .ranks import Ended, free_port, listener, together, torch_variables

pytestmark = pytest.mark.torch


def well(ended: list[Ended]) -> list[str]:
    """What the ranks wrote, once all have ended well."""
    assert [one.status for one in ended] == [0] * len(ended), "\n".join(one.err for one in ended)
    return [one.out for one in ended]


def test_ranks_meet_and_know_each_other() -> None:
    def body() -> None:
        import torch
        import torch.distributed as dist

        import muster

        with muster.world() as world:
            assert dist.is_initialized()
            numbers = torch.tensor([float(world.rank)])
            dist.all_reduce(numbers)
            world.print("sum", numbers.item())
            assert (world.size, world.local_rank, world.local_size) == (3, world.rank, 3)
            assert (world.node_rank, world.nodes, world.backend, str(world.device)) == (0, 1, "gloo", "cpu")
            assert world.hosts == (os.uname().nodename,)
            assert world.gather(world.rank) == [0, 1, 2]
            world.barrier()
        assert not dist.is_initialized()

    assert well(together(3, body)) == ["sum 3.0\n", "", ""]


def test_a_plain_process_is_a_world_of_one() -> None:
    def body() -> None:
        import torch

        import muster

        with muster.world() as world:
            assert (world.rank, world.size, world.nodes, world.joined.identity.family) == (0, 1, 1, "single")
            assert isinstance(world.ddp(torch.nn.Linear(2, 1)), torch.nn.parallel.DistributedDataParallel)
            with world.rank0_first():
                world.print("alone")
        with muster.world("dummy") as world:
            assert world.size == 1
            assert world.alone
            assert isinstance(world.ddp(torch.nn.Linear(2, 1)), torch.nn.Linear)
            assert world.mean(3) == 3
            world.barrier()

    assert well(together(1, body, environment=lambda rank, size: {})) == ["alone\n"]


def test_local_ranks_are_counted_where_no_variable_tells_them() -> None:
    def body() -> None:
        import muster

        with muster.world() as world:
            print(world.local_rank, world.local_size, world.node_rank, world.nodes)

    told_nothing = together(2, body, environment=lambda rank, size: {"RANK": str(rank), "WORLD_SIZE": str(size)})
    assert well(told_nothing) == ["0 2 0 1\n", "1 2 0 1\n"]


def test_a_slurm_step_needs_no_other_variables() -> None:
    def body() -> None:
        import muster

        for name in ("MASTER_ADDR", "MASTER_PORT"):
            del os.environ[name]
        with muster.world(backend="nccl") as world:
            print(world.rank, world.size, world.backend, world.joined.identity.sources["rank"])

    def step(rank: int, size: int) -> dict[str, str]:
        one_node = {"SLURM_STEP_TASKS_PER_NODE": "3", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "n1"}
        job = {"SLURM_JOB_ID": str(free_port())}  # one that no other test on this machine has
        return {**slurm_step(rank, "1(x3)", node=0, local=rank), **one_node, **(job if not jobs else jobs[0])}

    jobs: list[dict[str, str]] = [{"SLURM_JOB_ID": str(free_port())}]
    ended = together(3, body, environment=step)
    assert well(ended) == [f"{rank} 3 gloo SLURM_PROCID\n" for rank in range(3)]
    assert "no GPU was asked for" in ended[0].err
    assert "gloo takes the place of nccl" in ended[0].err
    assert ended[1].err == ""


def test_groups_are_contiguous_or_strided() -> None:
    def body() -> None:
        import torch
        import torch.distributed as dist

        import muster

        with muster.world() as world:
            sums = []
            for group in (world.group(2), world.group(2, stride=2), world.group(4), world.node_group, world.group(1)):
                number = torch.tensor([10 ** float(world.rank)])
                dist.all_reduce(number, group=group)
                sums.append(int(number))
            print(*sums)
            assert world.group(2) is world.group(2)
            for size, stride in ((3, 1), (2, 4), (0, 1), (2, 0)):
                with pytest.raises(muster.WireupError, match="do not divide a world of 4"):
                    world.group(size, stride)

    assert well(together(4, body)) == [
        "11 101 1111 1111 1\n",
        "11 1010 1111 1111 10\n",
        "1100 101 1111 1111 100\n",
        "1100 1010 1111 1111 1000\n",
    ]


def test_a_split_makes_worlds_that_know_nothing_of_each_other() -> None:
    def body() -> None:
        import muster

        with muster.world(instances=2) as world:
            print(
                world.instance,
                world.instances,
                world.rank,
                world.size,
                world.local_rank,
                world.mean(world.joined.identity.rank),
            )

    assert well(together(4, body)) == ["0 2 0 2 0 0.5\n", "0 2 1 2 1 0.5\n", "1 2 0 2 0 2.5\n", "1 2 1 2 1 2.5\n"]


def test_a_split_into_unequal_worlds_is_refused() -> None:
    def body() -> None:
        import muster

        with pytest.raises(muster.WireupError, match="3 ranks cannot make 2 worlds"), muster.world(instances=2):
            pass

    well(together(3, body))


def test_a_failing_rank_ends_the_others_in_a_collective() -> None:
    def body() -> None:
        import torch
        import torch.distributed as dist

        import muster

        with muster.world() as world:
            if world.rank == 1:
                raise ValueError("the data are gone")
            dist.all_reduce(torch.ones(1))

    ended = together(3, body)
    assert all(one.status not in (0, 128 + signal.SIGKILL) for one in ended)
    assert "ValueError: the data are gone" in ended[1].err


def test_a_failing_rank_ends_the_others_that_do_something_else() -> None:
    def body() -> None:
        import muster

        with muster.world() as world:
            if world.rank == 0:
                raise ValueError("the data are gone")
            time.sleep(50)

    ended = together(2, body)
    assert [one.status for one in ended] == [1, 1]
    other = together(3, body)
    assert [one.status for one in other] == [1, 1, 1]


def test_a_rank_that_dies_without_a_word_is_missed_by_its_neighbour() -> None:
    def body() -> None:
        import muster

        with muster.world() as world:
            if world.rank == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(50)

    ended = together(3, body)
    assert [one.status for one in ended] == [1, 1, 128 + signal.SIGKILL]
    assert "rank 2 on" in ended[0].err
    assert "died without a word" in ended[0].err


def test_a_rank_that_leaves_early_is_not_missed() -> None:
    def body() -> None:
        import muster

        with muster.world() as world:
            if world.rank == 0:
                time.sleep(3)
            if world.rank == 1:
                raise SystemExit(0)

    well(together(3, body))


def test_a_rank_that_never_joins_is_named_with_its_host() -> None:
    def body() -> None:
        import muster

        with pytest.raises(muster.WireupError) as refused, muster.world(timeout=2):
            pass
        print(refused.value)

    def on_named_hosts(rank: int, size: int) -> dict[str, str]:
        return {
            **torch_variables(rank, size),
            "MUSTER_LAUNCHER": "local",
            "MUSTER_LOCAL_NNODES": "1",
            "MUSTER_NODES": os.uname().nodename,
        }

    said = well(together(3, body, environment=on_named_hosts, only=lambda rank: rank != 1))
    for text in said:
        assert f"rank 1 ({os.uname().nodename}) of 3 did not join within 2 s" in text
        assert "hint:" in text


def test_a_rank_0_that_never_joins_is_named_with_its_address() -> None:
    def body() -> None:
        import muster

        refused = pytest.raises(muster.WireupError, match=r"rank 0 has not opened its store at 127\.0\.0\.1:")
        with refused, muster.world(timeout=1):
            pass

    well(together(2, body, only=lambda rank: rank != 0))


def test_a_taken_port_is_named() -> None:
    def body() -> None:
        import muster

        with pytest.raises(muster.WireupError, match="is taken by another program"), muster.world(timeout=2):
            pass

    port = free_port()
    with listener(port):
        taken = together(
            2,
            body,
            environment=lambda *of: {**torch_variables(*of), "MASTER_PORT": str(port)},
            only=lambda rank: rank == 0,
        )
    well(taken)


def test_an_address_of_another_host_is_named() -> None:
    def body() -> None:
        import muster

        with pytest.raises(muster.WireupError, match="another host's address"), muster.world(timeout=2):
            pass

    elsewhere = {"MASTER_ADDR": "198.51.100.7"}
    well(together(2, body, environment=lambda *of: {**torch_variables(*of), **elsewhere}, only=lambda rank: rank == 0))


def test_a_second_process_group_is_refused() -> None:
    def body() -> None:
        import muster

        refused = pytest.raises(muster.WireupError, match="in a process group already")
        with muster.world(), refused, muster.world():
            pass

    well(together(1, body))


def test_a_torch_that_is_too_old_is_named_and_the_way_without_the_library() -> None:
    def body() -> None:
        import torch

        import muster

        torch.__version__ = "2.2.2+cpu"
        refused = pytest.raises(muster.WireupError, match=r"needs torch 2\.3 or newer, but this is 2\.2\.2")
        with refused as told, muster.world():
            pass
        assert "without it the wire-up still works" in str(told.value)
        torch.__version__ = "2.3.0+cpu"
        with muster.world() as world:
            assert world.size == 1

    well(together(1, body))


def test_a_wrong_sum_after_joining_is_told_of_with_rank_and_host_by_all() -> None:
    """What one rank receives is falsified, as a bad card would; the other ranks' own sums are right."""

    def body() -> None:
        import torch.distributed as dist

        import muster

        rightly = dist.all_reduce

        def wrongly(tensor: Any, *words: Any, **options: Any) -> None:
            rightly(tensor, *words, **options)
            tensor += 1

        if os.environ["RANK"] == "1":
            dist.all_reduce = wrongly
        with muster.world():
            time.sleep(50)

    ended = together(3, body)
    host = os.uname().nodename
    sentence = f"the sum of ones over 3 ranks is 4 on rank 1 ({host}): the network returns wrong values"
    assert [one.status for one in ended] == [1, 1, 1]
    assert f"WireupError: {sentence}\n\nhint: start once more with NCCL_DEBUG=WARN" in ended[1].err
    assert f"muster: rank 0 leaves, because rank 1 on {host} failed: WireupError: {sentence}" in ended[0].err


def test_a_local_rank_that_two_ranks_have_is_named_on_every_rank() -> None:
    def body() -> None:
        import muster

        with pytest.raises(muster.WireupError) as refused, muster.world(timeout=20):
            pass
        print(refused.value)

    twice = together(
        3, body, environment=lambda rank, size: {**torch_variables(rank, size), "LOCAL_RANK": "012"[rank // 2]}
    )
    for said in well(twice):
        assert said.startswith(
            f"ranks 0 and 1 on {os.uname().nodename} both have local rank 0\n\nhint: LOCAL_RANK must"
        )


def test_a_gpu_that_two_ranks_have_is_named_on_every_rank() -> None:
    """Real ranks that tell each other of their GPUs; the GPUs themselves are simulated."""

    def body() -> None:
        import muster
        from muster.rank import join
        from muster.rank.devices import Torch

        names: Any = join
        names.this_torch = lambda: Torch("2.13.0+cu126", "CUDA 12.6", 2, collectives=True)
        names._device = lambda chosen, seat, gpus: seat.local_rank % 2
        names.name_of = lambda device: f"GPU-{device}"
        with pytest.raises(muster.WireupError) as refused, muster.world(timeout=20):
            pass
        print(refused.value)

    for said in well(together(3, body)):
        assert said.startswith(
            f"ranks 0 and 2 on {os.uname().nodename} use the same GPU (GPU-0)\n\nhint: give each rank"
        )


def test_one_world_can_follow_another() -> None:
    second = str(free_port())  # the next number may be another program's

    def body() -> None:
        import muster

        for turn in range(2):
            with muster.world() as world:
                assert world.mean(world.rank) == 0.5
                world.print(turn)
            os.environ["MASTER_PORT"] = second

    assert well(together(2, body)) == ["0\n1\n", ""]


def test_what_rank_0_does_first_is_done_before_the_others_begin(tmp_path: Path) -> None:
    def body() -> None:
        import muster

        marker = tmp_path / "downloaded"
        with muster.world() as world:
            with world.rank0_first():
                if world.rank == 0:
                    time.sleep(0.3)
                    marker.touch()
                assert marker.exists()
            with world.rank0_first(each_node=True):
                pass

    well(together(3, body))


def test_the_failure_of_rank_0_is_not_waited_for() -> None:
    def body() -> None:
        import muster

        with muster.world() as world, world.rank0_first():
            if world.rank == 0:
                raise OSError("disk full")

    ended = together(2, body)
    assert [one.status for one in ended] == [1, 1]
    assert "the rank that went first failed: OSError: disk full" in ended[1].err


def test_a_method_without_a_store_has_a_first_rank_too(tmp_path: Path) -> None:
    """torch's MPI brings none; gloo stands in its place here, as torch's wheels are built without MPI."""

    def body() -> None:
        import muster

        with muster.world() as world:
            store, world.joined = world.joined.store, world.joined._replace(store=None)
            for each_node in (False, True):
                marker = tmp_path / f"done-{each_node}"
                with world.rank0_first(each_node=each_node):
                    if world.rank == 0:
                        time.sleep(0.3)
                        marker.touch()
                    assert marker.exists()
            world.save({"rank": world.rank}, tmp_path / "model.pt")
            assert (tmp_path / "model.pt").exists()
            with pytest.raises((OSError, RuntimeError, muster.WireupError)):
                world.save({}, tmp_path / "no such directory" / "model.pt")
            world.joined = world.joined._replace(store=store)

    well(together(3, body))


def test_the_method_that_was_asked_for_is_used_unless_the_script_names_one() -> None:
    def body() -> None:
        import muster

        os.environ["MUSTER_WIREUP"] = "dummy"
        with muster.world() as world:
            assert world.method == "dummy"
        with muster.world("gloo") as world:
            assert world.method == "gloo"
        os.environ["MUSTER_WIREUP"] = "telepathy"
        with pytest.raises(muster.WireupError, match="MUSTER_WIREUP names 'telepathy'"), muster.world():
            pass
        os.environ["MUSTER_GPUS"] = "4"
        with pytest.raises(muster.WireupError, match=r"GPUs were asked for \(MUSTER_GPUS=4\)"), muster.world("env"):
            pass

    well(together(1, body, environment=lambda rank, size: {"RANK": "0", "WORLD_SIZE": "1"}))


def test_torchruns_own_store_is_used() -> None:
    """torchrun keeps a store at MASTER_ADDR:MASTER_PORT, where rank 0 cannot open another one."""
    program = (
        "import os\n"
        "import muster\n"
        "with muster.world() as world:\n"
        "    found = world.joined.identity.family, world.rank, world.size, world.mean(world.rank)\n"
        "    os.write(1, (' '.join(map(str, found)) + '\\n').encode())\n"  # at once: both ranks write to one pipe
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python", sys.executable]
    done = subprocess.run(
        [sys.executable, *words, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["torchrun 0 2 0.5", "torchrun 1 2 0.5"]


def test_a_large_world_connects_when_it_first_speaks_and_still_misses_its_dead() -> None:
    def body() -> None:
        import torch
        import torch.distributed as dist

        import muster

        with muster.world(timeout=120) as world:
            assert os.environ["TORCH_GLOO_LAZY_INIT"] == "1"
            if world.rank == 40:
                os.kill(os.getpid(), signal.SIGKILL)
            while True:
                dist.all_reduce(torch.ones(1))

    ended = together(64, body, timeout_s=150)
    assert ended.pop(40).status == 128 + signal.SIGKILL
    assert all(one.status not in (0, 128 + signal.SIGKILL) for one in ended)
