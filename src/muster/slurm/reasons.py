"""Every reason code of Slurm in words, and what would start the job sooner.

Two tables: reasons with a name of their own, and the limits, whose names are made of parts
(QOS + Grp + GRES + RunMinutes). The lists that libslurm itself gives are in tests/samples/reasons-*.txt.
"""

from __future__ import annotations

import re

import msgspec

from muster.older import StrEnum


class Clears(StrEnum):
    """Who or what makes a reason go away."""

    ITSELF = "by itself"
    USER = "when you change the job"
    STAFF = "when the site's staff act"
    OTHER_JOB = "when the job that it waits for ends as --dependency asks"
    ENDED = "the job has ended"
    UNKNOWN = "unknown"


class WaitReason(msgspec.Struct, frozen=True):
    """One reason: Slurm's code, a sentence, what to do about it, and what makes it go away."""

    code: str
    sentence: str
    remedy: str
    clears: Clears
    detail: str = ""
    """What Slurm wrote behind the code: "UnavailableNodes:node3"."""

    @property
    def is_known(self) -> bool:
        """Whether Muster knows what the code means."""
        return self.code in REASONS or self.clears is not Clears.UNKNOWN

    def remedy_for(self, job: str, dependency: str | None = None) -> str:
        """Return the remedy with the ids of the job, and of those that it depends on, in the commands that it names."""
        if self.clears is Clears.OTHER_JOB:
            others = dict.fromkeys(re.findall(r"[:?,]([0-9]+(?:_[0-9]+)?)", f",{dependency or ''}"))
            return f"muster why {' '.join(others)}" if others else self.remedy
        return re.sub(r"\bID\b", job, self.remedy)


_SMALLER = "fewer nodes (-N) or a shorter time (-t) let the job fit into a gap"
_OTHER_PARTITION = "muster queues shows the partitions and their limits; scontrol update JobId=ID moves the job"
_SUPPORT = "the fault is not yours: if it stays, write to the site's support with the job id"
_RESUBMIT = "muster cancel ID, correct the request, and submit it again"

_ITSELF, _USER, _STAFF, _ENDED = Clears.ITSELF, Clears.USER, Clears.STAFF, Clears.ENDED

