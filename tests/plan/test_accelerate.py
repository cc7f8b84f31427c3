"""What a configuration of accelerate means: the variables that `accelerate launch` itself would set are the oracle."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from muster.plan.accelerate import _read_yaml, read_accelerate_config

_CHOICES: dict[str, list[Any]] = {
    "mixed_precision": ["no", "bf16", "fp16", None],
    "debug": [False, True],
    "downcast_bf16": ["no"],
    "enable_cpu_affinity": [False, True],
    "machine_rank": [0],
    "main_training_function": ["main"],
    "num_machines": [1, 2],
    "num_processes": [4, 8],
    "rdzv_backend": ["static", "c10d"],
    "same_network": [True],
    "tpu_env": [None],
    "use_cpu": [False],
}
_DEEPSPEED: dict[str, list[Any]] = {
    "deepspeed_config_file": ["configs/ds_zero3.json"],
    "zero_stage": [0, 1, 2, 3],
    "gradient_accumulation_steps": [1, 8],
    "gradient_clipping": [1.0, 0.5],
    "offload_optimizer_device": ["none", "cpu"],
    "offload_param_device": ["none", "cpu", "nvme"],
    "zero3_init_flag": [True, False],
    "zero3_save_16bit_model": [True, False],
    "deepspeed_multinode_launcher": ["standard"],
    "deepspeed_moe_layer_cls_names": ["MixtralSparseMoeBlock"],
}
_FSDP: dict[str, list[Any]] = {
    "fsdp_auto_wrap_policy": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP"],
    "fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer,Block"],
    "fsdp_backward_prefetch": ["BACKWARD_PRE", "NO_PREFETCH"],
    "fsdp_sharding_strategy": ["FULL_SHARD", "HYBRID_SHARD"],
    "fsdp_state_dict_type": ["SHARDED_STATE_DICT"],
    "fsdp_forward_prefetch": [True, False],
    "fsdp_use_orig_params": [True, False],
    "fsdp_offload_params": [True, False],
    "fsdp_activation_checkpointing": [True, False],
    "fsdp_min_num_params": [2000],
    "fsdp_version": [1, 2],
    "fsdp_reshard_after_forward": [True, False],
    "fsdp_sync_module_states": [True],
}
_DYNAMO: dict[str, list[Any]] = {
    "dynamo_backend": ["INDUCTOR", "EAGER"],
    "dynamo_mode": ["reduce-overhead", "default"],
    "dynamo_use_fullgraph": [True, False],
    "dynamo_use_dynamic": [True, False],
}
_OWN = {"OMP_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH"}
"""What every rank of Muster's has by other ways."""


def _some(chance: random.Random, table: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: chance.choice(values) for name, values in table.items() if chance.random() < 0.7}


def _config(chance: random.Random, port: int) -> dict[str, Any]:
    kind = chance.choice(["DEEPSPEED", "FSDP", "MULTI_GPU", "NO"])
    config = {"compute_environment": "LOCAL_MACHINE", "distributed_type": kind, **_some(chance, _CHOICES)}
    config |= {"main_process_port": port, "main_process_ip": "127.0.0.1", "num_processes": 8, "num_machines": 2}
    if kind == "NO":
        config |= {"num_processes": 1, "num_machines": 1}
    if kind == "DEEPSPEED":
        config["deepspeed_config"] = {**_some(chance, _DEEPSPEED), "deepspeed_multinode_launcher": "standard"}
    if kind == "FSDP":
        config["fsdp_config"] = _some(chance, _FSDP)
    if chance.random() < 0.4:
        config["dynamo_config"] = _some(chance, _DYNAMO)
    return config


def _oracle(path: Path, typed: list[str]) -> dict[str, str]:
    """Return the variables that `accelerate launch` sets."""
    from accelerate.commands import launch

    args = launch.launch_command_parser().parse_args(["--config_file", str(path), *typed, "train.py"])
    args, defaults, from_file = launch._validate_launch_command(args)
    if args.use_deepspeed:
        fields = [*defaults.deepspeed_config, *(["mixed_precision"] if from_file else [])]
        args.deepspeed_fields_from_accelerate_config = ",".join(fields)
        _, environment = launch.prepare_deepspeed_cmd_env(args)
    elif args.use_fsdp or args.multi_gpu:
        environment = launch.prepare_multi_gpu_env(args)
    else:
        _, environment = launch.prepare_simple_launcher_cmd_env(args)
    return {name: value for name, value in environment.items() if os.environ.get(name) != value and name not in _OWN}


