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
