"""Five more sets of changed labs: what an administrator can type, drawn with its prediction before any plan was made.

Each kind of change says what becomes of the job of the site's page, and what a plan has to name. The tables were
written from Slurm's manual pages alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from muster_lab.like import lab_like
from muster_lab.spec import Account, HostGroup, LabPartition, LabSpec, Qos

from .changed_labs import (
    ALL_CHANGES,
    CHANGES,
    TYPED,
    ChangedLab,
    MadeLab,
    _groups,
    _options,
    _own_qos,
    _partition_of,
    _state,
    header_of,
    plan_of_profile,
    words_of,
)
from .profiles import bundled

Words = tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of change, and what is predicted of it."""

    change: Callable[[LabSpec, str], LabSpec]

    becomes: str = ""
    """`runs`: Slurm takes a right plan, and the job can start. `refused`: Slurm takes no form of the request.
    `waits`: Slurm queues the job, and nothing starts it as the cluster is. `unknowable`: only sbatch can say it.
    `follows`: it runs on what the cluster has in the place of what it had, or both Muster and Slurm refuse it.
    Empty: nothing was predicted."""

    signs: Words = ()
    """One of these has to be named where Slurm does not run the script that rests on the profile alone."""

    unsaid: Words = ()
    """None of these may be said."""

    shown: Words = ()
    """One of these stands in the plan either way."""

    is_of_partition: bool = False
    """A limit of a partition that Slurm does not enforce at submit: Muster may refuse what waits for ever."""

    is_beyond_the_profile: bool = False
    """The profile alone refuses the request."""

    typed: Callable[[LabSpec, str], Words] | None = None
    words: Callable[[Words], Words] = tuple


def _set(**options: str) -> Callable[[LabSpec, str], LabSpec]:
    return lambda spec, name: _options(spec, name, **options)


def _cluster(**options: str) -> Callable[[LabSpec, str], LabSpec]:
    return lambda spec, _: replace(spec, options=tuple({**dict(spec.options), **options}.items()))


def _enforcing(how: str, **options: str) -> Callable[[LabSpec, str], LabSpec]:
    return lambda spec, name: _options(_cluster(EnforcePartLimits=how)(spec, name), name, **options)


def _preempting(mode: str, **options: str) -> Callable[[LabSpec, str], LabSpec]:
    """Jobs of other partitions come first; `mode`: what the cluster does with those of this one."""
    more = {"PreemptType": "preempt/partition_prio", "PreemptMode": mode}
    return lambda spec, name: _options(_cluster(**more)(spec, name), name, PriorityTier="1", **options)


def _first_node(state: str) -> Callable[[LabSpec, str], Words]:
    return lambda spec, name: (
        *("scontrol", "update", f"NodeName={_hosts(spec, name)[0]}", f"State={state}", "Reason=repair"),
    )


def _account(users: Words = ("alice", "bob"), **limits: str) -> Callable[[LabSpec, str], LabSpec]:
    def change(spec: LabSpec, _: str) -> LabSpec:
        first, *others = spec.accounts
        return replace(spec, accounts=(Account(first.name, users, tuple(limits.items())), *others))

    return change


def _every_qos(**limits: str) -> Callable[[LabSpec, str], LabSpec]:
    """Each QOS that the job may get has these limits, and only these."""

    def change(spec: LabSpec, _: str) -> LabSpec:
        names = dict.fromkeys(["normal", *(qos.name for qos in spec.qos)])
        return replace(spec, qos=tuple(Qos(name, tuple(limits.items())) for name in names))

    return change


def _partition_qos(**limits: str) -> Callable[[LabSpec, str], LabSpec]:
    return lambda spec, name: _own_qos(spec, name, **limits)


def _same(spec: LabSpec, _: str) -> LabSpec:
    return spec


def _hosts(spec: LabSpec, name: str) -> Words:
    return next(each.hosts for each in spec.partitions if each.name == name) or spec.hosts


