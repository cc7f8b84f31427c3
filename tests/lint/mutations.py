"""Faults seeded into correct scripts of our own: the rules' good examples and the scripts that Muster's tests keep.

A seed is one fault that a person makes: a flag that is left out, a name that is misspelt, a line in the wrong place. It
is put wherever it fits, so that each rule is asked in many surroundings. Where a seed fits is said by the text alone, and
which rule has to find it is said here, not by the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from muster_lint.look import lint_source
from muster_lint.read import FileKind, SourceFile
from muster_lint.rule import all_rules

__all__ = ["SEEDS", "Mutation", "correct", "is_found", "mutations"]


class Mutation(NamedTuple):
    """One script with one fault."""

    seed: str
    rules: tuple[str, ...]
    """The rules that may find it: the first is the right one, others name the same fault."""

    of: str
    text: str
    kind: FileKind


class Seed(NamedTuple):
    """One fault, and where it fits."""

    name: str
    rules: tuple[str, ...]
    put: Callable[[str], str | None]
    kind: FileKind = FileKind.BATCH


def correct() -> dict[str, tuple[str, FileKind]]:
    """Return the scripts that are right, by the name of what they are an example of."""
    return {rule.name: (rule.good, FileKind(rule.language)) for rule in all_rules()}


def _sub(pattern: str, new: str) -> Callable[[str], str | None]:
    """Replace the first place that fits; None where none does."""

    def put(text: str) -> str | None:
        changed, count = re.subn(pattern, new, text, count=1, flags=re.MULTILINE)
        return changed if count and changed != text else None

    return put


def _header(line: str, unless: str = "") -> Callable[[str], str | None]:
    """Add a directive behind the first one, unless the script speaks of it."""

    def put(text: str) -> str | None:
        if unless and re.search(unless, text):
            return None
        changed, count = re.subn(r"^(#SBATCH .*\n)", rf"\g<1>#SBATCH {line}\n", text, count=1, flags=re.MULTILINE)
        return changed if count else None

    return put


def _before_step(line: str, needs: str = "", unless: str = "") -> Callable[[str], str | None]:
    """Add a line before the first step of ranks."""

    def put(text: str) -> str | None:
        if (needs and not re.search(needs, text)) or (unless and re.search(unless, text)):
            return None
        changed, count = re.subn(r"^(srun [^\n]*python)", rf"{line}\n\g<1>", text, count=1, flags=re.MULTILINE)
        return changed if count else None

    return put


def _step(new: str, unless: str = "") -> Callable[[str], str | None]:
    """Put flags behind the first srun of ranks."""

    def put(text: str) -> str | None:
        if unless and re.search(unless, text):
            return None
        changed, count = re.subn(r"^srun (?=[^\n]*python)", f"srun {new} ", text, count=1, flags=re.MULTILINE)
        return changed if count else None

    return put


_PLAIN = r"^srun [^\n|&]*(?<!\.)python train\.py"
_AGENT = r"^srun [^\n]*torchrun [^\n]*--rdzv-backend=c10d"


def _where(needs: str, put: Callable[[str], str | None], unless: str = "") -> Callable[[str], str | None]:
    """Put a fault only into scripts that have something, and lack something else."""

    def within(text: str) -> str | None:
        if not re.search(needs, text, re.MULTILINE) or (unless and re.search(unless, text, re.MULTILINE)):
            return None
        return put(text)

    return within


def _two(first: Callable[[str], str | None], second: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """Put two halves of one fault."""

    def put(text: str) -> str | None:
        half = first(text)
        return second(half) if half is not None else None

    return put


SEEDS: tuple[Seed, ...] = (
    # What jobs share, and what a job asks for too much.
    Seed("nodes by their names", ("nodes-pinned",), _header("--nodelist=node7", "nodelist")),
    Seed("a step in a trap of EXIT", ("step-in-exit-trap",), _before_step("trap 'srun true' EXIT", unless="trap")),
    Seed(
        "a pattern in a command",
        ("pattern-in-command",),
        _where("^#SBATCH", _sub(r"^(srun [^\n|&]*train\.py)(?=[ \n])", r"\1 --out run-%j")),
    ),
    Seed(
        "more loaders than CPUs",
        ("workers-beyond-cpus",),
        _where(
            r"^#SBATCH --cpus-per-task=[2-9]\b", _sub(r"^(srun [^\n|&]*train\.py)(?=[ \n])", r"\1 --num_workers 64")
        ),
    ),
    Seed("an argument that nobody asks for", ("argument-unchecked",), _sub(r"^(python train\.py)$", r"\1 --model $1")),
    # What readers of scripts saw and the rules did not, until they were told.
    Seed("a download", ("download-in-job",), _where("^#SBATCH", _before_step("wget https://example.org/data.tar"))),
    Seed(
        "another branch of the code",
        ("code-changes-in-job",),
        _where("^#SBATCH", _before_step("git checkout dev", unless="git |cd .*(TMP|local|JOB)")),
    ),
    Seed("a shell alone", ("shell-without-commands",), _where("^#SBATCH", _before_step("bash"))),
    Seed(
        "settings in a shell of their own",
        ("environment-in-child",),
        _where("^#SBATCH", _before_step("bash ~/.bashrc")),
    ),
    Seed(
        "a name with another ending",
        ("variable-never-set", "unset-under-nounset"),
        _where(
            r"\A(?![\s\S]*(^\s*(source|\.|eval)\s|--export))[\s\S]*^#SBATCH",
            _two(
                _before_step("folder_of_data=/data"),
                _sub(r"^(srun [^\n|&]*(?<!\.)python train\.py)(?=[ \n])", r"\1 --data $folder_of_dat"),
            ),
        ),
    ),
    Seed(
        "an option twice",
        ("option-twice",),
        _where("^#SBATCH", _sub(r"^(srun [^\n|&]*(?<!\.)python train\.py)(?=[ \n])", r"\1 --lr 1 --lr 2")),
    ),
    Seed(
        "a log with one name",
        ("log-of-every-run", "array-shares-file"),
        _where(
            r"\A(?![\s\S]*(^cd |^pushd |--array))[\s\S]*^#SBATCH",
            _sub(r"^(srun [^\n|&>]*(?<!\.)python train\.py)$", r"\1 > train.log"),
        ),
    ),
    # The header, as a tired hand writes it.
    Seed(
        "a blank in #SBATCH",
        ("directive-misspelt",),
        _sub(r"^#SBATCH (--(?:gres|gpus-per-node|nodes=(?!1$)))", r"# SBATCH \1"),
    ),
    Seed("#SBTACH", ("directive-misspelt",), _sub(r"^#SBATCH (--(?:gres|gpus-per-node|nodes))", r"#SBTACH \1")),
    Seed("#sbatch", ("directive-misspelt",), _sub(r"^#SBATCH (--(?:gres|gpus-per-node|nodes=(?!1$)))", r"#sbatch \1")),
    Seed("no dashes", ("directive-without-option",), _sub(r"^#SBATCH --(gres|time|nodes)=", r"#SBATCH \1=")),
    Seed("--node", ("directive-unknown",), _sub(r"^#SBATCH --nodes=", "#SBATCH --node=")),
    Seed("--ntask-per-node", ("directive-unknown",), _sub(r"^#SBATCH --ntasks-per-node=", "#SBATCH --ntask-per-node=")),
    Seed("--cpu-per-task", ("directive-unknown",), _header("--cpu-per-task=8", "cpus-per-task")),
    Seed("--acount", ("directive-unknown",), _header("--acount=phys")),
    Seed("--partiton", ("directive-unknown",), _header("--partiton=gpu")),
    Seed("--gpu-per-node", ("directive-unknown",), _sub(r"^#SBATCH --gpus-per-node=", "#SBATCH --gpu-per-node=")),
    Seed("a directive behind a command", ("directive-after-command",), _sub(r"\Z", "#SBATCH --mem=64G\n")),
    Seed("a late time limit", ("directive-after-command",), _sub(r"\Z", "#SBATCH --qos=long\n")),
    Seed("a variable in a directive", ("directive-expands",), _header("--error=$HOME/%j.err", "--error|-e ")),
    Seed("no #!", ("no-interpreter",), _sub(r"\A#![^\n]*\n", "")),
    Seed(
        "Windows line ends", ("dos-line-ends",), lambda text: text.replace("\n", "\r\n") if "\r" not in text else None
    ),
    Seed("no time limit", ("no-time-limit",), _sub(r"^#SBATCH (--time=|-t )[^\n]*\n", "")),
    Seed("memory twice", ("memory-twice",), _two(_header("--mem=64G", "--mem"), _header("--mem-per-cpu=4G"))),
    Seed(
        "a directive twice", ("directive-twice",), _sub(r"^#SBATCH --time=[^\n]*\n", r"\g<0>#SBATCH --time=09:00:00\n")
    ),
    Seed("nodes twice", ("directive-twice",), _sub(r"^(#SBATCH --nodes=)(\d)\n", r"\1\2\n\g<1>7\n")),
    Seed(
        "GPUs of all", ("gpus-in-all",), _where("nodes=[2-9]", _sub(r"^#SBATCH --gpus-per-node=4", "#SBATCH --gpus=8"))
    ),
    Seed(
        "a GPU for each task",
        ("gpus-per-task",),
        _where(_PLAIN, _sub(r"^#SBATCH --(gpus-per-node=4|gres=gpu:4)$", "#SBATCH --gpus-per-task=1")),
    ),
    Seed(
        "more ranks than GPUs",
        ("more-ranks-than-gpus",),
        _where(r"gpus-per-node=4[\s\S]*^srun [^\n]*python train", _sub(r"ntasks-per-node=4", "ntasks-per-node=8")),
    ),
    Seed("a placeholder", ("placeholder",), _header("--account=<your_account>", "--account")),
    Seed("a placeholder in capitals", ("placeholder",), _header("--account=YOUR_ACCOUNT", "--account")),
    Seed(
        "output into a folder that the script makes",
        ("output-folder",),
        _two(_header("--output=logs/%j.out", "--output|-o |mkdir|--array"), _before_step("mkdir -p logs")),
    ),
    Seed(
        "an export that drops all",
        ("export-drops-environment",),
        _where(_PLAIN, _header("--export=DATA=/scratch/x", "--export")),
    ),
    # The step.
    Seed(
        "no --cpus-per-task on srun",
        ("srun-cpus-per-task",),
        _where(_PLAIN, _header("--cpus-per-task=8", "cpus-per-task|SRUN_CPUS|cpu-bind|--exact")),
    ),
    Seed(
        "no --kill-on-bad-exit",
        ("srun-survivors",),
        _where(
            r"nodes=[2-9][\s\S]*^srun [^\n]*--kill-on-bad-exit=1 [^\n]*python train",
            _sub(r"--kill-on-bad-exit=1 ", ""),
            r"set -e|--wait|trap|bash -c|torchrun",
        ),
    ),
    Seed(
        "python without srun",
        ("python-on-first-node",),
        _where(
            r"nodes=[2-9][\s\S]*ntasks-per-node=[2-9]",
            _sub(r"^srun --kill-on-bad-exit=1 python train\.py$", "python train.py"),
            r"[&\\]$|trap|wait|\|",
        ),
    ),
    Seed(
        "python -u without srun",
        ("python-on-first-node",),
        _where(
            r"nodes=[2-9][\s\S]*ntasks-per-node=[2-9]",
            _sub(r"^srun --kill-on-bad-exit=1 python train\.py$", "python -u train.py --lr 1"),
            r"[&\\]$|trap|wait|\|",
        ),
    ),
    Seed("one GPU for each rank", ("gpu-bind-hides",), _where(_PLAIN, _step("--gpu-bind=map_gpu:0,1,2,3", "gpu-bind"))),
    Seed(
        "one GPU for each rank, by itself",
        ("gpu-bind-hides",),
        _where(_PLAIN, _step("--gpu-bind=single:1", "gpu-bind")),
    ),
    Seed(
        "a step in the background",
        ("background-without-wait",),
        _where(r"nodes", _sub(r"^(srun --kill-on-bad-exit=1 python train\.py)$", r"\1 &"), r"wait|trap|&$|\|"),
    ),
    Seed("a variable of Slurm misspelt", ("slurm-variable-misspelt",), _before_step("nodes=$SLURM_JOB_NUMNODES")),
    Seed("another variable misspelt", ("slurm-variable-misspelt",), _before_step("tasks=$SLURM_NTASK_PER_NODE")),
    Seed(
        "a rank of the batch host",
        ("task-variable-too-early",),
        _sub(
            r"^srun (--kill-on-bad-exit=1) python train\.py$", r'srun \1 bash -c "python train.py --rank $SLURM_PROCID"'
        ),
    ),
    Seed(
        "a local rank of the batch host",
        ("task-variable-too-early",),
        _sub(r"^srun (--kill-on-bad-exit=1) python train\.py$", r"srun \1 python train.py --local-rank $SLURM_LOCALID"),
    ),
    Seed(
        "a host of the batch host",
        ("hostname-too-early",),
        _where(
            "nodes=[2-9]",
            _sub(
                r"^srun (--kill-on-bad-exit=1) python train\.py$",
                r'srun \1 bash -c "python train.py --node $(hostname)"',
            ),
        ),
    ),
    Seed(
        "RANK exported by the script",
        ("rank-exported-by-script",),
        _where(_PLAIN, _before_step("export RANK=$SLURM_PROCID", unless="RANK=")),
    ),
    Seed(
        "LOCAL_RANK exported by the script",
        ("rank-exported-by-script",),
        _where(_PLAIN, _before_step("export LOCAL_RANK=$SLURM_LOCALID", unless="RANK=")),
    ),
    Seed(
        "a container without GPUs",
        ("container-without-gpus",),
        _where(
            r"gpu",
            _sub(
                r"^srun (--kill-on-bad-exit=1) python train\.py$", r"srun \1 apptainer exec image.sif python train.py"
            ),
        ),
    ),
    Seed(
        "singularity without GPUs",
        ("container-without-gpus",),
        _where(
            r"gpu",
            _sub(
                r"^srun (--kill-on-bad-exit=1) python train\.py$",
                r"srun \1 singularity exec -B /x image.sif python train.py",
            ),
        ),
    ),
    Seed(
        "an installation in each rank",
        ("install-in-job",),
        _sub(r"^srun (--kill-on-bad-exit=1) python train\.py$", r"srun \1 bash -c 'pip install x; python train.py'"),
    ),
    Seed(
        "a pause for order",
        ("sleep-for-order",),
        _sub(
            r"^srun (--kill-on-bad-exit=1) python train\.py$",
            r"srun \1 bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then rocm-smi; fi; sleep 2; python train.py'",
        ),
    ),
    Seed(
        "ssh in a loop",
        ("ssh-to-nodes",),
        _sub(
            r"^srun --kill-on-bad-exit=1 python train\.py$",
            "for node in $(scontrol show hostnames $SLURM_JOB_NODELIST); do ssh $node python train.py & done\nwait",
        ),
    ),
    Seed(
        "a pipe that hides the status",
        ("status-lost-in-pipe",),
        _where(r"nodes", _sub(r"^(srun --kill-on-bad-exit=1 python train\.py)$", r"\1 | tee log"), r"pipefail|&$|wait"),
    ),
    Seed(
        "an echo that hides the status",
        ("status-lost-at-end",),
        _where(
            r"nodes",
            _sub(r"^(srun --kill-on-bad-exit=1 python train\.py)\n\Z", r"\1\necho done\n"),
            r"set -e|&$|wait|errexit",
        ),
    ),
    # The agents.
    Seed(
        "an agent for every task",
        ("agents-on-every-task",),
        _where(_AGENT, _sub(r"ntasks-per-node=1", "ntasks-per-node=4")),
    ),
    Seed(
        "an agent without srun",
        ("agent-on-first-node",),
        _where(r"nodes=[2-9]", _sub(r"^srun (--kill-on-bad-exit=1 )(?=torchrun)", "")),
    ),
    Seed(
        "a fixed rendezvous id",
        ("rendezvous-id-fixed",),
        _where(_AGENT, _sub(r'--rdzv-id="\$SLURM_JOB_ID"', "--rdzv-id=101")),
    ),
    Seed(
        "the wrong number of nodes",
        ("nodes-disagree",),
        _where(_AGENT, _sub(r'--nnodes="\$SLURM_JOB_NUM_NODES"', "--nnodes=16")),
    ),
    Seed(
        "too many ranks",
        ("more-ranks-than-gpus",),
        _where(rf"gpus-per-node=4[\s\S]*{_AGENT}", _sub(r"--nproc-per-node=4", "--nproc-per-node=8")),
    ),
    Seed(
        "a copy that nobody asks",
        ("copy-may-fail",),
        _where(
            r"^(?![\s\S]*(set -|\$\?))",
            _sub(r"^(srun --kill-on-bad-exit=1 python train\.py)$", r"cp -r data /tmp/data\n\1 /tmp/data"),
        ),
    ),
    Seed(
        "a program told of other nodes",
        ("size-told-differs",),
        _where(r"nodes=2", _sub(r"^(srun --kill-on-bad-exit=1 python train\.py)$", r"\1 --num_nodes 9")),
    ),
    Seed(
        "tasks for CPUs",
        ("tasks-as-cpus",),
        _where(
            r"nodes=1\n(?![\s\S]*(srun|ntasks))",
            _sub(r"^#SBATCH --time", "#SBATCH --ntasks-per-node=8\n#SBATCH --time"),
        ),
    ),
    Seed(
        "idle GPUs",
        ("gpus-idle",),
        _where(rf"gpus-per-node=4[\s\S]*{_AGENT}", _sub(r"--nproc-per-node=4", "--nproc-per-node=2")),
    ),
    Seed(
        "the old launcher", ("old-launcher",), _where(_AGENT, _sub(r"torchrun ", "python -m torch.distributed.launch "))
    ),
    Seed("a fixed port of the agent", ("port-fixed",), _where(_AGENT, _sub(r'"\$head:\$port"', '"$head:29500"'))),
    Seed(
        "agents that stand alone",
        ("standalone-on-nodes",),
        _where(
            rf"nodes=[2-9][\s\S]*{_AGENT}",
            _sub(r"torchrun --nnodes[^\n]*$", "torchrun --standalone --nproc-per-node=4 train.py"),
        ),
    ),
    # The meeting point and the environment.
    Seed("a fixed port", ("port-fixed",), _before_step("export MASTER_PORT=29500", unless="MASTER_PORT|port=")),
    Seed("another fixed port", ("port-fixed",), _before_step("export MASTER_PORT=6000", unless="MASTER_PORT|port=")),
    Seed(
        "this host",
        ("address-is-loopback",),
        _where(r"nodes=[2-9]", _before_step("export MASTER_ADDR=localhost", unless="MASTER_ADDR|head=")),
    ),
    Seed(
        "127.0.0.1",
        ("address-is-loopback",),
        _where(r"nodes=[2-9]", _before_step("export MASTER_ADDR=127.0.0.1", unless="MASTER_ADDR|head=")),
    ),
    Seed(
        "a list of nodes",
        ("address-is-a-list",),
        _before_step("export MASTER_ADDR=$SLURM_JOB_NODELIST", unless="MASTER_ADDR|head="),
    ),
    Seed(
        "an address alone",
        ("port-missing",),
        _where(_PLAIN, _before_step("export MASTER_ADDR=$(hostname)", unless="MASTER_|head=")),
    ),
    Seed(
        "an address that no rank sees",
        ("not-exported",),
        _where(_PLAIN, _before_step("MASTER_ADDR=$(hostname)", unless="MASTER_|head=")),
    ),
    Seed("an open if", ("not-bash",), _sub(r"\Z", "if [ -f x ]; then\n")),
    Seed("an open quote", ("not-bash",), _sub(r"\Z", "echo 'done\n")),
    Seed("an assignment with blanks", ("assignment-with-blanks",), _before_step("DATA = /scratch/data")),
    Seed(
        "a folder that may not be there",
        ("cd-may-fail",),
        _before_step("cd /scratch/project/run\nrm -rf old", unless="set -e|cd "),
    ),
    Seed(
        "conda without its function",
        ("conda-not-set-up",),
        _before_step("conda activate torch", unless="conda|activate"),
    ),
    Seed("the login shell's file", ("bashrc-in-job",), _before_step("source ~/.bashrc", unless="bashrc")),
    Seed(
        "modules behind the environment",
        ("modules-after-environment",),
        _before_step("source ~/env/bin/activate\nmodule load python/3.11", unless="activate|module"),
    ),
    Seed(
        "too many threads",
        ("threads-too-many",),
        _two(
            _header("--cpus-per-task=4", "cpus-per-task"), _before_step("export OMP_NUM_THREADS=64", unless="OMP_NUM")
        ),
    ),
    Seed(
        "an endless time-out",
        ("nccl-ib-timeout",),
        _before_step("export NCCL_IB_TIMEOUT=100", unless="NCCL_IB_TIMEOUT"),
    ),
    Seed("no InfiniBand", ("fabric-off",), _before_step("export NCCL_IB_DISABLE=1", unless="DISABLE")),
    Seed("no peer access", ("fabric-off",), _before_step("export NCCL_P2P_DISABLE=1", unless="DISABLE")),
    Seed(
        "kernels one by one",
        ("debug-switch-left-on",),
        _before_step("export CUDA_LAUNCH_BLOCKING=1", unless="BLOCKING"),
    ),
    Seed(
        "a name that nobody reads", ("variable-unread",), _before_step("export MIOPEN_USER_DB=/tmp/x", unless="MIOPEN")
    ),
    Seed(
        "one GPU for all",
        ("visible-devices-literal",),
        _where(
            r"(gpus-per-node|gres=gpu:)=?[2-9]",
            _sub(r"^(srun .*?)(python train.py.*)$", r"\1bash -c 'export CUDA_VISIBLE_DEVICES=0; \2'"),
        ),
    ),
    Seed(
        "a secret",
        ("secret-in-script",),
        _before_step("export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", unless="API_KEY"),
    ),
    # The program.
    Seed(
        "device by modulo",
        ("device-by-modulo",),
        _sub(
            r'set_device\(int\(os\.environ\["LOCAL_RANK"\]\)\)',
            "set_device(dist.get_rank() % torch.cuda.device_count())",
        ),
        FileKind.PYTHON,
    ),
    Seed(
        "one process for all GPUs",
        ("data-parallel",),
        _sub(r"\bDistributedDataParallel\(", "DataParallel("),
        FileKind.PYTHON,
    ),
    Seed(
        "no end of the group",
        ("group-not-destroyed",),
        _sub(r"^(?:torch\.distributed|dist)\.destroy_process_group\(\)\n", ""),
        FileKind.PYTHON,
    ),
    Seed("no time-out", ("no-collective-timeout",), _sub(r", timeout=[^\n]*?\)\)$", ")"), FileKind.PYTHON),
    Seed(
        "a sampler and shuffle",
        ("sampler-and-shuffle",),
        _sub(r"(DataLoader\([^\n]*sampler=\w+)", r"\1, shuffle=True"),
        FileKind.PYTHON,
    ),
    Seed(
        "no epoch for the sampler",
        ("sampler-without-epoch",),
        _sub(r"^ *\w*sampler\.set_epoch\([^\n]*\n", ""),
        FileKind.PYTHON,
    ),
    Seed(
        "a search for unused parameters",
        ("unused-parameters-search",),
        _sub(r"(DistributedDataParallel\(.*)\)$", r"\1, find_unused_parameters=True)"),
        FileKind.PYTHON,
    ),
    Seed(
        "a seed of the clock",
        ("seed-by-time",),
        _sub(r"^(import torch\n)", r"\1import time\n\ntorch.manual_seed(int(time.time()))\n"),
        FileKind.PYTHON,
    ),
    Seed("not Python", ("not-python",), _sub(r"\Z", "def f(:\n    pass\n"), FileKind.PYTHON),
    Seed("an indent", ("not-python",), _sub(r"\Z", "  x = 1\n"), FileKind.PYTHON),
)


def _found(text: str, kind: FileKind) -> set[str]:
    return {finding.rule for finding in lint_source(SourceFile("mutation", text, kind))}


def mutations(scripts: dict[str, tuple[str, FileKind]]) -> Iterator[Mutation]:
    """Yield every seed in every script where it fits, and where its rule did not speak before."""
    before = {name: _found(text, kind) for name, (text, kind) in scripts.items()}
    for seed in SEEDS:
        for name, (text, kind) in scripts.items():
            if kind is not seed.kind or before[name] & set(seed.rules):
                continue
            changed = seed.put(text)
            if changed is not None:
                yield Mutation(seed.name, seed.rules, name, changed, kind)


def is_found(mutation: Mutation) -> bool:
    """Tell whether the right rule speaks."""
    return bool(_found(mutation.text, mutation.kind) & set(mutation.rules))
