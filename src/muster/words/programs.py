"""The programs that start others, one row each: which options take a value, and what stands before the command."""

from __future__ import annotations

import msgspec

from muster.words.slurm import SRUN_VALUED


class KnownProgram(msgspec.Struct, frozen=True):
    """Which options of a program take the next word, and what stands before its command."""

    kind: str
    """step, mpi, container, agent, wrapper, shell, or starter: it starts ranks by words that are not known here."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word; one of a single letter may have it behind itself."""

    pairs: frozenset[str] = frozenset()
    """Options that take the next two words."""

    words_before: int = 0
    """Words other than options that stand before the command: an image, a sub-command."""

    verbs: frozenset[str] = frozenset()
    """The sub-commands with which it starts something; without one of them it does not. Empty: it always does."""

    own_launcher: str | None = None
    """The launcher of Muster that starts ranks as it does, where the kind does not tell."""

    @property
    def launcher(self) -> str | None:
        """The launcher of Muster that starts ranks as the program does; None: the program starts none."""
        return self.own_launcher or _LAUNCHER_OF_KIND.get(self.kind)


_LAUNCHER_OF_KIND = {"step": "srun", "mpi": "mpirun", "agent": "torchrun", "starter": "torchrun"}


def _of(
    kind: str,
    letters: str = "",
    long: str = "",
    pairs: str = "",
    before: int = 0,
    verbs: str = "",
    launcher: str | None = None,
) -> KnownProgram:
    valued = frozenset(letters.split()) | frozenset(f"--{name}" for name in long.split())
    return KnownProgram(kind, valued, frozenset(pairs.split()), before, frozenset(verbs.split()), launcher)


_STEP = KnownProgram("step", SRUN_VALUED)
_MPI = _of(
    "mpi",
    "-n -np -c -H -x -host -hosts -hostfile -machinefile -rankfile -rf -output-filename -f -ppn -N -npernode -map-by"
    " -bind-to -rank-by -wdir -genvlist -env -iface",
    "np n host hostfile machinefile rankfile output-filename"
    " bind-to map-by rank-by wdir prefix npernode ppn hosts oversubscribe-by",
    pairs="-mca --mca -gmca --gmca -genv --pmca --prtemca -env --env",
)


def _in_both(names: str) -> str:
    """Return names with underscores, and the same with dashes: torchrun and accelerate take either."""
    return f"{names} {names.replace('_', '-')}"


