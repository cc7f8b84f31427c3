"""The rules of one job, as its script says them. Standard library only, Python 3.6."""

from typing import Mapping, Sequence


class Rules:
    """What the script says of its job, as words NAME=VALUE."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        known = dict(word.partition("=")[::2] for word in words)
        self.file = known["file"]
        self.run = known.get("run", "")
        """The run directory; it need not be there."""
        self.logs = known.get("logs", "")
        """The folder of the logs; empty: all output goes to the caller, and nothing is written down."""
        self.keeps = bool(known.get("keeps"))
        """Whether the ranks write files there."""
        self.restarts = int(known.get("restarts") or 0)
        self.spares = int(known.get("spares") or 0)
        self.links = int(known.get("links") or 0)
        self.link = int(known.get("link") or 1)
        self.ahead = known.get("ahead") == "yes"
        self.nodes = int(known.get("nodes") or 1)
        """All nodes of the job, spare nodes among them."""
        self.tasks = int(known.get("tasks") or 1)
        self.checkpoint = known.get("checkpoint", "")
        self.save_s = int(known.get("save") or 0)
        self.save_signal = known.get("signal", "")
        self.by_clock = known.get("clock") == "yes"
        self.signals = known.get("signals") or "signal_ranks"
        self.tells = known.get("tells") or "srun"
        self.by_program = known.get("starter") == "program"
        self.is_labelled = known.get("lines") == "labelled"
        self.agents = known.get("of") == "agents"
        self.may_requeue = known.get("requeue") == "yes"
        self.is_shared = known.get("within") == "yes"
        self.grace_s = float(known.get("grace") or 10)
        self.job = environment["SLURM_JOB_ID"]
        task = environment.get("SLURM_ARRAY_TASK_ID", "")
        self.task = task
        self.own = "%s_%s" % (environment.get("SLURM_ARRAY_JOB_ID", self.job), task) if task else self.job
        self.host = environment.get("SLURMD_NODENAME", "")
