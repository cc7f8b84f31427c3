"""The programs that start others, one row each: which options take a value, and what stands before the command."""

from __future__ import annotations

import msgspec


class KnownProgram(msgspec.Struct, frozen=True):
    """Which options of a program take the next word, and what stands before its command."""

    kind: str
    """step, mpi, container, agent, wrapper or shell."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word; one of a single letter may have it behind itself."""

    pairs: frozenset[str] = frozenset()
    """Options that take the next two words."""

    words_before: int = 0
    """Words other than options that stand before the command: an image, a sub-command."""

    verbs: frozenset[str] = frozenset()
    """The sub-commands with which it starts something; without one of them it does not. Empty: it always does."""


def _of(
    kind: str, letters: str = "", long: str = "", pairs: str = "", before: int = 0, verbs: str = ""
) -> KnownProgram:
    valued = frozenset(letters.split()) | frozenset(f"--{name}" for name in long.split())
    return KnownProgram(kind, valued, frozenset(pairs.split()), before, frozenset(verbs.split()))


_STEP = _of(
    "step",
    "-A -b -B -c -C -d -D -e -E -G -i -I -J -L -M -m -n -N -o -p -q -r -S -t -T -w -W -x -Z",
    """
    account acctg-freq bb bbf begin bell chdir cluster-constraint clusters comment constraint container container-id
    core-spec cores-per-socket cpu-bind cpu_bind cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency
    distribution environment epilog error exclude export extra-node-info gpu-bind gpu-freq gpus gpus-per-node
    gpus-per-socket gpus-per-task gres gres-flags hint input jobid job-name licenses mail-type mail-user mem mem-bind
    mem_bind mem-per-cpu mem-per-gpu mpi msg-timeout network nodefile nodelist nodes ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition prefer profile prolog propagate qos
    relative reservation resv-ports signal slurmd-debug sockets-per-node switches task-epilog task-prolog
    tasks-per-node thread-spec threads threads-per-core time time-min tmp tres-bind tres-per-task uid gid wait wckey
    container-image container-mounts container-workdir container-name container-env container-save image module volume
    het-group multi-prog-file
    """,
)
_MPI = _of(
    "mpi",
    "-n -np -c -H -x -host -hosts -hostfile -machinefile -f -ppn -N -npernode -map-by -bind-to -rank-by -wdir "
    "-genvlist -env -iface",
    "np n host hostfile machinefile bind-to map-by rank-by wdir prefix npernode ppn hosts oversubscribe-by",
    pairs="-mca --mca -gmca --gmca -genv --pmca --prtemca -env --env",
)
_TORCHRUN = """
    nnodes nproc-per-node nproc_per_node rdzv-backend rdzv_backend rdzv-endpoint rdzv_endpoint rdzv-id rdzv_id
    rdzv-conf rdzv_conf max-restarts max_restarts monitor-interval monitor_interval start-method start_method role
    log-dir log_dir redirects tee local-ranks-filter local_ranks_filter node-rank node_rank master-addr master_addr
    master-port master_port local-addr local_addr logs-specs numa-binding event-log-handler virtual-local-rank nproc
    log-line-prefix-template
"""
_ACCELERATE = """
    num_machines num_processes machine_rank main_process_ip main_process_port config_file mixed_precision rdzv_backend
    rdzv_conf gradient_accumulation_steps gradient_clipping deepspeed_config_file deepspeed_multinode_launcher
    deepspeed_hostfile zero_stage dynamo_backend dynamo_mode num_cpu_threads_per_process gpu_ids max_restarts
    monitor_interval role downcast_bf16 offload_optimizer_device offload_param_device zero3_init_flag
    zero3_save_16bit_model fsdp_sharding_strategy fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap
    fsdp_state_dict_type fsdp_backward_prefetch fsdp_offload_params fsdp_min_num_params fsdp_version
    fsdp_reshard_after_forward same_network main_training_function tee log_dir
"""
_DEEPSPEED = """
    hostfile include exclude num_nodes num_gpus master_addr master_port node_rank launcher launcher_args module
    autotuning venv_script elastic_training min_elastic_nodes max_elastic_nodes bind_core_list ssh_port
"""
_CONTAINER = _of(
    "container",
    "-B -H -W -w -S -o",
    """
    bind env env-file home overlay pwd cwd scratch workdir network security volume mount hostname dns app fusemount
    cpus memory blkio-weight
    """,
    before=2,
    verbs="exec run shell",
)
_DOCKER = _of(
    "container",
    "-v -e -w -u -p -h -m -l",
    """
    volume env env-file workdir user publish hostname memory label name gpus shm-size ipc network net mount device
    entrypoint ulimit cpus runtime pull platform security-opt cap-add
    """,
    before=2,
    verbs="run exec",
)
_UV = """
    with with-editable with-requirements extra no-extra group no-group only-group python env-file project directory
    package index default-index index-url extra-index-url find-links config-file cache-dir refresh-package resolution
    prerelease link-mode color no-binary-package
"""
_CONDA = _of("wrapper", "-n -p -r", "name prefix cwd root-prefix", before=1, verbs="run")
_RUN = _of("wrapper", before=1, verbs="run")

