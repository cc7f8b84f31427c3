"""Guards that a launcher in the command is seen, whatever stands before it, and that the hint loses no setting."""

from __future__ import annotations

import shlex

import pytest

from launch.plans import plan
from muster.errors import RequestError
from muster.plan.command import agent_python
from muster.plan.nested import file_of_launcher, launcher_in_text, nested_launcher, refuse_launcher

SEEN = [
    "uv run torchrun --nproc-per-node 2 ddp.py",
    "uv run --no-sync --with rich torchrun ddp.py",
    "uv run accelerate launch x.py",
    "poetry run torchrun x.py",
    "conda run -n e torchrun x.py",
    "conda run --no-capture-output -p /e accelerate launch x.py",
    "numactl --cpunodebind=0 -m 0 torchrun x.py",
    "time -v torchrun x.py",
    "timeout -k 5 30m torchrun x.py",
    "taskset -c 0-3 torchrun x.py",
    "nice -n 5 env A=1 mpirun -np 4 ./a.out",
    "bash -c 'torchrun --nproc-per-node 2 x.py'",
    "bash -lc 'source env/bin/activate && exec torchrun x.py'",
    "sh -c 'cd run; A=1 deepspeed x.py | tee log'",
    "python /opt/venv/bin/torchrun x.py",
    "python -u -m torch.distributed.run x.py",
    "composer -n 8 train.py",
    "colossalai run --nproc_per_node 4 train.py",
    "torchx run -s local_cwd dist.ddp -j 1x2 --script t.py",
    "tune run --nproc_per_node 2 full_finetune_distributed --config c",
    "llamafactory-cli train x.yaml",
    "axolotl train x.yml",
    "mpirun.mpich -np 2 ./a.out",
    "ft_launcher --nproc-per-node 2 x.py",
    "flux run -N2 -n8 python x.py",
    "pdsh -w node[1-2] python x.py",
    "python -X faulthandler -m torch.distributed.run x.py",
    "uv run -m torch.distributed.run --nproc-per-node 2 x.py",
    "env - PATH=/bin torchrun x.py",
    "sudo -u ada torchrun x.py",
    "ibrun -n 4 python x.py",
    "bash -o pipefail -c 'torchrun x.py'",
]
FSDP = (
    "accelerate launch --mixed_precision bf16 --use_fsdp --fsdp_sharding_strategy FULL_SHARD --num_machines 2 "
    "--num_processes 8 x.py --lr 1"
)
NOT_SEEN = [
    "python train.py --launcher torchrun",
    "uv run --with accelerate python x.py",
    "uv run python x.py",
    "uv pip install torchrun",
    "uv run -m pytest torchrun",
    "python -m composer.cli",
    "accelerate config",
    "flux jobs",
    "tune run full_finetune_single_device --config c",
    "bash run.sh torchrun",
    "bash -c 'echo torchrun; python x.py'",
    "env -u X python x.py",
    "time python x.py",
    "numactl -H",
    "python -m torch.distributed.checkpoint.format_utils",
    "env",
    "timeout",
]


@pytest.mark.parametrize("command", SEEN)
def test_a_launcher_is_seen_behind_other_words(command: str) -> None:
    with pytest.raises(RequestError, match="a launcher of its own") as refused:
        plan("-N2", "--", *shlex.split(command))

    assert "--launcher " in (refused.value.hint or "")


