"""What a reader of strange scripts missed: waits, lost failures, unused sizes; each by the shortest script."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from muster_lint.bash import read_shell
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

_TWO_RANKS = _HEAD + "#SBATCH -N 1\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:8\n"
_EIGHT = _HEAD + "#SBATCH --cpus-per-task=8\n"

_RUNS = _ONE + "#SBATCH --array=0-9\n"

_CASE = _RUNS.replace("0-9", "0-1") + (
    "case $SLURM_ARRAY_TASK_ID in\n  0) P=1; RESULTS=r/{};;\n  1) P=2; RESULTS=r/{};;\nesac\n./t -p $P -r $RESULTS\n"
)

_LIST = _HEAD + "#SBATCH -N 4\nfor node in $(scontrol show hostnames); do\n"

_RANKS = _ONE + "#SBATCH --gres=gpu:2\n#SBATCH --ntasks-per-node=2\n"

_KIND = _ONE + "#SBATCH --gpus-per-node=mi250:8\n"

_LONG = "#!/bin/bash\n#SBATCH --time=1-0\n"
_CARD = _ONE + "#SBATCH --gres=gpu:1\n"
_LOOP = _ONE + "for r in 0.1 0.2; do\n"
_IMAGE = _ONE + "#SBATCH --gres=gpu:1\n{}singularity exec --nv {} i.sif python3 t.py\n"

_FOUND = {
    "not-bash": (("an end too many", _ONE + "./t 1\ndone\n"), ("nothing to read from", _ONE + "./t 1 <\n")),
    "no-interpreter": (("a dot before it", "." + _ONE + "./t 1\n"),),
    "log-of-every-run": (
        ("below the folder of the submission", _ONE + "D=$PWD\npython t.py > ${D}/stream_output_gpu.txt\n"),
        ("results", _ONE + "python t.py > results_a.csv\n"),
    ),
    "check-goes-on": (
        (
            "the number of arguments",
            _ONE + 'if [ "$#" -ne 3 ]; then\n  echo "Illegal number of parameters"\nfi\n./t $1\n',
        ),
        ("in one line", _ONE + 'if [ $# -lt 1 ]; then echo "Usage: t FILE"; fi\n./t $1\n'),
        (
            "in front of other hosts",
            _ONE + 'if [ -z "$1" ]; then\n  echo "an argument is missing"\nfi\nssh n1 "./t $1"\n',
        ),
    ),
    "gpus-for-data": (
        (
            "packages alone",
            _CARD + "conda create -n e -y\npython3 -m pip install a &>> log\nconda env export > e.yml\n",
        ),
        ("a database of pictures", _CARD + "python create_db.py -b lmdb d/train.txt d/train_db\n"),
    ),
    "loop-overwrites": (
        ("a model of each rate", _LOOP + "python t.py --lr $r --output $M/en.model\ndone\n"),
        ("an option with =", _LOOP + "python t.py --lr $r --predictions=/a/p.txt\ndone\n"),
        ("a redirection", _LOOP + "python t.py --lr $r > out.txt\ndone\n"),
        ("a loop in a loop", _LOOP + "for s in 1 2; do\npython t.py $r $s > /a/out.txt\ndone\ndone\n"),
        ("by a variable of the round", _LOOP + 'n=a_$r\npython t.py --name "$n" > /a/out.txt\ndone\n'),
    ),
    "words-of-another-command": (
        ("of pip", _ONE + "python3 -m pip install hicrep pip install opencv &>> log\n./t 1\n"),
        ("of a module", _ONE + "module load module load cuda\n./t 1\n"),
        ("of conda", _ONE + "source activate conda activate /a/b\n./t 1\n"),
        ("of Python", _ONE + "python python t.py --a 1\n"),
        ("of mkdir", _ONE + "mkdir -o mkdir -p /a/b\n./t 1\n"),
        ("a comment that is none", _ONE + "cd ..#we go up\n./t 1\n"),
        ("the QOS of a host", _ONE + "squeue -q `hostname -s`\n./t 1\n"),
    ),
    "preempted-unprepared": (
        ("a list of partitions", _LONG + "#SBATCH -p gpu,preempt\n./t 1\n"),
        ("a name and a comment", _LONG + "#SBATCH -p gpu_requeue #Partition\n./t 1\n"),
        ("a QOS", _LONG + "#SBATCH --qos=job_gpu_preempt\n./t 1\n"),
        ("the cycles that others leave", _LONG + "#SBATCH --partition=scavenger\n./t 1\n"),
    ),
    "results-wiped-at-start": (
        ("all files", _ONE + "#remove checkpoints\nrm /tigress/$USER/model_checkpoints/*\nsrun python t.py\n"),
        ("a folder in a variable", _ONE + "OUT=/proj/a/runs/3\nrm -rf $OUT\nmkdir $OUT\n./t 1 $OUT\n"),
        ("of an array", _RUNS + "rm -r results\n./t $SLURM_ARRAY_TASK_ID\n"),
    ),
    "container-drops-environment": (
        ("a clean environment", _IMAGE.format("", "--bind /a:/b --cleanenv --no-home")),
        ("by a letter", _IMAGE.format("", "-e")),
        ("with all that contains", _IMAGE.format("", "--containall")),
        ("ranks", _TWO_RANKS + "srun singularity exec --nv -e i.sif python3 t.py\n"),
    ),
    "address-is-a-list": (
        (
            "a dash",
            _HEAD + "#SBATCH -N 2\nM=`perl -le '$_=$ENV{\"SLURM_JOB_NODELIST\"}; s/,.*//; s/-.*//; print'`\n./t $M\n",
        ),
        ("cut", _HEAD + "#SBATCH -N 2\nM=$(echo $SLURM_NODELIST | cut -d '-' -f 1 | tr -d '[')\n./t $M\n"),
    ),
    "status-lost-in-pipe": (
        ("a part of the work under set -e", _ONE + "set -e\nbwa mem -t 4 x | samtools sort -o x.bam\n"),
        ("an exit", _ONE + "for i in 1 2; do\n(\n  $RUN $i; rv=$?\n  [ $rv -ne 0 ] && exit $rv\n) |& tee log\ndone\n"),
    ),
    "array-shares-file": (("a place of two tasks", _CASE.format("a", "a")),),
    "array-facts": (
        ("a line of a list", _ONE + 'l=$(sed -n "${SLURM_ARRAY_TASK_ID}p" in)\n./t $l\n'),
        ("an argument", _ONE + "python t.py $SLURM_ARRAY_TASK_ID\n"),
        ("an option's value", _ONE + "python t.py -a ${SLURM_ARRAY_TASK_ID} ${RUN_CONFIG}\n"),
        ("of a step", _ONE + "srun ./t --seed $SLURM_ARRAY_TASK_ID --lr 1\n"),
    ),
    "tasks-as-cpus": (
        ("ranks that nothing starts", _RANKS + 'python tools/train.py $1 --launcher="slurm" ${@:2}\n'),
        ("on two nodes", _HEAD + "#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\npython t.py c.py --launcher slurm\n"),
    ),
    "status-of-background": (
        ("in its line", _ONE + "srun ./t & rv=$?\nwait\nexit $rv\n"),
        ("in the line below", _ONE + "./t &\nif [ $? -ne 0 ]; then exit 1; fi\nwait\n"),
        ("behind its number", _ONE + "for i in 1 2; do\n  ./t $i &\n  pids+=($!); ends+=($?);\ndone\nwait\n"),
        ("in a list", _ONE + "for i in 1 2; do\n  ./t $i & # one\n  ends+=($?)\ndone\nwait\n"),
    ),
    "directive-value": (
        ("a letter without its time", _HEAD + "#SBATCH -t \n#SBATCH -A x\n./t\n"),
        ("a letter without its number", _HEAD + "#SBATCH -N\n#SBATCH -A x\n./t\n"),
        ("a letter without its partition", _HEAD + "#SBATCH -p # yours\n#SBATCH --nodes=1\n./t\n"),
        ("a letter at the end", _HEAD + "#SBATCH -J\n./t\n"),
        ("a letter and a stray word", _HEAD + "#SBATCH -A\n#SBATCH -N 1\n./t\n"),
        ("a letter that takes the next option", _HEAD + "#SBATCH -A\n#SBATCH --nodes=1\n./t\n"),
    ),
    "ssh-to-nodes": (
        ("a program of a folder", _LIST + 'ssh $node.ib "cd w; numactl -m 0 ./bin/work 1 > log&"\ndone\n'),
        ("a path", _LIST + "ssh ${node} /opt/work 1\ndone\n"),
    ),
    "not-exported": (("in a task", _ONE + "srun bash -c '\nNCCL_DEBUG=INFO;\npython t.py;\n'\n"),),
    "sweep-without-end": (("in an image", _ONE + "singularity exec --nv i.sif \\\nwandb agent a/b/c\n"),),
    "status-lost-at-end": (
        ("an installation", _ONE + "conda create -n e -y\npip install a\nconda env export > e.yml\nconda deactivate\n"),
        ("a function that prints", _ONE + 'say() {\n  echo "$1"\n}\nsay a\n./t 1\nsay b\n'),
        ("a function that works", _ONE + "run() {\n  ./t 1\n  echo\n}\nmain() {\n  run\n}\nmain\n"),
        ("a function that only sets", _ONE + "keep() {\n  x=1\n}\n./t 1\nkeep\ndate\n"),
        ("a program in a variable", _ONE + "$RUN_CMD --size 4\necho done\n"),
        ("text tools behind it", _ONE + "./t 1\nn=1\ngrep x log\ndiff a b\necho $n\n"),
    ),
    "modules-after-environment": (
        ("PATH", _ONE + "conda activate x\nexport PATH=/usr/local/bin:$PATH\npython t.py\n"),
    ),
    "conda-under-nounset": (("the login shell's file", _ONE + "set -eu\nsource ~/.bashrc || true\npython t.py\n"),),
    "conda-not-set-up": (
        (
            "behind a compiler of a folder",
            _ONE + "module load comp/gcc/7.2 nvidia/cuda/10.0\nsource activate x\npython t.py\n",
        ),
    ),
    "background-without-wait": (
        ("a loop that starts them", _ONE + "while read i; do\n  srun ./t $i &\n  sleep 1\ndone < list\n"),
        ("the last in front", _ONE + "python t.py 1 &\npython t.py 2\n"),
        ("steps", _ONE + "srun -n1 ./t 1 &\nsrun -n1 ./t 2\n"),
    ),
    "one-process-many-gpus": (
        ("in a row", _ONE + "#SBATCH --gres=gpu:4\npython t.py 1\npython t.py 2\npython t.py 3\n"),
    ),
    "half-copied-file": (
        ("a file", _ONE + "if [ ! -f /tmp/d ]; then\n  cp d /tmp/d\nfi\n./t /tmp/d\n"),
        (
            "into a folder",
            _ONE + 'if [ ! -f "$TMPDIR/$USER/d/$f" ]; then\n  cp $f $TMPDIR/$USER/d/\nfi\n./t\n',
        ),
        (
            "of an array",
            _RUNS + "if [ ! -d /proj/d ]; then\n  tar xf d.tar -C /proj/d\nfi\n./t $SLURM_ARRAY_TASK_ID\n",
        ),
    ),
    "folder-not-made": (
        ("logs", _ONE + "x=a\ntime srun ./t > ./logs/${x}.txt 2>&1\n"),
        ("logs that are looked at", _ONE + "find ./x-logs/a -size +1k\n./t > ./x-logs/a\n"),
        ("home", _ONE + 'export HOME="/tmp/srun"\n./t\n'),
        ("temporary files", _ONE + "export TMPDIR=/dev/shm/a/b\n./t\n"),
    ),
    "variable-never-read": (
        ("arrays", _ONE + "heads=(8 9)\nfor d in 1 2; do\n  python t.py --d $d\ndone\n"),
        ("settings", _ONE + "DATA_FILE=a\nLOG_DIR=b\npython t.py\n"),
    ),
    "step-smaller-than-job": (
        ("CPUs", _ONE + "srun --ntasks=1 -N1 -n1 --cpus-per-task=1 python t.py --x 1 &\nwait\n"),
        ("nodes", _HEAD + "#SBATCH -N 4\n#SBATCH --ntasks-per-node=4\nsrun -N1 -n1 ./main\n"),
        ("tasks that do not reach the nodes", _HEAD + "#SBATCH -N 4\nsrun -n 2 ./main\n"),
        ("tasks", _HEAD + "#SBATCH -n 16\nsrun -n 1 ./main\n"),
    ),
    "cpus-unused": (
        ("a variable", _EIGHT + "export NUM_CPUS=4\n./t 1\n"),
        ("threads", _EIGHT + "export OMP_NUM_THREADS=2\n./t 1\n"),
        ("an option", _EIGHT + "./t --threads 2\n"),
    ),
    "failure-only-printed": (
        ("a message", _ONE + "srun ./t 1 || echo failed\nsrun ./t 2\n"),
        ("a group", _ONE + "srun ./t 1 > log 2>&1 || { echo failed; date; }\nsrun ./t 2\n"),
        ("an if", _ONE + "if ! srun ./t 1; then\n  echo failed\nfi\necho done\n"),
        ("an else", _ONE + "if srun ./t 1; then\n  echo fine\nelse\n  echo failed\nfi\n"),
        ("a count", _ONE + 'srun ./t 1 || fail=1\necho "failures: $fail"\n'),
        (
            "a list",
            _ONE
            + "S=()\nf() {\n  if ! srun ./t $1; then\n    S+=($1)\n    return\n  fi\n}\nf 1\nprintf '%s' ${S[@]}\n",
        ),
        ("a status that is printed", _ONE + 'srun ./t 1\necho "ended with $?"\n'),
        ("a status in a variable", _ONE + 'srun ./t 1\nr=$?\necho "ended with $r"\n'),
        ("an if behind", _ONE + "srun ./t 1\nif [ $? -ne 0 ]; then\n  echo failed\nfi\nsrun ./t 2\n"),
    ),
    "exit-without-status": (
        ("that of a message", _ONE + '[[ $(ls | wc -w) -lt 5 ]] && echo "ERR: missing files" && exit $?\n./t\n'),
        (
            "arguments",
            _ONE + 'if [ $# -lt 3 ];\n  then\n  printf "Not enough arguments - %d\\n" $#\n  exit 0\n  fi\n./t\n',
        ),
        ("no message", _ONE + "if [ $# -ne 2 ]; then\n  exit\nfi\n./t\n"),
        ("an empty argument", _ONE + 'if [ -z "$1" ]; then\n  echo give one\n  exit 0\nfi\n./t\n'),
        ("an empty variable", _ONE + "m=$1\nif [[ -z $m ]]; then\n  usage\n  exit 0\nfi\n./t\n"),
        ("a file", _ONE + 'if [ ! -f "$c" ]; then\n  echo look for $c\n  exit 0\nfi\n./t\n'),
    ),
    "gpus-not-asked-for": (
        ("an option of the program", _HEAD + "#SBATCH -N 2\n#SBATCH -n 16\nsrun python t.py --gpus 8\n"),
        ("a comment that asks", _ONE + "# #SBATCH --gres=gpu:2\nsrun swirl --user:cuda=T --nout=100\n"),
        ("a comment that asks, and a card", _ONE + "##SBATCH --gres=gpu:2\nexport CUDA_VISIBLE_DEVICES=1\n./t\n"),
        ("the GPUs of AMD", _ONE + "export ROCR_VISIBLE_DEVICES=0,1\n./t\n"),
        ("none for a launcher", _NONE + "torchrun --standalone --nproc-per-node=4 t.py\n"),
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
    "not-bash": (("a text behind the end", _ONE + "#=\n./t 1\nexit 0\n# =#\nstop()\n"),),
    "status-lost-at-end": (
        ("a function that may end early", _ONE + "end() {\n  [ -s out ] || return 1\n}\n./t 1\nend\n"),
        ("a script that is read and piped", _ONE + "./t 1\nsource ./rest.sh | tee log\n"),
    ),
    "check-goes-on": (
        ("it ends", _ONE + 'if [ "$#" -ne 3 ]; then echo "Illegal number of parameters"; exit 1; fi\n./t $1\n'),
        ("it is asked for more", _ONE + 'if [ "$#" -ne 0 ]; then\n  echo "using $1"\nfi\n./t $1\n'),
    ),
    "gpus-for-data": (
        ("a package that is compiled", _CARD + "pip install flash-attn\n"),
        ("a look at the card", _CARD + "pip install torch\npython -c 'import torch; torch.cuda.init()'\n"),
        ("work behind it", _CARD + "pip install a\n./t 1\n"),
        ("no GPU", _ONE + "pip install a\n"),
    ),
    "loop-overwrites": (
        ("its own name", _LOOP + "python t.py --lr $r --output $M/$r.model\ndone\n"),
        ("a name of several variables", _LOOP + 'n=$r\nk=a\npython t.py $r -o "$k"_"$n"_R1.txt\ndone\n'),
        ("it adds", _LOOP + "python t.py --lr $r >> out.txt\ndone\n"),
        ("the loop's own file", _LOOP + "python t.py --lr $r\ndone > out.txt\n"),
        ("the loop's own pipe", f"{_ONE}for r in 1 2; do ./t $r; done | gzip > out.gz\n"),
        ("it is moved", _LOOP + "python t.py --lr $r -o a.txt\nmv a.txt $r.txt\ndone\n"),
        ("it is read", _LOOP + "python t.py --lr $r -o /a/b.txt\npython test.py /a/b.txt | tee -a all\ndone\n"),
        ("a folder of its own", _LOOP + "cd $r\npython t.py --lr $r > out.txt\ncd ..\ndone\n"),
        ("a name within a folder", _LOOP + "python t.py --out-dir d_$r --output cell.tif\ndone\n"),
        ("a folder of the image", _LOOP + "singularity exec --bind=$r:/w i.sif ./t $r --output cell.tif\ndone\n"),
        ("another of the image", _LOOP + "singularity exec -B $r:/w i.sif ./t $r --output cell.tif\ndone\n"),
        ("the same each time", _LOOP + "python t.py > out.txt\ndone\n"),
        ("a list of hosts", _LOOP + "./hosts $r > list.txt\nexport SLURM_HOSTFILE=$PWD/list.txt\nsrun ./t $r\ndone\n"),
    ),
    "words-of-another-command": (
        ("two commands", _ONE + "pip install a && pip install b; module load x; module load y\n./t 1\n"),
        ("a name alone", _ONE + "pip install --upgrade pip install-x\nmodule load conda\n./t 1\n"),
        ("a place to fill in", _ONE + "cd {where your project is}\n./t 1\n"),
        ("a QOS", _ONE + "squeue -q long\n./t 1\n"),
    ),
    "preempted-unprepared": (
        ("it comes back", _LONG + "#SBATCH -p preempt\n#SBATCH --requeue\n./t 1\n"),
        ("it is warned", _LONG + "#SBATCH -p preempt\n#SBATCH --signal=B:USR1@60\n./t 1\n"),
        ("it goes on", _LONG + "#SBATCH -p preempt\n./t --resume last\n"),
        ("a short one", _ONE + "#SBATCH -p preempt\n./t 1\n"),
        ("another name", _LONG + "#SBATCH -p spotlight\n./t 1\n"),
    ),
    "results-wiped-at-start": (
        ("of this job", _ONE + "rm -rf /p/results/$SLURM_JOB_ID\n./t 1\n"),
        ("behind the work", _ONE + "./t 1\nrm -rf /p/results/*\n"),
        ("if it is asked for", _ONE + 'if [ -n "$CLEAN" ]; then\n  rm -rf /p/results/*\nfi\n./t 1\n'),
        ("in a folder of the task", _RUNS + "cd task_$SLURM_ARRAY_TASK_ID\nrm -r results\n./t 1\n"),
        ("a file", _ONE + "rm -f logs/latest.out\n./t 1\n"),
    ),
    "container-drops-environment": (
        ("it is handed over", _IMAGE.format("", "-e --env CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES")),
        (
            "it is handed over by a variable",
            _IMAGE.format("export SINGULARITYENV_CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES\n", "-e"),
        ),
        ("without a clean environment", _IMAGE.format("", "-B /a")),
        ("the whole node", _IMAGE.format("", "-e").replace("gpu:1", "gpu:8")),
    ),
    "tasks-as-cpus": (
        ("one rank", _ONE + "#SBATCH --ntasks-per-node=1\npython t.py c.py --launcher=slurm\n"),
        ("ranks of srun", _RANKS + "srun python t.py c.py --launcher=slurm\n"),
    ),
    "status-lost-in-pipe": (
        ("a pipe that is only looked at", _ONE + "set -e\nbwa mem -t 4 x | head\n"),
        ("a part of the work, whatever fails", _ONE + "bwa mem -t 4 x | samtools sort -o x.bam\n"),
        ("an exit behind pipefail", _ONE + "set -o pipefail\n(\n  $RUN 1 || exit 1\n) |& tee log\n"),
        ("an exit of no pipe", _ONE + "(\n  $RUN 1 || exit 1\n)\n./t | tee log\n"),
        ("a good end", _ONE + "(\n  $RUN 1 && exit 0\n  $RUN 2\n) |& tee log\n"),
    ),
    "argument-unchecked": (
        ("all of them", _ONE + 'srun "$@"\n'),
        ("a number that is asked", _ONE + 'echo "given: $@"\n[ $# -gt 0 ] || exit 1\nsrun $1\n'),
    ),
    "array-shares-file": (
        ("two places", _CASE.format("a", "b")),
        ("a task that is not asked for", _CASE.format("a", "a").replace("0-1", "1")),
        ("the same work", _CASE.format("a", "a").replace("P=2", "P=1")),
    ),
    "array-facts": (
        ("a test of it", _ONE + "if [[ $SLURM_ARRAY_TASK_ID ]]; then\n  i=$SLURM_ARRAY_TASK_ID\nfi\npython t.py $i\n"),
        ("a line of an array's script", _ONE + "#SBATCH -o %A_%a\nl=$(sed -n ${SLURM_ARRAY_TASK_ID}p in)\n./t $l\n"),
        ("a value that is quoted", _ONE + 'python t.py -a "$SLURM_ARRAY_TASK_ID" c\n'),
        ("a name with the array's number", _ONE + "#SBATCH -o %A_%a.out\npython t.py -a $SLURM_ARRAY_TASK_ID c\n"),
        ("a job that says it is an array", _ONE + "# submit as an array\npython t.py -a $SLURM_ARRAY_TASK_ID c\n"),
        ("an array", _RUNS + "python t.py -a $SLURM_ARRAY_TASK_ID c\n"),
        ("a default", _ONE + "python t.py -a ${SLURM_ARRAY_TASK_ID:-0} c\n"),
    ),
    "one-process-many-gpus": (("ranks that wait", _RANKS + "python t.py c.py --launcher=slurm\n"),),
    "status-of-background": (
        ("of wait", _ONE + "./t &\nwait $!\nrv=$?\n"),
        ("of what follows", _ONE + "./t & ./u; rv=$?\nwait\n"),
        ("of a command in front", _ONE + "./t\nrv=$?\n"),
        ("its number", _ONE + "./t &\npid=$!\nwait $pid\n"),
        ("a line between", _ONE + "./t &\n./u\nrv=$?\nwait\n"),
        ("of wait behind its number", _ONE + "./t &\npid=$!; wait $pid; rv=$?\n"),
    ),
    "directive-value": (("a switch", _HEAD + "#SBATCH -H\n#SBATCH -J x\n./t\n"),),
    "docker-in-job": (("where no job is", _ONE + "if [ $IN = 1 ]; then\n  ./t\nelse\n  docker run i ./t\nfi\n"),),
    "threads-too-many": (
        (
            "CPUs that the site gives",
            _HEAD + "#SBATCH -N 1\nexport OMP_NUM_THREADS=8\ntorchrun --standalone --nproc-per-node=3 t.py\n",
        ),
        ("no program sees it", _HEAD + "#SBATCH -n 1\n#SBATCH -c 4\nOMP_NUM_THREADS=16\nsrun -c 4 python t.py\n"),
    ),
    "step-without-command": (
        ("a look", _ONE + 'cmake -DRUN="$(command -v srun)" .\n'),
        ("a question", _ONE + "if command -v srun > /dev/null; then\n  echo there\nfi\n"),
    ),
    "variable-never-set": (
        ("a name that a value ends with", _ONE + 'g=$g\nO="+e=${g}_$SLURM_JOB_ID"\nC="python t.py $O"\neval $C\n'),
    ),
    "ssh-to-nodes": (
        ("a look at a node", _LIST + "ssh $node hostname\ndone\n"),
        ("another host", _LIST + "ssh login1 ./sync results\ndone\n"),
        ("no list of nodes", _ONE + 'ssh $node "./work 1"\n'),
    ),
    "not-exported": (
        ("exported in the task", _ONE + "srun bash -c 'export NCCL_DEBUG=INFO; python t.py'\n"),
        ("exported outside", _ONE + "export NCCL_DEBUG=WARN\nsrun bash -c 'NCCL_DEBUG=INFO; python t.py'\n"),
        ("of the command", _ONE + "srun bash -c 'NCCL_DEBUG=INFO python t.py'\n"),
        ("behind the program", _ONE + "srun bash -c 'python t.py; NCCL_DEBUG=INFO'\n"),
    ),
    "sweep-without-end": (
        ("a count", _ONE + "wandb agent --count 4 a/b/c\n"),
        ("a signal before the end", _ONE + "#SBATCH --signal=B:USR1@60\ntrap : USR1\nwandb agent a/b/c & wait; wait\n"),
    ),
    "modules-after-environment": (
        ("before it", _ONE + "export PATH=/usr/bin:$PATH\nconda activate x\npython t.py\n"),
        ("behind the others", _ONE + "conda activate x\nexport PATH=$PATH:/usr/bin\npython t.py\n"),
        ("a folder of CUDA", _ONE + "conda activate x\nexport PATH=/usr/local/cuda/bin:$PATH\npython t.py\n"),
    ),
    "conda-under-nounset": (("off meanwhile", _ONE + "set -eu\nset +u\nsource ~/.bashrc\nset -u\npython t.py\n"),),
    "unset-under-nounset": (("a module sets it", _ONE + "set -eu\nmodule load cuda\nL=$LD_LIBRARY_PATH\n./t $L\n"),),
    "background-without-wait": (
        ("a server", _ONE + "python server.py &\npython t.py 1\n"),
        ("a wait", _ONE + "python t.py 1 &\npython t.py 2\nwait $!\n"),
        ("a monitor", _ONE + "./watch gpu &\npython t.py 2\n"),
        ("a question until its answer", _ONE + "srun ./t 1 &\nwhile [ ! -e out ]; do\n  sleep 5\ndone\nrm -f in\n"),
        ("a step in front that is timed", _ONE + "srun --overlap ./disturb &\ntime -p srun ./t 2\n"),
    ),
    "half-copied-file": (
        (
            "under another name",
            _ONE + "if [ ! -f /tmp/d ]; then\n  cp d /tmp/d.2\n  mv /tmp/d.2 /tmp/d\nfi\n./t\n",
        ),
        ("a lock", _ONE + "flock /tmp/l true\nif [ ! -f /tmp/d ]; then\n  cp d /tmp/d\nfi\n./t /tmp/d\n"),
        ("a folder of the job", _ONE + "T=/tmp/$SLURM_JOB_ID\nif [ ! -f $T/d ]; then\n  cp d $T/d\nfi\n./t $T/d\n"),
        ("a shared disk", _ONE + "if [ ! -f /project/d ]; then\n  cp d /project/d\nfi\n./t /project/d\n"),
        ("another file", _ONE + "if [ ! -f /tmp/d ]; then\n  cp e /tmp/other/e\nfi\n./t /tmp/d\n"),
    ),
    "folder-not-made": (
        ("a folder of Slurm's log", _ONE + "#SBATCH -o logs/%j\n./t > logs/a\n"),
        ("a folder that is made", _ONE + "mkdir -p logs\n./t > logs/a\n"),
        ("a folder that brings files", _ONE + "./t -c logs/conf > logs/a\n"),
        ("a folder of results", _ONE + "./t > 03_output/a\n"),
        ("a whole path", _ONE + "./t > /w/logs/a\n"),
        ("made", _ONE + 'export TMPDIR=/tmp/a/b\nmkdir -p "$TMPDIR"\n./t\n'),
        ("made by a step", _ONE + "export HOME=/tmp/a/b\nsrun mkdir -p /tmp/a/b\n./t\n"),
        ("another disk", _ONE + "export HOME=/project/ann\n./t\n"),
    ),
    "variable-never-read": (
        ("a loop reads it", _ONE + "heads=(8 9)\nfor h in ${heads[@]}; do\n  python t.py $h\ndone\n"),
        ("a file may read it", _ONE + "heads=(8 9)\nsource more.sh\n"),
    ),
    "one-cpu": (
        ("ranks with CPUs", _AMD.replace("module", "#SBATCH -c 7\nmodule") + "srun python t.py\n"),
        ("a step with CPUs", _AMD + "srun -c 7 python t.py\n"),
        ("ranks without a sign of GPUs", _HEAD + "#SBATCH -n 16\nsrun python t.py\n"),
    ),
    "step-smaller-than-job": (
        ("the same size", _ONE + "srun -N 1 -n 1 -c 4 ./t\n"),
        ("whole nodes, of which some CPUs are left", _HEAD + "#SBATCH -n 384\nsrun -n 289 ./t\n"),
        ("other tasks, as many CPUs", _ONE + "srun -n 4 -c 1 ./t\n"),
        ("two steps", _ONE + "srun -c 1 ./t &\nsrun -c 1 ./u &\nwait\n"),
        ("a loop", _ONE + "for i in 1 2; do\n  srun -c 1 ./t $i &\ndone\nwait\n"),
        ("a program that starts the rest", _HEAD + "#SBATCH -N 4\nsrun -N1 -n1 ray start --head\n"),
        ("a step that leaves place", _HEAD + "#SBATCH -N 4\nsrun -N1 -n1 --exact ./main\n"),
        ("a script of its own beside", _HEAD + "#SBATCH -N 4\nsrun -N1 -n1 ./main\n./more.sh\n"),
    ),
    "cpus-unused": (
        ("as many", _EIGHT + "export NUM_CPUS=8\n./t\n"),
        ("threads of Python", _EIGHT + "export OMP_NUM_THREADS=2\npython t.py\n"),
        ("one thread each", _EIGHT + "export OMP_NUM_THREADS=1\n./t\n"),
        ("two programs", _EIGHT + "export NUM_CPUS=4\n./t 1 &\n./t 2 &\nwait\n"),
        ("tasks", _EIGHT + "#SBATCH --ntasks=4\nexport NUM_CPUS=4\nsrun ./t\n"),
    ),
    "failure-only-printed": (
        ("it ends the script", _ONE + "srun ./t 1 || exit 1\nsrun ./t 2\n"),
        ("it is kept", _ONE + "srun ./t 1 || f=1\nsrun ./t 2\nexit $f\n"),
        ("it is asked for", _ONE + "f=0\nsrun ./t 1 || f=1\nif [ $f -ne 0 ]; then\n  exit 1\nfi\n"),
        ("it is tested behind", _ONE + 'srun ./t 1 || f=1\n[ -z "$f" ]\n'),
        ("it is meant", _ONE + "srun ./t 1 || true\nsrun ./t 2\n"),
        ("a function tells it", _ONE + "f() {\n  if ! srun ./t 1; then\n    echo no\n    return 1\n  fi\n}\nf\n"),
        ("another way", _ONE + "if ! srun ./t 1; then\n  echo again\n  srun ./t 2\nfi\n"),
        ("a second try", _ONE + "for i in 1 2; do\n  if srun ./t 1; then break; else echo again; fi\ndone\n"),
        ("a question", _ONE + "nvidia-smi || echo none\nsrun ./t 1\n"),
        ("a word of the command", _ONE + "srun ./t 1 < in \\\n r=$?\nsrun ./t 2\n"),
        ("a status that is given on", _ONE + "srun ./t 1\nr=$?\necho $r\nexit $r\n"),
    ),
    "exit-without-status": (
        ("of a program", _ONE + "./t || exit $?\n"),
        ("of a pipe", _ONE + "echo no error | ./t; exit $?\n"),
        ("a status", _ONE + "if [ $# -lt 3 ]; then\n  echo no\n  exit 1\nfi\n./t\n"),
        ("nothing to do", _ONE + "if [ ! -f todo ]; then\n  echo nothing to do\n  exit 0\nfi\n./t\n"),
        ("done before", _ONE + "if [ ! -d todo ]; then\n  echo already complete\n  exit\nfi\n./t\n"),
        ("help", _ONE + 'if [ "$1" = --help ]; then\n  echo "Usage: t"\n  exit 0\nfi\n./t\n'),
        ("work in the branch", _ONE + "if [ $# -lt 1 ]; then\n  ./all\n  exit 0\nfi\n./t $1\n"),
        ("a variable that is not an argument", _ONE + "x=$(next)\nif [ -z $x ]; then\n  exit 0\nfi\n./t $x\n"),
    ),
    "gpus-not-asked-for": (
        ("a step that asks", _AMD + "srun --gpus-per-node=8 python t.py --gpus 8\n"),
        ("a program told to use none", _ONE + "./run.sh --gpu false\n"),
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


@pytest.mark.parametrize("text", ["$A/$B/c", '"$A"/$B.c', "$A/$B/$C/d", "${A}_x/$B-1"])
def test_a_variable_in_the_middle_of_a_word_does_not_end_it(text: str) -> None:
    for script in (f"cp {text} z", f"X={text}", f"export X={text}", f"ls > {text}", f"for f in {text} z; do ls; done"):
        shell = read_shell(script)
        words = [word for command in shell.commands for word in command.words if "A" in word.names]
        words += [each.value for each in shell.assignments if each.value is not None]
        targets = [target for command in shell.commands for target in command.writes]
        assert {word.text for word in words} | set(targets) <= {text}
        assert all(set(word.names) == set("ABC") & set(text) for word in words)
        assert len(shell.commands) == ("=" not in script)


def test_a_word_in_quotes_keeps_its_variables() -> None:
    double, single = read_shell("echo \"a $A/$B/c\" 'a $A/$B/c'").commands[0].words[1:]
    assert (double.names, single.names) == (("A", "B"), ())
    assert (double.value, single.value) == ("a $A/$B/c", "a $A/$B/c")


def test_a_key_in_the_text_of_a_task_is_told_once() -> None:
    key = "hf_" + "a" * 34
    text = f"{_ONE}srun bash -c '\nexport HF_TOKEN={key}\npython t.py\n'\n"
    found = [each.place.line for each in lint_source(source_of("j.sh", text)) if each.rule == "secret-in-script"]
    assert found == [6]


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ("-A\n#SBATCH -N 1", Severity.BREAKS),
        ("-A\n#SBATCH --nodes=1", Severity.FRAGILE),
        ("-A", Severity.BREAKS),
        ("-o\n#SBATCH -e", Severity.FRAGILE),
    ],
)
def test_a_letter_without_its_value_breaks_a_job_where_sbatch_refuses_it(lines: str, severity: Severity) -> None:
    found = lint_source(source_of("j.sh", f"{_HEAD}#SBATCH {lines}\n./t 1\n"))
    assert [each.severity for each in found if each.rule == "directive-value"] == [severity]


@pytest.mark.parametrize(
    ("command", "is_dropped"),
    [("srun $1", True), ("srun python $1", True), ('srun python t.py "$1"', False), ('srun python "$1" $2', False)],
)
def test_a_program_that_is_an_argument_takes_none_of_the_others(command: str, is_dropped: bool) -> None:
    found = lint_source(source_of("j.sh", f"{_ONE}{command}\n"))
    assert [("dropped" in each.message) for each in found if each.rule == "argument-unchecked"] == [is_dropped]