# code, sentence, what would help, what makes it go away. Names as `squeue -O Reason` prints them, 22.05 to 26.05.
_NAMED = (
    ("None", "Slurm gives no reason; it has not looked at the job yet", "wait a minute and ask again", _ITSELF),
    ("Priority", "jobs of higher priority are before it in this partition", _SMALLER, _ITSELF),
    ("Resources", "it is next in line, and waits until enough nodes are free", _SMALLER, _ITSELF),
    (
        "Dependency",
        "it waits for the job in its --dependency",
        "muster jobs lists your jobs: it waits for those of its name",
        Clears.OTHER_JOB,
    ),
    ("DependencyNeverSatisfied", "the job in its --dependency did not end as --dependency asks", _RESUBMIT, _USER),
    ("BeginTime", "the time that --begin asked for, or a requeue's pause, has not come", "it starts after it", _ITSELF),
    ("Licenses", "the licences it asks for are in use", "fewer of --licenses", _ITSELF),
    (
        "Reservation",
        "its reservation has not begun",
        "it starts with it; without --reservation it may be sooner",
        _ITSELF,
    ),
    ("ReservationDeleted", "the reservation it asked for was deleted", "submit it without --reservation", _USER),
    (
        "ReservationInvalid",
        "the reservation it asked for does not exist, or is not yours",
        "scontrol show reservation",
        _USER,
    ),
    (
        "PartitionNodeLimit",
        "it asks for more or fewer nodes than the partition gives one job, or for nodes that are down",
        _OTHER_PARTITION,
        _USER,
    ),
    (
        "PartitionTimeLimit",
        "its time limit is longer than the partition's",
        "a shorter -t, or another partition",
        _USER,
    ),
    ("PartitionDown", "the partition is down: it takes jobs and starts none", _OTHER_PARTITION, _STAFF),
    ("PartitionInactive", "the partition is inactive: it starts no jobs", _OTHER_PARTITION, _STAFF),
    ("PartitionConfig", "what it asks for does not agree with how the partition is set up", _OTHER_PARTITION, _USER),
    ("BadConstraints", "no node of the partition can ever give what it asks for", "ask for less of each node", _USER),
    ("Constraints", "no node with the features of --constraint is free now", "a wider --constraint", _ITSELF),
    (
        "ReqNodeNotAvail",
        "a node it needs is down, drained, or reserved (for a maintenance that its time limit would reach into)",
        "no --nodelist, or fewer nodes (-N); nodes that are down or drained come back when the site's staff act",
        Clears.UNKNOWN,
    ),
    ("NodeDown", "a node it needs is down", "submit without --nodelist", _STAFF),
    ("FrontEndDown", "no front-end node is up", _SUPPORT, _STAFF),
    ("JobHeldUser", "you have held it", "scontrol release ID", _USER),
    ("JobHeldAdmin", "the site's staff, or a rule of theirs, hold it", "ask the site's support why", _STAFF),
    ("JobHoldMaxRequeue", "it was put back into the queue too often, and is held", _RESUBMIT, _USER),
    ("JobArrayTaskLimit", "its array already runs as many tasks as --array=…%N allows", "a higher %N", _ITSELF),
    (
        "JobLaunchFailure",
        "its script could not be started, or was lost: no directory or output file, a failed node, or a killed shell",
        "the output's directory must be there on the nodes",
        _USER,
    ),
    ("BurstBufferResources", "the burst buffer has no room", "a smaller request to the burst buffer", _ITSELF),
    ("BurstBufferStageIn", "its files are being copied into the burst buffer", "it starts after that", _ITSELF),
    ("BurstBufferOperation", "the burst buffer failed to do what was asked", _RESUBMIT, _USER),
    ("Cleaning", "it was put back into the queue, and its earlier run is being cleaned up", "wait a minute", _ITSELF),
    ("Prolog", "the site's prologue still runs on its nodes", "wait a minute", _ITSELF),
    ("SchedDefer", "it asked to be started at once, and this Slurm starts jobs in its own time", "wait", _ITSELF),
    ("FedJobLock", "the clusters of the federation are deciding which of them starts it", "wait a minute", _ITSELF),
    ("MaxPoweredUpNodes", "as many nodes are powered up as the site lets", _SMALLER, _ITSELF),
    ("MpiPortsBusy", "the ports kept for MPI are all in use on its nodes", "wait, or do without --resv-ports", _ITSELF),
    ("NvidiaImexChannels", "no NVIDIA IMEX channel is free", "wait until another job has ended", _ITSELF),
    ("PowerNotAvail", "there is not enough electrical power for it now", _SMALLER, _ITSELF),
    ("PowerReserved", "electrical power is reserved for others at that time", _SMALLER, _ITSELF),
    ("BlockMaxError", "its block of nodes had too many errors", _SUPPORT, _STAFF),
    ("BlockFreeAction", "its block of nodes is being freed", "wait a minute", _ITSELF),
    ("InvalidAccount", "its account does not exist, or was closed", "submit it with another -A", _USER),
    ("InvalidQOS", "its QOS does not exist, or is not yours", "submit it with another -q", _USER),
    ("QOSNotAllowed", "its QOS is not for this partition or account", "another -q or -p", _USER),
    ("AccountNotAllowed", "its account may not use this partition", "another -A or -p", _USER),
    (
        "AccountingPolicy",
        "a limit of its account or QOS is in the way",
        "sacctmgr show assoc, sacctmgr show qos",
        _USER,
    ),
    ("AssociationJobLimit", "its account runs as many jobs as it may", "it starts when one of them ends", _ITSELF),
    ("AssociationResourceLimit", "its account uses as much as it may", "it starts when a job of it ends", _ITSELF),
    ("AssociationTimeLimit", "its account has used up its time", "another -A, or ask for more time", _USER),
    ("QOSJobLimit", "its QOS runs as many jobs as it may", "it starts when one of them ends; another -q", _ITSELF),
    ("QOSResourceLimit", "its QOS uses as much as it may", "it starts when a job of it ends; another -q", _ITSELF),
    ("QOSTimeLimit", "its QOS has used up its time", "another -q", _USER),
    ("QOSUsageThreshold", "your remaining share is below what this QOS demands", "another -q, or wait", _ITSELF),
    ("MaxMemPerLimit", "it asks for more memory per CPU or node than the partition gives", "a smaller --mem", _USER),
    ("InvalidReason", "Slurm gives a reason that it does not know itself", _SUPPORT, Clears.STAFF),
    # 24.11 spells it so.
    ("InvaildReason", "Slurm gives a reason that it does not know itself", _SUPPORT, Clears.STAFF),
    ("SystemFailure", "a part of the cluster failed: its file system, its network or a daemon", _SUPPORT, _ENDED),
    ("NonZeroExitCode", "the program ended with a status other than 0", "muster logs ID", _ENDED),
    ("RaisedSignal", "the program was ended by a signal", "muster logs ID", _ENDED),
    ("TimeLimit", "it reached its time limit", "a longer -t, or save checkpoints and go on from them", _ENDED),
    ("InactiveLimit", "salloc was left alone too long", "sbatch and muster submit need nobody at the terminal", _ENDED),
    ("DeadLine", "it could not have ended before its --deadline", "a later --deadline, or a shorter -t", _ENDED),
    ("OutOfMemory", "a process used more memory than the job had", "more --mem, or fewer ranks per node", _ENDED),
)

