"""What a start needs of a node: room, limits, files that all see, nothing left over. Pure."""

import re
from typing import Dict, Iterator, List, Optional, Tuple

from muster.rank.finding import BROKEN, WARNING, Finding, hosts_in_words, odd_hosts

from .facts import CheckedWorld

# Below which a rank's own start fails: sockets and caches in /tmp, NCCL's and the data loaders' segments in /dev/shm.
_LEAST_MIB = {"/tmp": (16, 64), "/dev/shm": (32, 128)}  # looked at, not written
_LEAST_OTHER_MIB = (4, 32)
_LEAST_FILES = 1000
# NCCL's rings and torch's stores take a descriptor for each neighbour; a data loader one for each tensor in flight.
_LEAST_DESCRIPTORS = (256, 1024)
_LEAST_LOCKED_BYTES = 16 << 20
_LEAST_PROCESSES = 1024
_LEAST_STACK_BYTES = 1 << 20
# Counted with strace: stat and open of one `import torch` on a file system that is not warm.
_LOOKS_OF_TORCH = 20_000
_LONG_IMPORT_S = 30.0


def judge_space(world: CheckedWorld) -> Iterator[Finding]:
    """Judge the room in /tmp, /dev/shm and where the job writes."""
    hosts_by_space: Dict[Tuple[str, str, str], List[str]] = {}
    for node in world.places():
        for space in node.get("space", []):
            least_mib, enough_mib = _LEAST_MIB.get(space["path"], _LEAST_OTHER_MIB)
            if space["size_mib"] == 0:
                continue  # a file system that does not count
            if space["free_mib"] < enough_mib:
                status = BROKEN if space["free_mib"] < least_mib else WARNING
                hosts_by_space.setdefault((status, space["path"], f"{space['free_mib']} MiB"), []).append(node["host"])
            elif space["free_files"] is not None and space["free_files"] < _LEAST_FILES:
                free_words = f"{space['free_files']} files"
                hosts_by_space.setdefault((WARNING, space["path"], free_words), []).append(node["host"])
    for (status, path, free_space), hosts in hosts_by_space.items():
        yield Finding(
            "space",
            status,
            f"{path} on {hosts_in_words(hosts)} has room for {free_space}",
            "remove what earlier jobs left there; another TMPDIR (--env) where the site has one"
            if path != "/dev/shm"
            else "remove what earlier jobs left there (nccl-*, torch_*); a larger /dev/shm for the image",
            tuple(hosts),
        )


def judge_limits(world: CheckedWorld) -> Iterator[Finding]:
    """Yield the limits of a process."""
    low: Dict[Tuple[str, str, str], List[str]] = {}
    for node in world.nodes:
        limits = node.get("limits", {})
        for status, evidence, remedy in _limits(limits, rdma=bool(node.get("devices"))):
            low.setdefault((status, evidence, remedy), []).append(node["host"])
    for (status, evidence, remedy), hosts in low.items():
        yield Finding("limits", status, f"{evidence} on {hosts_in_words(hosts)}", remedy, tuple(hosts))


def _limits(limits: Dict[str, Optional[int]], *, rdma: bool) -> Iterator[Tuple[str, str, str]]:
    ask = "ulimit in the job's start files lowers it; else ask the site's support, or --sbatch=--propagate=NONE"
    files = limits.get("nofile")
    if files is not None and files < _LEAST_DESCRIPTORS[1]:
        status = BROKEN if files < _LEAST_DESCRIPTORS[0] else WARNING
        yield status, f"a process may open {files} files", ask
    locked = limits.get("memlock")
    if rdma and locked is not None and locked < _LEAST_LOCKED_BYTES:
        yield BROKEN, f"a process may lock {locked >> 10} KiB of memory, and RDMA locks all it sends", ask
    processes = limits.get("nproc")
    if processes is not None and processes < _LEAST_PROCESSES:
        yield WARNING, f"a user may have {processes} processes and threads", ask
    stack = limits.get("stack")
    if stack is not None and stack < _LEAST_STACK_BYTES:
        yield WARNING, f"a thread's stack is {stack >> 10} KiB", ask
    memory = limits.get("as")
    if memory is not None and memory < 64 << 30:
        yield WARNING, f"a process may address {memory >> 20} MiB, and CUDA reserves far more than it uses", ask


