"""Partitions, QOS, types of GPU and accounts that the pages of sites name: none is refused in a site's name.

Read in the pages on 2026-11-23; the page is that of the profile's source for its queues.
"""

from __future__ import annotations

PARTITIONS: dict[str, tuple[str, ...]] = {
    "delta": (
        *("cpu", "cpu-interactive", "cpu-preempt", "gpuA100x4", "gpuA100x4-interactive", "gpuA100x4-preempt"),
        *("gpuA100x8", "gpuA100x8-interactive", "gpuH200x8", "gpuH200x8-interactive", "gpuA40x4"),
        *("gpuA40x4-interactive", "gpuA40x4-preempt", "gpuMI100x8", "gpuMI100x8-interactive"),
    ),
    "kempner": (
        *("kempner", "kempner_h100", "kempner_h200", "kempner_rtx", "kempner_requeue", "kempner_dev"),
        "kempner_interactive",
    ),
    "vista": ("gg", "gh", "gh-dev"),
    "lonestar6": (
        *("development", "gpu-a100", "gpu-a100-dev", "gpu-a100-small", "gpu-h100", "large", "normal", "vm-small"),
    ),
    "mila": (*("unkillable", "unkillable-cpu", "short-unkillable", "main", "main-cpu", "long", "long-cpu"),),
    "roihu": (
        *("test", "small", "medium", "large", "longrun", "hugemem", "hugemem_longrun", "gputest", "gpumedium"),
        *("gpularge", "interactive", "gpuinteractive", "vizinteractive"),
    ),
    "olivia": ("small", "large", "accel"),
    "trillium": ("debug",),
    "stampede3": ("h100", "icx", "nvdimm", "pvc", "skx", "skx-dev", "spr"),
    "snellius": ("rome", "genoa", "gpu_a100", "gpu_h100"),
    "karolina": ("qcpu", "qgpu", "qgpu_exp", "qgpu_free", "qgpu_big", "qgpu_preempt"),
}

QOS: dict[str, tuple[str, ...]] = {"olivia": ("devel",), "perlmutter": ("regular", "debug", "shared", "premium")}

GPU_TYPES: dict[str, tuple[str, ...]] = {
    "fir": (
        *("h100", "nvidia_h100_80gb_hbm3_1g.10gb", "nvidia_h100_80gb_hbm3_2g.20gb"),
        "nvidia_h100_80gb_hbm3_3g.40gb",
    ),
    "narval": ("a100", "a100_1g.5gb", "a100_2g.10gb", "a100_3g.20gb", "a100_4g.20gb"),
    "nibi": (
        *("h100", "nvidia_h100_80gb_hbm3_1g.10gb", "h100_1g.10gb", "h100_1.10", "h100_10gb", "h100_2g.20gb"),
        *("h100_2.20", "h100_20gb", "h100_3g.40gb", "h100_3.40", "h100_40gb", "mi300a"),
    ),
    "rorqual": (
        *("h100", "nvidia_h100_80gb_hbm3_1g.10gb", "h100_1g.10gb", "h100_1.10", "h100_10gb", "h100_2g.20gb"),
        *("h100_2.20", "h100_20gb", "h100_3g.40gb", "h100_3.40", "h100_40gb"),
    ),
    "vulcan": ("l40s",),
    "killarney": ("h100", "l40s"),
    "tamia": ("h100", "h200"),
    "roihu": ("gh200", "l40"),
    "alvis": ("A40", "A100", "A100fat", "V100", "T4"),
}

ACCOUNTS: dict[str, tuple[str, ...]] = {
    "alvis": ("NAISS2024-22-219", "C3SE-STAFF"),
    "roihu": ("project_2001234",),
    "delta": ("bbka-delta-gpu", "bbka-delta-cpu"),
    "kempner": ("kempner_mylab_lab", "kempner_undergrads"),
    "olivia": ("nn9999k",),
    "jean-zay": ("abc@h100", "abc@a100", "abc@v100", "rgx@cpu"),
}

