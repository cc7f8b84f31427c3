"""What careful readers of public scripts saw and the rules did not: names, lost failures, files, what is fetched.

The scripts here are our own, each as short as its fault allows.
"""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_GPU = _HEAD + "#SBATCH --gres=gpu:1\n"
_TWO = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"

_FOUND = {
    "a name with another letter": (
        "variable-never-set",
        "did you mean batch_size, which nothing reads?",
        _GPU + "batch_size=8\npython t.py --b $batchsize\n",
    ),
    "a name in a test whose other spelling nothing reads": (
        "variable-never-set",
        "did you mean METAFITS",
        _GPU + 'METAFITS=a.fits\nif [ "$META" ]; then python t.py; fi\n',
    ),
    "a name that goes on": (
        "variable-never-set",
        "did you mean ${start}_?",
        _GPU + "start=1\nend=2\npython t.py --out run_$start_$end\n",
    ),
    "a name that is set behind": (
        "variable-never-set",
        "the script sets it in line 7",
        _GPU + "export LOGS=$RUN_PATH/log\nRUN_PATH=/a\npython $RUN_PATH/t.py\n",
    ),
    "a command that nothing runs": (
        "variable-never-read",
        "nothing runs the command in SECOND",
        _GPU + 'SECOND="torchrun --standalone u.py"\npython t.py\n',
    ),
    "a value beside its option": (
        "variable-never-read",
        "nothing reads EPOCHS=10: --epochs in line 7 is 90",
        _GPU + "EPOCHS=10\npython t.py --epochs=90\n",
    ),
    "a first step that may fail": (
        "status-lost-at-end",
        "the script goes on when this fails",
        _HEAD + "srun ./first\nsrun ./second\n",
    ),
    "a first program that may fail": (
        "status-lost-at-end",
        "the script goes on when this fails",
        _HEAD + "samtools sort a.bam\npicard mark b.bam\n",
    ),
    "a pipe that eval makes": (
        "status-lost-in-pipe",
        "what reads it",
        _GPU + 'CMD="python t.py | tee log"\neval $CMD\n',
    ),
    "a download": ("download-in-job", "every run fetches with wget", _GPU + "wget https://a.org/x.tar\npython t.py\n"),
    "a clone": ("download-in-job", "with git clone", _GPU + "git clone https://a.org/x.git\npython x/t.py\n"),
    "a download that is unpacked": (
        "download-in-job",
        "with curl",
        _GPU + "curl -L https://a.org/x.tar | tar x\npython t.py\n",
    ),
    "an image of a registry": (
        "download-in-job",
        "asks a registry for the image, by apptainer",
        _GPU + "apptainer exec --nv docker://python:3.12 python t.py\n",
    ),
    "a branch of the code": (
        "code-changes-in-job",
        "git checkout changes the code",
        _GPU + "git checkout dev\npython t.py\n",
    ),
    "a container of Docker": (
        "docker-in-job",
        "beside the job",
        _GPU + "docker run --gpus all image python t.py\n",
    ),
    "an environment of a shell of its own": (
        "environment-in-child",
        "is gone with the shell",
        _GPU + "sh /opt/conda/etc/profile.d/conda.sh\npython t.py\n",
    ),
    "packages that the job removes": (
        "install-in-job",
        "installs with pip",
        _GPU + "pip uninstall -y torch\npython t.py\n",
    ),
    "an environment that the job makes": (
        "install-in-job",
        "installs with conda",
        _GPU + "conda create -y -n x python\npython t.py\n",
    ),
    "a key of a service": (
        "secret-in-script",
        "huggingface-cli is given a key",
        _GPU + f"huggingface-cli login --token hf_{'Ab1' * 11}\npython t.py\n",
    ),
    "a key behind login": (
        "secret-in-script",
        "wandb is given a key",
        _GPU + f"wandb login {'0123abcd' * 5}\npython t.py\n",
    ),
    "a password in an address": (
        "secret-in-script",
        "git is given a key",
        _GPU + "git clone https://me:S3cret-word@a.org/x.git\npython t.py\n",
    ),
    "processes that ps shows": (
        "kill-by-name",
        "this kill takes what ps aux shows",
        _GPU + "python t.py &\nwait $!\nkill $(ps aux | grep t.py | awk '{print $2}')\n",
    ),
    "a status behind a wait for nothing": (
        "status-lost-at-end",
        "the status of 'echo'",
        _GPU + "python t.py\nwait\necho done\n",
    ),
    "results removed behind an archive": (
        "removed-after-copy",
        "it removes run even if the zip in line 7 failed",
        _GPU + "python t.py\nzip -r run.zip run\nrm -r run\n",
    ),
    "a folder removed behind an archive": (
        "removed-after-copy",
        "it removes run even if the tar in line 7 failed",
        _GPU + "python t.py\ntar czf run.tgz run\nrm -r run\n",
    ),
    "a folder here, removed behind its copy": (
        "removed-after-copy",
        "it removes run-$$ even if",
        _GPU + "python t.py\ncp -r ./run-$$ /r/x\nrm -rf run-$$/\n",
    ),
    "a first line that is no program's, before text that is not bash": (
        "no-interpreter",
        "sbatch refuses a script that does not begin with #!",
        "me@login$ cat job.sh (\n" + _GPU + "python t.py\n",
    ),
    "a text with doubled signs": (
        "template",
        "'$$' is filled in",
        _GPU + "D=/a\ncat $$0\npython $$D/t.py --out $$(pwd)\ncd $${D}\npython $$D/u.py\n",
    ),
    "an option twice": (
        "option-twice",
        "--steps is 1 before, and 5 here",
        _GPU + 'A="--steps 1"\npython t.py $A --x 2 --steps=5\n',
    ),
    "data in a folder whose name ends in a point": (
        "copy-may-fail",
        "if this cp fails, line 6 runs all the same",
        _HEAD + "cp -r code /scratch/x/.\ncd /scratch/x || exit 1\n./run\n",
    ),
    "conda of a module of EasyBuild": (
        "conda-not-set-up",
        "a module called Anaconda3/2020.11 puts conda into PATH",
        _GPU + "module add Anaconda3/2020.11\nconda activate x\npython t.py\n",
    ),
    "a list shorter than the array, by an index of its own": (
        "array-beyond-list",
        "kinds has 2 entries, but the array goes to 2",
        _GPU + "#SBATCH -a 0-2\nkinds=(a b)\ni=$SLURM_ARRAY_TASK_ID\npython t.py ${kinds[i]}\n",
    ),
    "a training of a branch, and what follows": (
        "status-lost-at-end",
        "the script goes on when this fails, and the job ends with the status of line 9",
        _GPU + "if [ -d x ]; then\n  python t.py --resume\nfi\npython test.py\n",
    ),
    "a container whose number is kept": (
        "docker-in-job",
        "beside the job",
        _GPU + "c=$(docker run -d --gpus all image)\ndocker wait $c\n",
    ),
    "data left in memory": (
        "left-on-node",
        "/dev/shm/$USER stays in the node's memory",
        _GPU + "D=/dev/shm/$USER\nrsync -a data $D\npython t.py $D\n",
    ),
    "a folder left on a disk": (
        "left-on-node",
        "/tmp/$SLURM_JOB_ID stays on the node's own disk",
        _GPU + "mkdir -p /tmp/$SLURM_JOB_ID\npython t.py /tmp/$SLURM_JOB_ID\n",
    ),
    "the port that accelerate takes": (
        "port-fixed",
        "accelerate takes port 29500",
        _HEAD + "#SBATCH --gres=gpu:2\naccelerate launch --multi_gpu --num_processes=2 t.py\n",
    ),
    "hosts under one name": (
        "input-of-every-job",
        "every job writes hosts, which line 7 reads",
        _TWO + "scontrol show hostnames > hosts\nmpirun --hostfile=hosts ./x\n",
    ),
    "settings in a variable's name": (
        "input-of-every-job",
        "every job writes conf.json",
        _GPU + "conf=conf.json\ncat > $conf <<EOF\n{}\nEOF\npython t.py --config $conf\n",
    ),
    "a log with one name": ("log-of-every-run", "wipes t.log", _GPU + "python t.py > t.log\n"),
    "a log of tee": ("log-of-every-run", "wipes t.log", _GPU + "set -o pipefail\npython t.py | tee t.log\n"),
    "a meeting of another cluster, in an array": (
        "meeting-variable-unset",
        "nothing sets MASTER_ADDR",
        _GPU + '. /c/conda.sh\nA=(--master_addr=${MASTER_ADDR} --nproc_per_node=1)\ntorchrun "${A[@]}" t.py\n',
    ),
    "a log that each array wipes": (
        "output-of-every-run",
        "wipes o-%a.out",
        _GPU + "#SBATCH -a 0-3\n#SBATCH -o o-%a.out\n#SBATCH --open-mode=truncate\npython t.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "a shell alone": (
        "shell-without-commands",
        "do not run in what pipenv starts",
        _GPU + "pipenv shell\npython t.py\n",
    ),
    "two programs of a container's shell": (
        "status-lost-at-end",
        "the shell goes on when this fails",
        _GPU + "singularity exec --nv i.sif bash -c '\npython t.py\npython u.py\n'\n",
    ),
    "an echo in a container's shell": (
        "status-lost-at-end",
        "the shell ends with the status of 'echo'",
        _GPU + "set -e\nsingularity exec --nv i.sif bash -c 'python t.py; echo done'\n",
    ),
}