def _half_of_the_memory(spec: LabSpec, name: str) -> LabSpec:
    """Of each kind of host in the partition, the last has half of the memory."""
    groups: list[HostGroup] = []
    renamed: dict[str, str] = {}
    for group in spec.groups:
        if not {*group.names} & {*_hosts(spec, name)} or group.count < 2:
            groups.append(group)
            continue
        small = replace(group, count=1, prefix=f"{group.prefix}small", memory_mib=group.memory_mib // 2)
        groups += [replace(group, count=group.count - 1), small]
        renamed[group.names[-1]] = small.names[0]
    partitions = tuple(
        replace(each, hosts=tuple(renamed.get(host, host) for host in each.hosts)) for each in spec.partitions
    )
    return replace(spec, groups=tuple(groups), partitions=partitions)


def _preempting_qos(spec: LabSpec, _: str) -> LabSpec:
    names = [qos.name for qos in spec.qos if qos.name != "normal"]
    urgent = Qos("urgent", (("Preempt", ",".join(["normal", *names])),))
    options = (*spec.options, ("PreemptType", "preempt/qos"), ("PreemptMode", "REQUEUE"))
    return replace(spec, qos=(*spec.qos, urgent), options=options)


def _lua(condition: str, sentence: str) -> Callable[[LabSpec, str], LabSpec]:
    def change(spec: LabSpec, _: str) -> LabSpec:
        mark = "  return slurm.SUCCESS\nend\n\nfunction slurm_job_modify"
        assert spec.job_submit_lua is not None
        assert mark in spec.job_submit_lua
        rule = f'  if {condition} then return refuse("{sentence}") end\n'
        return replace(spec, job_submit_lua=spec.job_submit_lua.replace(mark, rule + mark))

    return change


def _reserved(start: str, where: Callable[[LabSpec, str], str]) -> Callable[[LabSpec, str], Words]:
    def typed(spec: LabSpec, name: str) -> Words:
        words = f"ReservationName=works StartTime={start} Duration=1-0 Users=root Flags=MAINT Nodes={where(spec, name)}"
        return "scontrol", "create", "reservation", *words.split()

    return typed


def _without(words: Words, option: str) -> Words:
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + 2 :]


def _with(words: Words, option: str, value: str) -> Words:
    return (*_without(words, option), option, value)


def _part_of_a_node(words: Words) -> Words:
    changed = [*words]
    for option in ("-N", "-g"):
        changed[changed.index(option) + 1] = "1"
    return tuple(changed)


