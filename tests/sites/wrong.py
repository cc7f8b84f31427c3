"""Requests that a site refuses: the site, a right request with one thing bent, and the rule that it breaks.

At most five of a kind of rule, at least four of each complete site.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.units import Memory

HOUR = 3600

# A request that each of these sites takes, as its own documents ask for it.
RIGHT: dict[str, dict[str, Any]] = {
    "lumi": {
        "nodes": 2,
        "gpus_per_node": 8,
        "ntasks_per_node": 8,
        "cpus_per_task": 7,
        "time_s": HOUR,
        "partition": "standard-g",
        "account": "project_465000000",
        "mem": Memory.parse("480G"),
        "launcher": "srun",
    },
    "clariden": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 72,
        "time_s": HOUR,
        "partition": "normal",
        "account": "g123",
        "launcher": "srun",
    },
    "daint": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 72,
        "time_s": HOUR,
        "partition": "normal",
        "account": "g123",
        "launcher": "srun",
    },
    "horeka": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 16,
        "time_s": HOUR,
        "partition": "gpu-h100",
        "account": "hk-project-p0012345",
        "mem": Memory.parse("720G"),
        "launcher": "srun",
    },
    "supercloud": {
        "nodes": 2,
        "gpus_per_node": 2,
        "ntasks_per_node": 2,
        "cpus_per_task": 20,
        "time_s": HOUR,
        "gpu_type": "volta",
        "launcher": "mpirun",
    },
    "marenostrum5": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 20,
        "time_s": HOUR,
        "account": "bsc98",
        "qos": "acc_debug",
        "launcher": "torchrun",
    },
    "frontier": {
        "nodes": 2,
        "gpus_per_node": 8,
        "ntasks_per_node": 8,
        "cpus_per_task": 7,
        "time_s": HOUR,
        "partition": "batch",
        "account": "abc123",
        "launcher": "srun",
    },
    "jean-zay": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 24,
        "time_s": HOUR,
        "qos": "qos_gpu_h100-t3",
        "constraint": "h100",
        "account": "abc@h100",
        "launcher": "srun",
    },
    "meluxina": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 16,
        "time_s": HOUR,
        "partition": "gpu",
        "qos": "default",
        "account": "p200000",
    },
    "karolina": {
        "nodes": 2,
        "gpus_per_node": 8,
        "ntasks_per_node": 8,
        "cpus_per_task": 16,
        "time_s": HOUR,
        "partition": "qgpu",
        "account": "eu-26-17",
    },
    "perlmutter": {
        "nodes": 2,
        "gpus_per_node": 4,
        "ntasks_per_node": 4,
        "cpus_per_task": 32,
        "time_s": HOUR,
        "qos": "regular",
        "constraint": "gpu",
        "account": "m1234_g",
    },
}


@dataclass(frozen=True)
class Wrong:
    """One bent request."""

    site: str
    rule: str
    bent: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.site}-{self.rule}-" + "-".join(f"{key}={value}" for key, value in self.bent.items())


CATALOGUE = (
    Wrong("lumi", "required-account", {"account": None}),
    Wrong("lumi", "required-partition", {"partition": None}),
    Wrong("lumi", "unknown-account", {"account": "project_12"}),
    Wrong("lumi", "unknown-account", {"account": "465000001"}),
    Wrong("lumi", "unknown-partition", {"partition": "standart-g"}),
    Wrong("lumi", "closed-queue", {"partition": "bench"}),
    Wrong("lumi", "nodes-max", {"partition": "small-g", "nodes": 5}),
    Wrong("lumi", "nodes-max", {"nodes": 1025}),
    Wrong("lumi", "time-max", {"partition": "dev-g", "time_s": 4 * HOUR}),
    Wrong("lumi", "time-max", {"time_s": 49 * HOUR}),
    Wrong("lumi", "no-gpus", {"partition": "debug", "time_s": HOUR // 2}),
    Wrong("lumi", "gpus-max", {"gpus_per_node": 16}),
    Wrong("lumi", "cores-max", {"cpus_per_task": 8}),
    Wrong("lumi", "mem-max", {"mem": Memory.parse("512G")}),
    Wrong("lumi", "forbidden-flag", {"flags": {"gpus-per-task": "1"}}),
    Wrong("lumi", "launcher", {"launcher": "mpirun"}),
    Wrong("lumi", "renamed-module", {"modules": ("singularity-CPEbits",)}),
    Wrong("lumi", "renamed-module", {"modules": ("singularity-userfilesystems",)}),
    Wrong("lumi", "image-gone", {"image": "site:rocm-5-6-1"}),
    Wrong("clariden", "mem-zero", {"mem": Memory.parse("0")}),
    Wrong("clariden", "mem-max", {"mem": Memory.parse("900G")}),
    Wrong("clariden", "node-minutes", {"partition": "debug", "nodes": 4, "time_s": HOUR // 2}),
    Wrong("clariden", "node-minutes", {"partition": "debug", "nodes": 2, "time_s": HOUR}),
    Wrong("clariden", "nodes-max", {"partition": "debug", "nodes": 5, "time_s": 600}),
    Wrong("clariden", "time-max", {"time_s": 13 * HOUR}),
    Wrong("clariden", "no-gpus", {"partition": "xfer", "nodes": 1}),
    Wrong("clariden", "forbidden-flag", {"flags": {"environment": "my.toml"}}),
    Wrong("clariden", "unknown-feature", {"constraint": "thp_nevr"}),
    Wrong("clariden", "image-gone", {"image": "site:ngc-alps4"}),
    Wrong("daint", "nodes-max", {"partition": "debug", "nodes": 3, "time_s": 600}),
    Wrong("daint", "unknown-feature", {"constraint": "mc"}),
    Wrong("daint", "mem-max", {"mem": Memory.parse("900G")}),
    Wrong("daint", "gpus-max", {"gpus_per_node": 8}),
    Wrong("horeka", "required-time", {"time_s": None}),
    Wrong("horeka", "required-mem", {"mem": None}),
    Wrong("horeka", "required-cpus-per-task", {"cpus_per_task": None}),
    Wrong("horeka", "required-partition", {"partition": None}),
    Wrong("horeka", "renamed-queue", {"partition": "accelerated"}),
    Wrong("horeka", "renamed-queue", {"partition": "dev_accelerated-h100"}),
    Wrong("horeka", "closed-queue", {"partition": "gpu-b200"}),
    Wrong("horeka", "time-max", {"partition": "dev-gpu-h100", "time_s": 2 * HOUR}),
    Wrong("horeka", "forbidden-flag", {"flags": {"gpus-per-task": "1"}}),
    Wrong("horeka", "unknown-account", {"account": "kit-p0012345"}),
    Wrong("horeka", "renamed-module", {"modules": ("devel/cuda",)}),
    Wrong("supercloud", "unknown-gpu-type", {"gpu_type": "a100"}),
    Wrong("supercloud", "unknown-gpu-type", {"gpu_type": "volt"}),
    Wrong("supercloud", "gpus-max", {"gpus_per_node": 4}),
    Wrong("supercloud", "cores-max", {"cpus_per_task": 21}),
    Wrong("supercloud", "nodes-max", {"partition": "xeon-g6-volta", "nodes": 5}),
    Wrong("supercloud", "launcher", {"launcher": "torchrun"}),
    Wrong("supercloud", "renamed-module", {"modules": ("anaconda/2021a",)}),
    Wrong("supercloud", "renamed-module", {"modules": ("nccl/2.5.6-cuda10.1",)}),
    Wrong("supercloud", "no-gpus", {"partition": "xeon-p8"}),
    Wrong("marenostrum5", "required-account", {"account": None}),
    Wrong("marenostrum5", "required-qos", {"qos": None}),
    Wrong("marenostrum5", "required-time", {"time_s": None}),
    Wrong("marenostrum5", "cores-per-gpu", {"cpus_per_task": 16}),
    Wrong("marenostrum5", "cores-per-gpu", {"gpus_per_node": 2, "ntasks_per_node": 2, "cpus_per_task": 40}),
    Wrong("marenostrum5", "forbidden-flag", {"mem": Memory.parse("100G")}),
    Wrong("marenostrum5", "unknown-qos", {"qos": "acc_debugg"}),
    Wrong("marenostrum5", "no-gpus", {"qos": "gp_debug"}),
    Wrong("frontier", "launcher", {"launcher": "torchrun"}),
    Wrong("frontier", "time-max", {"time_s": 3 * HOUR}),
    Wrong("frontier", "cores-max", {"cpus_per_task": 8}),
    Wrong("frontier", "unknown-partition", {"partition": "batsh"}),
    Wrong("jean-zay", "account-suffix", {"account": "abc@a100"}),
    Wrong("jean-zay", "account-suffix", {"account": "abc@v100"}),
    Wrong("jean-zay", "unknown-account", {"account": "abc"}),
    Wrong("jean-zay", "queue-kind", {"constraint": "a100"}),
    Wrong("jean-zay", "unknown-feature", {"constraint": "h200"}),
    Wrong("meluxina", "whole-nodes", {"gpus_per_node": 2, "ntasks_per_node": 2}),
    Wrong("meluxina", "required-qos", {"qos": None}),
    Wrong("karolina", "nodes-min", {"partition": "qgpu_big", "nodes": 4}),
    Wrong("perlmutter", "required-qos", {"qos": None}),
    Wrong("perlmutter", "cores-max", {"cpus_per_task": 33}),
)