@pytest.mark.torch
def test_the_variables_are_those_of_accelerate(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    pytest.importorskip("accelerate")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    seed = random.randrange(10**6)  # noqa: S311
    chance = random.Random(seed)  # noqa: S311
    path = tmp_path / "config.yaml"
    for number in range(100):
        config = _config(chance, port)
        path.write_text(yaml.safe_dump(config))
        typed = chance.choice([[], ["--mixed_precision", "bf16"], ["--zero_stage", "1"], ["--debug"]])
        ours = read_accelerate_config(path.read_text(), str(path), _typed(typed))
        assert not ours.question, (seed, number, ours.question)
        assert dict(ours.variables) == _oracle(path, typed), (seed, number, config, typed)


def _typed(words: list[str]) -> dict[str, str]:
    return {words[0].lstrip("-"): words[1] if len(words) > 1 else "true"} if words else {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\n", {"a": 1}),
        ("# x\n---\na: no # yes\nb: 'x # y'\nc: \"\"\n", {"a": False, "b": "x # y", "c": ""}),
        ("a:\n  b: 1e-5\n  c: 1.5\nd:\ne: {}\n", {"a": {"b": "1e-5", "c": 1.5}, "d": None, "e": None}),
        ("a: x:y/z#w\n", {"a": "x:y/z#w"}),
        ("a: YES\nb: True\nc: tRUE\n", {"a": True, "b": True, "c": "tRUE"}),
        ("a:\n  b: 1\n  c: 2\nd:\n   e: 3\n", {"a": {"b": 1, "c": 2}, "d": {"e": 3}}),
    ],
)
def test_plain_yaml_is_read(text: str, value: object) -> None:
    assert _read_yaml(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "- a\n",
        "a: [1]\n",
        "a: &x 1\n",
        "a: |\n  b\n",
        "a: 017\n",
        "a: 1_0\n",
        "a:\n  b:\n    c: 1\n",
        "a: 1\na: 2\n",
        "a: 1:30\n",
        "a\n",
        "a: b\n  c\n",
        "a: b\n  c: 1\n",
        "a:\n  b: 1\n   c: 2\n",
        "a: b: c\n",
        "a: b:\n",
    ],
)
def test_other_yaml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        _read_yaml(text)


@pytest.mark.parametrize(
    "change",
    [
        {"distributed_type": "XLA"},
        {"gpu_ids": "0,1"},
        {"mixed_precision": "fp8"},
        {"use_cpu": True},
        {"fp8_config": {"backend": "TE"}},
        {"unknown": 1},
        {"compute_environment": "AMAZON_SAGEMAKER"},
        {"distributed_type": "NO"},
    ],
)
def test_what_is_not_known_is_a_question(change: dict[str, Any]) -> None:
    import json

    config = {"distributed_type": "MULTI_GPU", "num_processes": 8, **change}

    assert read_accelerate_config(json.dumps(config), "c.json", {}).question


_PLAIN = {
    "ACCELERATE_MIXED_PRECISION": "no",
    "ACCELERATE_DYNAMO_BACKEND": "NO",
    "ACCELERATE_DYNAMO_MODE": "default",
    "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
    "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
    "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "False",
}
_INDUCTOR = {"ACCELERATE_DYNAMO_BACKEND": "INDUCTOR"}
_OVERLAP = {"ACCELERATE_DYNAMO_MODE": "reduce-overhead"}
_OF_FSDP = {
    **_PLAIN,
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "1",
    "FSDP_SHARDING_STRATEGY": "FULL_SHARD",
    "FSDP_MIN_NUM_PARAMS": "100000000",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_FORWARD_PREFETCH": "false",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_SYNC_MODULE_STATES": "true",
    "FSDP_ACTIVATION_CHECKPOINTING": "false",
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "false",
}
_MULTI_GPU = "distributed_type: MULTI_GPU\n"
_FSDP_FILE = "distributed_type: FSDP\nfsdp_config:\n"
_DEEPSPEED_FILE = "distributed_type: DEEPSPEED\n"


