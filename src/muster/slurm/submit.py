"""sbatch as text: the words that queue a script, and what it answers, for every version that we run against."""

from __future__ import annotations

import re

import msgspec

from muster.errors import SiteError
from muster.slurm.question import Question


class JobId(msgspec.Struct, frozen=True):
    """A job, and the cluster it is on where several share a controller's accounts."""

    job: str
    cluster: str | None = None


class Rejection(msgspec.Struct, frozen=True):
    """Why sbatch refused, in words, and what to do."""

    reason: str
    """sbatch's own words."""

    sentence: str
    hint: str

    @property
    def is_of_nodes(self) -> bool:
        """Return whether the nodes do not have what is asked for: Slurm does not say which of it."""
        return bool(re.search(_OF_NODES, self.reason))


_OF_NODES = (
    r"(?i)requested node configuration is not available|can not be satisfied|node count specification invalid|"
    r"more processors requested than permitted|requested nodes are busy"
)


def ask_to_queue(script: str, *, output: str | None) -> Question[JobId]:
    """Queue `script`. --output is the only flag that does not stand in its header."""
    return Question(("sbatch", "--parsable", *([f"--output={output}"] if output else []), script), parse_submit)


def ask_to_queue_link(
    script: str, link: int, folder: str, *, after: str, task: int | None, output: str | None
) -> Question[JobId]:
    """Queue link `link` of a job, for the time after the job `after` has ended, however it did."""
    words = [f"--dependency=afterany:{after}", "--open-mode=append"]
    words += [f"--array={task}"] if task is not None else []
    words += [f"--output={output}"] if output else []
    return Question(("sbatch", "--parsable", *words, script, "link", str(link), folder), parse_submit)


def ask_whether_taken(*script: str) -> Question[Rejection]:
    """Ask whether `script`, or standard input, would be taken; nothing is queued. A refusal is on stderr."""
    return Question(("sbatch", "--test-only", *script), parse_rejection)


def parse_submit(stdout: str) -> JobId:
    """Return the job of `sbatch --parsable`: "123", or "123;cluster"; a site's own greeting may stand above it."""
    match = re.search(r"^([0-9]+)(?:;(\S+))?\s*$", stdout, re.MULTILINE)
    if match is None:
        raise SiteError(
            f"sbatch answered {stdout.strip()[:200]!r}, but gave no job id",
            hint="muster jobs shows whether the job is queued",
        )
    return JobId(match[1], match[2])


def array_indices(text: str) -> list[int]:
    """Return the tasks of --array: 0-3, 1,5-7, 0-15:4, 0-99%10; none where sbatch itself will refuse the text."""
    indices: list[int] = []
    for item in text.partition("%")[0].split(","):
        parts = re.fullmatch(r"\s*([0-9]{1,8})(?:-([0-9]{1,8})(?::([0-9]{1,8}))?)?\s*", item)
        if parts is None:
            return []
        first = int(parts[1])
        # More tasks than the largest MaxArraySize are refused by every controller.
        indices += range(first, min(int(parts[2] or first), 4_000_001) + 1, int(parts[3] or 1) or 1)
    return sorted(set(indices))


