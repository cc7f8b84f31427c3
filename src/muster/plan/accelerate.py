"""A configuration file of `accelerate launch` → the variables that accelerate sets for its ranks, and its sizes. Pure.

The rules are those of accelerate's own `prepare_deepspeed_cmd_env`, `prepare_multi_gpu_env` and
`prepare_simple_launcher_cmd_env`; a test holds each variable to these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

# What accelerate's parser has where neither a flag nor the file says otherwise.
_DEFAULTS: Mapping[str, Any] = {
    "dynamo_mode": "default", "dynamo_use_fullgraph": False, "dynamo_use_dynamic": False,
    "dynamo_use_regional_compilation": False, "enable_cpu_affinity": False, "fsdp_version": "1",
    "fsdp_offload_params": "false", "fsdp_min_num_params": 100000000, "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_reshard_after_forward": "true", "fsdp_forward_prefetch": "false", "fsdp_use_orig_params": "true",
    "fsdp_cpu_ram_efficient_loading": "true", "fsdp_sync_module_states": "true",
    "fsdp_activation_checkpointing": "false", "fsdp_activation_checkpointing_offload": "false",
}  # fmt: skip
_FIELDS = frozenset(
    """
    compute_environment distributed_type mixed_precision use_cpu debug num_processes machine_rank num_machines gpu_ids
    main_process_ip main_process_port rdzv_backend same_network main_training_function enable_cpu_affinity fp8_config
    deepspeed_config fsdp_config parallelism_config megatron_lm_config mpirun_config downcast_bf16 tpu_name tpu_zone
    tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env dynamo_config
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
_OF_FSDP = (
    *("SHARDING_STRATEGY", "MIN_NUM_PARAMS"),
    *("AUTO_WRAP_POLICY", "TRANSFORMER_CLS_TO_WRAP", "BACKWARD_PREFETCH", "STATE_DICT_TYPE", "IGNORED_MODULES"),
)
_OF_FSDP_SMALL = (
    *("RESHARD_AFTER_FORWARD", "OFFLOAD_PARAMS", "FORWARD_PREFETCH", "USE_ORIG_PARAMS", "CPU_RAM_EFFICIENT_LOADING"),
    *("SYNC_MODULE_STATES", "ACTIVATION_CHECKPOINTING", "ACTIVATION_CHECKPOINTING_OFFLOAD"),
)
_OF_DEEPSPEED = {
    "zero_stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
    "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "deepspeed_config_file": "ACCELERATE_DEEPSPEED_CONFIG_FILE",
    "deepspeed_moe_layer_cls_names": "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES",
}
_OF_DEEPSPEED_SMALL = {
    "gradient_clipping": "ACCELERATE_GRADIENT_CLIPPING",
    "offload_optimizer_device": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
    "offload_param_device": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
    "zero3_init_flag": "ACCELERATE_DEEPSPEED_ZERO3_INIT",
    "zero3_save_16bit_model": "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
}
_MULTI = frozenset({"MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU"})
TYPED = frozenset(
    {
        *("mixed_precision", "debug", "dynamo_backend", "fsdp_transformer_layer_cls_to_wrap"),
        *(*_DEFAULTS, *_OF_DEEPSPEED, *_OF_DEEPSPEED_SMALL, *(f"fsdp_{name.lower()}" for name in _OF_FSDP)),
    }
)
"""The flags of `accelerate launch` that say what a configuration file says."""


class AccelerateConfig(msgspec.Struct, frozen=True):
    """What a configuration file means."""

    variables: Mapping[str, str] = {}
    processes: int | None = None
    """The ranks of all nodes."""

    machines: int | None = None
    question: str = ""
    """Why the variables are not certain; empty: they are."""


