"""`muster lab`: a private, real Slurm cluster of virtual hosts on this machine."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import at_words, print_json, print_table, say
from muster.errors import RequestError
from muster.job.option import option, parse_count, parse_memory
from muster.units import Memory
from muster_lab.words import PARTITION_GRAMMAR, SLURM_VERSIONS

if TYPE_CHECKING:
    from muster_lab.spec import LabSpec

_FAULT_WORDS = {
    "kill-node": ("H", "the host and all that runs on it end at once"),
    "cut-link": ("H", "the host's packets are lost"),
    "slow-link": ("H RATE", "RATE in both directions, as tc writes it: 10mbit"),
    "pause-node": ("H", "every process of the host is stopped; its kernel goes on answering"),
    "fill-tmp": ("H", "the host's /tmp is full"),
    "stop-controller": ("", "slurmctld takes connections and never answers"),
    "restore": (
        "[H|controller|all]",
        "undo all faults of a host (default: of all hosts); returns when Slurm uses it again",
    ),
}
_FAULTS = "faults:\n" + "\n".join(f"  {f'{word} {takes}':<30}{does}" for word, (takes, does) in _FAULT_WORDS.items())


def _up(words: Words) -> int:
    try:
        from muster_lab import labs

        spec = _spec(words)
        labs.up(spec, os.environ, say)
    except KeyboardInterrupt:
        say(f"interrupted: what was begun of the lab {words.name!r} is gone")
        return 130
    if words.json:
        print_json(labs.status(spec.name, os.environ))
    else:
        try_this = f"muster lab exec{_name_option(spec.name)} -- srun -N{len(spec.hosts)} hostname"
        say(f"the lab {spec.name!r} is up, try: {try_this}")
    return 0


def _spec(words: Words) -> LabSpec:
    from dataclasses import replace

    from muster_lab.spec import HostGroup, LabSpec, parse_partition

    if words.like:
        from muster.look.probe import look
        from muster.sites.load import choose_site
        from muster_lab.like import lab_like, say_sizes

        _refuse_own_hosts(words)
        site = choose_site(words.like, look())
        like = lab_like(site.profile, name=words.name, nodes=words.nodes, slurm=words.slurm)
        for sentence in say_sizes(site.profile, like):
            say(sentence)
        return replace(like, internet=words.internet, tmp_mib=words.tmp.mib)
    group = HostGroup(
        count=words.nodes or 4,
        cpus=words.cpus_per_node,
        gpus=words.gpus_per_node,
        gpu_type=words.gpu_type,
        memory_mib=words.memory.mib,
    )
    spec = LabSpec(
        name=words.name,
        cluster=re.sub(r"[^a-z0-9]", "_", words.name.lower()),  # what Muster remembers of nodes is kept by this name
        groups=(group,),
        accounting=words.accounting,
        slurm=words.slurm,
        internet=words.internet,
        tmp_mib=words.tmp.mib,
        topology=words.topology,
    )
    if words.partition:
        spec = replace(spec, partitions=tuple(parse_partition(text, spec.hosts) for text in words.partition))
    return spec


_OF_OWN_HOSTS = ("cpus_per_node", "gpus_per_node", "gpu_type", "memory", "partition", "accounting", "topology")


def _refuse_own_hosts(words: Words) -> None:
    """Refuse what a lab like a site takes from the site: it would be passed over."""
    up = next(command for command in COMMAND.verbs if command.name == "lab up")
    for name in _OF_OWN_HOSTS:
        value = getattr(words, name)
        if value not in {up.own[name].default, ()} and value is not False:
            flag = up.own[name].flags[-1]
            message = f"{flag} has no effect beside --like: the hosts are those of {words.like}"
            raise RequestError(message, hint=f"omit one of them; -N, --tmp and --slurm go with --like {words.like}")


def _topology(text: str) -> tuple[str, int]:
    from muster_lab.spec import parse_topology

    return parse_topology(text)


def _exec(words: Words) -> int:
    return _enter(words, list(words.operands))


def _shell(words: Words) -> int:
    from muster_lab.registry import LabRegistry

    LabRegistry(os.environ).find(words.name)  # a lab that is not up has no shell
    if os.geteuid() and words.user in {None, "root"}:
        say("you are root in the lab, and nobody but yourself on this machine; `exit` leaves the lab")
    return _enter(words, [os.environ.get("SHELL", "/bin/sh")])


def _enter(words: Words, argv: list[str]) -> int:
    from muster_lab.enter import LabCommand, execute
    from muster_lab.registry import LabRegistry

    entry = LabRegistry(os.environ).find(words.name)
    return execute(
        entry.pid,
        LabCommand(
            tuple(argv), host=words.host, user=words.user, directory=_working_directory(), environment=os.environ
        ),
    )


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # pathlib would be most of what --help costs
    except FileNotFoundError:
        say("the working directory is not there any more: the command starts in /")
        return "/"


def _down(words: Words) -> int:
    from muster_lab import labs

    labs.down(words.name, os.environ)
    say(f"the lab {words.name!r} is gone")
    return 0


def _fault(words: Words) -> int:
    from muster_lab import labs

    fault, *target = words.operands
    takes, _ = _FAULT_WORDS[fault]
    fewest = len([word for word in takes.split() if not word.startswith("[")])
    if not fewest <= len(target) <= len(takes.split()):
        hint = f"muster lab fault {fault} {takes}".rstrip()
        raise RequestError(f"{fault} takes {takes or 'no host'}, not {' '.join(target) or 'nothing'}", hint)
    undo = f"undo it: muster lab fault{_name_option(words.name)} restore"
    if fault == "restore":
        labs.restore(words.name, os.environ, *(target or ["all"]))
        said = "all hosts and the controller are" if target in ([], ["all"]) else f"{target[0]} is"
        say(f"{said} repaired")
    elif fault == "stop-controller":
        labs.stop_controller(words.name, os.environ)
        say(f"the controller does not answer from now on; {undo} controller")
    else:
        labs.fault(words.name, os.environ, fault, *target)
        say(f"{' '.join([fault, *target])}: done; {undo} {target[0]}")
    return 0


def _status(words: Words) -> int:
    from muster_lab import labs

    status = labs.status(words.name, os.environ)
    if words.json:
        print_json(status)
        return 0
    headline = "lab {name}: Slurm {slurm}, controller {controller}, first process {pid}".format_map(status)
    print(at_words(headline, sys.stdout))
    each_mib = status["memory_mib"] / len(status["hosts"])
    print(at_words(f"memory: {status['memory_mib']:.0f} MiB, {each_mib:.1f} MiB a host", sys.stdout))
    print_table(
        f"hosts of {status['name']}",
        ["host", "address", "Slurm says", "faults"],
        [[host["name"], host["address"], host["state"], " ".join(host["faults"])] for host in status["hosts"]],
    )
    for kind in ("real", "faked"):
        print(f"{kind}:")
        for line in status[kind]:
            print(at_words(f"  {line}", sys.stdout))
    return 0


def _name_option(name: str) -> str:
    return "" if name == "lab" else f" --name {name}"


_NAME = option("--name LAB", "name of the lab", default="lab")
_PLACE = (
    _NAME,
    option("--host H", "host of the lab (default: login, the host of the controller)"),
    option("--user U", "user of the lab; Slurm's limits apply to all but root (default: root)"),
)
COMMAND = CommandLine(
    name="lab",
    summary="""\