# What sbatch says (22.05 to 26.05) → what it means, and what to do. The first that matches counts: of two lines the
# particular one comes before the general one.
_REJECTIONS = (
    (
        r"invalid account or account/partition combination",
        "the account, or the account in this partition, is not yours",
        "-A NAME; sacctmgr show associations user=$USER lists yours",
    ),
    (
        r"invalid number of nodes \(-n",
        "--nodelist names more nodes than -N asks for",
        "name as many nodes with -w as -N asks for",
    ),
    (
        r"invalid job array specification",
        "the array has more tasks, or higher numbers, than this cluster takes",
        "scontrol show config | grep MaxArraySize: the highest number is one less; split the table of a --sweep",
    ),
    (r"invalid partition name specified", "there is no such partition", "muster queues, or sinfo -s, lists them"),
    (r"no partition specified", "this cluster has no default partition", "-p NAME: muster queues lists them"),
    (
        r"user's group not permitted to use this partition|access/permission denied",
        "you may not use this partition",
        "take another one with -p, or ask the site's support",
    ),
    (
        r"invalid qos specification",
        "there is no such QOS, or it is not yours",
        "sacctmgr show assoc user=$USER format=qos",
    ),
    (
        r"requested time limit is invalid|time limit .*exceeds|requested time limit exceeds",
        "the time limit is longer than this partition allows",
        "a shorter -t, or another partition",
    ),
    (
        r"memory specification can not be satisfied",
        "no node has so much memory",
        "a smaller --mem, or --mem=0 for all of it",
    ),
    (
        r"cpu count per node can not be satisfied",
        "no node has so many CPUs",
        "a smaller -c, or fewer ranks on a node; sinfo -o '%P %c' shows what the nodes have",
    ),
    (
        r"requested node configuration is not available",
        "no node has what is asked for together (GPUs, CPUs, memory, features), or not so many nodes have it",
        "less of each node, or a smaller -N: muster queues, and sinfo -o '%P %D %c %m %G %f', show what there is",
    ),
    (
        r"node count specification invalid|more processors requested than permitted",
        "more nodes or CPUs than there are, or than one job may have",
        "a smaller -N; muster queues shows the limits",
    ),
    (r"invalid feature specification", "no node has the feature of --constraint", "sinfo -o '%f' lists the features"),
    (
        r"invalid generic resource \(gres\) specification|invalid gres",
        "this cluster knows no such generic resource",
        "sinfo -o '%G' lists them",
    ),
    (r"invalid node name specified", "a node of --nodelist or --exclude does not exist", "sinfo -N lists the nodes"),
    (
        r"job violates accounting/qos policy|qos[a-z]*limit|assoc[a-z]*limit|submit limit",
        "a limit of your account or QOS does not allow this job: number of jobs, size or time",
        "muster why on a job that waits, or sacctmgr show qos, tells which",
    ),
    (
        r"invalid license specification",
        "this cluster has no such licence, or fewer of it",
        "scontrol show licenses lists them",
    ),
    (
        r"requested reservation is invalid|denied to requested reservation",
        "the reservation does not exist, or is not yours",
        "scontrol show reservation",
    ),
    (r"requested partition configuration not available now", "the partition is down or too small now", "muster queues"),
    (r"unable to contact slurm controller|socket timed out", "the controller does not answer", "try again in a minute"),
    (r"invalid dependency|job dependency problem", "the job of --dependency does not exist", "muster jobs lists yours"),
    (
        r"invalid --?[a-z-]+ specification|invalid numeric value|invalid time limit specification",
        "Slurm cannot read the value of a flag",
        "sbatch's manual shows the forms",
    ),
    (
        r"unrecognized option|invalid option|unknown option",
        "this Slurm does not know one of the flags",
        "sbatch --help",
    ),
)


_SAYS_NOTHING = r"unspecified error|job violates accounting/qos policy"
"""What Slurm ends with where the lines above say it: a plug-in of the site, or the limit by its name."""


def is_without_cluster(stderr: str) -> bool:
    """Return whether a client of Slurm says that it finds no cluster to speak to."""
    return bool(re.search(r"(?i)failed to fetch config|configuration source|unable to establish configuration", stderr))


def parse_rejection(stderr: str) -> Rejection:
    """Return the meaning of sbatch's error text; what we do not know is passed on as it is."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [re.sub(r"^(sbatch|salloc|srun|allocation failure)?:?\s*(error:)?\s*", "", line) for line in lines]
    reason = next((line for line in reversed(errors) if "failed" in line.lower()), errors[-1] if errors else "nothing")
    if re.search(_SAYS_NOTHING, reason, re.IGNORECASE):
        reason = "; ".join(line for line in errors if line != reason) or reason
    reason = re.sub(r"^(Batch job submission failed|allocation failure):\s*", "", reason)
    text = " ".join(errors).lower()
    for pattern, sentence, hint in _REJECTIONS:
        if re.search(pattern, text):
            return Rejection(reason, f"Slurm refuses the job: {sentence} ({reason})", hint)
    return Rejection(
        reason, f"Slurm refuses the job: {reason}", "muster plan shows the script; sbatch's manual the flags"
    )