def read_accelerate_config(text: str, name: str, typed: Mapping[str, str]) -> AccelerateConfig:
    """Return what a file means, with the flags that were typed beside it (zero_stage: 3) over it."""
    try:
        config = json.loads(text) if name.endswith(".json") else _read_yaml(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        return AccelerateConfig(question="it is not a plain mapping, which is all that is read here")
    question = _question(config)
    if question:
        return AccelerateConfig(question=question)
    arguments = _arguments(config, typed)
    if arguments.get("mixed_precision") not in {"no", "fp16", "bf16"}:
        return AccelerateConfig(question=f"mixed_precision {arguments['mixed_precision']} is not known here")
    variables = dict(_variables(config, arguments, typed))
    machines = config.get("num_machines", 1)
    return AccelerateConfig(variables, config.get("num_processes"), machines)


def _question(config: Mapping[str, Any]) -> str:
    """Return what in a file is not known here."""
    unknown = sorted(set(config) - _FIELDS - {"fp16", "dynamo_backend"})
    if unknown:
        return f"accelerate knows no {', '.join(unknown)}"
    if config.get("compute_environment", "LOCAL_MACHINE") != "LOCAL_MACHINE":
        return "it is for SageMaker"
    kind = config.get("distributed_type")
    if kind not in _MULTI | {"NO", "DEEPSPEED", "FSDP"}:
        return f"distributed_type {kind} is not known here"
    if kind == "NO" and config.get("num_processes", 1) != 1:
        return "distributed_type NO starts one process, whatever num_processes says"
    if str(config.get("gpu_ids") or "all") != "all":
        return f"gpu_ids {config['gpu_ids']} chooses GPUs"
    return next((f"it has a {key}" for key in _NOT_READ if config.get(key)), "")


_NOT_READ = ("fp8_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "use_cpu")


def _arguments(config: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    """Return accelerate's arguments: what was typed, then the file, then what its parser has by itself."""
    found: dict[str, Any] = dict(_DEFAULTS)
    dynamo = config.get("dynamo_config")
    if "dynamo_backend" in config:
        dynamo = {} if config["dynamo_backend"] == "NO" else {"dynamo_backend": config["dynamo_backend"]}
    for prefix, values in (("", config.get("deepspeed_config")), ("fsdp_", config.get("fsdp_config")),
                           ("dynamo_", dynamo)):  # fmt: skip
        found.update(
            {key if key.startswith(prefix) else f"{prefix}{key}": each for key, each in (values or {}).items()}
        )
    own = config.get("mixed_precision", "fp16" if config.get("fp16") else None)
    found["mixed_precision"] = "no" if own is None else own
    found["debug"] = bool(config.get("debug"))
    found.update(typed)
    return found


def _variables(
    config: Mapping[str, Any], found: Mapping[str, Any], typed: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the variables in accelerate's order."""
    kind = config["distributed_type"]
    if found["debug"]:
        yield "ACCELERATE_DEBUG_MODE", "true"
    yield "ACCELERATE_MIXED_PRECISION", found["mixed_precision"]
    if found["enable_cpu_affinity"]:
        yield "ACCELERATE_CPU_AFFINITY", "1"
    if kind == "DEEPSPEED":
        fields = [*(config.get("deepspeed_config") or {})]
        if "mixed_precision" not in typed and config.get("mixed_precision") is not None:
            fields.append("mixed_precision")
        yield "ACCELERATE_CONFIG_DS_FIELDS", ",".join(fields).lower()
        yield "ACCELERATE_USE_DEEPSPEED", "true"
        for key, name in (*_OF_DEEPSPEED.items(), *_OF_DEEPSPEED_SMALL.items()):
            if found.get(key) is not None:
                yield name, str(found[key]).lower() if key in _OF_DEEPSPEED_SMALL else str(found[key])
        return
    if kind == "NO":
        yield "ACCELERATE_USE_CPU", "False"
    yield "ACCELERATE_DYNAMO_BACKEND", str(found.get("dynamo_backend") or "no").upper()
    yield "ACCELERATE_DYNAMO_MODE", str(found["dynamo_mode"])
    for key in ("dynamo_use_fullgraph", "dynamo_use_dynamic", "dynamo_use_regional_compilation"):
        yield f"ACCELERATE_{key.upper()}", str(found[key])
    if kind == "FSDP":
        yield from _of_fsdp(found)


def _of_fsdp(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "ACCELERATE_USE_FSDP", "true"
    yield "FSDP_VERSION", str(found["fsdp_version"])
    for name in _OF_FSDP:
        key = "fsdp_transformer_layer_cls_to_wrap" if name == "TRANSFORMER_CLS_TO_WRAP" else f"fsdp_{name.lower()}"
        if found.get(key) is not None:
            yield f"FSDP_{name}", str(found[key])
    for name in _OF_FSDP_SMALL:
        yield f"FSDP_{name}", str(found[f"fsdp_{name.lower()}"]).lower()


# ---------------------------------------------------------------- YAML, as far as such files go

_LINE = re.compile(r"( *)([A-Za-z_]\w*):(?: +(.*))?")
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "null": None, "~": None}


def _read_yaml(text: str) -> dict[str, Any]:
    """Return a mapping of scalars and of mappings of scalars; anything else is a ValueError."""
    result: dict[str, Any] = {}
    inner: dict[str, Any] | None = None
    depth = 0
    for line in text.splitlines():
        bare = _without_comment(line).rstrip()
        if not bare.strip() or bare == "---":
            continue
        match = _LINE.fullmatch(bare)
        if match is None:
            raise ValueError(line)
        indent, key, value = len(match[1]), match[2], (match[3] or "").strip()
        if indent and (inner is None or (inner and indent != depth)):
            raise ValueError(line)
        place = inner if indent and inner is not None else result
        depth = indent
        if key in place:
            raise ValueError(line)
        place[key] = _scalar(value)
        if not indent:
            inner = {} if not value else None
            if inner is not None:
                place[key] = inner
    return {key: (None if value == {} else value) for key, value in result.items()}


def _without_comment(line: str) -> str:
    """Return a line without its comment: a # at its start or behind a blank, outside quotes."""
    match = re.match(r"""(?:"[^"]*"|'[^']*'|[^"'#]|(?<=\S)[#"'])*""", line)
    return match[0] if match else line


def _scalar(text: str) -> Any:
    """Return the value of a plain word as YAML 1.1 reads it, or of a text in quotes."""
    if text == "{}":
        return {}
    quoted = re.fullmatch(r"'([^']*)'|\"([^\"\\]*)\"", text)
    if quoted:
        return quoted[1] if quoted[1] is not None else quoted[2]
    if text.lower() in _WORDS and text in {text.lower(), text.upper(), text.capitalize()}:
        return _WORDS[text.lower()]
    if not text:
        return None
    if re.fullmatch(r"[-+]?(0|[1-9]\d*)", text):
        return int(text)
    if re.fullmatch(r"[-+]?\d+\.\d*([eE][-+]\d+)?", text):
        return float(text)
    if re.fullmatch(r"\d+(\.\d+){2,3}|[-+]?\d+[eE][-+]?\d+", text):
        return text  # an address, a version; a number of YAML has a dot before its exponent
    # Other numbers of YAML (0x1f, 017, 1_000, 1:30, .5, .inf), dates, lists, anchors and texts of several lines.
    if re.match(r"[-+]?[.\d]|[-?:,\[\]{}#&*!|>'\"%@`=<]", text) or ": " in text or text.endswith(":"):
        raise ValueError(text)
    return text