FOURTH: dict[str, Kind] = {
    # slurm.conf, a partition
    "exclusive": Kind(_set(OverSubscribe="EXCLUSIVE"), "runs", shown=("whole", "exclusive"), words=_part_of_a_node),
    "billed": Kind(_set(TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=64"), "runs"),
    "for-a-group": Kind(_set(AllowGroups="staff"), "refused", ("group",)),
    "account-denied": Kind(
        lambda spec, name: _options(spec, name, DenyAccounts=spec.accounts[0].name), "refused", ("account",)
    ),
    "qos-denied": Kind(
        lambda spec, name: _options(spec, name, DenyQos=",".join(["normal", *(qos.name for qos in spec.qos)])),
        "refused",
        ("QOS", "qos"),
    ),
    "one-user-a-node": Kind(_set(ExclusiveUser="YES"), "runs"),
    "one-minute": Kind(_set(DefaultTime="00:01:00"), "runs", words=lambda words: _without(words, "-t")),
    "limits-not-enforced": Kind(_enforcing("NO", MaxTime="00:10:00"), "waits", ("10",), is_of_partition=True),
    # slurm.conf, the cluster
    "one-mib-a-cpu": Kind(_cluster(DefMemPerCPU="1"), "runs", shown=("--mem",)),
    "preempting-qos": Kind(_preempting_qos, "runs", shown=("--requeue",)),
    "no-accounting": Kind(lambda spec, _: replace(spec, accounting=False, accounts=(), qos=()), "runs"),
    # slurm.conf, the nodes
    "memory-differs": Kind(_half_of_the_memory, "runs", ("memory", "--mem", "MiB", "GiB")),
    "twice-the-gpus": Kind(lambda spec, _: _groups(spec, lambda group: replace(group, gpus=2 * group.gpus)), "runs"),
    # scontrol
    "draining": Kind(_same, "refused", ("DRAIN", "drain", "closed"), typed=lambda _, name: _state(name, "DRAIN")),
    "inactive": Kind(_same, "refused", ("INACTIVE", "closed"), typed=lambda _, name: _state(name, "INACTIVE")),
    "one-node-drained": Kind(_same, "waits", ("drain",), typed=_first_node("DRAIN")),
    "works-next-week": Kind(_same, "runs", unsaid=("works",), typed=_reserved("now+7days", lambda _, __: "ALL")),
    # sacctmgr, a QOS
    "qos-over-partition": Kind(
        lambda spec, name: _options(_every_qos(Flags="PartitionTimeLimit")(spec, name), name, MaxTime="00:10:00"),
        "runs",
    ),
    "qos-group-nodes": Kind(_partition_qos(GrpTRES="node=1"), "refused", ("house",)),
    "qos-waits-for-nodes": Kind(_every_qos(GrpTRES="node=1"), "waits", ("QOS",)),
    "qos-nodes-of-a-user": Kind(_every_qos(MaxTRESPerUser="node=1"), "waits", ("QOS",)),
    "qos-no-reserve": Kind(_every_qos(Flags="NoReserve,DenyOnLimit"), "runs"),
    # sacctmgr, an account
    "account-nodes": Kind(_account(GrpTRES="node=1"), "waits", ("account",)),
    "account-submits-nothing": Kind(_account(MaxSubmitJobs="0"), "refused", ("account",)),
    "account-runs-nothing": Kind(_account(MaxJobs="0"), "waits", ("account",)),
    # job_submit.lua
    "license-needed": Kind(
        _lua('job.licenses == nil or job.licenses == ""', "this cluster wants --licenses=scratch"), "unknowable"
    ),
    "account-needed": Kind(
        _lua("not given(job.account)", "type an account"), "unknowable", words=lambda words: _without(words, "-A")
    ),
}


FIFTH: dict[str, Kind] = {
    # slurm.conf, a partition
    "submit-hosts": Kind(
        lambda spec, name: _options(spec, name, AllocNodes=spec.hosts[0]), "refused", ("AllocNodes", "host")
    ),
    "ten-minutes-any": Kind(
        _enforcing("ANY", MaxTime="00:10:00"), "runs", ("10",), words=lambda words: _with(words, "-t", "5")
    ),
    "shared-if-asked": Kind(_set(OverSubscribe="YES:4"), "runs"),
    "little-memory-of-a-node": Kind(_set(DefMemPerNode="256"), "runs", shown=("--mem",)),
    "whole-sockets": Kind(_set(SelectTypeParameters="CR_Socket"), "runs"),
    # slurm.conf, the cluster
    "never-again": Kind(_cluster(JobRequeue="0"), "runs"),
    # sacctmgr, a QOS
    "qos-runs-nothing": Kind(_every_qos(MaxJobsPerUser="0"), "waits", ("QOS",)),
    "qos-submits-nothing": Kind(_every_qos(GrpSubmitJobs="0"), "refused", ("QOS",)),
    "qos-memory-of-a-job": Kind(_every_qos(MaxTRESPerJob="mem=1M"), "waits", ("QOS",)),
    "qos-gpu-minutes": Kind(_every_qos(MaxTRESMinsPerJob="cpu=1"), "waits", ("QOS",)),
    "qos-of-reservations": Kind(_every_qos(Flags="RequiresReservation"), "refused", ("reservation",)),
    "house-one-node": Kind(_partition_qos(MaxTRESPerJob="node=1"), "refused", ("house",)),
    # sacctmgr, an account
    # scontrol
    "reserved-now": Kind(
        _same, "waits", ("works",), typed=_reserved("now", lambda spec, name: ",".join(_hosts(spec, name)))
    ),
}


def _both(*changes: Callable[[LabSpec, str], LabSpec]) -> Callable[[LabSpec, str], LabSpec]:
    """Several changes at once."""

    def change(spec: LabSpec, name: str) -> LabSpec:
        for each in changes:
            spec = each(spec, name)
        return spec

    return change


def _slurm(version: str) -> Callable[[LabSpec, str], LabSpec]:
    return lambda spec, _: replace(spec, slurm=version)


def _gpus(change: Callable[[HostGroup], HostGroup]) -> Callable[[LabSpec, str], LabSpec]:
    return lambda spec, _: _groups(spec, change)


def _below(**limits: str) -> Callable[[LabSpec, str], LabSpec]:
    """The account of the job stands below another one, which has these limits."""

    def change(spec: LabSpec, _: str) -> LabSpec:
        first, *others = spec.accounts
        faculty = Account("faculty", (), tuple(limits.items()))
        return replace(spec, accounts=(faculty, replace(first, options=(("Parent", "faculty"),)), *others))

    return change


def _last_host(**words: int) -> Callable[[LabSpec, str], LabSpec]:
    """The last host of the partition has other hardware."""

    def change(spec: LabSpec, name: str) -> LabSpec:
        host = _hosts(spec, name)[-1]
        own = next(group for group in spec.groups if host in group.names)
        odd = HostGroup(**{**vars(own), "count": 1, "prefix": "odd-n", **words})
        groups = [replace(group, count=group.count - 1) if group is own else group for group in spec.groups]
        groups = [group for group in groups if group.count]
        parts = (
            replace(each, hosts=tuple("odd-n1" if one == host else one for one in _hosts(spec, each.name)))
            for each in spec.partitions
        )
        return replace(spec, groups=(*groups, odd), partitions=tuple(parts))

    return change


def _open_beside(spec: LabSpec, name: str) -> LabSpec:
    """The default partition is for another account; a new one on its hosts is open."""
    closed = _options(spec, name, AllowAccounts="other")
    parts = (replace(each, default=each.name == name) for each in closed.partitions)
    beside = replace(closed, partitions=(*parts, LabPartition("open", _hosts(spec, name))))
    return replace(beside, accounts=(*beside.accounts, Account("other", ("bob",))))


def _as_root(text: str) -> Callable[[LabSpec, str], Words]:
    """What root types in a shell; $A: the account of the job, $P: its partition, $N: the first host there."""
    return lambda spec, name: (
        *("env", f"A={spec.accounts[-1 if spec.accounts[0].name == 'faculty' else 0].name}", f"P={name}"),
        *(f"N={_hosts(spec, name)[0]}", "sh", "-ec", text),
    )


def _reserve(who: str, nodes: str) -> Callable[[LabSpec, str], Words]:
    words = f"ReservationName=works StartTime=now Duration=1-0 Users={who} Nodes={nodes}"
    return _as_root(f"exec scontrol create reservation {words}")


def _named(words: Words) -> Words:
    return (*words, "--sbatch=--reservation=works")


SIXTH: dict[str, Kind] = {
    # another Slurm
    "newest-half-the-gpus": Kind(
        _both(_slurm("26.05"), _gpus(lambda group: replace(group, gpus=max(1, group.gpus // 2)))), "refused", ("GPU",)
    ),
    # other hardware
    "other-maker-one-gpu": Kind(
        _gpus(lambda group: replace(group, gpu_type="mi300x", gpus=1)), "refused", ("mi300x", "GPU")
    ),
    "a-host-without-gpus": Kind(_last_host(gpus=0), "refused", ("GPU",)),
    # two changes of a partition at once
    "default-closed": Kind(_open_beside, "refused", ("open",)),
    # Predicted was that it runs: but a plug-in of the site may choose the partition, so only sbatch can say it.
    "no-default": Kind(_same, "unknowable", typed=_as_root("scontrol update PartitionName=$P Default=NO")),
    "preempted-never-again": Kind(_both(_preempting("REQUEUE"), _cluster(JobRequeue="0")), "runs"),
    "little-memory-and-little-unasked": Kind(
        _both(_gpus(lambda group: replace(group, memory_mib=group.memory_mib // 4)), _set(DefMemPerCPU="256")),
        "runs",
        shown=("--mem",),
    ),
    # QOS
    "qos-runs-no-jobs-at-all": Kind(_every_qos(GrpJobs="0"), "waits", ("QOS",)),
    "qos-run-minutes": Kind(_every_qos(GrpTRESRunMins="cpu=1"), "waits", ("QOS",)),
    "qos-over-the-partitions-qos": Kind(
        _both(_every_qos(MaxTRESPerJob="node=4", Flags="OverPartQOS"), _partition_qos(MaxTRESPerJob="node=1")), "runs"
    ),
    # accounts
    "faculty-denies": Kind(_both(_below(GrpTRES="node=1"), _every_qos(Flags="DenyOnLimit")), "refused", ("faculty",)),
    "faculty-run-minutes": Kind(_below(GrpTRESRunMins="cpu=1"), "waits", ("faculty",)),
    "faculty-wall-used-up": Kind(_below(GrpWall="0"), "waits", ("faculty",)),
    "user-runs-nothing": Kind(
        _same,
        "waits",
        ("account",),
        typed=_as_root("sacctmgr -iQ modify user where name=alice account=$A set MaxJobs=0; sleep 2"),
    ),
    "user-submits-nothing": Kind(
        _same,
        "refused",
        ("account",),
        typed=_as_root("sacctmgr -iQ modify user where name=alice account=$A set MaxSubmitJobs=0; sleep 2"),
    ),
    "private": Kind(_cluster(PrivateData="accounts,events,jobs,nodes,partitions,reservations,usage,users"), "runs"),
    # reservations and licences
    "reserved-for-me": Kind(_same, "runs", unsaid=("the job waits",), typed=_reserve("alice", "ALL"), words=_named),
    "reserved-for-others": Kind(_same, "unknowable", typed=_reserve("root", "ALL"), words=_named),
    "all-licences": Kind(
        _cluster(Licenses="abaqus:5"), "runs", words=lambda words: (*words, "--sbatch=--licenses=abaqus:5")
    ),
    "licence-of-another-cluster": Kind(_same, "unknowable", words=lambda words: (*words, "--sbatch=--licenses=x:1")),
}


SEVENTH: dict[str, Kind] = {
    # a partition, the cluster
    # The first round had no partition that comes first, so no job there is preempted.
    "preempted-with-grace": Kind(_both(CHANGES["preempting"], _set(GraceTime="60")), "runs", shown=("--requeue",)),
    "preempted-for-good": Kind(_preempting("CANCEL", GraceTime="120"), "runs"),
    "for-large-jobs": Kind(_enforcing("ANY", MinNodes="64"), "refused", ("64",)),
    "least-loaded-first": Kind(_set(LLN="YES"), "runs"),
    "little-memory-of-any-node": Kind(_cluster(DefMemPerNode="512"), "runs", shown=("--mem",)),
    "newer-ten-minutes": Kind(_both(_slurm("24.11"), _set(MaxTime="00:10:00")), "refused", ("10",)),
    # the nodes
    "a-host-with-more-gpus": Kind(_last_host(gpus=16), "runs"),
    # Neither a node that is DOWN nor one that is FAIL kept the job of this lab waiting; why is not known.
    "one-node-down": Kind(
        _same,
        "waits",
        ("down",),
        typed=lambda spec, _: (
            *("scontrol", "update", "State=FAIL", "Reason=repair"),
            f"NodeName={','.join(each.names[0] for each in spec.groups)}",
        ),
    ),
    "works-in-an-hour": Kind(
        _same,
        "waits",
        ("works",),
        typed=_reserved("now+1hour", lambda _, __: "ALL"),
        words=lambda words: _with(words, "-t", "120"),
    ),
    # QOS
    "qos-five-minutes-denied": Kind(_every_qos(MaxWall="00:05:00", Flags="DenyOnLimit"), "refused", ("QOS",)),
    "qos-cpus-of-a-node": Kind(_every_qos(MaxTRESPerNode="cpu=1"), "waits", ("QOS",)),
    "qos-for-many-cpus": Kind(_every_qos(MinTRESPerJob="cpu=100000"), "waits", ("QOS",)),
    "house-five-minutes": Kind(_partition_qos(MaxWall="00:05:00"), "refused", ("house",)),
    "qos-costs-twice": Kind(_every_qos(UsageFactor="2.0", Priority="100"), "runs"),
    # accounts
    "account-five-minutes": Kind(_account(MaxWall="00:05:00"), "waits", ("account",)),
    "account-one-node-a-job": Kind(_account(MaxTRESPerJob="node=1"), "waits", ("account",)),
    # job_submit.lua, scontrol, licences
    "one-node-only": Kind(_lua("job.min_nodes > 1 and job.min_nodes < 100000", "one node a job"), "unknowable"),
    "ten-minutes-since-now": Kind(
        _same, "refused", ("10",), typed=_as_root("scontrol update PartitionName=$P MaxTime=10")
    ),
    "for-root-since-now": Kind(
        _same, "refused", ("account",), typed=_as_root("scontrol update PartitionName=$P AllowAccounts=root")
    ),
    "too-many-licences": Kind(
        _cluster(Licenses="abaqus:5"), "unknowable", words=lambda words: (*words, "--sbatch=--licenses=abaqus:6")
    ),
}


def _one_of_two_parts(words: Words) -> Words:
    """Two roles of a node each, in a heterogeneous job."""
    both = _without(_without(words, "-N"), "-g")
    node = ("-N", "1", "-g", words[words.index("-g") + 1])
    return (*both, "--role", "one", *node, "--", "python3", "train.py", "--role", "two", *node, "--mem", "2G")


def _nobody_has_an_account(spec: LabSpec, _: str) -> LabSpec:
    return replace(spec, accounts=tuple(replace(each, users=("bob",)) for each in spec.accounts))


EIGHTH: dict[str, Kind] = {
    # a partition, the cluster
    "removed-for-all": Kind(CHANGES["removed"], "follows", ("no partition",)),
    "seven-minutes": Kind(_set(MaxTime="00:07:00"), "refused", ("7",)),
    "one-node-since-now": Kind(
        _same, "refused", ("node",), typed=_as_root("scontrol update PartitionName=$P MaxNodes=1")
    ),
    "little-memory-of-a-gpu": Kind(_set(DefMemPerGPU="64"), "runs"),
    "memory-of-a-cpu": Kind(
        _set(MaxMemPerCPU="16"), "refused", ("MaxMemPerCPU",), words=lambda words: _with(words, "--mem", "64G")
    ),
    "paused-for-others": Kind(_preempting("SUSPEND,GANG"), "runs"),
    "longer-than-documented": Kind(
        _both(_set(MaxTime="UNLIMITED"), _every_qos(Priority="1")),
        "runs",
        is_beyond_the_profile=True,
        words=lambda words: _with(words, "-t", "40-00:00:00"),
    ),
    "newest-slurm": Kind(_slurm("26.05"), "runs"),
    # the nodes
    "another-type": Kind(_gpus(lambda group: replace(group, gpu_type="x900")), "follows", ("x900",)),
    "four-threads": Kind(
        _gpus(lambda group: replace(group, cpus=group.cpus // group.threads_per_core * 4, threads_per_core=4)), "runs"
    ),
    # ReturnToService=2, as labs have it, brings a node back that an administrator has set down.
    "one-node-is-down": Kind(
        _cluster(ReturnToService="0"),
        "waits",
        ("down", "DOWN"),
        typed=lambda spec, name: (
            *("scontrol", "update", "State=DOWN", "Reason=broken"),
            f"NodeName={','.join(each.names[0] for each in spec.groups if {*each.names} & {*_hosts(spec, name)})}",
        ),
    ),
    "feature-of-racks": Kind(
        _gpus(lambda group: replace(group, features=(*group.features, "rack7"))),
        "runs",
        shown=("rack7",),
        words=lambda words: _with(words, "-C", "rack7"),
    ),
    "feature-wanted": Kind(
        _lua('job.features == nil or string.find(job.features, "rack7") == nil', "name a rack with --constraint"),
        "unknowable",
    ),
    # QOS and accounts
    # A plan for a user without an account is made, with one line; sbatch refuses the job.
    "nobody-has-an-account": Kind(_nobody_has_an_account, "unknowable", ("account",)),
    "qos-typed": Kind(
        _both(lambda spec, _: replace(spec, qos=(*spec.qos, Qos("special"))), _set(AllowQos="special")),
        "runs",
        shown=("special",),
        words=lambda words: _with(_with(words, "-q", "special"), "-p", "$P"),
    ),
    # Slurm's database knows gres/gpu once the controller has told it.
    "qos-one-gpu": Kind(
        _every_qos(Priority="1"),
        "waits",
        ("QOS",),
        typed=_as_root(
            "for qos in $(sacctmgr -nP list qos format=name); do"
            " sacctmgr -iQ modify qos where name=$qos set MaxTRESPerJob=gres/gpu=1; done; sleep 2"
        ),
    ),
    "account-one-gpu": Kind(
        _same,
        "waits",
        ("account",),
        typed=_as_root("sacctmgr -iQ modify account where name=$A set GrpTRES=gres/gpu=1; sleep 2"),
    ),
    "limits-of-nobody": Kind(
        _both(_every_qos(MaxTRESPerJob="node=1"), _cluster(AccountingStorageEnforce="associations")),
        "runs",
        unsaid=("the job waits", "QOS"),
    ),
    "house-memory": Kind(
        _both(_partition_qos(MaxTRESPerJob="mem=1G"), _set(DefMemPerCPU="512")), "refused", ("house",)
    ),
    # A heterogeneous job: each part is within the limit, their sum is not.
    "parts-together": Kind(
        _every_qos(GrpTRES="node=1", Flags="DenyOnLimit"), "refused", ("QOS",), words=_one_of_two_parts
    ),
}


KINDS = {**FOURTH, **FIFTH, **SIXTH, **SEVENTH, **EIGHTH}


_DRAWN = {
    "fourth": (
        """cyclecloud vista trillium clariden karolina snellius roihu clustertoolkit daint supercloud""",
        """qos-waits-for-nodes limits-not-enforced draining one-mib-a-cpu exclusive qos-over-partition qos-denied
        account-needed memory-differs for-a-group qos-group-nodes account-runs-nothing inactive billed
        account-denied license-needed no-accounting qos-no-reserve one-user-a-node qos-nodes-of-a-user""",
    ),
    "fifth": (
        """kempner delta vega horeka stampede3 jupiter olivia meluxina leonardo lumi""",
        """twice-the-gpus works-next-week qos-of-reservations account-submits-nothing preempting-qos
        qos-runs-nothing little-memory-of-a-node ten-minutes-any shared-if-asked reserved-now one-minute
        whole-sockets qos-gpu-minutes account-nodes never-again qos-submits-nothing one-node-drained
        house-one-node submit-hosts qos-memory-of-a-job""",
    ),
    "sixth": (
        """soperator tamia frontier narval mila juwels-booster perlmutter fir alvis nibi""",
        """user-submits-nothing little-memory-and-little-unasked user-runs-nothing reserved-for-others private
        a-host-without-gpus preempted-never-again reserved-for-me other-maker-one-gpu qos-run-minutes
        faculty-denies all-licences qos-runs-no-jobs-at-all no-default licence-of-another-cluster
        faculty-run-minutes qos-over-the-partitions-qos faculty-wall-used-up newest-half-the-gpus default-closed""",
    ),
    "seventh": (
        """rorqual marenostrum5 vulcan killarney vista lonestar6 jean-zay hyperpod narval isambard-ai""",
        """preempted-with-grace for-root-since-now least-loaded-first works-in-an-hour house-five-minutes
        for-large-jobs qos-cpus-of-a-node account-one-node-a-job qos-costs-twice newer-ten-minutes
        a-host-with-more-gpus too-many-licences little-memory-of-any-node qos-for-many-cpus
        preempted-for-good one-node-only one-node-down account-five-minutes qos-five-minutes-denied
        ten-minutes-since-now""",
    ),
    "eighth": (
        """alvis meluxina olivia tamia supercloud snellius karolina horeka marenostrum5 kempner juwels-booster daint
        clustertoolkit cyclecloud delta vista vega lonestar6 nibi isambard-ai""",
        """memory-of-a-cpu house-memory feature-of-racks removed-for-all qos-one-gpu one-node-since-now qos-typed
        longer-than-documented paused-for-others one-node-is-down limits-of-nobody another-type four-threads
        newest-slurm account-one-gpu nobody-has-an-account parts-together little-memory-of-a-gpu seven-minutes
        feature-wanted""",
    ),
}
"""The sites and twenty kinds of each set, in the order in which random.Random(20261123_4 to _7, "20261124_8") sampled
them."""


def predicted_labs() -> Iterator[ChangedLab]:
    """Yield five sets of twenty labs, on ten sites each or, in the last, on twenty; no kind comes twice."""
    for name, (sites, kinds) in _DRAWN.items():
        for place, change in enumerate(kinds.split()):
            yield ChangedLab(sites.split()[place % len(sites.split())], change, f"{name}-{place}", KINDS[change].signs)


def made(lab: ChangedLab) -> MadeLab:
    """Return what the lab is made of: the plan by the profile alone says which partition changes."""
    kind = KINDS.get(lab.change) or Kind(ALL_CHANGES[lab.change], typed=TYPED.get(lab.change))
    words = kind.words(words_of(lab.site))
    if header_of(words, lab.site) is None and not kind.is_beyond_the_profile:
        words = words_of(lab.site)
    named = words_of(lab.site) if kind.is_beyond_the_profile or {"--role", "$P"} & {*words} else words
    name = _partition_of(lab.site, plan_of_profile(lab.site, named))
    words = tuple(name if word == "$P" else word for word in words)
    account = words[words.index("-A") + 1] if "-A" in words else None
    spec = lab_like(bundled(lab.site).profile, name=lab.name, nodes=2, other_nodes=1, account=account)
    changed = kind.change(spec, name)
    return MadeLab(changed, words, (kind.typed(changed, name),) if kind.typed else ())
