"""One rank that starts, imports, joins and sums once, and says how long each took. Stands alone."""

import json
import os
import time

WORD = "muster-bench-start "


def task_began():
    # type: () -> float
    """Return when this rank's task began: its prologue is part of it, as its own process or the parent's."""
    with open("/proc/uptime", encoding="ascii") as file:
        booted = time.time() - float(file.read().split()[0])
    pid, began = os.getpid(), time.time()
    while pid > 1:
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
                head, _, tail = file.read().rpartition(")")
        except OSError:
            break
        if "(slurmstepd" in head or "(muster" in head or "(srun" in head:
            break
        fields = tail.split()
        began = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        pid = int(fields[1])
        if fields[3] == str(pid):
            break
    return began


def main(main_began):
    # type: (float) -> int
    """Measure, and write one line."""
    record = {
        "rank": int(os.environ.get("RANK", "0")),
        "size": int(os.environ.get("WORLD_SIZE", "1")),
        "host": os.uname().nodename,
        "began": task_began(),
        "main": main_began,
    }
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return _tell(record)
    record["imported"] = time.time()
    record["torch"] = str(torch.__version__)
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    record["device"] = torch.cuda.get_device_name() if has_gpu else "cpu"
    dist.init_process_group()  # torch chooses the backend by the device
    record["joined"] = time.time()
    total = torch.ones(1)
    if has_gpu:
        total = total.to(torch.cuda.current_device())
    dist.all_reduce(total)
    record["sum"] = int(total.item())
    record["summed"] = time.time()
    status = _tell(record)
    dist.destroy_process_group()
    return status


def _tell(record):
    # type: (dict[str, object]) -> int
    os.write(1, (WORD + json.dumps(record) + "\n").encode())
    return 0