Run a private, real Slurm cluster of virtual hosts on this machine. It starts in seconds, without root and Docker.""",
    examples=("muster lab up -N 4", "muster lab exec -- srun -N4 hostname", "muster lab down"),
    verbs=(
        CommandLine(
            name="lab up",
            start=_up,
            summary="Make a lab, and return when it takes jobs.",
            more=PARTITION_GRAMMAR,
            options=(
                _NAME,
                option(
                    "-N --nodes N",
                    "number of hosts (default: 4); with --like of each kind of node, at most what the site has "
                    "(default: the whole site up to 16 nodes, else 4 of its first kind and 2 of each other)",
                    parse_count(1, 1000),
                ),
                option("--cpus-per-node N", "CPUs of each host", parse_count(1, 4096), default=8),
                option("--gpus-per-node N", "GPUs of each host", parse_count(0, 1024), default=4),
                option("--gpu-type T", "type of the GPUs: a100, for --gres=gpu:a100:2"),
                option("--memory M", "memory of each host (default: 16G)", parse_memory, default=Memory(16 * 1024)),
                option(
                    "--tmp M",
                    "size of each host's own /tmp, which lies in memory (default: 256M)",
                    parse_memory,
                    default=Memory(256),
                ),
                option("--partition SPEC", "add a partition; its form stands below", repeated=True),
                option("--accounting", "run accounting on a real database: accounts, QOS, limits and sacct"),
                option("--slurm V", f"which Slurm: {', '.join(SLURM_VERSIONS)}", default="system"),
                option(
                    "--topology KIND:N",
                    "put N hosts each under one switch (tree:N), or into one block (block:N)",
                    _topology,
                ),
                option("--internet", "let the hosts reach the network of this machine"),
                option("--like SITE", "take queues, nodes, accounts and rules from a site's profile"),
                JSON,
            ),
        ),
        CommandLine(
            name="lab exec",
            start=_exec,
            summary="Run a command in the lab: on its login host, or on one of its hosts.",
            operands="[--] COMMAND…",
            least=1,
            most=None,
            runs=True,
            options=_PLACE,
            hint="for example: muster lab exec -- srun -N4 hostname",
        ),
        CommandLine(
            name="lab shell",
            start=_shell,
            summary="Open a shell in the lab: on its login host, or on one of its hosts.",
            options=_PLACE,
        ),
        CommandLine(
            name="lab status",
            start=_status,
            summary="Show the hosts of the lab, what is real in it and what is faked.",
            options=(_NAME, JSON),
        ),
        CommandLine(name="lab down", start=_down, summary="End the lab and everything in it.", options=(_NAME,)),
        CommandLine(
            name="lab fault",
            start=_fault,
            summary="Break a part of the lab for real, or repair it.",
            operands="FAULT [H…]",
            least=1,
            most=None,
            choices=tuple(_FAULT_WORDS),
            options=(_NAME,),
            more=_FAULTS,
        ),
    ),
)