def _messages(text: str, rule: str) -> list[str]:
    return [each.message for each in lint_source(source_of("job.sh", text)) if each.rule == rule]


@pytest.mark.parametrize("name", _FOUND)
def test_what_readers_saw_is_found(name: str) -> None:
    rule, message, text = _FOUND[name]
    assert any(message in each for each in _messages(text, rule)), _messages(text, rule)


_RIGHT = {
    "a name of a module": ("variable-never-set", _GPU + "module load openblas\nexport X=$OPENBLAS_LIBS\npython t.py\n"),
    "a name that is asked for": (
        "variable-never-set",
        _GPU + 'if [ -z "$PROG" ]; then exit 1; fi\nexport ID=$PROG\npython t.py\n',
    ),
    "a name that a comment speaks of": (
        "variable-never-set",
        _GPU + "# sbatch job.sh with PROG in the environment\nexport ID=$PROG\npython t.py\n",
    ),
    "a name that is only shown": ("variable-never-set", _GPU + "echo $folder\npython t.py\n"),
    "a path behind a name and a quote": ("variable-never-set", _GPU + 'Data=/d\nx=$Data"root/y"\npython t.py $x\n'),
    "a name of a function": (
        "variable-never-set",
        _GPU + "run() {\n  python $code/t.py\n}\ncode=/a\nrun\n",
    ),
    "a value that the option reads": ("variable-never-read", _GPU + "epochs=10\npython t.py --epochs $epochs\n"),
    "a value that a here-document reads": (
        "variable-never-read",
        _GPU + "epochs=10\ncat > c.yaml <<EOF\nepochs: $epochs\nEOF\npython t.py --epochs 90\n",
    ),
    "a value that is exported below": (
        "variable-never-read",
        _GPU + "epochs=10\nexport epochs\npython t.py --epochs 90\n",
    ),
    "a first program that only asks": ("status-lost-at-end", _HEAD + "gmx_mpi --version\nsrun ./second\n"),
    "a package in front of the work": ("status-lost-at-end", _GPU + "python setup.py build\npython t.py\n"),
    "a download alone": ("download-in-job", _HEAD + "wget https://a.org/x.tar\ntar xf x.tar\n"),
    "a download of what is missing": (
        "download-in-job",
        _GPU + "[ -f x ] || wget https://a.org/x\nif [ ! -f y ]; then wget https://a.org/y; fi\npython t.py\n",
    ),
    "a message to a service": ("download-in-job", _GPU + "curl -X POST -d done https://a.org/hook\npython t.py\n"),
    "a server of the job": ("download-in-job", _GPU + "curl -o x http://localhost:8000/v1\npython t.py\n"),
    "a branch of a clone": ("code-changes-in-job", _GPU + "git clone /p/x\ncd x\ngit checkout dev\npython t.py\n"),
    "a branch of a copy": ("code-changes-in-job", _GPU + "cd $SLURM_TMPDIR/x\ngit checkout dev\npython t.py\n"),
    "a state that is asked for": ("code-changes-in-job", _GPU + "git status\ngit log -1\npython t.py\n"),
    "an environment that is sourced": ("environment-in-child", _GPU + "source /opt/env.sh\npython t.py\n"),
    "a program of its own shell": ("environment-in-child", _GPU + "bash train.sh\nbash run_env.sh x\n"),
    "settings of conda": ("install-in-job", _GPU + "conda config --set auto_update false\npython t.py\n"),
    "a hash of a commit": ("secret-in-script", _GPU + f"git checkout {'0123abcd' * 5}\npython t.py\n"),
    "a key out of a variable": ("secret-in-script", _GPU + "wandb login $WANDB_API_KEY\npython t.py\n"),
    "a process of its own": ("kill-by-name", _GPU + "python t.py &\nkill $!\nwait\n"),
    "an archive of a list": ("removed-after-copy", _GPU + "python t.py\ntar cf x.tar -T list\nrm list\n"),
    "an archive that is asked for": (
        "removed-after-copy",
        _GPU + "python t.py\ntar czf run.tgz run && rm -r run\n",
    ),
    "a continued program of a container's shell": (
        "status-lost-at-end",
        _GPU + 'singularity exec --nv i.sif bash -c "cd /x; \\\\\n torchrun \\\\\n --standalone \\\\\n t.py c.yml"\n',
    ),
    "a placeholder in a comment": ("placeholder", _GPU + "cd $W # /work/<user>/x\npython t.py\n"),
    "numbers of the process": ("template", _GPU + "mkdir /tmp/$$\npython t.py > /tmp/$$/log\nrm -r /tmp/$$\n"),
    "an option with a list": ("option-twice", _GPU + "python t.py --file a --file b --gpu 0 1\n"),
    "an option of two programs": ("option-twice", _GPU + "python t.py --lr 1\npython t.py --lr 2\n"),
    "conda of a module, by its path": (
        "conda-not-set-up",
        _GPU + "module load Anaconda3/2020.11\nsource activate x\npython t.py\n",
    ),
    "conda of a module, with its function": (
        "conda-not-set-up",
        _GPU + "module load Anaconda3\nsource $EBROOTANACONDA3/etc/profile.d/conda.sh\nconda activate x\npython t.py\n",
    ),
    "a list as long as the array, from one": (
        "array-beyond-list",
        _GPU + "#SBATCH -a 1-2\nkinds=(a b)\ni=$((SLURM_ARRAY_TASK_ID - 1))\npython t.py ${kinds[$i]}\n",
    ),
    "two branches": (
        "status-lost-at-end",
        _GPU + "if [ -d x ]; then\n  python t.py --resume\nelse\n  python t.py\nfi\n",
    ),
    "a list with keys": (
        "array-beyond-list",
        _GPU + "#SBATCH -a 4-5\ndeclare -A kinds=([4]=a [5]=b)\npython t.py ${kinds[$SLURM_ARRAY_TASK_ID]}\n",
    ),
    "data that is removed": ("left-on-node", _GPU + "cp -r d /tmp/x\npython t.py /tmp/x\nrm -rf /tmp/x\n"),
    "data in the job's own folder": ("left-on-node", _GPU + "cp -r d $TMPDIR\npython t.py $TMPDIR/d\n"),
    "a name of a site": ("variable-never-set", _GPU + "source $my_ALL_CCFRWORK/env\npython t.py\n"),
    "the port of a configuration": ("port-fixed", _GPU + "accelerate launch --multi_gpu --config_file c.yml t.py\n"),
    "hosts with the job's number": (
        "input-of-every-job",
        _TWO + "scontrol show hostnames > hosts.$SLURM_JOB_ID\nmpirun --hostfile hosts.$SLURM_JOB_ID ./x\n",
    ),
    "hosts in a folder of the job": (
        "input-of-every-job",
        _TWO + "cd /scratch/$SLURM_JOB_ID\nscontrol show hostnames > hosts\nmpirun --hostfile hosts ./x\n",
    ),
    "hosts that nothing reads": ("input-of-every-job", _TWO + "scontrol show hostnames > hosts\nmpirun ./x\n"),
    "a log that grows": ("log-of-every-run", _GPU + "python t.py >> t.log\npython t.py | tee -a u.log\n"),
    "a log with a number": ("log-of-every-run", _GPU + "python t.py > t-$SLURM_JOB_ID.log\n"),
    "a log of a folder of its own": ("log-of-every-run", _GPU + "cd runs/$SLURM_JOB_ID\npython t.py > t.log\n"),
    "the port of another host": ("port-fixed", _GPU + "ssh -N -R 9000:localhost:9000 --port 9000 login\n"),
    "a filter of the shell's variables": ("status-lost-at-end", _HEAD + "export | cut -d= -f1\nsrun ./second\n"),
    "a text that may set it": ("variable-never-set", _GPU + 'eval "$(cat settings)"\npython t.py --step $step\n'),
    "a host that the script sets": ("variable-never-set", _GPU + "HOST=a\nexport DB_HOST=$HOST\npython t.py\n"),
    "a shell with a script": ("shell-without-commands", _GPU + "bash t.sh\nbash -c date\npython t.py\n"),
    "a shell behind a pipe": ("shell-without-commands", _GPU + "cat lines | sh\npython t.py\n"),
    "a shell with a text": ("shell-without-commands", _GPU + "bash <<EOF\ndate\nEOF\npython t.py\n"),
    "programs of a shell that stops": (
        "status-lost-at-end",
        _GPU + "singularity exec --nv i.sif bash -c 'set -e; python t.py; python u.py'\n",
    ),
    "programs in a row with &&": (
        "status-lost-at-end",
        _GPU + "singularity exec --nv i.sif bash -c 'python t.py && python u.py'\n",
    ),
    "a value that is the option's": ("variable-never-read", _GPU + "epochs=90\npython t.py --epochs 90\n"),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _messages(text, rule) == []
