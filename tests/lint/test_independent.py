"""What two readers who had not written the rules found wrong or missed, in short scripts of our own."""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of
from muster_lint.values import LintFinding

_HEAD = "#!/bin/bash\n#SBATCH --time=01:00:00\n"
_ONE = _HEAD + "#SBATCH --nodes=1\n"
_TWO = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
_NODES = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_PORT_29500 = "export MASTER_PORT=29500\nsrun -K python t.py\n"
_GLOB = "if true; then\n    FILES=(a/!(*_2x).yaml)\nfi\n"
_EARLY = 'srun -K bash -c "accelerate launch {} --num_machines 2 --machine_rank $SLURM_PROCID t.py"\n'


def _named(text: str, rule: str) -> LintFinding | None:
    findings = lint_source(source_of("job.sh", text))
    return next((finding for finding in findings if finding.rule == rule), None)


_RIGHT = {
    "patterns of extglob": ("not-bash", _ONE + "shopt -s nullglob extglob\n" + _GLOB),
    "a variable that its line asks for": (
        "slurm-variable-unset",
        _ONE + '[[ -n "${SLURM_CPUS_PER_TASK:-}" ]] && EXTRA+=("-j=$SLURM_CPUS_PER_TASK")\ndate\n',
    ),
    "a variable that its branch asks for": (
        "slurm-variable-unset",
        _ONE + 'if [ -n "$SLURM_GPUS" ]; then\n  python t.py $SLURM_GPUS\nfi\n',
    ),
    "a port on whole nodes": (
        "port-fixed",
        _HEAD + "#SBATCH -N2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-task=1\n" + _PORT_29500,
    ),
    "tasks without GPUs that only lie on several nodes": (
        "srun-survivors",
        _HEAD + "#SBATCH --job-name=run_multi_node\n#SBATCH --ntasks=8\nsrun python one.py\n",
    ),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _named(text, rule) is None


_WRONG = {
    "patterns before extglob is on": ("breaks", "not-bash", _ONE + _GLOB + "shopt -s extglob\n"),
    "patterns where extglob is on in a branch": (
        "breaks",
        "not-bash",
        _ONE + "if true; then\n  shopt -s extglob\nfi\n" + _GLOB,
    ),
    "an open branch behind extglob": ("breaks", "not-bash", _ONE + "shopt -s extglob\nif true; then\n  date\n"),
    "a variable that its line uses after another": (
        "fragile",
        "slurm-variable-unset",
        _ONE + '[[ -n "${OTHER:-}" ]] && python t.py $SLURM_GPUS\n',
    ),
    "a port beside which four GPUs of a node are free": (
        "style",
        "port-fixed",
        _HEAD + "#SBATCH -N2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n" + _PORT_29500,
    ),
    "tasks with GPUs on several nodes": (
        "fragile",
        "srun-survivors",
        _HEAD + "#SBATCH --job-name=run_multi_node\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:4\nsrun python one.py\n",
    ),
    "a rank that c10d does not read": (
        "fragile",
        "task-variable-too-early",
        _NODES + _EARLY.format("--rdzv_backend c10d"),
    ),
    "a rank without c10d": ("breaks", "task-variable-too-early", _NODES + _EARLY.format("--multi_gpu")),
    "a rank that c10d does not read, and one that the program does": (
        "breaks",
        "task-variable-too-early",
        _NODES + _EARLY.format("--rdzv_backend c10d").replace("t.py", "t.py --rank $SLURM_PROCID"),
    ),
    "a folder of the batch host by a second variable": (
        "fragile",
        "temporary-folder-of-batch-host",
        _TWO + "top=$(mktemp -d)\nexport MIOPEN_CUSTOM_CACHE_DIR=$top/cache\nsrun -K python t.py\n",
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    severity, rule, text = _WRONG[name]
    finding = _named(text, rule)
    assert finding is not None
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("option", "words"),
    [("--standalone", "2 nodes train alone"), ("--rdzv-backend=c10d --rdzv-endpoint=$h:1", "do not become one world")],
)
def test_nodes_that_meet_at_one_place_are_not_said_to_train_alone(option: str, words: str) -> None:
    finding = _named(_NODES + f"srun -K torchrun {option} --nproc-per-node=4 t.py\n", "standalone-on-nodes")
    assert finding is not None
    assert words in finding.message
