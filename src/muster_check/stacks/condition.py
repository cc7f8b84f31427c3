"""How a job does, or how a rank stands: the words for it, and how one look tells it. Pure."""

from __future__ import annotations

import re

from muster.older import StrEnum
from muster_check.stacks.read import RankStack


class JobCondition(StrEnum):
    """What the job does, or how it hangs."""

    WORKS = "works"
    COMPILES = "compiles"
    STARTS = "starts"
    NO_PYTHON = "runs no Python"
    NODE = "its node does not answer"
    GONE = "has no process"
    STOPPED = "is stopped"
    DEBUGGER = "is in a debugger"
    FILE_SYSTEM = "waits for a file system"
    LOADER = "waits for its data loader"
    CHILD = "waits for a child process"
    LOCK = "waits for a lock"
    FILE_LOCK = "waits for the lock of a file"
    SLEEP = "sleeps"
    PIPE = "waits at a pipe"
    NETWORK = "waits for the network"
    LOOP = "runs at one line"
    ORDER = "is in another collective"
    COLLECTIVE = "is in a collective that does not end"
    STANDS = "does not go on"
    ROLES = "has roles of which none goes on"

    @property
    def is_hang(self) -> bool:
        """Return whether no rank goes on."""
        unhung = {JobCondition.WORKS, JobCondition.COMPILES, JobCondition.STARTS, JobCondition.NO_PYTHON}
        return self not in unhung


_DEBUGGERS = re.compile(r"/(pdb|bdb|ipdb|pudb|debugpy|rpdb|web_pdb)[/.]|/debugpy/")
_LOADERS = re.compile(r"/torch/utils/data/|/multiprocessing/(pool|queues)\.py|/concurrent/futures/process\.py")
# The kernel's function in which a process sleeps → what it waits for.
_WAITS = (
    (re.compile(r"^(fuse_|request_wait_answer|__fuse|nfs|rpc_|ll_|cl_|osc_|lustre|gpfs|cxi|ceph|beegfs|"
                r"folio_wait|io_schedule|wait_on_page|filemap|d_alloc_parallel|lookup_slow|blkdev|jbd2|xfs_|ext4_)"),
     JobCondition.FILE_SYSTEM),
    (re.compile(r"lock_(inode_wait|lease)|flock|posix_lock|fcntl_setlk|locks_"), JobCondition.FILE_LOCK),
    (re.compile(r"pipe|fifo|wait_for_partner"), JobCondition.PIPE),
    (re.compile(r"^(kernel_)?(do_wait|wait4|waitid)|vfork"), JobCondition.CHILD),
    (re.compile(r"nanosleep"), JobCondition.SLEEP),
    (re.compile(r"sk_|skb_|tcp_|inet_|unix_|accept"), JobCondition.NETWORK),
    (re.compile(r"futex"), JobCondition.LOCK),
)  # fmt: skip


def standing(stack: RankStack) -> JobCondition:
    """Return how a rank that does not go on stands."""
    if stack.state == "T":
        return JobCondition.STOPPED
    if stack.state == "t":
        return JobCondition.DEBUGGER
    if any(_DEBUGGERS.search(frame.file) for frame in stack.frames):
        return JobCondition.DEBUGGER
    if stack.state == "D" and "vfork" not in stack.signs.waits:
        return JobCondition.FILE_SYSTEM
    if any(_LOADERS.search(frame.file) for frame in stack.frames):
        return JobCondition.LOADER
    kind = next((kind for pattern, kind in _WAITS if pattern.search(stack.signs.waits)), JobCondition.STANDS)
    if kind is JobCondition.STANDS and stack.signs.file.startswith("socket:"):
        return JobCondition.NETWORK
    # Every thread that waits for another sleeps in a futex: without a call stack that is not yet a lock.
    return JobCondition.STANDS if kind is JobCondition.LOCK and stack.unseen else kind