@pytest.mark.parametrize(
    ("text", "typed", "variables"),
    [
        (f"{_MULTI_GPU}num_processes: 8\n", {}, _PLAIN),
        (f"{_MULTI_GPU}fp16: true\n", {}, {**_PLAIN, "ACCELERATE_MIXED_PRECISION": "fp16"}),
        (f"{_MULTI_GPU}fp16: true\nmixed_precision: no\n", {}, None),
        (f"{_MULTI_GPU}mixed_precision: 'bf16'\n", {}, {**_PLAIN, "ACCELERATE_MIXED_PRECISION": "bf16"}),
        (f"{_MULTI_GPU}debug: true\n", {}, {**_PLAIN, "ACCELERATE_DEBUG_MODE": "true"}),
        (f"{_MULTI_GPU}enable_cpu_affinity: true\n", {"enable_cpu_affinity": "true"},
         {**_PLAIN, "ACCELERATE_CPU_AFFINITY": "1"}),
        (f"{_MULTI_GPU}dynamo_config:\n  dynamo_backend: INDUCTOR\n  dynamo_mode: reduce-overhead\n", {},
         {**_PLAIN, **_INDUCTOR, **_OVERLAP}),
        (f"{_MULTI_GPU}dynamo_config:\n  backend: INDUCTOR\n", {}, {**_PLAIN, **_INDUCTOR}),
        (f"{_MULTI_GPU}dynamo_config: {{}}\ndynamo_backend: INDUCTOR\n", {}, {**_PLAIN, **_INDUCTOR}),
        (f"{_MULTI_GPU}dynamo_config:\n  dynamo_mode: reduce-overhead\ndynamo_backend: 'NO'\n", {}, _PLAIN),
        (f"{_MULTI_GPU}dynamo_backend: ''\n", {}, _PLAIN),
        ("distributed_type: 'NO'\n", {}, {**_PLAIN, "ACCELERATE_USE_CPU": "False"}),
        ("distributed_type: 'NO'\nnum_processes: 1\n", {}, {**_PLAIN, "ACCELERATE_USE_CPU": "False"}),
        (f"{_FSDP_FILE}  fsdp_version: 1\n", {}, _OF_FSDP),
        (f"{_FSDP_FILE}  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n  fsdp_use_orig_params: False\n", {},
         {**_OF_FSDP, "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP", "FSDP_USE_ORIG_PARAMS": "false"}),
        (f"{_FSDP_FILE}  transformer_layer_cls_to_wrap: Block\n", {},
         {**_OF_FSDP, "FSDP_TRANSFORMER_CLS_TO_WRAP": "Block"}),
        (_DEEPSPEED_FILE, {}, {
            "ACCELERATE_MIXED_PRECISION": "no",
            "ACCELERATE_CONFIG_DS_FIELDS": "",
            "ACCELERATE_USE_DEEPSPEED": "true",
        }),
        (f"{_DEEPSPEED_FILE}mixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n  zero3_init_flag: True\n", {}, {
            "ACCELERATE_MIXED_PRECISION": "bf16",
            "ACCELERATE_CONFIG_DS_FIELDS": "zero_stage,zero3_init_flag,mixed_precision",
            "ACCELERATE_USE_DEEPSPEED": "true",
            "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
            "ACCELERATE_DEEPSPEED_ZERO3_INIT": "true",
        }),
        (f"{_DEEPSPEED_FILE}mixed_precision: bf16\n", {"mixed_precision": "fp16"}, {
            "ACCELERATE_MIXED_PRECISION": "fp16",
            "ACCELERATE_CONFIG_DS_FIELDS": "",
            "ACCELERATE_USE_DEEPSPEED": "true",
        }),
    ],
)  # fmt: skip
def test_each_line_of_a_file_becomes_the_variable_that_accelerate_documents(
    text: str, typed: dict[str, str], variables: dict[str, str] | None
) -> None:
    config = read_accelerate_config(text, "config.yaml", typed)

    assert bool(config.question) is (variables is None)
    assert config.machines == (None if config.question else 1)
    if variables is not None:
        assert dict(config.variables) == variables
