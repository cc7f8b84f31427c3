"""What two compute nodes show of a profile: interfaces, paths, names, and whether one reaches the other. Pure.

A node answers one line for each question, `@HOST|QUESTION|NAME|ANSWER`, so the output of all nodes may be mixed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.sites.schema import Container, Profile
from muster.sites.site import Site
from muster_check.survey.verify import WrongFact

Answers = Mapping[tuple[str, str], Mapping[str, str]]
"""(question, name) → host → answer."""

_NODES_SHOW = "two nodes show"

_SCRIPT = """\
read -r host </proc/sys/kernel/hostname
tell() {{ printf '@%s|%s|%s|%s\\n' "$host" "$1" "$2" "$3"; }}
for name in {interfaces}; do
    state=missing
    [ ! -d "/sys/class/net/$name" ] || read -r state <"/sys/class/net/$name/operstate"
    tell interface "$name" "$state"
done
for path in {paths}; do
    if [ -e "$path" ]; then tell path "$path" there; else tell path "$path" missing; fi
done
for name in $(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null); do
    address=$(getent ahostsv4 "$name"{suffix} | {{ read -r first rest; echo "$first"; }})
    tell address "$name" "${{address:-none}}"
    [ -n "$address" ] || continue
    # A refusal comes back from a host that is reached; silence does not.
    answer=$(timeout 5 bash -c "exec 3<>/dev/tcp/$address/9" 2>&1) && answer=refused
    case $answer in
    *refused*) tell reach "$name" yes ;;
    *) tell reach "$name" no ;;
    esac
done
"""


def node_script(profile: Profile) -> str:
    """Return what a node is asked, once, in a step over two of them."""
    meeting = profile.rendezvous
    suffix = meeting.suffix if meeting.host == "suffix" else None
    return _SCRIPT.format(
        interfaces=_words(_interfaces(profile).values()),
        paths=_words(_paths(profile).values()),
        suffix=shlex.quote(suffix or ""),
    )


def _words(groups: Iterable[Sequence[str]]) -> str:
    names = dict.fromkeys(word for group in groups for word in group)
    return " ".join(map(shlex.quote, names))


def _interfaces(profile: Profile) -> dict[str, Sequence[str]]:
    """Return the interfaces that each key names."""
    meeting = profile.rendezvous
    return {
        "fabric.interfaces": profile.fabric.interfaces or (),
        "rendezvous.interface": (meeting.interface,) if meeting.host == "interface" and meeting.interface else (),
    }


def _paths(profile: Profile) -> dict[str, Sequence[str]]:
    """Return the path that each key names; paths with a user's or a job's name in them say nothing of a node."""
    preferred = [(name, container) for name, container in profile.containers.items() if container.preferred] or list(
        profile.containers.items()
    )[:1]
    paths = {
        **{key: path for name, container in preferred for key, path in _binds(name, container)},
        **{f"images.{name}.path": image.path for name, image in profile.images.items() if not image.gone},
        **{f"filesystems.{name}.path": filesystem.path for name, filesystem in profile.filesystems.items()},
    }
    return {key: (path,) for key, path in paths.items() if path.startswith("/") and "$" not in path}


def _binds(name: str, container: Container) -> Iterator[tuple[str, str]]:
    for bind in container.binds:
        if bind.verdict == "kept" and bind.when is None:
            yield f"containers.{name}.binds.{bind.path}", bind.path


def answers_of(output: str) -> Answers:
    """Return what the nodes answered; other lines are not theirs."""
    hosts_by_answer: dict[tuple[str, str], dict[str, str]] = {}
    for host, question, name, answer in re.findall(r"@([^|\n]+)\|(\w+)\|([^|\n]*)\|([^|\n]*)$", output, re.MULTILINE):
        hosts_by_answer.setdefault((question, name), {})[host] = answer
    return hosts_by_answer


def findings_of_nodes(site: Site, answers: Answers) -> Iterator[WrongFact]:
    """Yield the facts that a node contradicts, each with the hosts where it does."""
    profile = site.profile
    for key, names in _interfaces(profile).items():
        bad = [(name, _hosts(answers, "interface", name, {"missing", "down"})) for name in names]
        evidence = "; ".join(f"{name}: {hosts}" for name, hosts in bad if hosts)
        if evidence:
            yield WrongFact(key, f"{', '.join(names)} are up", _NODES_SHOW, evidence, site.origin(key))
    for key, paths in _paths(profile).items():
        for path in paths:
            hosts = _hosts(answers, "path", path, {"missing"})
            if hosts:
                yield WrongFact(key, f"there is {path}", _NODES_SHOW, hosts, site.origin(key))
    yield from _meeting(site, answers)


def _meeting(site: Site, answers: Answers) -> Iterator[WrongFact]:
    """Yield a finding where the first host has no address, or cannot be reached from the others."""
    key = "rendezvous.suffix" if site.profile.rendezvous.host == "suffix" else "rendezvous.host"
    for (question, name), by_host in answers.items():
        if question == "address" and "none" in by_host.values():
            hosts = _hosts(answers, "address", name, {"none"})
            yield WrongFact(
                key, "hosts have an address by their names", _NODES_SHOW, f"{name}: {hosts}", site.origin(key)
            )
            return
    for (question, name), by_host in answers.items():
        if question == "reach" and "no" in by_host.values():
            hosts = _hosts(answers, "reach", name, {"no"})
            yield WrongFact(
                key,
                "hosts reach each other by that address",
                _NODES_SHOW,
                f"no answer from {name} ({hosts})",
                site.origin(key),
            )
            return


def _hosts(answers: Answers, question: str, name: str, bad: set[str]) -> str:
    """Return the hosts whose answer is one of the bad ones, with it; empty: none."""
    hosts_by_value = answers.get((question, name), {})
    return ", ".join(f"{answer} on {host}" for host, answer in hosts_by_value.items() if answer in bad)
