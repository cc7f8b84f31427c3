"""What published scripts taught: shapes that a rule took for a fault, and faults that no rule saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.older import tomllib
from muster_lint.look import lint_source
from muster_lint.read import FileKind, SourceFile
from muster_lint.rule import all_rules

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --time=10\n"
_CPUS = _HEAD + "#SBATCH --cpus-per-task=8\n"
_SPAWN = (
    "import torch\nimport torch.multiprocessing as mp\n\n\ndef work(rank, size):\n"
    "    torch.distributed.init_process_group('gloo', rank=rank, world_size=size)\n\n\n"
    "mp.spawn(work, args=(2,), nprocs=torch.cuda.device_count())\n"
)
_OPTION = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--local_rank', type=int)\n"
_LOCAL = (
    "import os\nimport torch\nrank = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set_device(rank)\n"
    "torch.distributed.init_process_group('nccl')\n"
)
_JOIN = "import torch\ntorch.distributed.init_process_group('nccl')\n"
_SAMPLER = "from torch.utils.data import DistributedSampler\n"
_SAVES = (
    "import torch\ntorch.distributed.init_process_group('nccl')\n\n\nclass Trainer:\n    def keep(self):\n"
    "        torch.save({}, 'x.pt')\n\n    def run(self):\n        if self.gpu_id == 0:\n            self.keep()\n"
)


def _rules(text: str, kind: FileKind = FileKind.BATCH) -> list[str]:
    return [each.rule for each in lint_source(SourceFile("job", text, kind))]


@pytest.mark.parametrize(
    ("flag", "is_found"), [("", True), ("--nv ", False), ("--rocm ", False), ("--nvccli ", False), ("--bind /a ", True)]
)
def test_a_container_with_either_vendors_flag_has_its_gpus(flag: str, is_found: bool) -> None:
    job = f"{_HEAD}#SBATCH --gpus-per-node=4\nsrun -K apptainer exec {flag}image.sif python train.py\n"

    assert ("container-without-gpus" in _rules(job)) is is_found


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("tasks-without-nodes", "#!/bin/bash\n#SBATCH -N 3\n#SBATCH -n 3\n#SBATCH -t 5\nsrun -K python x.py\n"),
        ("directive-misspelt", _HEAD + "#  sbatch -N 9 this.sh\nsrun -K hostname\n"),
        ("directive-unknown", _HEAD + "#SBATCH --image=a/b:c\nsrun -K hostname\n"),
        ("directive-twice", _HEAD + "#SBATCH --mail-type=END\n#SBATCH --mail-type=FAIL\nsrun -K hostname\n"),
        ("gpus-per-task", _HEAD + "#SBATCH --gpus-per-task=1\nsrun -K --gres-flags=allow-task-sharing python x.py\n"),
        ("srun-survivors", _HEAD + "srun --wait 30 python x.py\n"),
        ("srun-survivors", "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=10\nsrun python x.py\n"),
        ("srun-survivors", _HEAD + "srun -N 1 -n 1 python x.py\n"),
        ("srun-survivors", _HEAD + "srun bash -c 'cp data/some-python.tar /tmp'\n"),
        ("srun-cpus-per-task", _CPUS + "srun -K --cpu-bind=none python x.py\n"),
        ("srun-cpus-per-task", _CPUS + "srun -K --cpu-bind=v,mask_cpu=0xf,0xf0 python x.py\n"),
        ("srun-cpus-per-task", _CPUS + "srun -K bash -c 'cp data/some-python.tar /tmp'\n"),
        ("container-without-gpus", _HEAD + "#SBATCH --gres=gpu:4\nV=$(apptainer exec a.sif python3 -V)\n"),
        ("python-on-first-node", _HEAD + "python drive.py run.launcher=slurm\n"),
        ("slurm-variable-unset", _HEAD + 'echo "CPUs: $SLURM_CPUS_PER_GPU"\nsrun -K hostname\n'),
        ("visible-devices-literal", _HEAD + "export CUDA_VISIBLE_DEVICES=0,1\nsrun -K --gres=gpu:2 python x.py\n"),
        ("srun-survivors", "#!/bin/bash\n#SBATCH --ntasks=1\n#SBATCH --time=10\nsrun python x.py\n"),
        ("srun-survivors", "#!/bin/bash\n#SBATCH --ntasks-per-node=1\n#SBATCH --time=10\nsrun python x.py\n"),
        ("gpus-per-task", _HEAD + "#SBATCH --gpus-per-task=1\nsrun -K ./a.out\n"),
        ("gpu-bind-hides", _HEAD + "srun -K --gpu-bind=single:1 ./a.out\n"),
        ("directive-after-command", _HEAD + "cat >two.sh <<EOF\n#!/bin/bash\n#SBATCH -N 2\nEOF\nsrun -K hostname\n"),
        ("gpu-bind-hides", _HEAD + "#SBATCH --gpus-per-node=1\nsrun -K --gpu-bind=single:1 python x.py\n"),
        ("python-on-first-node", _HEAD + "python example_launcher.py\n"),
        ("cd-may-fail", _HEAD + 'mkdir -p "${DIR}"\ncd "${DIR}"\nsrun -K hostname\n'),
        ("cd-may-fail", _HEAD + "cd $SLURM_TMPDIR\nsrun -K hostname\n"),
        (
            "container-without-gpus",
            _HEAD + "#SBATCH --gres=gpu:4\napptainer exec a.sif python -c 'import torch; print(torch.__version__)'\n",
        ),
        ("visible-devices-literal", _HEAD + "export CUDA_VISIBLE_DEVICES=0\nsrun -K python x.py\n"),
        (
            "visible-devices-literal",
            _HEAD + "#SBATCH --gres=gpu:4\nexport CUDA_VISIBLE_DEVICES=0\nsrun -K python x.py\n",
        ),
        ("directive-misspelt", _HEAD + "# SBATCH --exclusive\nsrun -K hostname\n"),
        ("directive-misspelt", _HEAD + "# SBATCH --time=20\nsrun -K hostname\n"),
        (
            "background-without-wait",
            _HEAD + "srun -N 1 -n 1 ray start --head --block &\nsleep 9\nbin/tune run\nray stop\n",
        ),
        (
            "rendezvous-id-fixed",
            _HEAD + 'srun -K bash -c "torchrun --rdzv_id=\\$SLURM_JOB_ID --rdzv_endpoint="$A:$B" x.py"\n',
        ),
    ],
)
def test_a_right_batch_script_is_not_blamed(rule: str, text: str) -> None:
    assert rule not in _rules(text)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("local-rank-argument", _OPTION),
        ("every-rank-saves", _JOIN + "buffer = io.BytesIO()\ntorch.save({}, buffer)\n"),
        ("every-rank-saves", _JOIN + "with tempfile.TemporaryFile() as spare:\n    torch.save({}, spare)\n"),
        ("sampler-without-epoch", _SAMPLER + "def make(data):\n    return DistributedSampler(data)\n"),
        (
            "sampler-without-epoch",
            _SAMPLER + "s = DistributedSampler(d, shuffle=False)\nfor epoch in range(9):\n    f(s)\n",
        ),
        (
            "no-device-chosen",
            _JOIN + "device = torch.device('cuda', rank)\nmodel.to(device)\nx = torch.device('cuda')\n",
        ),
        ("data-parallel", _JOIN + "m = torch.nn.DataParallel(m) if one else DistributedDataParallel(m)\n"),
        ("ranks-of-its-own", _SPAWN),
        ("every-rank-saves", _SAVES),
        ("device-by-global-rank", _LOCAL),
    ],
)
def test_a_right_program_is_not_blamed(rule: str, text: str) -> None:
    assert rule not in _rules(text, FileKind.PYTHON)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("every-rank-saves", _JOIN + "buffer = 'x.pt'\ntorch.save({}, buffer)\n"),
        ("sampler-without-epoch", _SAMPLER + "s = DistributedSampler(data)\nfor epoch in range(9):\n    fit(s)\n"),
        (
            "sampler-without-epoch",
            _SAMPLER + "s = DistributedSampler(data)\nfor e in range(args.epochs):\n    fit(s)\n",
        ),
        ("no-device-chosen", _JOIN + "model.to(torch.device('cuda'))\n"),
        ("data-parallel", _JOIN + "model = torch.nn.DataParallel(model)\n"),
    ],
)
def test_a_fault_of_a_program_is_found(rule: str, text: str) -> None:
    assert rule in _rules(text, FileKind.PYTHON)


def test_a_fixed_port_under_torchrun_s_own_name_is_found() -> None:
    port = "export RDZV_HOST=$(hostname)\nexport RDZV_PORT=29400\n"
    assert "port-fixed" in _rules(_HEAD + port + 'srun -K torchrun --rdzv_endpoint="$RDZV_HOST:$RDZV_PORT" x.py\n')


def test_an_open_quote_is_found_where_it_opens() -> None:
    text = _HEAD + "source one.sh\n\n# a line\nif [[ $A == 1 ]]; then\n  B=\"\nelse\n  B='x'\nfi\nsrun -K hostname\n"
    finding = next(each for each in lint_source(SourceFile("job", text, FileKind.BATCH)) if each.rule == "not-bash")
    assert finding.place.line >= 9


def test_the_table_of_published_scripts_is_whole() -> None:
    both = tomllib.loads((Path(__file__).parent / "public.toml").read_text())
    table = both["script"]
    assert len(table) >= 55
    assert len(table) + len(both["read"]) >= 100
    assert all(len(each["commit"]) == 40 for each in both["read"])
    for each in table:
        assert len(each["commit"]) == 40
        assert each["wrong_before"] <= each["findings_before"]
        assert each["wrong_after"] <= each["findings_after"]


def test_what_readers_judged_is_listed_and_good_enough() -> None:
    table = tomllib.loads((Path(__file__).parent / "readings.toml").read_text())
    findings, sites = table["finding"], table["site"]
    assert len(findings) == 100
    assert all(len(each["commit"]) == 40 for each in [*findings, *sites])
    assert all(each["right"] or each["why"] for each in findings)
    kept = [each for each in findings if each["still_reported"]]
    assert sum(each["right"] for each in kept) >= 0.95 * len(kept)
    known = {rule.name for rule in all_rules()}
    assert all(each["still_reported"] for each in findings if each["right"] and each["rule"] in known)
    for held_out in (False, True):
        read = [each for each in sites if each["held_out"] is held_out]
        assert len(read) >= 50
        assert sum(each["wrong"] for each in read) <= 0.03 * sum(each["findings"] for each in read)


def test_the_header_of_a_python_batch_script_is_read() -> None:
    text = "#!/usr/bin/env python3\n#SBATCH --cpu-per-task=8\n#SBATCH --time=5\n\nprint('hello')\n"
    assert _rules(text, FileKind.PYTHON) == ["directive-unknown"]


@pytest.mark.parametrize(
    ("method", "is_found"),
    [("env://", False), ("tcp://n1:23456", False), ("tcp://localhost:23456", True), ("tcp://127.0.0.1:23456", True)],
)
def test_an_address_of_ones_own_is_wrong_for_several_nodes_and_no_other(method: str, is_found: bool) -> None:
    text = f'import torch.distributed as dist\ndist.init_process_group("gloo", init_method="{method}")\n'

    found = [
        each for each in lint_source(SourceFile("t.py", text, FileKind.PYTHON)) if "node means itself" in each.message
    ]
    assert bool(found) is is_found
