"""Rules on programs that start the ranks themselves: torchrun, accelerate, deepspeed, mpirun."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, Stage, is_of_one_node
from muster_lint.rule import rule
from muster_lint.samples import AGENT, MEET, NODES
from muster_lint.sizes import number_of
from muster_lint.values import Hit, Severity


def _agents(job: BatchScript) -> Iterator[tuple[LaunchCommand, Stage]]:
    for launch in job.all_launches:
        stage = launch.stage("agent")
        if stage is not None and not launch.command.in_substitution:
            yield launch, stage


def _under_step(job: BatchScript, launch: LaunchCommand) -> bool:
    """Tell whether srun starts it, in the same command or around the task's shell."""
    return launch.stage("step") is not None or job.task_of(launch) is not None


@rule(
    "agent-on-first-node",
    Severity.HANGS,
    "several nodes, but torchrun runs on the first alone",
    why="torchrun waits for the agents of the other nodes, and nothing starts them there.",
    instead="Start it with srun: one task on each node.",
    source=sources.TORCHRUN,
    bad=NODES + MEET + AGENT,
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_lone_agents(job: BatchScript) -> Iterator[Hit]:
    """Yield agents that the batch host alone starts, in a job of several nodes."""
    if job.nodes is None or job.nodes < 2 or re.search(r"\bssh\b|\bpdsh\b", job.text):
        return
    for launch in job.launches:
        stage = launch.stage("agent")
        if stage is None or launch.stage("step") or launch.stage("mpi") or launch.command.in_substitution:
            continue
        if stage.has("--hostfile", "-H", "--standalone", "--launcher") or launch.command.function is not None:
            continue
        if launch.command.in_loop or launch.unknown:
            continue
        if any(each.stage("step") and not each.command.in_substitution for each in job.launches):
            continue  # another command may start the agents of the other nodes
        nodes = stage.text("--nnodes", "--num_machines", "--num_nodes")
        waits = nodes is not None and nodes not in {"1", "1:1"}
        message = f"{stage.name} starts on one of {job.nodes} nodes"
        if not waits and stage.name in {"accelerate", "deepspeed"}:
            yield Hit(stage.word.place, message, unknown="what its configuration names", severity=Severity.SLOW)
        elif waits and nodes is not None and (nodes.isdigit() or "SLURM" in nodes):
            yield Hit(stage.word.place, message)
        else:
            yield Hit(stage.word.place, f"{message}: the others idle", severity=Severity.SLOW)


@rule(
    "rendezvous-id-fixed",
    Severity.STYLE,
    "a fixed rendezvous id",
    why="Two jobs that share a node, or a restart beside its dying predecessor, join each other's rendezvous.",
    instead='Use the job: --rdzv-id="$SLURM_JOB_ID".',
    source=sources.TORCHTITAN,
    bad=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT.replace('"$SLURM_JOB_ID"', "101"),
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_fixed_ids(job: BatchScript) -> Iterator[Hit]:
    """Yield --rdzv-id with a literal."""
    for launch, stage in _agents(job):
        word, text, task = (
            stage.option("--rdzv-id", "--rdzv_id"),
            stage.text("--rdzv-id", "--rdzv_id"),
            job.task_of(launch),
        )
        if word is not None and word.is_literal:
            yield Hit(word.place, f"the id {text!r} is the same in every job")
        elif word is not None and text in {"$RANDOM", "${RANDOM}"} and task is not None and not task.launch.early:
            yield Hit(word.place, "every node draws another id")


@rule(
    "node-rank-missing",
    Severity.HANGS,
    "several nodes with --master-addr, but no --node-rank",
    why="Without --node-rank every agent takes itself for node 0 (static rendezvous), and they wait for each other.",
    instead="Use --rdzv-backend=c10d with --rdzv-endpoint, which needs no node rank; or pass --node-rank in the task's own shell.",
    source=sources.TORCHRUN,
    bad=NODES
    + MEET
    + 'srun --kill-on-bad-exit=1 torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 --master-addr="$head" --master-port="$port" train.py\n',
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_missing_node_rank(job: BatchScript) -> Iterator[Hit]:
    """Yield agents with a static meeting point over several nodes that do not say which node they are."""
    for launch, stage in _agents(job):
        if stage.name not in _TORCHRUNS:
            continue
        nodes = stage.text("--nnodes")
        static = stage.has("--master-addr", "--master_addr", "--rdzv-endpoint", "--rdzv_endpoint") and not stage.has(
            "--rdzv-backend", "--rdzv_backend"
        )
        if (
            static
            and nodes not in {None, "1", "1:1"}
            and not stage.has("--node-rank", "--node_rank")
            and _under_step(job, launch)
        ):
            yield Hit(stage.word.place, "every node takes itself for node 0")


@rule(
    "rendezvous-missing",
    Severity.HANGS,
    "torchrun over several nodes without a meeting point",
    why="""torchrun does not read MASTER_ADDR. Without --rdzv-endpoint and without --master-addr every agent looks for the others on its own node, at 127.0.0.1,
    and waits there until its time-out of 10 or 15 minutes.""",
    instead='Add --rdzv-backend=c10d --rdzv-endpoint="$head:$port", with $head the first host of the job.',
    source="pytorch/pytorch torch/distributed/run.py (get_rdzv_endpoint)",
    bad=NODES + 'srun --kill-on-bad-exit=1 torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 train.py\n',
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_missing_meetings(job: BatchScript) -> Iterator[Hit]:
    """Yield agents of several nodes that are told no meeting point."""
    if "PET_" in job.text or job.nodes == 1:
        return
    for launch, stage in _agents(job):
        following = "".join(job.lines[launch.command.place.end_line : launch.command.place.end_line + 1]).lstrip()
        is_cut = following.startswith("--")  # options-alone says so
        is_apart = (
            is_cut
            or launch.unknown
            or stage.has(*_MEETS_AT)
            or _reads_settings(stage)
            or not _reaches_nodes(job, launch)
        )
        told = stage.text("--nnodes", "--num_machines") or ""
        if is_apart or told in {"", "1", "1:1"}:
            continue
        fewest = number_of(None if job.task_of(launch) else job, told.partition(":")[0])
        of_job = re.fullmatch(r"\$\{?SLURM_(JOB_NUM_NODES|NNODES)\}?", told) is not None
        nodes = job.nodes if of_job else fewest
        unknown = "" if nodes else "how many nodes the job has" if of_job else f"what {told} holds"
        if (nodes is not None and nodes < 2) or not (nodes or of_job or (job.nodes or 1) > 1):
            continue
        if stage.name == "accelerate":
            unknown, message = "what accelerate's own settings name", "accelerate is told no --main_process_ip"
        elif stage.name not in _TORCHRUNS:
            continue
        elif stage.has("--rdzv-backend", "--rdzv_backend"):
            message = "every node looks for the others at its own localhost: there is no --rdzv-endpoint"
        else:
            message = "every node looks for the others at its own 127.0.0.1"
            message += ": torchrun does not read MASTER_ADDR" if job.shell.assigned("MASTER_ADDR") else ""
        yield Hit(stage.word.place, message, unknown=unknown)


_TORCHRUNS = {"torchrun", "torch.distributed.run", "torch.distributed.launch"}
_MEETS_AT = (
    "--rdzv-endpoint", "--rdzv_endpoint", "--master-addr", "--master_addr", "--standalone", "--main_process_ip", "--main-process-ip",
    "--config_file", "--config-file", "--rdzv-conf", "--rdzv_conf",
)  # fmt: skip


def _reaches_nodes(job: BatchScript, launch: LaunchCommand) -> bool:
    """Tell whether a command runs on the nodes of a job: by srun with more than one task, or by an MPI launcher."""
    task = job.task_of(launch)
    step = launch.stage("step") or (task.launch.stage("step") if task is not None else None)
    if step is None:
        return launch.stage("mpi") is not None
    return step.text("-N", "--nodes") != "1" and step.text("-n", "--ntasks") != "1"


@rule(
    "machine-rank-missing",
    Severity.HANGS,
    "accelerate launch over several nodes without a machine rank",
    why="Every node takes itself for machine 0, and they wait for each other.",
    instead="Pass --machine_rank $SLURM_NODEID in the task's own shell (single quotes), or --rdzv_backend c10d.",
    source=sources.ACCELERATE,
    bad=NODES
    + MEET
    + 'srun --kill-on-bad-exit=1 accelerate launch --num_machines "$SLURM_JOB_NUM_NODES" --num_processes 8 --main_process_ip "$head" --main_process_port "$port" train.py\n',
    good=NODES
    + MEET
    + 'srun --kill-on-bad-exit=1 accelerate launch --num_machines "$SLURM_JOB_NUM_NODES" --num_processes 8 --rdzv_backend c10d --main_process_ip "$head" --main_process_port "$port" train.py\n',
)
def find_missing_machine_rank(job: BatchScript) -> Iterator[Hit]:
    """Yield accelerate over several machines that does not say which it is."""
    for launch, stage in _agents(job):
        several = "accelerate" in stage.name and stage.text("--num_machines") not in {None, "1"}
        told = stage.has("--machine_rank") or stage.text("--rdzv_backend") == "c10d"
        if several and not told and _under_step(job, launch):
            yield Hit(stage.word.place, "every node takes itself for machine 0")


@rule(
    "old-launcher",
    Severity.STYLE,
    "torch.distributed.launch",
    why="It is deprecated. Since torch 2.0 it passes --local-rank, which a program that takes --local_rank refuses.",
    instead="Use torchrun, and read LOCAL_RANK from the environment.",
    source="pytorch/pytorch torch/distributed/launch.py, its docstring (deprecated since 1.10)",
    bad=NODES + MEET + "srun --kill-on-bad-exit=1 python -m torch.distributed.launch" + AGENT.removeprefix("torchrun"),
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_old_launcher(job: BatchScript) -> Iterator[Hit]:
    """Yield python -m torch.distributed.launch."""
    for _, stage in _agents(job):
        if stage.name == "torch.distributed.launch":
            yield Hit(stage.word.place, "torch.distributed.launch is deprecated")
            return


@rule(
    "standalone-on-nodes",
    Severity.BREAKS,
    "a launcher for one node over several",
    why="""A torchrun that is standalone, or without --nnodes, is a world of one node; so is a deepspeed without a host file. Several nodes train
    alone, without an error; with one meeting point for all of them one trains, and the others are turned away.""",
    instead="Start torchrun with --nnodes, --rdzv-backend=c10d and --rdzv-endpoint.",
    source=sources.TORCHRUN,
    bad=NODES + "srun --kill-on-bad-exit=1 torchrun --standalone --nproc-per-node=4 train.py\n",
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_standalone(job: BatchScript) -> Iterator[Hit]:
    """Yield agents over several nodes that do not meet."""
    if job.nodes is None or job.nodes < 2 or "array" in job.header:
        return
    for launch, stage in _agents(job):
        step = launch.stage("step")
        if step is not None and (step.text("-N", "--nodes") == "1" or step.text("-n", "--ntasks") == "1"):
            continue
        if (
            stage.name not in {"torchrun", "torch.distributed.run", "deepspeed"}
            or not _under_step(job, launch)
            or stage.hidden
        ):
            continue
        meets = stage.has("--nnodes") or "PET_NNODES" in job.text or _reads_settings(stage)
        task = job.task_of(launch)
        text = task.shell.text if task is not None and not stage.has("--node-rank", "--node_rank") else ""
        is_told = re.search(r"SLURM_(PROCID|NODEID)", text)
        unknown = launch.unknown or ("whether each node has a run of its own" if is_told else "")
        if stage.name == "deepspeed":
            if is_of_one_node(stage):
                unknown = unknown or "whether /job/hostfile names the nodes"
                yield Hit(stage.word.place, f"{job.nodes} nodes train alone", unknown=unknown)
        elif is_of_one_node(stage) or not meets:
            at_one_place = stage.has("--rdzv-endpoint", "--rdzv_endpoint", "--master-addr", "--master_addr")
            if at_one_place and not stage.has("--standalone"):
                message = f"without --nnodes torchrun takes one node: {job.nodes} nodes do not become one world"
                yield Hit(stage.word.place, message, 'Add --nnodes="$SLURM_JOB_NUM_NODES".', unknown=unknown)
            else:
                yield Hit(stage.word.place, f"{job.nodes} nodes train alone", unknown=unknown)


def _reads_settings(stage: Stage) -> bool:
    """Tell whether options may come out of a variable."""
    return any(not word.is_literal for word in stage.words[:1]) or any("$" in name for name, _ in stage.options)


@rule(
    "deepspeed-needs-ssh",
    Severity.FRAGILE,
    "the deepspeed launcher over several nodes",
    why="It reaches the other nodes with ssh or pdsh, which many sites forbid, and which is not Slurm's.",
    instead="Start the ranks with srun; DeepSpeed reads RANK, LOCAL_RANK and WORLD_SIZE. Or pass --launcher slurm.",
    source="deepspeedai/DeepSpeed docs/_tutorials/getting-started.md, Multi-node",
    bad=NODES + "deepspeed --hostfile=hosts --num_gpus 4 train.py\n",
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_deepspeed_hosts(job: BatchScript) -> Iterator[Hit]:
    """Yield deepspeed with a host file, outside srun."""
    for launch, stage in _agents(job):
        reaches_out = stage.name == "deepspeed" and stage.has("--hostfile", "-H") and not stage.has("--launcher")
        if reaches_out and not _under_step(job, launch):
            yield Hit(stage.place_of("--hostfile", "-H"), "deepspeed needs ssh between the nodes")
