"""The job after does what the script before did, or a row and the exit status say that it does not.

The scripts are short copies of shapes that stand in public repositories.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import RequestError
from muster_lint.bash import read_shell
from muster_lint.port.guards import is_guarded
from muster_lint.port.values import Fate, is_open, line_of
from plugins.wide import sampled

from .jobs import Job, after, before, carried_here
from .scripts import carried, read

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --time=10\n"
_AGENTS = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2 --time=10\n"
_MEET = 'MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'

# What has to be the same job, without a question.
SAME = {
    "srun": Job(_HEAD + "export DATA=/data\nsrun python train.py --data $DATA\n"),
    "a count in the header": Job("#!/bin/bash\n#SBATCH -N 2\n#SBATCH -n 4\n#SBATCH --gres=gpu:2\nsrun python train.py\n"),
    "torchrun": Job(_AGENTS + _MEET + "srun torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint $MASTER:29500 train.py --lr 1\n"),
    "mpirun": Job(_HEAD + "mpirun -np 4 python train.py\n"),
    "mpirun without a number": Job(_HEAD + "mpirun python train.py\n"),
    "venv in the home": Job(_HEAD + "source ~/venv/bin/activate\nsrun python train.py\n"),
    "venv in $HOME": Job(_HEAD + 'source "$HOME/venv/bin/activate"\nsrun python train.py\n'),
    "typed GPUs": Job(_HEAD.replace("--gpus-per-node=2", "--gres=gpu:a100:2") + "srun python train.py\n"),
    "words in a variable": Job(_HEAD + 'SRUN_ARGS="--wait=60 --kill-on-bad-exit=1"\nsrun $SRUN_ARGS python train.py\n'),
    "accelerate": Job(_AGENTS + _MEET + "srun accelerate launch --num_processes 4 --num_machines 2 --machine_rank $SLURM_NODEID --main_process_ip $MASTER --main_process_port 29500 --mixed_precision bf16 train.py\n"),
    "a rank of its own": Job(_HEAD + "srun bash -c 'export RANK=$SLURM_PROCID; python train.py'\n"),
    "home in an argument": Job(_HEAD + 'srun python train.py --out "$HOME/out"\n'),
    "a shown value": Job(_HEAD + 'echo "starts on $(hostname)" > /dev/null\nsrun python train.py\n'),
    "one rank": Job("#!/bin/bash\n#SBATCH --nodes=1 --gpus-per-node=1 --time=5\npython train.py --epochs 3\n"),
    "fewer ranks than tasks": Job(_HEAD.replace("--ntasks-per-node=2", "--ntasks=40").replace("--nodes=2", "--nodes=1").replace("node=2", "node=4") + "mpiexec -n 4 python train.py\n"),
    "half of the tasks": Job(_HEAD + "srun -n 2 python train.py\n"),
    "a dollar in quotes": Job(_HEAD + "srun python train.py --pattern '$x' '`y`'\n"),
    "the output in a file": Job(_HEAD + "srun python train.py > out.log 2>&1\n"),
    "the output in tee": Job(_HEAD + "srun python train.py 2>&1 | tee out.log\n"),
    "a size that Slurm knows": Job(_HEAD + "srun -N $SLURM_NNODES -n $SLURM_NTASKS python train.py\n"),
    "arithmetic": Job(_AGENTS + "G=2\nsrun accelerate launch --num_processes $((SLURM_NNODES * G)) --num_machines $SLURM_NNODES train.py\n"),
    "braces": Job(_HEAD + "srun python train.py {1..3} x{a,b}\n"),
    "a tilde": Job(_HEAD + 'srun python ~/train.py --data ~/data --quoted "~/x"\n'),
    "a tilde in a variable": Job(_HEAD + "D=~/data\nexport DATA=~/x:~/y\nsrun python train.py --data $D\n"),
    "an array with blanks": Job(_HEAD + 'A=(--name "my run" # why\n  --x 1)\nsrun python train.py "${A[@]}"\n'),
    "signs that bash makes": Job(_HEAD + "srun python train.py $'a\\tb'\n"),
    "JSON in quotes": Job(_HEAD + 'srun python train.py --cfg "{\\"a\\": \\"$HOME\\"}"\n'),
    "a dollar behind a backslash": Job(_HEAD + 'export DATA="a\\$b"\nsrun python train.py "\\$x" \\$y\n'),
    "a folder behind the launch": Job(_HEAD + "srun python train.py\ncd /tmp\nmodule load x\nexport DATA=2\n"),
    "eval": Job(_HEAD + "CMD=\"srun python train.py --x 'a b'\"\neval $CMD\n"),
    "a rank behind a backslash": Job(_HEAD + 'srun bash -c "python train.py --rank \\$SLURM_PROCID"\n'),
    "flags of python": Job(_HEAD + "srun python -u -W ignore train.py\n"),
    "a module of python": Job(_AGENTS + "srun torchrun --nnodes=2 --nproc-per-node=2 -m pkg.train --x 1\n"),
    "a folder that may be missing": Job(_HEAD + "cd /tmp || exit 1\nsrun python train.py\n"),
    "a variable in parentheses": Job(_HEAD + "(export DATA=1; cd /tmp)\nsrun python train.py\n"),
    "the launch in parentheses": Job(_HEAD + "(cd /tmp && export DATA=2 && srun python train.py)\n"),
    "all words of an array as one": Job(_HEAD + 'A=(a "b c")\nsrun python train.py "${A[*]}" x\n'),
    "an array without quotes": Job(_HEAD + 'A=(a "b c")\nsrun python train.py ${A[@]} x\n'),
    "a name before a backslash": Job(_HEAD + "A=$USER\\_$SLURM_JOB_ID.json\nsrun python train.py $A\n"),
    "a value over two lines": Job(_HEAD + 'export DATA="--a 1 \\\n  --b 2"\nsrun python train.py\n'),
    "a folder that is called python": Job(_HEAD + "cd /tmp/../tmp\nW=/tmp/python/..\nsrun python train.py\n"),
    "a backslash behind a backslash": Job(_HEAD + "srun python train.py a\\\\b x\\ y\n"),
    "a constant that is exported": Job(_HEAD + "declare -xr DATA=1\nsrun python train.py\n"),
    "the name of a job without one": Job(_HEAD + 'srun python train.py --out "out/$SLURM_JOB_NAME"\n'),
    "a trap that ends the step": Job(_HEAD + "trap 'kill 0' TERM\nsrun python train.py\n"),
}  # fmt: skip

# What no line of Muster's says as it stands: the table has to ask.
OTHER = {
    "a configuration written by the script": Job(_HEAD + 'CFG=c.json\ncat > $CFG <<EOF\n{"batch": 8}\nEOF\nsrun python train.py --cfg c.json\n'),
    "a written list of hosts": Job(_HEAD + 'scontrol show hostnames "$SLURM_JOB_NODELIST" > hosts\nsrun python train.py --hosts hosts\n'),
    "a written line": Job(_HEAD + 'echo "PATH=/x" > .deepspeed_env\nsrun python train.py .deepspeed_env\n'),
    "a step that writes": Job(_HEAD + "srun hostname > hosts.txt\nsrun python train.py hosts.txt\n"),
    "an argument of the script": Job(_HEAD + 'srun python train.py --lr "$1"\n', ("0.1",)),
    "all arguments": Job(_HEAD + 'srun python train.py "$@"\n', ("--lr", "0.1")),
    "later arguments": Job(_HEAD + 'srun python train.py ${@:2}\n', ("x", "--lr", "0.1")),
    "a variable of the submitting shell": Job(_HEAD + 'srun python train.py --data "$DATA_PATH"\n', (), (("DATA_PATH", "/data"),)),
    "a variable that another program prints": Job(_HEAD + 'export DIST_URL="tcp://$(scontrol show hostnames | head -n 1):4000"\nsrun python train.py --url $DIST_URL\n'),
    "a step of one node": Job(_HEAD + "srun -N 1 -n 1 python train.py\n"),
    "an uneven number of ranks": Job(_HEAD + "mpirun -np 3 python train.py\n"),
    "quotes in nested commands": Job(_HEAD + 'N=(1 2)\nP=/d/$(printf "a_%s" ${N[$((1 - ($1 + 0)))]})\nsrun python train.py --in $P\n', ("0",)),
    "a backquote": Job(_HEAD + 'CMD="`pwd`/train.py"\nsrun python $CMD\n'),
    "torchrun without GPUs": Job("#!/bin/bash\n#SBATCH -N 2\nsrun torchrun --nnodes 2 --nproc-per-node 4 train.py\n"),
    "a secret": Job(_HEAD + "export WANDB_API_KEY=0123456789abcdef\nsrun python train.py\n"),
    "unknown words of srun": Job(_HEAD + "srun $UNSET_ARGS python train.py\n"),
    "the number of ranks from outside": Job(_AGENTS + "srun accelerate launch --num_processes $WORLD --num_machines 2 train.py\n", (), (("WORLD", "4"),)),
    "a task chosen outside": Job(_HEAD + "srun python src/$TASK.py\n", (), (("TASK", "train"),)),
    "a program from the standard input": Job(_HEAD + "srun -n 1 python - <<EOF\nprint(1)\nEOF\n"),
    "a misspelt number of nodes": Job(_HEAD.replace("--nodes=2", "--nodes=two") + "srun -N 1 -n 1 python train.py\n"),
    "GPUs without a number": Job(_HEAD.replace("--gpus-per-node=2", "--gres=gpu:") + "srun python train.py\n"),
    "no number of nodes": Job("#!/bin/bash\n#SBATCH -n 8 --gres=gpu:4\nsrun python train.py\n"),
    "a rank out of the batch host": Job(_HEAD + "srun python train.py --rank $SLURM_PROCID\n"),
    "agents that each are a world": Job(_AGENTS + "srun torchrun --nproc-per-node 2 train.py\n"),
    "one node of two": Job(_AGENTS + "torchrun --nproc-per-node 2 train.py\n"),
    "the count of a loop": Job(_HEAD + "for ((i=0; i<2; i++)); do\n  srun python train.py --chunk $i\ndone\n"),
    "a function": Job(_HEAD + 'prepare() {\n  echo "{}" > c.json\n}\nprepare\nsrun python train.py c.json\n'),
    "a folder that is made": Job(_HEAD + "mkdir -p out\nsrun python train.py --out out\n"),
    "two launches": Job(_HEAD + "srun python prepare.py\nsrun python train.py\n"),
    "names of files": Job(_HEAD + "touch a.txt b.txt\nsrun python train.py *.txt\n"),
    "a step that hands nothing on": Job(_HEAD + "export DATA=1\nsrun --export=NONE python train.py\n"),
    "a value that is put together": Job(_HEAD + 'DATA=a\nDATA+=",b"\nexport DATA="$DATA"\nsrun python train.py\n', (), (("DATA", "z"),)),
    "a value that is added to": Job(_HEAD + "export DATA+=:b\nsrun python train.py\n", (), (("DATA", "z"),)),
    "a variable behind a test": Job(_HEAD + '[ -n "$NO" ] && export DATA=2\nsrun python train.py\n'),
    "words behind a test": Job(_HEAD + '[[ -n "$NO" ]] && X="--x"\nsrun python train.py $X\n'),
    "a launch behind a test": Job(_HEAD + "[ -e x ] || srun python train.py\n"),
    "a value that is given again": Job(_HEAD + "export DATA=1\nDATA=2\nsrun python train.py\n"),
    "a default of an argument": Job(_HEAD + "LR=${1:-0.1}\nsrun python train.py --lr $LR\n", ("0.5",)),
    "a default of a variable": Job(_HEAD + "D=${DATA_PATH:-/x}\nsrun python train.py --d $D\n", (), (("DATA_PATH", "/y"),)),
    "a variable that env removes": Job(_HEAD + "export DATA=1\nsrun env -u DATA python train.py\n"),
    "removed and set": Job(_HEAD + "unset DATA\nexport DATA=1\nsrun python train.py\n"),
    "variables out of a command": Job(_HEAD + "export $(echo DATA=5)\nsrun python train.py\n"),
    "a rank that the batch host fills in": Job(_HEAD + 'srun bash -c "python train.py --rank $SLURM_PROCID"\n'),
    "blanks of another kind": Job(_HEAD + "IFS=,\nX=a,b\nsrun python train.py $X\n"),
    "a folder and back": Job(_HEAD + "cd /tmp\ncd -\nsrun python train.py\n"),
    "a folder that is left again": Job(_HEAD + "pushd /tmp\npopd\nsrun python train.py\n"),
    "an input out of a pipe": Job(_HEAD + "echo y | srun python train.py\n"),
    "a file that python writes": Job(_HEAD + "python -c \"open('c.json', 'w').write('{}')\"\nsrun python train.py c.json\n"),
    "results that a trap saves": Job(_HEAD + "trap 'cp -r out /results' EXIT\nsrun python train.py\n"),
    "a file of the shell": Job(_HEAD + "source ~/.bashrc\nsrun python train.py\n"),
    "modules that are unloaded": Job(_HEAD + "module load a\nmodule purge\nsrun python train.py\n"),
    "folders of modules that are removed": Job(_HEAD + "module unuse /x\nsrun python train.py\n"),
    "a conda environment by its name": Job(_HEAD + "conda activate torch\nsrun python train.py\n"),
    "one of an array": Job(_HEAD + "A=(x y)\nsrun python train.py ${A[${SLURM_NODEID}]}\n"),
    "one of an array that a loop fills": Job(_HEAD + 'A=()\nfor X in a b; do A+=("$X"); done\nsrun python train.py "${A[${SLURM_NODEID}]}"\n'),
    "a piped configuration": Job(_HEAD + "cat <<EOF | tee c.json\n{}\nEOF\nsrun python train.py c.json\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(SAME, keep=8))
def test_the_job_is_the_same_and_nothing_is_asked(name: str, tmp_path: Path) -> None:
    old = before(SAME[name], tmp_path)
    new, carried = after(SAME[name], tmp_path)

    assert old
    assert carried.refusal is None
    assert [row for row in carried.draft.rows if is_open(row)] == []
    assert new == old


@pytest.mark.parametrize("name", sampled(OTHER, keep=8))
def test_a_job_that_would_differ_is_said_to(name: str, tmp_path: Path) -> None:
    old = before(OTHER[name], tmp_path)
    carried = carried_here(OTHER[name], tmp_path)

    assert old or "launch behind" in name
    assert [row for row in carried.draft.rows if is_open(row)] or carried.refusal, carried.draft.rows


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("D=/d\nN=a\nsrun python train.py --out ${D}_$N.txt b\n", ["--out", "/d_a.txt", "b"]),
        ('D=/d\nN=a\nO=${D}/$N-x/"$N"\nsrun python train.py --out $O b\n', ["--out", "/d/a-x/a", "b"]),
        ("S=$SLURM_JOB_ID\nsrun python train.py --name s${S}_x b\n", ["--name", "s4711_x", "b"]),
        ('srun python train.py --name ${RUN:-"my-run"} b\n', ["--name", "my-run", "b"]),
    ],
)
def test_the_words_are_those_that_the_shell_makes(lines: str, words: list[str], tmp_path: Path) -> None:
    """Seen in public scripts: a word ended before the second name in it, and a default kept its quotes."""
    old = before(Job(_HEAD + lines), tmp_path)
    new, carried = after(Job(_HEAD + lines), tmp_path)

    assert old[0]["words"] == ["train.py", *words]
    assert new == old
    assert carried.refusal is None


def test_the_quotes_of_nested_commands_stay_their_own(tmp_path: Path) -> None:
    """Seen in a public script: the path ended at the first quote inside $(…) with more of them inside."""
    text = _HEAD + 'P=/d/$(printf "a %s" $((1 + (2 - $((1 - (0 + 0)))))))\nsrun python train.py --in "$P"\n'
    old = before(Job(text), tmp_path)
    new, _ = after(Job(text), tmp_path)

    assert old[0]["words"] == ["train.py", "--in", "/d/a 2"]
    assert new == old


def test_a_launcher_of_horovod_is_not_the_same_as_mpirun() -> None:
    _, draft = read(_HEAD + "horovodrun -np 4 python train.py\n")

    (row,) = [row for row in draft.rows if row.what == "horovodrun"]
    assert (row.verdict, row.now) == (Fate.ASKED, "--launcher mpirun")
    assert [row.verdict for row in read(_HEAD + "mpirun -np 4 python a.py\n")[1].rows if row.what == "mpirun"] == [
        Fate.KEPT
    ]


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH", "TMPDIR"])
def test_a_variable_that_is_exported_anyway_reaches_the_ranks(name: str) -> None:
    draft = read(f"{_HEAD}{name}=/x:${name}\nOTHER=/x\nsrun python train.py\n")[1]

    assert draft.command == ("bash", "-c", f'export {name}="/x:${name}"; exec python train.py')


def test_a_count_is_not_its_first_value() -> None:
    """Seen in a public script: the job had the number of the first turn of the loop."""
    draft = read(f"{_HEAD}N=0\n((N++))\nfor ((i=0; i<2; i++)); do\n  srun python t.py --part $i $N\ndone\n")[1]

    assert draft.command == ("bash", "-c", 'exec python t.py --part "$i" "$N"')


@pytest.mark.parametrize(
    "option", ["--rankfile r", "-rf r", "-output-filename logs/$SLURM_JOB_ID", "--output-filename o"]
)
def test_a_file_of_mpirun_is_not_its_program(option: str) -> None:
    """Seen in public scripts: the file became the command of the job."""
    assert read(f"{_HEAD}mpirun {option} -n 4 python train.py\n")[1].command == ("python", "train.py")


def test_a_place_in_an_array_is_asked_where_the_script_has_none() -> None:
    lines = "srun python train.py --index $SLURM_ARRAY_TASK_ID\n"
    with_array, without = (read(f"{head}{lines}")[1].rows for head in (_HEAD + "#SBATCH --array=1-4\n", _HEAD))

    assert [row.verdict for row in without if row.what.startswith("$SLURM_ARRAY_TASK_ID")] == [Fate.ASKED]
    assert not [row for row in with_array if is_open(row)]


def test_a_file_of_hosts_is_not_the_program_of_horovodrun() -> None:
    draft = read(_HEAD + "horovodrun --verbose -np 4 -hostfile /h/hosts --log-level 2 python train.py --a 1\n")[1]

    assert draft.command == ("python", "train.py", "--a", "1")


@pytest.mark.parametrize(
    "chore", ["sbcast -p a.py /tmp/a.py", "sed -i s/a/b/ train.py", "cp a.py b.py", "git add a.py"]
)
def test_a_command_that_only_moves_a_program_is_no_launch(chore: str) -> None:
    """Seen in a public script: the copy of the program to the nodes became the job."""
    draft = read(f"{_HEAD}{chore}\nsrun -n 4 ./run.sh 1\n")[1]

    assert draft.command == ("./run.sh", "1")
    assert [row.verdict for row in draft.rows if row.what == chore] == [Fate.NOT_CARRIED]


def test_a_launcher_of_horovod_is_asked_for_where_the_site_has_no_mpirun() -> None:
    text = _HEAD + "horovodrun -np 4 python train.py\n"
    rows = carried(text, "jean-zay").draft.rows

    (row,) = [row for row in rows if row.what == "horovodrun"]
    assert (row.verdict, row.now) == (Fate.ASKED, "--launcher srun")
    assert "is the program built with an MPI?; it is not how ranks start" in row.why


def test_a_file_of_each_task_has_its_row() -> None:
    text = _HEAD + 'srun bash -c "python train.py --run \\$SLURM_PROCID >> log_\\$SLURM_PROCID.txt 2>&1"\n'
    rows = read(text)[1].rows

    assert [row.verdict for row in rows if row.what.startswith("> log_$SLURM_PROCID.txt")] == [Fate.CHANGED]


def test_the_folders_of_the_users_modules_are_carried_and_asked_for() -> None:
    text = _HEAD + '#SBATCH -p booster\nexport PYTHONPATH="$PYTHONPATH:/p/project/me/src"\nsrun python -m mine\n'
    draft = carried(text, "lumi", "juwels-booster").draft

    (row,) = [row for row in draft.rows if "PYTHONPATH" in row.what]
    assert row.verdict is Fate.ASKED
    assert "/p/project/me/src" in " ".join(draft.command)


def test_a_look_by_python_changes_nothing() -> None:
    _, draft = read(_HEAD + 'python -c "import sys; print(sys.path)"\nsrun python train.py\n')

    assert [row.why for row in draft.rows if row.what.startswith("python -c")] == [
        "shows something, and changes nothing"
    ]
    assert draft.command == ("python", "train.py")


def test_the_command_of_a_relative_folder_is_below_the_folder_above() -> None:
    draft = read(_HEAD + "cd ~/project\ncd src/../train\nsrun -c 6 python train.py\n")[1]

    assert draft.get("chdir") == "~/project/train"
    assert draft.get("cpus_per_task") == "6"


@pytest.mark.parametrize("word", ["--devices 8", "--num_nodes=$SLURM_NNODES", "trainer.num_nodes=2", "--ngpus 8"])
def test_a_command_that_speaks_of_sizes_is_asked_where_the_nodes_are_others(word: str) -> None:
    text = _HEAD.replace("node=2", "node=8") + f"srun python train.py {word}\n"

    away, home = carried(text, "perlmutter", "generic"), carried(text, "generic", "generic")

    assert [row for row in away.draft.rows if "2 nodes × 8 GPUs" in row.why and is_open(row)]
    assert not [row for row in home.draft.rows if is_open(row)]


def test_whole_nodes_that_would_be_half_idle_are_asked() -> None:
    text = _HEAD.replace("node=2", "node=3") + "srun python train.py\n"

    made = carried(text, "frontier", "generic")

    assert [row for row in made.draft.rows if "are idle" in row.why and is_open(row)], made.draft.rows


@pytest.mark.parametrize(("nodes", "shape"), [(16, "-N 8 -g 8"), (2, "-N 2 -g 4")])
def test_a_job_whose_only_queue_gives_whole_nodes_uses_them(nodes: int, shape: str) -> None:
    text = f"#!/bin/bash\n#SBATCH -N {nodes} --ntasks-per-node=4 --gpus-per-node=4 -t 60\nsrun python train.py\n"

    made = carried(text, "lumi", "marenostrum5")

    assert line_of(made.draft.words(), made.draft.command).startswith(f"muster submit {shape} ")


@pytest.mark.parametrize("line", ["#SBATCH --nodes={{ nodes }}", "#SBATCH -J @NAME@", "{% if gpu %}"])
def test_a_template_is_refused(line: str) -> None:
    with pytest.raises(RequestError, match=r"2: .* filled in before"):
        read(f"#!/bin/bash\n{line}\nsrun python train.py\n")


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("export A=1", False),
        ("true; export A=1", False),
        ("cd x && export A=1", False),
        ("[ -e x ] && export A=1", True),
        ("[[ -e x ]] && cd y && export A=1", True),
        ("! grep -q x y && export A=1", True),
        ("cd x || export A=1", True),
        ("[ -e x ] && { echo; export A=1; }", True),
        ("[ -e x ]; export A=1", False),
        ("[ -e x ] &&\\\n  export A=1", True),
        ("[ -e x ] \\\n  && export A=1", True),
        ("echo a && echo b || export A=1", True),
        ("[ -e x ] || exit\nexport A=1", False),
    ],
)
def test_what_runs_only_behind_a_test(text: str, guarded: bool) -> None:
    (assignment,) = read_shell(text).assignments

    assert is_guarded(text.split("\n"), assignment.place) == guarded
