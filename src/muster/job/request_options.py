"""The options of a request: one row is one option, one key of the settings files, one help line.

A row has the spellings and what stands for the value, as the help shows them, then the sentence of the help. The field
of the request has the name of the first long spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from muster.images import engines_in_options
from muster.job.option import (
    UNGROUPED,
    Option,
    option,
    parse_assignment,
    parse_count,
    parse_gpu_type,
    parse_gpus,
    parse_gres,
    parse_host,
    parse_image,
    parse_lead,
    parse_memory,
    parse_names,
    parse_nodes,
    parse_port,
    parse_port_range,
    parse_role_port,
    parse_seconds,
    parse_signal,
    parse_silence,
    parse_site_fact,
    parse_text,
    parse_variable,
    parse_walltime,
)
from muster.job.presets import PRESETS
from muster.launchers import TYPED_NAMES, WIREUPS


def row(
    spelling: str, sentence: str, parse: Callable[[str], Any] = parse_text, *, name: str | None = None, **more: Any
) -> tuple[str, Option]:
    """Return the name of the field, and its option; one without a word for its value is a switch."""
    made = option(spelling, sentence, parse, **more)
    return name or made.long_names[0].replace("-", "_"), made


_GROUPS: Mapping[str, tuple[tuple[str, Option], ...]] = {
    UNGROUPED: (
        row("-N --nodes --nnodes N", "number of nodes", parse_count(1, 100_000), is_common=True),
        row("-g --gpus-per-node N", "GPUs on each node (as Slurm counts them); 0: none", parse_gpus, is_common=True),
        row(
            "--ntasks-per-node --nproc-per-node N",
            "ranks on each node (default: one for each GPU)",
            parse_count(1, 65_533),
            is_common=True,
        ),
        row(
            "-c --cpus-per-task N",
            "CPUs for each rank (default: its share of the node's cores)",
            parse_count(1, 65_533),
        ),
        row(
            "--gpu-type TYPE",
            "type of the GPUs, or of slices of them (MIG), as Slurm names it (default: the site's): "
            "-g 1 --gpu-type h100_1g.10gb",
            parse_gpu_type,
        ),
        row("--gres LIST", "generic resources of each node, in Slurm's form: gpu:volta:2", parse_gres),
        row("-A --account NAME", "account that pays for the job", directive="account", is_common=True),
        row("-p --partition NAME", "partition, which is the queue of the job", directive="partition", is_common=True),
        row("-q --qos NAME", "quality of service (QOS) of the job", directive="qos"),
        row("--trial", "send the job to the site's queue for short trials, if there is one"),
        row("-C --constraint LIST", "features that every node must have: a100", directive="constraint"),
        row("-w --nodelist LIST", "nodes that the job must get: node[1-4]", parse_nodes, directive="nodelist"),
        row("-x --exclude LIST", "nodes that the job must not get: node7", parse_nodes, directive="exclude"),
        row("--mem SIZE", "memory of each node: 64G", parse_memory, directive="mem"),
        row("--exclusive", "take whole nodes, which no other job shares", directive="exclusive"),
        row(
            "-t --time TIME",
            "time limit: 30 (minutes), 2:00:00, 1-12, 90m, 12h, 2d",
            parse_walltime,
            directive="time",
            is_common=True,
        ),
        row(
            "-m --distribution HOW",
            "order of the ranks: block (one node after the other), cyclic (around all nodes) or plane=N",
        ),
    ),
    "the job": (
        row("-J --job-name NAME", "name of the job"),
        row("-o --output FILE", "file for the output: %x-%j.log (%x: the job's name, %j: its id)"),
        row("-e --error FILE", "file for the errors (default: that of the output)"),
        row("-D --chdir DIR", "working directory of the ranks"),
        row("--snapshot", "run the job from a copy of the project as it is now, without the files that git ignores"),
        row(
            "--requeue",
            "run the job again when a node fails or the job is preempted; each run keeps its own logs",
            directive="requeue",
        ),
        row(
            "--hang TIME",
            "report which rank hangs, and where, when no rank goes on for this time: 10m; off: never "
            "(default: 30m for submit, off for run)",
            parse_silence,
        ),
        row(
            "--stacks-ready",
            "let each rank write its own call stack, for nodes where no other process may read it "
            "(default: off): --stacks-ready --hang 10m",
        ),
        row(
            "--sweep FILE",
            "run one task of a job array for each row of a CSV table; {COLUMN} in the command becomes the "
            "row's value (default: one run): --sweep grid.csv -- python train.py --lr {lr}",
        ),
        row(
            "--sweep-at-once N",
            "run at most this many rows of --sweep at the same time (default: as many as fit)",
            parse_count(1, 1_000_000),
        ),
        row(
            "--sweep-per-node N",
            "run this many rows of --sweep beside each other on one node; -g, -c, --mem and "
            "--ntasks-per-node are then the size of one row (default: a job for each row): --sweep-per-node 4 -g 1",
            parse_count(1, 4096),
        ),
        row("--sbatch FLAG", "add a flag of sbatch for the job: --sbatch=--nice=5", repeated=True, whole_flags=True),
        row("--srun FLAG", "add a flag of srun for the step: --srun=--label", repeated=True, whole_flags=True),
    ),
    "how ranks start": (
        row(
            "--torchrun FLAG",
            "add a flag of torchrun, or of ft_launcher with --launcher ft: --torchrun=--max-restarts=3",
            repeated=True,
            whole_flags=True,
        ),
        row(
            "--launcher NAME",
            f"program that starts the ranks (default: auto): {', '.join(TYPED_NAMES)}",
            choices=TYPED_NAMES,
            meant={
                **dict.fromkeys(("accelerate", "deepspeed", "composer", "tune", "torchx", "elastic"), "torchrun"),
                **dict.fromkeys(("mpiexec", "orterun", "horovod", "horovodrun", "openmpi"), "mpirun"),
                **dict.fromkeys(("slurm", "sbatch", "salloc"), "srun"),
                **dict.fromkeys(("python", "here"), "local"),
            },
        ),
        row("--mpi TYPE", "how srun starts ranks that use MPI (default: the site's): pmi2, pmix, none"),
        row(
            "--wireup METHOD",
            f"how muster.world() finds its rank (default: auto): {', '.join(WIREUPS)}",
            choices=WIREUPS,
        ),
        row(
            "--visibility HOW",
            "GPUs that a rank sees: all of its node, or only its own one; with one, set_device(LOCAL_RANK) "
            "fails (default: the site's, else all)",
            choices=("all", "one"),
        ),
        row("--node-prologue COMMAND", 'run a command once on each node before its ranks start: "mkdir -p /tmp/cache"'),
        row("--check", "check the nodes and their network first, in seconds; end the run if one is broken"),
        row(
            "--master-addr HOST",
            "host or address where the ranks meet (default: the name of the host of rank 0)",
            parse_host,
        ),
        row("--master-port PORT", "port where the ranks meet (default: a free one)", parse_port),
        row(
            "--port-range LOW-HIGH",
            "ports to choose from, for example those that a firewall lets through: 20000-21000",
            parse_port_range,
        ),
        row("--closed", "let only your own processes on the job's nodes reach the store where the ranks meet"),
        row(
            "--grace SECONDS",
            "seconds that the other ranks get to end after one failed, before they are killed (default: 10)",
            parse_count(1, 86_400),
        ),
    ),
    "until it is done": (
        row(
            "--restart N",
            "when a rank fails, start all ranks again in the same allocation, at most N times (default: 0)",
            parse_count(0, 1000),
        ),
        row(
            "--spares K",
            "ask for K more nodes; they replace nodes that die, and the ranks start again (default: 0)",
            parse_count(0, 1000),
        ),
        row(
            "--checkpoint DIR",
            "folder where the script saves; each start gets the newest whole checkpoint as "
            "MUSTER_CHECKPOINT; %a is the task of an array: runs/%a",
        ),
        row(
            "--until-done",
            "go on in another job after a time limit, a preemption or a failed node, until the command ends by itself",
        ),
        row("--links N", "most jobs of --until-done, with the first one (default: 20)", parse_count(1, 1000)),
        row(
            "--save-before TIME",
            "send a signal to the ranks this long before the time limit, and on preemption, so that they "
            "save; only ranks that handle it get it: 5m",
            parse_lead,
        ),
        row("--save-signal SIGNAL", "the signal of --save-before (default: USR1): TERM", parse_signal),
    ),
    "environment": (
        row(
            "--env KEY[=VALUE]",
            "set a variable in every rank; KEY alone passes your value on; {job_id}, {run_dir} and "
            "{node_tmp} are filled in: --env OMP_NUM_THREADS=8",
            parse_assignment,
            repeated=True,
        ),
        row("--unset-env KEY", "remove a variable from every rank", parse_variable, repeated=True),
        row(
            "--export HOW",
            "which of your variables the ranks get: NONE, only those that the plan shows (default), or ALL",
            choices=("NONE", "ALL"),
        ),
        row("--module NAME", "load a module before the ranks start", repeated=True),
        row("--module-use DIR", "add a directory of modules, as module use does", repeated=True),
        row(
            "--stack NAME",
            "software stack of the site, by its name in the profile (default: it follows from --image and --srun)",
        ),
        row(
            "--workload NAME",
            "use settings of the site that only some programs need, by name; muster site show lists them",
            repeated=True,
        ),
        row(
            "--venv DIR", "folder of the virtual environment (default: the active one); none: use none", is_common=True
        ),
        row("--conda ENV", "conda environment: its folder, or its name if conda keeps it"),
        row(
            "--with WHICH",
            "which environment to use if several are named: image, venv, image+venv (the one inside the "
            "image), conda or modules",
            choices=("image", "venv", "image+venv", "conda", "modules"),
            name="environment",
        ),
        row(
            "--image IMAGE",
            "image to run in: FILE.sif, FILE.sqsh, a sandbox directory, docker://…, an EDF name or file, or site:NAME",
            parse_image,
            is_common=True,
        ),
        row("--engine NAME", f"container engine: {', '.join(engines_in_options())} (default: the site's)"),
        row("--bind SRC[:DST[:ro]]", "show a path of the host in the image: /data:/mnt:ro", repeated=True),
    ),
    "several programs in one job": (
        row(
            "--role NAME",
            "begin the options and the command of one program; options before the first hold for all",
            begins_role=True,
        ),
        row("--file TOML", "read the job from a TOML file; options typed beside it hold: --file job.toml", parse_text),
        row(
            "--preset NAME",
            "start a program that has rules of its own: "
            f"{', '.join(PRESETS)} (default: none): --role ray --preset ray -N 3",
            choices=PRESETS,
        ),
        row("--after ROLES", "start when these roles are ready (default: at once): --after serve,data", parse_names),
        row("--beside ROLE", "run on the nodes of that role, with GPUs and cores of its own (default: own nodes)"),
        row(
            "--port WORD",
            "what the role's port speaks, or its number, or both (default: http, a free one): grpc, 8000, http:8000",
            parse_role_port,
        ),
        row(
            "--ready HOW",
            "when the role counts as ready: port, an address for 2xx, log:TEXT, command:COMMAND, or joined "
            "(default: joined, its ranks have begun): --ready 'http://{host}:{port}/health'",
        ),
        row(
            "--ready-within TIME",
            "end the job when the role is not ready after this time (default: 10m): 90s",
            parse_seconds,
        ),
        row("--main", "end the job when this role ends, with its status (default: the last role)"),
        row(
            "--on-failure WHAT",
            "what follows when the role fails, its restarts included: end the job (default), or note it and go on",
            choices=("end", "note"),
        ),
    ),
    "staging": (
        row(
            "--stage-env",
            "copy the environment, its Python and the script's folder (or the image) to the nodes' own disks first",
        ),
        row(
            "--stage DATA",
            "copy a folder or file to the nodes' own disks first; ranks see it under its own name",
            repeated=True,
        ),
        row(
            "--stage-out DIR",
            "folder for results: ranks write to the nodes' own disks, and the files are copied to DIR when "
            "the ranks have ended",
        ),
    ),
    "where": (
        row("--site SITE", "profile of the site (default: the one that is detected)"),
        row(
            "--site-set KEY=VALUE",
            "change a value of the site's profile for this command: memory.mem=400G",
            parse_site_fact,
            repeated=True,
        ),
        row(
            "--fresh",
            "ask Slurm again what this cluster is (default: what it said is kept for an hour)",
        ),
        row("--here", "run on this machine, without Slurm", is_common=True),
        row("--no-label", "do not write the rank before each line"),
        row("--per-rank-files", "write one output file for each rank, not one for each node"),
    ),
}

OPTIONS: Mapping[str, Option] = {
    field: replace(option, group=group) for group, rows in _GROUPS.items() for field, option in rows
}