REASONS = {row[0]: WaitReason(*row) for row in _NAMED}

# A limit's name: whose limit it is, of which kind, of what, over what time, for whom.
_LIMIT = (
    r"(?P<owner>Assoc|QOS)?(?P<kind>Grp|Max|Min)"
    r"(?P<what>BB|Billing|C[Pp][Uu]|Energy|GRES|License|Mem(?:ory)?|Node|Unknown|SubmitJobs?|Jobs|Wall(?:Duration)?)"
    r"(?P<time>RunMinutes|RunMins|Minutes)?(?P<per>Per(?:Account|Job|Node|User))?(?:Limit|NotSatisfied)?"
)
_OWNERS = {"Assoc": "your account", "QOS": "the QOS", None: "the QOS"}
_THINGS = {
    "bb": ("burst buffer", "a smaller request to the burst buffer"),
    "billing": ("billing units (a site's price of CPUs, memory and GPUs together)", "ask for less, -N or -g"),
    "cpu": ("CPUs", "fewer nodes (-N), or fewer CPUs per task (-c)"),
    "energy": ("energy", "fewer nodes or a shorter -t"),
    "gres": ("GPUs or other generic resources", "fewer nodes (-N) or GPUs per node (-g)"),
    "license": ("licences", "fewer of --licenses"),
    "mem": ("memory", "a smaller --mem, or fewer nodes"),
    "memory": ("memory", "a smaller --mem, or fewer nodes"),
    "node": ("nodes", "fewer nodes (-N)"),
    "unknown": ("a resource that Slurm does not name", "ask for less"),
    "submitjob": ("jobs in the queue", "fewer jobs at a time"),
    "submitjobs": ("jobs in the queue", "fewer jobs at a time"),
    "jobs": ("running jobs", "it starts when one of them ends"),
    "wall": ("time of all its jobs together", "a shorter -t"),
    "wallduration": ("time", "a shorter -t"),
}
_TIMES = {
    "Minutes": " × minutes (used so far and still asked for)",
    "RunMinutes": " × minutes of the running jobs",
    "RunMins": " × minutes of the running jobs",
    None: "",
}
_FOR = {
    "PerJob": "for one job",
    "PerNode": "on one node",
    "PerUser": "for one user",
    "PerAccount": "for one account",
    None: "for all its jobs together",
}


def reason_of(text: str) -> WaitReason:
    """Return what squeue or sacct gave as the reason; one that Slurm invented since is a value too."""
    reason_text = text.strip()
    code, detail = _split(reason_text)
    if code == "ReqNodeNotAvail" and "maintenance" in detail:
        sentence = "its nodes are reserved for a maintenance that its time limit would reach into"
        return WaitReason(code, sentence, "a -t that ends before the maintenance", _ITSELF, detail)
    if code in REASONS:
        explanation = REASONS[code]
        return WaitReason(explanation.code, explanation.sentence, explanation.remedy, explanation.clears, detail)
    return _limit(code, detail) or WaitReason(
        reason_text,
        f"Slurm says {reason_text!r}, which Muster does not know",
        "scontrol show job ID tells more",
        Clears.UNKNOWN,
    )


def _split(reason_text: str) -> tuple[str, str]:
    """Return the code, and what stands behind it: "ReqNodeNotAvail, UnavailableNodes:n1", "RaisedSignal:9(Killed)"."""
    # The controller sets this text in place of a code.
    if reason_text.replace("_", " ").startswith("Nodes required for job are DOWN, DRAINED or"):
        return "ReqNodeNotAvail", ""
    match = re.fullmatch(r"(\w*)(?:[,:(]\s*(.*))?", reason_text, re.DOTALL)
    return (match[1] or "None", match[2] or "") if match else (reason_text, "")


def _limit(code: str, detail: str) -> WaitReason | None:
    match = re.fullmatch(_LIMIT, code)
    if match is None:
        return None
    owner, kind, time, per = match["owner"], match["kind"], match["time"], match["per"]
    thing, remedy = _THINGS[match["what"].lower()]
    owner_name = _OWNERS[owner]
    if kind == "Min":
        return WaitReason(
            code, f"it asks for less {thing} than {owner_name} accepts", f"ask for more {thing}", _USER, detail
        )
    sentence = f"a limit of {owner_name} is reached: {thing}{_TIMES[time]} {_FOR[per]}"
    # A limit on one job alone never clears by waiting; nor does a budget that is used up.
    alone = per in {"PerJob", "PerNode"} or time == "Minutes" or match["what"].startswith("Wall")
    if alone:
        alternative = "another -A" if owner == "Assoc" else "another -q"
        return WaitReason(code, sentence, f"{remedy}; {alternative}", _USER, detail)
    return WaitReason(code, sentence, f"it starts when other jobs end; sooner with {remedy}", _ITSELF, detail)