# As their own readers of the command line have them; tests/words/test_chain.py asks those.
_TORCHRUN = _in_both("""
    duplicate_stderr_filters duplicate_stdout_filters event_log_handler local_addr local_ranks_filter log_dir
    log_line_prefix_template logs_specs master_addr master_port max_restarts monitor_interval nnodes node_rank
    nproc_per_node numa_binding rdzv_backend rdzv_conf rdzv_endpoint rdzv_id redirects role shutdown_timeout
    signals_to_handle start_method tee
""")
_ACCELERATE = _in_both("""
    aws_access_key_id aws_secret_access_key config_file deepspeed_config_file deepspeed_exclusion_filter
    deepspeed_hostfile deepspeed_inclusion_filter deepspeed_moe_layer_cls_names deepspeed_multinode_launcher
    dynamo_backend dynamo_mode env fp8_amax_compute_algo fp8_amax_history_len fp8_backend
    fp8_enable_fsdp_float8_all_gather fp8_format fp8_interval fp8_margin fp8_opt_level fp8_override_linear_precision
    fp8_pad_inner_dim fsdp_activation_checkpointing fsdp_activation_checkpointing_offload fsdp_auto_wrap_policy
    fsdp_backward_prefetch fsdp_cpu_ram_efficient_loading fsdp_forward_prefetch fsdp_min_num_params
    fsdp_offload_params fsdp_reshard_after_forward fsdp_sharding_strategy fsdp_state_dict_type
    fsdp_sync_module_states fsdp_transformer_layer_cls_to_wrap fsdp_use_orig_params fsdp_version gpu_ids
    gradient_accumulation_steps gradient_clipping log_dir machine_rank main_process_ip main_process_port
    main_training_function max_restarts megatron_lm_attention_backend megatron_lm_attention_dropout
    megatron_lm_attention_softmax_in_fp32 megatron_lm_calculate_per_token_loss megatron_lm_context_parallel_size
    megatron_lm_decoder_last_pipeline_num_layers megatron_lm_eod_mask_loss megatron_lm_expert_model_parallel_size
    megatron_lm_expert_tensor_parallel_size megatron_lm_gradient_clipping megatron_lm_hidden_dropout
    megatron_lm_no_load_optim megatron_lm_no_save_optim megatron_lm_num_micro_batches
    megatron_lm_optimizer_cpu_offload megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_pp_degree
    megatron_lm_recompute_activations megatron_lm_recompute_granularity megatron_lm_recompute_method
    megatron_lm_recompute_num_layers megatron_lm_sequence_parallelism megatron_lm_tp_degree
    megatron_lm_use_custom_fsdp megatron_lm_use_distributed_optimizer megatron_lm_use_precision_aware_optimizer
    megatron_lm_use_rotary_position_embeddings mixed_precision monitor_interval mpirun_hostfile
    num_cpu_threads_per_process num_machines num_processes offload_optimizer_device offload_optimizer_nvme_path
    offload_param_device offload_param_nvme_path parallelism_config_cp_backend parallelism_config_cp_comm_strategy
    parallelism_config_cp_size parallelism_config_dp_replicate_size parallelism_config_dp_shard_size
    parallelism_config_sp_attn_implementation parallelism_config_sp_backend parallelism_config_sp_seq_length
    parallelism_config_sp_seq_length_is_variable parallelism_config_sp_size parallelism_config_tp_size rdzv_backend
    rdzv_conf role tee vm zero3_init_flag zero3_save_16bit_model zero_stage
""")
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
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexecjl", "orterun", "prterun", "mpirun_rsh"), _MPI),
    "ibrun": _of("mpi", "-n -np -o", launcher="ibrun"),
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
        ("exec", "command", "nohup", "setsid", "eval", "unbuffer", "catchsegv", "caffeinate"), _of("wrapper")
    ),
    "sudo": _of("wrapper", "-u -g -h -p -C -D -R -T -r -t", "user group host prompt chdir chroot"),
    "uv": _of("wrapper", "-p -i -f -P", _UV, before=1, verbs="run"),
    "poetry": _of("wrapper", "-C -P", "directory project", before=1, verbs="run"),
    "pdm": _of("wrapper", "-p", "project", before=1, verbs="run"),
    **dict.fromkeys(("hatch", "pipenv", "rye"), _RUN),
    "pixi": _of("wrapper", "-e", "environment manifest-path", before=1, verbs="run exec"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    "torchrun": _of("agent", "-r -t", _TORCHRUN),
    "torchrun-hpc": _of("agent", "-r -t -N -n", _TORCHRUN),
    "accelerate": _of("agent", "-t", _ACCELERATE, before=1, verbs="launch"),
    "deepspeed": _of("agent", "-H -i -e", _DEEPSPEED),
    "colossalai": _of("agent", "", "nproc_per_node num_nodes host hostfile include exclude master_addr master_port",
                      before=1, verbs="run"),
    "horovodrun": _of(
        "mpi",
        "-np -H -p -hostfile",
        "num-proc hosts hostfile ssh-port ssh-identity-file start-timeout network-interface network-interfaces min-np"
        " max-np slots-per-host host-discovery-script log-level fusion-threshold-mb cycle-time-ms cache-capacity"
        " timeline-filename mpi-args binding-args config-file output-filename reset-limit gloo-timeout-seconds",
    ),
    "ft_launcher": _of("starter", "-r -t", _TORCHRUN),
    "tune": _of("starter", "-r -t", _TORCHRUN, before=1, verbs="run"),
    "composer": _of("starter", "-n", "nproc world_size base_rank node_rank master_addr master_port stdout stderr"),
    "fabric": _of("starter", "", "accelerator strategy devices num-nodes num_nodes node-rank node_rank main-address "
                  "main_address main-port main_port precision", before=1, verbs="run"),
    "torchx": _of("starter", "-s -cfg -j", "scheduler scheduler_args workspace script", before=1, verbs="run"),
    **dict.fromkeys(("llamafactory-cli", "axolotl"), _of("starter", before=1, verbs="train")),
    "aprun": _of("starter", "-n -N -d -j -S -cc", launcher="srun"),
    "jsrun": _of("starter", "-n -a -c -g -r -l -d -b -E -p", "nrs tasks_per_rs cpu_per_rs gpu_per_rs bind env",
                 launcher="srun"),
    "flux": _of("starter", "-N -n -c -g -t -q -o", "nodes ntasks cores-per-task gpus-per-task time-limit queue env",
                before=1, verbs="run submit mini", launcher="srun"),
    "pdsh": _of("starter", "-w -x -f -l -t -u -R", launcher="srun"),
}  # fmt: skip
"""By the name of the program, without its folder."""

MODULES: dict[str, KnownProgram] = {
    "torch.distributed.run": PROGRAMS["torchrun"],
    "torch.distributed.launch": PROGRAMS["torchrun"],
    "accelerate.commands.launch": _of("agent", "-t", _ACCELERATE),
    "deepspeed.launcher.runner": PROGRAMS["deepspeed"],
    "composer.cli.launcher": PROGRAMS["composer"],
    "horovod.runner": PROGRAMS["horovodrun"],
}
"""Modules of Python that start the ranks of their node, as `python -m` names them."""

SWITCHES = frozenset(
    f"--{name}"
    for name in _in_both("""
        cpu debug downcast_bf16 dynamo_use_dynamic dynamo_use_fullgraph dynamo_use_regional_compilation
        enable_cpu_affinity force_multi fp8_use_autocast_during_eval help module multi_gpu no_local_rank no_python
        no_tpu_cluster quiet run_path same_network standalone tpu tpu_cluster tpu_use_sudo use_cpu use_deepspeed
        use_env use_fsdp use_megatron_lm use_parallelism_config virtual_local_rank
    """).split()
)
"""Long options of agents that are known to take no value."""

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_python(name: str) -> bool:
    """Tell whether a program's name is one of Python's: python, python3.11, pypy, ipython."""
    stem = name.rstrip("0123456789.").removesuffix("t")
    return stem in {"python", "pypy", "ipython"} or name.startswith("python")
