"""What becomes of one line before the launch: kept as words, left out, or asked about; its row says so."""

from __future__ import annotations

import shlex

import pytest

from muster_lint.port.sizes import _Count, _of_step
from muster_lint.port.step import _quoted
from muster_lint.port.values import Fate

from .scripts import read

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=10\n"
_KEPT, _LEFT_OUT, _ASKED, _YOURS, _CHANGED = Fate.KEPT, Fate.DROPPED, Fate.ASKED, Fate.NOT_CARRIED, Fate.CHANGED


def _rows(body: str) -> tuple[list[str], list[tuple[Fate, str]]]:
    """The words of the job, and the verdict and the reason of each row of the last line before the launch."""
    _, draft = read(f"{_HEAD}{body}\nsrun python a.py\n")
    last = len(_HEAD.splitlines()) + len(body.splitlines())
    words = [word for word in draft.words() if word not in {"-N", "2", "-g", "4", "-t", "10"}]
    return words, [(row.verdict, row.why) for row in draft.rows if row.line == last]


@pytest.mark.parametrize(
    ("body", "verdict", "says", "words"),
    [
        # modules
        ("module purge", _KEPT, "are unloaded", ""),
        ("module load a\nmodule purge", _ASKED, "stand above it", "--module a"),
        ("module use /m\nmodule purge", _ASKED, "stand above it", "--module-use /m"),
        ("ml a", _KEPT, "", "--module a"),
        ("ml", None, "", ""),
        ("ml purge", _KEPT, "are unloaded", ""),
        ("ml -q load a", _KEPT, "", "--module a"),
        ("module try-load a", _KEPT, "", "--module a"),
        ("module load -a b", _KEPT, "", "--module b"),
        ("ml -", _ASKED, "a module is unloaded: -", ""),
        ("module unload a", _ASKED, "does nothing else", ""),
        ("module a", _ASKED, "does nothing else", ""),
        ("module load $A", _ASKED, "is not in the script: $A", ""),
        ("module use $A", _ASKED, "the directory is not in the script: $A", ""),
        ("module list", _LEFT_OUT, "shows something", ""),
        # environments
        ("source env/bin/activate", _KEPT, "a virtual environment", "--venv env"),
        ("source $A/bin/activate", _ASKED, "folder of the environment", ""),
        ("source ~ada/bin/activate", _ASKED, "folder of the environment", ""),
        ("source $HOME/e/bin/activate", _KEPT, "a virtual environment", "--venv ~/e"),
        ("source /c/bin/activate torch", _KEPT, "a conda environment", "--conda torch"),
        ("source activate torch", _KEPT, "a conda environment", "--conda torch"),
        ("source activate", _ASKED, "a file of yours", ""),
        ("source other torch", _ASKED, "a file of yours", ""),
        ("source /c/etc/profile.d/conda.sh", _LEFT_OUT, "--conda does", ""),
        ("source /etc/profile", _LEFT_OUT, "`module`", ""),
        ("source ~/.bashrc", _ASKED, "do not read it", ""),
        ("conda activate torch", _KEPT, "", "--conda torch"),
        ("conda activate --stack torch", _KEPT, "", "--conda torch"),
        ("conda activate", _ASKED, "the environment is not in the script", ""),
        ("conda activate $A", _ASKED, "the environment is not in the script", ""),
        ("conda install torch", _ASKED, "the environment is not in the script", ""),
        ("conda info x", _LEFT_OUT, "shows something", ""),
        ("conda env list", _LEFT_OUT, "shows something", ""),
        ("conda deactivate", _LEFT_OUT, "only what the plan names", ""),
        ("conda activate torch\nconda deactivate", _ASKED, "is left again", "--conda torch"),
        ("source env/bin/activate\ndeactivate", _ASKED, "is left again", "--venv env"),
        # folders
        ("cd /w", _KEPT, "the working directory", "-D /w"),
        ("cd", _ASKED, "the folder is not in the script", ""),
        ("cd -", _ASKED, "which folder", ""),
        ("pushd", _ASKED, "which folder", ""),
        ("pushd /w", _KEPT, "the working directory", "-D /w"),
        ("cd $A", _ASKED, "the folder is not in the script", ""),
        ("cd `pwd -P`", _ASKED, "the folder is not in the script", ""),
        ("cd ~ada", _ASKED, "the folder is not in the script", ""),
        ("cd ~/w", _KEPT, "the working directory", "-D ~/w"),
        ("cd /w\ncd x/../y", _KEPT, "below the folder above", "-D /w/y"),
        ("cd /w\ncd /v", _KEPT, "the working directory", "-D /v"),
        ("cd x", _KEPT, "the working directory", "-D x"),
        ("cd .", _LEFT_OUT, "where the job was submitted", ""),
        ("cd $SLURM_SUBMIT_DIR", _LEFT_OUT, "where the job was submitted", ""),
        ("cd /w\ncd $SLURM_SUBMIT_DIR", _ASKED, "it goes back to", "-D /w"),
        ("cd /w\ncd $PWD", _LEFT_OUT, "where the job was submitted", "-D /w"),
        ("popd", _LEFT_OUT, "one working directory", ""),
        ("cd /w\npopd", _ASKED, "it leaves /w", "-D /w"),
        # what only shows, or is the job's own
        ("trap '' TERM", _LEFT_OUT, "passes signals on", ""),
        ("trap - TERM", _LEFT_OUT, "passes signals on", ""),
        ("trap 'kill 0' TERM", _LEFT_OUT, "passes signals on", ""),
        ("trap 'kill 0; save' TERM", _YOURS, "what the trap does is yours", ""),
        ("trap save TERM", _YOURS, "what the trap does is yours", ""),
        ("python -V", _LEFT_OUT, "shows something", ""),
        ("python", _YOURS, "a job of its own", ""),
        ("python3.11 -c 'print(1)'", _LEFT_OUT, "shows something", ""),
        ("python -c 'open(1)'", _YOURS, "runs nothing before", ""),
        ("python prepare.py", _YOURS, "a job of its own", ""),
        ("other -c 'print(1)'", _YOURS, "runs nothing before", ""),
        ("nvidia-smi", _LEFT_OUT, "shows something", ""),
        ("nvidia-smi > log", _YOURS, "it writes log", ""),
        ("printf -v A %s x", _ASKED, "works the variable out", ""),
        ("printf x", _LEFT_OUT, "shows something", ""),
        ("mkdir x", _YOURS, "make others by hand", ""),
        ("cp a b", _YOURS, "--stage DATA copies", ""),
        ("unset A", _KEPT, "", "--unset-env A"),
        ("unset -v A", _KEPT, "", "--unset-env A"),
        ("unset A-B", _ASKED, "is not the name of a variable", ""),
        ('eval "$(conda shell.bash hook)"', _LEFT_OUT, "--conda does", ""),
        ('eval "$(tool)"', _ASKED, "it runs what another command prints", ""),
        # a step that prepares
        ("srun --ntasks-per-node=1 hostname", _LEFT_OUT, "shows something", ""),
        ("srun --ntasks-per-node=1 rm /tmp/x", _CHANGED, "once on every node", "--node-prologue 'rm /tmp/x'"),
        ("srun --ntasks-per-node=1 rm $A", _ASKED, "--node-prologue COMMAND", ""),
        (
            "srun --ntasks-per-node=1 rm /tmp/x\nsrun --ntasks-per-node=1 rm /tmp/y",
            _ASKED,
            "--node-prologue COMMAND",
            "--node-prologue 'rm /tmp/x'",
        ),
    ],
)
def test_a_line_before_the_launch(body: str, verdict: Fate | None, says: str, words: str) -> None:
    told_words, rows = _rows(body)
    assert [each for each, _ in rows][:1] == ([verdict] if verdict else [])
    assert not says or any(says in why for _, why in rows), rows
    assert told_words == shlex.split(words)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("a-b", "a-b"),
        ("a b", "'a b'"),
        ("$A b", '"$A b"'),
        ('$A"b', '"$A\\"b"'),
        ('$(f "x")"', '"$(f "x")\\""'),
        ("`f`", '"`f`"'),
    ],
)
def test_a_word_is_quoted_so_that_the_shell_of_a_task_still_expands_it(word: str, quoted: str) -> None:
    assert _quoted(word) == quoted