PROGRAMS: dict[str, KnownProgram] = {
    "srun": _STEP,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "mpirun_rsh"), _MPI),
    "ibrun": _of("mpi", "-n -np -o"),
    **dict.fromkeys(("singularity", "apptainer"), _CONTAINER),
    "shifter": _of("container", "-i -V -e", "image module volume env workdir"),
    **dict.fromkeys(("podman-hpc", "podman", "docker"), _DOCKER),
    "enroot": _of("container", "-m -e -c", "mount env conf rc root", before=2, verbs="start"),
    "env": _of("wrapper", "-u -C", "unset chdir"),
    "time": _of("wrapper", "-f -o", "format output"),
    "timeout": _of("wrapper", "-s -k", "signal kill-after", before=1),
    "numactl": _of("wrapper", "-N -m -C -p -P -i -w", "interleave cpunodebind membind physcpubind preferred"),
    "taskset": _of("wrapper", before=1),
    "chrt": _of("wrapper", before=1),
    "nice": _of("wrapper", "-n", "adjustment"),
    "ionice": _of("wrapper", "-c -n", "class classdata"),
    "stdbuf": _of("wrapper", "-o -e -i", "output error input"),
    **dict.fromkeys(
        ("exec", "command", "nohup", "setsid", "eval", "unbuffer", "catchsegv", "sudo", "caffeinate"), _of("wrapper")
    ),
    "uv": _of("wrapper", "-p -i -f -P", _UV, before=1, verbs="run"),
    "poetry": _of("wrapper", "-C -P", "directory project", before=1, verbs="run"),
    "pdm": _of("wrapper", "-p", "project", before=1, verbs="run"),
    **dict.fromkeys(("hatch", "pipenv", "rye"), _RUN),
    "pixi": _of("wrapper", "-e", "environment manifest-path", before=1, verbs="run exec"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    "torchrun": _of("agent", "-r -t", _TORCHRUN),
    "torchrun-hpc": _of("agent", "-r -t -N -n", _TORCHRUN),
    "accelerate": _of("agent", "", _ACCELERATE, before=1, verbs="launch"),
    "deepspeed": _of("agent", "-H -i -e", _DEEPSPEED),
    "colossalai": _of("agent", "", "nproc_per_node num_nodes host hostfile include exclude master_addr master_port",
                      before=1, verbs="run"),
    "horovodrun": _of("mpi", "-np -H -p", "num-proc hosts hostfile ssh-port start-timeout network-interface"),
}  # fmt: skip
"""By the name of the program, without its folder."""

MODULES: dict[str, KnownProgram] = {
    "torch.distributed.run": PROGRAMS["torchrun"],
    "torch.distributed.launch": PROGRAMS["torchrun"],
    "accelerate.commands.launch": _of("agent", "", _ACCELERATE),
    "deepspeed.launcher.runner": PROGRAMS["deepspeed"],
}
"""Modules of Python that start the ranks of their node, as `python -m` names them."""

AGENTS = frozenset({name for name, each in PROGRAMS.items() if each.kind == "agent"} | MODULES.keys())
"""Programs that start the ranks of their node themselves."""

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_python(name: str) -> bool:
    """Tell whether a program's name is one of Python's: python, python3.11, pypy, ipython."""
    stem = name.rstrip("0123456789.").removesuffix("t")
    return stem in {"python", "pypy", "ipython"} or name.startswith("python")
