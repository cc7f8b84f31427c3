"""`muster lab`: a private, real Slurm cluster of virtual hosts on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from muster.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from muster.lab.spec import LabSpec

_DESCRIPTION = """\
A private, real Slurm cluster of virtual hosts on this machine, in seconds, without root and without Docker.

  muster lab up -N 4
  muster lab exec -- srun -N4 hostname
  muster lab down
"""


def main(words: list[str]) -> int:
    """Run one verb of `muster lab`; returns its exit status."""
    words, command = _split_command(words)
    options = _parser().parse_args(words)
    options.command = command
    verb: Callable[[argparse.Namespace], int] = options.verb
    return verb(options)


def _split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `exec`'s command, and the command: from `--`, or from the first word that is no option."""
    if words[:1] != ["exec"]:
        return words, []
    position = 1
    while position < len(words) and words[position].startswith("-"):
        if words[position] == "--":
            return words[:position], words[position + 1 :]
        position += 2 if words[position] in _EXEC_VALUED else 1
    return words[:position], words[position:]


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are ours."""

    def error(self, message: str) -> NoReturn:
        from muster.errors import RequestError

        raise RequestError(message, hint=f"{self.prog} --help")


class _Pages:
    """The help pages of the verbs."""

    def __init__(self) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        self.top = _Parser(prog="muster lab", description=_DESCRIPTION, formatter_class=layout, allow_abbrev=False)
        self._verbs = self.top.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)

    def add(
        self,
        name: str,
        verb: Callable[[argparse.Namespace], int],
        text: str,
        epilog: str = "",
        usage: str | None = None,
    ) -> _Parser:
        layout = argparse.RawDescriptionHelpFormatter
        page: _Parser = self._verbs.add_parser(
            name, help=text, description=text, epilog=epilog, usage=usage, formatter_class=layout, allow_abbrev=False
        )
        page.add_argument("--name", default="lab", metavar="L", help="which lab (default: lab)")
        page.set_defaults(verb=verb)
        return page


def _parser() -> argparse.ArgumentParser:
    from muster.lab.words import PARTITION_GRAMMAR, SLURM_VERSIONS

    pages = _Pages()
    page = pages.add("up", _up, "make a lab; returns when it takes jobs", epilog=PARTITION_GRAMMAR)
    page.add_argument("-N", "--nodes", type=int, default=4, metavar="N", help="hosts (default: 4)")
    page.add_argument("--cpus-per-node", type=int, default=8, metavar="N", help="CPUs of each host (default: 8)")
    page.add_argument("--gpus-per-node", type=int, default=4, metavar="N", help="GPUs of each host (default: 4)")
    page.add_argument("--gpu-type", metavar="T", help="their type, as --gres=gpu:T:n names it")
    page.add_argument("--memory", default="16G", metavar="M", help="memory of each host (default: 16G)")
    page.add_argument(
        "--tmp", default="256M", metavar="M", help="size of each host's own /tmp, in memory (default: 256M)"
    )
    page.add_argument(
        "--partition", action="append", default=[], metavar="SPEC", help="a partition, see below; may be given again"
    )
    page.add_argument("--accounting", action="store_true", help="accounts, QOS, limits and sacct, on a real database")
    page.add_argument(
        "--slurm", default="system", metavar="V", help=f"which Slurm: {', '.join(SLURM_VERSIONS)} (default: system)"
    )
    page.add_argument("--internet", action="store_true", help="its hosts reach what this machine reaches")
    page.add_argument("--like", metavar="SITE", help="queues, nodes, accounts and rules of a site's profile")
    page.add_argument("--json", action="store_true", help="say what is up as one JSON document")

    page = pages.add(
        "exec",
        _exec,
        "run a command in the lab: on its login host, or on one of its hosts",
        usage="muster lab exec [--name L] [--host H] [--user U] [--] CMD…",
    )
    _place(page)
    page = pages.add("shell", _shell, "a shell in the lab: on its login host, or on one of its hosts")
    _place(page)
    page = pages.add("status", _status, "what is up, what is real and what is faked")
    page.add_argument("--json", action="store_true", help="as one JSON document")
    pages.add("down", _down, "end the lab and everything in it")
    page = pages.add("fault", _fault, "break something for real, or mend it again", epilog=_FAULTS)
    page.add_argument("fault", choices=_FAULT_WORDS, metavar="FAULT", help="one of those below")
    page.add_argument("target", nargs="*", metavar="H", help="the host; for slow-link also the rate")
    return pages.top


_FAULT_WORDS = {
    "kill-node": ("H", "the host and all that runs on it end at once"),
    "cut-link": ("H", "its packets vanish"),
    "slow-link": ("H RATE", "RATE in both directions, as tc writes it: 10mbit"),
    "pause-node": ("H", "every process of the host is stopped; its kernel goes on answering"),
    "fill-tmp": ("H", "its /tmp has no byte left"),
    "stop-controller": ("", "slurmctld takes connections and never answers"),
    "restore": ("[H|controller|all]", "undo whatever holds there (default: all); returns when Slurm uses it again"),
}
_FAULTS = "faults:\n" + "\n".join(f"  {f'{word} {takes}':<28}{does}" for word, (takes, does) in _FAULT_WORDS.items())


def _place(page: _Parser) -> None:
    page.add_argument("--host", metavar="H", help="the host (default: login, the controller's)")
    page.add_argument(
        "--user", metavar="U", help="an ordinary user of the lab, whom Slurm's rules bind (default: root)"
    )


_EXEC_VALUED = {"--name", "--host", "--user"}


def _up(options: argparse.Namespace) -> int:
    from muster.lab import labs

    spec = _spec(options)
    labs.up(spec, os.environ, say)
    if options.json:
        print_json(labs.status(spec.name, os.environ))
    else:
        words = f"muster lab exec{_name_option(spec.name)} -- srun -N{len(spec.hosts)} hostname"
        say(f"the lab {spec.name!r} is up, try: {words}")
    return 0


def _spec(options: argparse.Namespace) -> LabSpec:
    from dataclasses import replace

    from muster.lab.spec import HostGroup, LabSpec, parse_partition
    from muster.units import parse_memory_mib

    if options.like:
        from muster.lab.like import lab_like
        from muster.look.probe import look
        from muster.sites.load import choose_site

        site = choose_site(options.like, look())
        like = lab_like(site.profile, name=options.name, nodes=options.nodes, slurm=options.slurm)
        return replace(like, internet=options.internet, tmp_mib=parse_memory_mib(options.tmp))
    group = HostGroup(
        count=options.nodes,
        cpus=options.cpus_per_node,
        gpus=options.gpus_per_node,
        gpu_type=options.gpu_type,
        memory_mib=parse_memory_mib(options.memory),
    )
    spec = LabSpec(
        name=options.name,
        groups=(group,),
        accounting=options.accounting,
        slurm=options.slurm,
        internet=options.internet,
        tmp_mib=parse_memory_mib(options.tmp),
    )
    if options.partition:
        spec = replace(spec, partitions=tuple(parse_partition(text, spec.hosts) for text in options.partition))
    return spec


def _exec(options: argparse.Namespace) -> int:
    if not options.command:
        from muster.errors import RequestError

        raise RequestError("exec needs a command", hint="for example: muster lab exec -- srun -N4 hostname")
    return _enter(options, options.command)


def _shell(options: argparse.Namespace) -> int:
    return _enter(options, [os.environ.get("SHELL", "/bin/sh")])


def _enter(options: argparse.Namespace, argv: list[str]) -> int:
    from muster.lab.enter import Command, execute
    from muster.lab.registry import Registry

    entry = Registry(os.environ).find(options.name)
    return execute(
        entry.pid,
        Command(
            tuple(argv), host=options.host, user=options.user, directory=_working_directory(), environment=os.environ
        ),
    )


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # pathlib would be most of what --help costs
    except FileNotFoundError:
        return "/"


def _down(options: argparse.Namespace) -> int:
    from muster.lab import labs

    labs.down(options.name, os.environ)
    say(f"the lab {options.name!r} is gone")
    return 0


def _fault(options: argparse.Namespace) -> int:
    from muster.lab import labs

    takes, _ = _FAULT_WORDS[options.fault]
    least = len([word for word in takes.split() if not word.startswith("[")])
    if not least <= len(options.target) <= len(takes.split()):
        from muster.errors import RequestError

        hint = f"muster lab fault {options.fault} {takes}".rstrip()
        raise RequestError(
            f"{options.fault} takes {takes or 'no host'}, not {' '.join(options.target) or 'nothing'}", hint
        )
    if options.fault == "restore":
        labs.restore(options.name, os.environ, *(options.target or ["all"]))
    elif options.fault == "stop-controller":
        labs.stop_controller(options.name, os.environ)
    else:
        labs.fault(options.name, os.environ, options.fault, *options.target)
    return 0


def _status(options: argparse.Namespace) -> int:
    from muster.lab import labs

    status = labs.status(options.name, os.environ)
    if options.json:
        print_json(status)
        return 0
    print("lab {name}: Slurm {slurm}, controller {controller}, first process {pid}".format_map(status))
    print_table(
        f"hosts of {status['name']}",
        ["host", "address", "Slurm says", "faults"],
        [[host["name"], host["address"], host["state"], " ".join(host["faults"])] for host in status["hosts"]],
    )
    for kind in ("real", "faked"):
        print(f"{kind}:")
        for line in status[kind]:
            print(f"  {line}")
    return 0


def _name_option(name: str) -> str:
    return "" if name == "lab" else f" --name {name}"