@pytest.mark.parametrize("command", NOT_SEEN)
def test_what_only_looks_like_one_is_let_through(command: str) -> None:
    assert nested_launcher(shlex.split(command)) is None


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (FSDP, ("-N 2 --ntasks-per-node 4 --env ACCELERATE_MIXED_PRECISION=bf16 --env ACCELERATE_USE_FSDP=true",)),
        (FSDP, ("--env FSDP_SHARDING_STRATEGY=FULL_SHARD --launcher torchrun -- python x.py --lr 1",)),
        ("accelerate launch --config_file fsdp.yaml x.py", ("no word for --config_file fsdp.yaml", "--env")),
        ("deepspeed --num_gpus 4 --num_nodes 2 x.py --deepspeed d.js", ("-N 2 -g 4", "python x.py --deepspeed d.js")),
        ("torchrun --max-restarts=3 --nproc-per-node=2 x.py", ("--ntasks-per-node 2 --restart 3 --launcher",)),
        ("torchrun --max-restarts=0 x.py", ("Muster start it: --launcher torchrun -- python x.py",)),
        ("torchrun --rdzv-backend c10d --rdzv-endpoint a:1 --nnodes 2 -m pkg.x", ("-N 2 --launcher torchrun --",)),
        ("torchrun --rdzv-backend c10d --rdzv-endpoint a:1 --nnodes 2 -m pkg.x", ("-- python -m pkg.x",)),
        ("uv run --extra gpu torchrun --nnodes=2 x.py", ("-- uv run --extra gpu python x.py",)),
        ("mpirun -np 8 -ppn 4 -x NCCL_DEBUG=INFO ./a.out", ("-N 2 --ntasks-per-node 4 --env NCCL_DEBUG=INFO",)),
        ("srun -N 2 -n 8 -c 4 --gpus-per-node=4 python x.py", ("-N 2 --ntasks-per-node 4 -c 4 -g 4",)),
        ("srun -N2 -n8 -c4 -G4 python x.py", ("-N 2 --ntasks-per-node 4 -c 4 -g 4 --launcher",)),
        ("bash -c 'torchrun x.py \"$@\" --out \"$HOME/a b\"'", ('-- python x.py ARGUMENTS --out "$HOME/a b"',)),
        ("bash -c 'torchrun x.py \"a$\" \"c d\"'", ("-- python x.py 'a$' 'c d'",)),
        ("srun -N 2 --qos=debug python x.py", ("no word for --qos=debug",)),
        ("mpiexec -n 2 --oversubscribe ./a.out 1", ("-- ./a.out 1; Muster has no word for --oversubscribe",)),
        ("composer -n 4 x.py", ("it: --ntasks-per-node 4 --launcher torchrun -- python x.py",)),
        ("composer --nproc=4 --world_size 8 x.py", ("-N 2 --ntasks-per-node 4 --launcher torchrun",)),
        ("axolotl train x.yml", ("--launcher torchrun -- python -m axolotl.cli.train FILE",)),
        ("srun -n 4 hostname", ("--launcher srun -- hostname",)),
        ("srun -E -n 4 hostname", ("--launcher srun -- hostname; Muster has no word for -E",)),
        ("torchrun --new-option 3 x.py", ("-- python x.py; Muster has no word for --new-option 3",)),
        ("ibrun -n 4 python x.py", ("--ntasks-per-node 4 --launcher ibrun -- python x.py",)),
        ("uv run -m torch.distributed.run --nnodes 2 x.py", ("-N 2 --launcher torchrun -- uv run python x.py",)),
        (
            "tune run --nnodes 2 --nproc_per_node=4 --rdzv_endpoint h:1 full_finetune_distributed --config x.yaml lr=1",
            (
                "copy the recipe, tune cp full_finetune_distributed full_finetune_distributed.py, and let Muster",
                "4 --launcher torchrun -- python full_finetune_distributed.py --config x.yaml lr=1",
            ),
        ),
        (
            "tune run --standalone --nproc-per-node 2 mine.py --config x.yaml",
            ("let Muster start it: --ntasks-per-node 2 --launcher torchrun -- python mine.py --config x.yaml",),
        ),
    ],
)  # fmt: skip
def test_the_hint_loses_no_setting(command: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(RequestError) as refused:
        plan("--", *shlex.split(command))

    for part in parts:
        assert part in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("#!/bin/bash\nset -e\nexport A=1\ntorchrun --nnodes 2 \\\n  x.py\n", "torchrun"),
        ("if true; then\n  srun python x.py\nfi\n", "srun"),
        ("# torchrun x.py\npython x.py\n", None),
        ("cat <<EOF\ntorchrun x.py\nEOF\npython x.py\n", None),
        ("if [ -n \"$RANK\" ]; then python x.py; else torchrun x.py; fi\n", None),
        ("echo 'use torchrun x.py'\n", None),
    ],
)  # fmt: skip
def test_a_launcher_is_seen_in_a_shell_script(text: str, seen: str | None) -> None:
    nested = launcher_in_text(text)

    assert (nested and nested.name) == seen


@pytest.mark.parametrize(
    ("command", "agent"),
    [
        ("/venv/bin/python -u x.py", ("/venv/bin/python",)),
        ("v/bin/python3.12 x.py", ("v/bin/python3.12",)),
        ("uv run --extra gpu python x.py", ("uv", "run", "--extra", "gpu", "python")),
        ("uv run x.py", ("uv", "run", "python")),
        ("conda run -n e python x.py", ("conda", "run", "-n", "e", "python")),
        ("numactl -N 0 /venv/bin/python x.py", ("/venv/bin/python",)),
        ("bash run.sh", ("/home/ada/env/bin/python",)),
    ],
)
def test_torchruns_agent_has_the_python_of_the_command(command: str, agent: tuple[str, ...]) -> None:
    assert agent_python(shlex.split(command), "/home/ada/env/bin/python") == agent
    assert plan("-N2", "--", *shlex.split(command), launcher="torchrun").agent == agent


def test_a_count_of_all_ranks_is_divided_by_the_nodes_that_were_typed() -> None:
    with pytest.raises(RequestError) as caught:
        plan("-N", "2", "-g", "4", "--", "accelerate", "launch", "--num_processes", "8", "x.py")
    assert "--ntasks-per-node 4 --launcher torchrun -- python x.py" in (caught.value.hint or "")


def test_the_settings_of_accelerate_s_file_stand_in_the_hint() -> None:
    text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_machines: 2\nnum_processes: 8\n"
    nested = nested_launcher(["accelerate", "launch", "--config_file", "z3.yaml", "--mixed_precision", "bf16", "x.py"])
    assert nested is not None

    hint = refuse_launcher(nested, launcher_file=("z3.yaml", text)).hint

    assert hint == (
        "let Muster start it: -N 2 --ntasks-per-node 4 --env ACCELERATE_MIXED_PRECISION=bf16"
        " --env ACCELERATE_CONFIG_DS_FIELDS=zero_stage --env ACCELERATE_USE_DEEPSPEED=true"
        " --env ACCELERATE_DEEPSPEED_ZERO_STAGE=3 --launcher torchrun -- python x.py"
    )


@pytest.mark.parametrize("text", ["- a\n", "distributed_type: XLA\n"])
def test_settings_that_are_not_certain_stay_a_question(text: str) -> None:
    nested = nested_launcher(["accelerate", "launch", "--config_file", "c.yaml", "x.py"])
    assert nested is not None

    assert "no word for --config_file c.yaml" in (refuse_launcher(nested, launcher_file=("c.yaml", text)).hint or "")


def test_only_accelerate_s_file_is_read() -> None:
    assert file_of_launcher(["accelerate", "launch", "--config_file", "c.yaml", "x.py"]) == "c.yaml"
    assert file_of_launcher(["torchrun", "--config_file", "c.yaml", "x.py"]) is None
    assert file_of_launcher(["python", "x.py", "--config_file", "c.yaml"]) is None
