"""The rules of one job, as its script says them. Standard library only, Python 3.6."""

from typing import Mapping, Sequence


class Rules:
    """What the script says of its job, as words NAME=VALUE."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        values = dict(word.partition("=")[::2] for word in words)
        self.file = values["file"]
        self.run = values.get("run", "")
        """The run directory; it need not be there."""
        self.logs = values.get("logs", "")
        """The folder of the logs; empty: all output goes to the caller, and nothing is written down."""
        self.keeps = bool(values.get("keeps"))
        """Whether the ranks write files there."""
        self.restarts = int(values.get("restarts") or 0)
        self.spares = int(values.get("spares") or 0)
        self.links = int(values.get("links") or 0)
        self.link = int(values.get("link") or 1)
        self.ahead = values.get("ahead") == "yes"
        self.nodes = int(values.get("nodes") or 1)
        """All nodes of the job, spare nodes among them."""
        self.tasks = int(values.get("tasks") or 1)
        self.checkpoint = values.get("checkpoint", "")
        self.save_s = int(values.get("save") or 0)
        self.save_signal = values.get("signal", "")
        self.by_clock = values.get("clock") == "yes"
        self.signals = values.get("signals") or "signal_ranks"
        self.tells = values.get("tells") or "srun"
        self.by_program = values.get("starter") == "program"
        self.is_labelled = values.get("lines") == "labelled"
        self.agents = values.get("of") == "agents"
        self.may_requeue = values.get("requeue") == "yes"
        self.is_shared = values.get("within") == "yes"
        self.grace_s = float(values.get("grace") or 10)
        self.job = environment["SLURM_JOB_ID"]
        self.task = environment.get("SLURM_ARRAY_TASK_ID", "")
        self.steps_of = environment.get("muster_part_job") or self.job
        """The id that the steps bear: that of a part of a heterogeneous job."""
        self.own = own_id(environment)
        self.host = environment.get("SLURMD_NODENAME", "")


def own_id(environment: Mapping[str, str]) -> str:
    """Return the id by which Slurm names this job to its user: that of a task has the number of its array."""
    job, task = environment.get("SLURM_JOB_ID", "0"), environment.get("SLURM_ARRAY_TASK_ID", "")
    return "%s_%s" % (environment.get("SLURM_ARRAY_JOB_ID", job), task) if task else job