def judge_imports(world: CheckedWorld) -> Iterator[Finding]:
    """Judge how long `import torch` takes, by the cost of one look at a file.

    Shared file systems answer in milliseconds.
    """
    for node in world.nodes:
        for folder, seconds in node.get("import_s", {}).items():
            expected_s = seconds * _LOOKS_OF_TORCH
            if expected_s > _LONG_IMPORT_S:
                yield Finding(
                    "import time",
                    WARNING,
                    f"a look at a file in {folder} takes {seconds * 1000:.2g} ms on {node['host']}:"
                    f" import torch, which looks {_LOOKS_OF_TORCH} times, about {expected_s:.0f} s",
                    "an image (--image) is one file to the shared file system; muster build image makes it",
                    (node["host"],),
                )


def judge_forks(world: CheckedWorld) -> Iterator[Finding]:
    """Return whether a process that has opened a Slingshot card may fork: data loaders' workers are forked by default.

    Since Linux 5.12, and Red Hat's 4.18 of 8.6, a fork copies the memory that a card has registered.
    """
    if world.expected.get("fabric") != "slingshot":
        return
    old: Dict[str, List[str]] = {}
    for rank in world.ranks:
        kernel = rank.get("node", {}).get("software", {}).get("kernel", "")
        if _leaves_registered_memory(kernel) and rank["environment"].get("CXI_FORK_SAFE") != "1":
            old.setdefault(kernel, []).append(rank["host"])
    for kernel, hosts in old.items():
        yield Finding(
            "forked workers",
            WARNING,
            f"a data loader's forked worker crashes beside an open Slingshot card under kernel {kernel}, "
            f"on {hosts_in_words(hosts)}",
            "two lines fix it, first under if __name__ == '__main__': import torch.multiprocessing and "
            "torch.multiprocessing.set_start_method('forkserver'); the script unchanged: "
            "--env CXI_FORK_SAFE=1 --env CXI_FORK_SAFE_HP=1",
            tuple(hosts),
        )


def _leaves_registered_memory(kernel: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)\.\d+(?:-(\d+)\S*\.el8)?", kernel)
    if match is None:
        return False  # nobody can tell
    if match.group(3):
        return int(match.group(3)) < 372
    return (int(match.group(1)), int(match.group(2))) < (5, 12)


def judge_leftovers(world: CheckedWorld) -> Iterator[Finding]:
    """Judge locks that nobody holds and that a new process waits for."""
    for node in world.places():
        leftovers = node.get("leftovers", [])
        if leftovers:
            rest_words = f" and {len(leftovers) - 1} more" if len(leftovers) > 1 else ""
            yield Finding(
                "leftovers",
                WARNING,
                f"{leftovers[0]}{rest_words} on {node['host']}: an ended process has left it",
                "remove it: a process that builds or starts the same thing waits for it",
                (node["host"],),
            )


def judge_shared(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether the working directory is there on every node, and is the same one."""
    hosts_by_path: Dict[str, Dict[str, List[str]]] = {}
    for node in world.nodes:
        for path, identity in node.get("shared", {}).items():
            if path.startswith("/"):
                hosts_by_path.setdefault(path, {}).setdefault(identity, []).append(node["host"])
    for path, answers in hosts_by_path.items():
        absent = [host for identity, hosts in answers.items() if identity.startswith("not there") for host in hosts]
        if absent and len(answers) > 1:
            yield _shared(f"{path} is not there on {hosts_in_words(absent)}", absent)
        elif len(answers) > 1:
            odd = odd_hosts(answers.values())
            yield _shared(f"{path} is another directory on {hosts_in_words(odd)} than on the other nodes", odd)


def _shared(evidence: str, hosts: List[str]) -> Finding:
    return Finding(
        "shared directory", BROKEN, evidence, "run from a file system that all nodes share (--chdir)", tuple(hosts)
    )
