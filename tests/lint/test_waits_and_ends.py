"""What a reader of strange scripts missed: waits, lost failures, unused sizes; each by the shortest script."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of
from muster_lint.values import Severity

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
_ONE = _HEAD + "#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_FOUR = _HEAD + "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n"
_SERVE = _ONE + "set -e\nvllm serve m --port $PORT > s.log 2>&1 &\nPID=$!\n"
_ASK = "\npython ask.py\n"

_NONE = _ONE + "#SBATCH --gres=gpu:0\n"
_AMD = _HEAD + "#SBATCH -N 2\n#SBATCH -n 16\nmodule load rocm/5.7\n"
_PER_TASK = _ONE + "#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-task={}\n"

_FOUND = {
    "gpus-not-asked-for": (
        ("ROCm", _AMD + "srun python t.py\n"),
        ("an option of the program", _HEAD + "#SBATCH -N 2\n#SBATCH -n 16\nsrun python t.py --gpus 8\n"),
        ("a variable of MIOpen", _ONE + "export MIOPEN_DISABLE_CACHE=1\n./t\n"),
        ("the GPUs of AMD", _ONE + "export ROCR_VISIBLE_DEVICES=0,1\n./t\n"),
        ("none in a partition of GPUs", _NONE + "#SBATCH -p gpu\npython t.py\n"),
        ("none for a launcher", _NONE + "torchrun --standalone --nproc-per-node=4 t.py\n"),
        ("none per node", _ONE + "#SBATCH --gpus-per-node=0\nnvidia-smi\npython t.py\n"),
    ),
    "more-ranks-than-gpus": (
        ("of a task", _PER_TASK.format(1) + "srun torchrun --standalone --nproc-per-node=4 t.py\n"),
        ("of accelerate", _ONE + "#SBATCH --gres=gpu:1\naccelerate launch --num_processes 4 t.py\n"),
    ),
    "agents-on-every-task": (("one GPU each", _FOUR + "srun torchrun --standalone --nproc-per-node=4 t.py\n"),),
    "wait-without-end": (
        ("until", _SERVE + "until curl -s h; do sleep 3; done" + _ASK),
        ("while not", _SERVE + "while ! nc -z localhost $PORT; do\n  echo waiting\n  sleep 1\ndone" + _ASK),
        (
            "a lone break",
            _SERVE + "while true; do\n  if curl -s h; then\n    echo up\n    break\n  fi\n  sleep 2\ndone" + _ASK,
        ),
        ("a code", _SERVE + "while [ \"$(curl -s -o x -w '%{c}' h)\" != 200 ]; do sleep 1; done" + _ASK),
        ("its log", _SERVE + "while ! grep -q complete s.log; do sleep 1; done" + _ASK),
        (
            "a code in a variable",
            _SERVE + "while true; do\n  s=$(curl -s -o x h)\n  [ $s = 200 ] && break\n  sleep 1\ndone" + _ASK,
        ),
        ("in a function", _SERVE + "f() {\n  until curl -s $1; do sleep 1; done\n}\nf h" + _ASK),
        ("a file that nobody here makes", _ONE + "while [ ! -f ready ]; do sleep 1; done" + _ASK),
    ),
}
_SILENT = {
    "gpus-not-asked-for": (
        ("a step that asks", _AMD + "srun --gpus-per-node=8 python t.py --gpus 8\n"),
        ("a job for CPUs", _ONE + "#SBATCH --job-name=cpu-only\nmodule load rocm\n./t\n"),
        ("a program told to use none", _ONE + "./run.sh --gpu false\n"),
        ("no sign", _NONE + "python count.py\n"),
        ("a comment that tells how", _ONE + "# sbatch --gres=gpu:1 job.sh\nexport NCCL_DEBUG=INFO\n./t\n"),
    ),
    "more-ranks-than-gpus": (
        ("as many", _PER_TASK.format(4) + "srun torchrun --standalone --nproc-per-node=4 t.py\n"),
        ("a step of its own size", _PER_TASK.format(1) + "srun --gpus=4 torchrun --nproc-per-node=4 t.py\n"),
    ),
    "wait-without-end": (
        ("a count", _SERVE + "n=0\nuntil curl -s h; do sleep 3; n=$((n+1)); [ $n -gt 50 ] && exit 1; done" + _ASK),
        ("its process", _SERVE + "until curl -s h; do kill -0 $PID || exit 1; sleep 3; done" + _ASK),
        ("its process by ps", _SERVE + "while ! curl -s h; do ps -p $PID || exit 1; sleep 3; done" + _ASK),
        ("a limit around it", _SERVE + 'timeout 600 bash -c "until curl -s h; do sleep 3; done"' + _ASK),
        ("the end of a process", _SERVE + "while kill -0 $PID; do sleep 60; done" + _ASK),
        ("a deadline", _SERVE + "E=$((SECONDS+9))\nuntil curl -s h || [ $SECONDS -gt $E ]; do sleep 3; done" + _ASK),
        ("a lock that goes", _SERVE + "while [ -f lock ]; do sleep 3; done" + _ASK),
        ("a signal", _SERVE + "trap 'exit 1' CHLD\nuntil curl -s h; do sleep 3; done" + _ASK),
        ("a loop that works", _SERVE + "until curl -s h; do python next.py; sleep 3; done" + _ASK),
    ),
}


def _cases(table: Mapping[str, tuple[tuple[str, str], ...]]) -> list[object]:
    return [pytest.param(rule, text, id=f"{rule}: {name}") for rule, rows in table.items() for name, text in rows]


def _rules(text: str) -> set[str]:
    return {each.rule for each in lint_source(source_of("job.sh", text))}


@pytest.mark.parametrize(("rule", "text"), _cases(_FOUND))
def test_what_a_reader_missed_is_found(rule: str, text: str) -> None:
    assert rule in _rules(text)


@pytest.mark.parametrize(("rule", "text"), _cases(_SILENT))
def test_what_is_right_is_not_blamed(rule: str, text: str) -> None:
    assert rule not in _rules(text)


@pytest.mark.parametrize(
    ("options", "severity"),
    [("", Severity.BREAKS), (" --gpu-bind=closest", Severity.FRAGILE), (" --gpu-bind=none", Severity.FRAGILE)],
)
def test_more_ranks_than_a_task_sees_gpus_break_where_slurm_hides_the_others(options: str, severity: Severity) -> None:
    for text in (_FOUR, _PER_TASK.format(1)):
        command = f"srun{options} torchrun --standalone --nproc-per-node=4 t.py\n"
        rules = {"agents-on-every-task", "more-ranks-than-gpus"}
        found = [each for each in lint_source(source_of("job.sh", text + command)) if each.rule in rules]
        assert [each.severity for each in found] == [severity]