_JEAN_ZAY = (
    "-A abc@h100 -C h100 -g 4;-A abc@a100 -C a100 -g 8;-A abc@v100 -C v100-16g -g 4;-A abc@v100 -C v100-32g -g 4",
    "-A abc@v100 -p gpu_p13 -g 4;-A abc@v100 -p gpu_p2 -g 8;-A abc@v100 -p gpu_p2s -g 8;-A abc@v100 -p gpu_p2l -g 8",
    "-A abc@a100 -p gpu_p5 -g 8;-A abc@a100 -C a100 -p gpu_p5 -g 8;-A abc@h100 -C h100 -p gpu_p6 -g 4",
    "-A abc@h100 -p gpu_p6 -g 4;-A abc@cpu -p cpu_p1 -g 0;-A abc@cpu -p prepost -g 0;-A abc@cpu -p visu -g 0",
    "-A abc@cpu -p archive -g 0;-A abc@cpu -p compil -g 0;-A abc@cpu -p compil_H100 -g 0",
    "-A abc@v100 -q qos_gpu-t3 -g 4;-A abc@v100 -q qos_gpu-t4 -g 4;-A abc@v100 -q qos_gpu-dev -g 4",
    "-A abc@a100 -C a100 -q qos_gpu_a100-t3 -g 8;-A abc@a100 -C a100 -q qos_gpu_a100-dev -g 8",
    "-A abc@h100 -C h100 -q qos_gpu_h100-t3 -g 4;-A abc@h100 -C h100 -q qos_gpu_h100-t4 -g 4",
    "-A abc@h100 -C h100 -q qos_gpu_h100-dev -g 4;-A abc@v100 -g 4 -t 6000;-A abc@h100 -C h100 -g 4 -t 6000",
    "-A abc@cpu -g 0;-A rgx@cpu -g 0;-A rgx@cpu -q qos_cpu-t3 -g 0",
    "-A rgx@cpu -q qos_cpu-t4 -g 0;-A rgx@cpu -q qos_cpu-dev -g 0",
)
_KEMPNER = (
    "-p kempner -g 4;-p kempner_h100 -g 4;-p kempner_h200 -g 4;-p kempner_rtx -g 8;-p kempner_requeue -g 4",
    "-p kempner_requeue -g 8;-p kempner_requeue -N 8 -g 4;-p kempner_requeue -g 4 -t 10080;-p kempner_dev -g 1",
    "-p kempner_interactive -g 1;-p gpu_requeue -C a100 -g 1;-p sapphire -g 0;-p shared -g 0;-p test -g 0",
    "-A kempner_undergrads -g 1;-A kempner_dev -g 1;-A kempner_mylab_lab -g 1",
    "-p kempner_requeue -C amd -g 1;-p kempner_requeue -C intel -g 1;-p kempner_requeue -C holyndr -g 1",
    "-p kempner_requeue -C holyhdr -g 1;-p kempner_requeue -C genoa -g 1;-p kempner_requeue -C icelake -g 1",
    "-p kempner_requeue -C avx -g 1;-p kempner_requeue -C avx2 -g 1;-p kempner_requeue -C avx512 -g 1",
    "-p kempner_requeue -C gpu -g 1;-p kempner_requeue -C h100 -g 1;-p kempner_requeue -C h200 -g 1",
    "-p kempner_requeue -C a100 -g 4;-p kempner_requeue -C cc9.0 -g 1;-p kempner_requeue -C cc8.0 -g 1",
)
_CLARIDEN = (
    "-p normal;-p debug -N 2;-p debug -t 90;-p debug -N 4 -t 22;-p low -t 1200;-p xfer -g 0;-C gh;-C gpu",
    "-C thp_never;-C thp_always;-C thp_madvise;-C nvidia_vboost_enabled;-C nvidia_vboost_disabled",
    "-C thp_never&nvidia_vboost_enabled;-A g123;-A g152;-A g174;-A vasp6",
)
_NARVAL = (
    "-g 1 --gpu-type a100;-g 2 --gpu-type a100;-g 3 --gpu-type a100;-g 4 --gpu-type a100;-g 1 -p default",
    "-g 1 --gpu-type a100_1g.5gb;-g 1 --gpu-type a100_2g.10gb;-g 1 --gpu-type a100_3g.20gb",
    "-g 1 --gpu-type a100_4g.20gb;-g 1 -A def-user-ab;-g 1 -A rrg-profname-ab;-g 1 -A def-profname;-g 0",
    "-g 0 --mem 2000G;-g 0 --mem 4000G;-g 4 -t 10080",
)
_LONESTAR6 = (
    "-p development -N 8 -g 0;-p gpu-a100 -N 8;-p gpu-a100 -N 1 -t 2880;-p gpu-a100-dev -N 2",
    "-p gpu-a100-small -N 1;-p gpu-h100 -N 1;-p normal -N 64 -g 0;-p vm-small -N 1 -g 0;-p gpu-a100 -N 1 -A ASC12345",
)

REQUESTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "soperator": ("", ("-p low_priority -g 8;-p high_priority -g 8;-C low_priority -g 8;-g 8",)),
    "vega": ("", ("-p gpu -g 4;-p cpu -g 0;-A s24r05-03-users -p gpu -g 4",)),
    "tamia": (
        "-A aip-someprof",
        (
            "-g 4 --gpu-type h100;-g 8 --gpu-type h200;-N 2 -g 4 --gpu-type h100;-N 2 -g 8 --gpu-type h200;-N 1",
            "-A def-someuser;-g 0;-p default",
        ),
    ),
    "clariden": ("", _CLARIDEN),
    "jean-zay": ("", _JEAN_ZAY),
    "vulcan": (
        "-A aip-someprof",
        ("-g 4 --gpu-type l40s;-g 1 --gpu-type l40s;-N 1;-A def-someuser;-t 10080;-p default",),
    ),
    "narval": ("-A def-someuser", _NARVAL),
    "lonestar6": ("", _LONESTAR6),
    "isambard-ai": (
        "",
        ("-p workq -g 4;-p interactive -g 1;-p bricsonly -g 4;-q workq_qos -g 4;-q 32gpu_qos -g 4;-N 8 -g 4;-t 1440",),
    ),
    "kempner": ("-A kempner_grads", _KEMPNER),
}
"""Ordinary requests that fit a name of the pages of ten sites, drawn by random.Random("20261124_names"), and what each
of a site's takes besides; written on 2026-11-24 before any plan. The sources are those of the profile, with `nebius/
nebius-solutions-library @0616445b, soperator/installations/example/terraform.tfvars` for soperator's two partitions.
"""