_SIZE, _ENGINE, _FLAG = "its value is not in the script", "a flag of the engine", "a flag of mpirun"


@pytest.mark.parametrize(
    ("launch", "more", "command", "says"),
    [
        # flags of the step
        ("srun -lu python a.py", "", "python a.py", "-u: Muster reads"),
        ("srun -l python a.py", "", "python a.py", "Muster labels"),
        ("srun -lx python a.py", "--srun=-lx", "python a.py", "hands on"),
        ("srun --l python a.py", "--srun=--l", "python a.py", "hands on"),
        (
            "srun --export=ALL,A=1,B=$C python a.py",
            "--env A=1",
            "bash -c 'export B=\"$C\"; exec python a.py'",
            "set there",
        ),
        ("srun -n $((SLURM_NNODES * 4)) python a.py", "", "python a.py", "the plan works it out"),
        ("srun -n $((8 / 0)) python a.py", "", "python a.py", _SIZE),
        ("srun -n $((9 / 2)) python a.py", "", "python a.py", _SIZE),
        ("srun -n $((16 / 2)) python a.py", "", "python a.py", "the plan works it out"),
        ("srun -n $((SLURM_NNODES + 6)) python a.py", "", "python a.py", _SIZE),
        ("srun -n x python a.py", "", "python a.py", _SIZE),
        ("srun python a.py | tee log", "", "python a.py", "in the run directory"),
        (
            "srun python a.py --rank $SLURM_PROCID",
            "",
            "bash -c 'exec python a.py --rank \"$SLURM_PROCID\"'",
            "that of the batch host",
        ),
        (
            "A=`hostname`; srun env B=$A python a.py",
            "",
            "bash -c 'export B=\"$(hostname)\"; exec python a.py'",
            "set there",
        ),
        # what stands between the step and the program
        ("eval srun python a.py", "", "python a.py", ""),
        ("eval 'A=1 srun python a.py'", "--env A=1", "python a.py", ""),
        ("srun env A=1 python a.py", "--env A=1", "python a.py", "a variable of the ranks"),
        ("srun env -u A python a.py", "", "python a.py", "it removes variables"),
        ("srun time python a.py", "", "python a.py", "changes nothing"),
        ("srun numactl -N 0 python a.py", "", "numactl -N 0 python a.py", "a part of the command"),
        ("srun bash a.sh", "", "bash a.sh", "word for word"),
        ('srun bash -c "python a.py \\$A"', "--env A", "bash -c 'exec python a.py \"$A\"'", "--env A passes yours on"),
        ("srun bash -c 'cd /x && python a.py'", "", "bash -c 'cd /x && python a.py'", "fills in"),
        ("srun bash -c 'sleep 1; python a.py'", "", "python a.py", "shows something"),
        ("srun bash -c 'make; python a.py'", "", "bash -c 'make; python a.py'", "fills in"),
        ("srun bash -c 'A=1 python a.py'", "--env A=1", "python a.py", ""),
        ("srun bash -c 'A=1 make; python a.py'", "", "bash -c 'A=1 make; python a.py'", ""),
        ("srun bash -c 'for i in 1; do python a.py; done'", "", "bash -c 'for i in 1; do python a.py; done'", ""),
        ("srun bash -c 'python a.py > log'", "", "python a.py", "a file of each rank's own"),
        ("srun bash -c 'date'", "", "bash -c date", ""),
        ("srun bash -c 'python a.py && if'", "", "bash -c 'python a.py && if'", ""),
        ("srun bash -c 'torchrun a.py; date'", "", "COMMAND", "among other lines"),
        ("srun python -u -m a.b c", "", "python -u -m a.b c", "word for word"),
        ("srun ./a.py x", "", "./a.py x", "word for word"),
        # images
        (
            "srun apptainer exec --bind /a:/b i.sif python a.py",
            "--image i.sif --bind /a:/b",
            "python a.py",
            "a path of the host",
        ),
        ("srun apptainer exec --bind= i.sif python a.py", "--image i.sif", "python a.py", _ENGINE),
        ("srun apptainer exec --env A=1,B=2 i.sif python a.py", "--env A=1 --env B=2 --image i.sif", "python a.py", ""),
        ("srun apptainer exec --env A i.sif python a.py", "--image i.sif", "python a.py", _ENGINE),
        (
            "srun apptainer exec --pwd /w i.sif python a.py",
            "-D /w --image i.sif",
            "python a.py",
            "inside the image too",
        ),
        ("srun apptainer exec --nv i.sif python a.py", "--image i.sif", "python a.py", "for the GPUs"),
        ("srun apptainer exec --nosuch i.sif python a.py", "--image i.sif", "python a.py", _ENGINE),
        ("srun shifter --image=x/y:1 python a.py", "--image x/y:1", "python a.py", ""),
        ("srun shifter python a.py", "", "python a.py", "the image's name is not in the script"),
        # mpirun and agents
        ("mpirun -np 8 -x A=1 -x B python a.py", "--launcher mpirun --env A=1", "python a.py", "over ssh too"),
        ("mpirun -np 8 --mca btl tcp python a.py", "--launcher mpirun --env OMPI_MCA_btl=tcp", "python a.py", ""),
        ("mpirun -np 8 -genv A 1 python a.py", "--launcher mpirun --env A=1", "python a.py", ""),
        ("mpirun -np 8 -genvlist A,B python a.py", "--launcher mpirun", "python a.py", "over ssh too"),
        ("mpirun -np 8 --nosuch python a.py", "--launcher mpirun", "python a.py", _FLAG),
        ("torchrun --nproc_per_node 4 a.py", "--launcher torchrun", "python a.py", "it names no number of nodes"),
        (
            "python -m torch.distributed.launch --nproc_per_node 4 a.py",
            "--launcher torchrun",
            "python a.py",
            "--local_rank",
        ),
        (
            "python -m torch.distributed.launch --use-env --nproc_per_node 4 a.py",
            "--launcher torchrun",
            "python a.py",
            "no number of nodes",
        ),
    ],
)
def test_a_launch_is_read(launch: str, more: str, command: str, says: str) -> None:
    _, draft = read(f"{_HEAD}{launch}\n")
    words = draft.words()
    assert sorted(words) == sorted(["-N", "2", "-g", "4", "-t", "10", *shlex.split(more)])
    assert list(draft.command) == shlex.split(command)
    reasons = [row.why for row in draft.rows if row.line > len(_HEAD.splitlines())]
    assert any(says in why for why in reasons), reasons
    assert ("--local_rank" in " ".join(reasons)) is ("launch" in launch and "--use-env" not in launch)


@pytest.mark.parametrize(
    ("nodes", "counts", "total", "result", "asked"),
    [
        (2, {"nodes": 2, "ntasks": 8}, None, (2, 4), []),
        (4, {"nodes": 2, "ntasks": 8}, None, (2, 4), ["nodes"]),
        (2, {"ntasks-per-node": 4}, None, (2, 4), []),
        (2, {}, 8, (2, 4), []),
        (2, {"nodes": 2}, 8, (2, 1), []),
        (2, {}, None, (2, 1), []),
        (2, {"ntasks": 7}, None, (2, 4), ["ntasks"]),
    ],
)
def test_the_tasks_of_a_step_are_counted_on_its_nodes(
    nodes: int, counts: dict[str, int | None], total: int | None, result: tuple[int, int], asked: list[str]
) -> None:
    count = _Count(nodes, 1, questions={})
    _of_step(count, counts, total)
    assert (count.nodes, count.ranks) == result
    assert list(count.questions) == asked
