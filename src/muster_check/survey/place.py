"""What a cluster answered of its surroundings: container engines, file systems, the way out. Questions and lines. Pure.

No answer holds a user's name: a place is known by its variable, a proxy without its password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from muster.images import engine_named, engine_names
from muster.units import toml_text

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+")
"""A name that --reach takes: with a dot in it, and nothing that a shell would read."""

PLACES = (
    "HOME",
    "SCRATCH",
    "WORK",
    "PROJECT",
    "STORE",
    "FAST",
    "FSX",
    "PSCRATCH",
    "SCRATCHDIR",
    "PROJECTDIR",
    "USERWORK",
)
_SHARED = {"lustre", "gpfs", "nfs", "nfs4", "beegfs", "wekafs", "panfs", "pvfs2", "ceph", "fuse.ceph", "virtiofs"}


def _engines_script() -> str:
    """Return each engine of the registry that is there, by its program or by its option of srun."""
    lines = []
    for name in engine_names():
        engine = engine_named(name)
        if engine.program:
            lines.append(f"command -v {engine.program} >/dev/null && echo {name}")
        elif engine.step_option:
            lines.append(f"printf '%s' \"$options\" | grep -q -e ' --{engine.step_option}' && echo {name}")
    return "options=$(srun --help 2>/dev/null)\n" + "\n".join(lines)


_PLACES_SCRIPT = f"""\
for name in {" ".join(PLACES)}; do
    eval "place=\\${{$name:-}}"
    [ -n "$place" ] && [ -d "$place" ] || continue
    echo "$name $(df -PT "$place" 2>/dev/null | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2)"
done
true
"""

# What a login shell is asked: its answers stand between lines of their own, as a node's do.
LOGIN_SCRIPT = f"""\
echo '@@ engines'
{_engines_script()}
echo '@@ places'
{_PLACES_SCRIPT}
echo '@@ motd'
cat /etc/motd /etc/motd.d/* /run/motd.dynamic 2>/dev/null
true
"""

_PROXIES = "env | grep -i -E '^(http|https|all|no)_proxy='"
NODE_SCRIPT = f"""\
echo '@@ engines'
{_engines_script()}
echo '@@ proxies'
{_PROXIES}
"""


def reach_script(host: str) -> str:
    """Return the lines by which a node tries one connection: yes or no."""
    return f"echo '@@ reach'\ntimeout 5 bash -c 'exec 3<>/dev/tcp/{host}/443' 2>/dev/null && echo yes || echo no\n"


def engines_seen(login: Mapping[str, str], node: Mapping[str, str]) -> list[str]:
    """Return the engines that a compute node has; where none was asked, those of the login node."""
    engines = (node or login).get("engines", "").split()
    return [name for name in engine_names() if name in engines]


def lines_of_containers(login: Mapping[str, str], node: Mapping[str, str]) -> Iterator[str]:
    """Yield a table for each engine that was seen."""
    for name in engines_seen(login, node):
        asked_place = "a compute node" if node else "the login node; --job asks a compute node"
        yield from (
            "",
            f"# seen on {asked_place}",
            f"[containers.{name}]",
            f"engine = {toml_text(name)}",
            'source = "probe"',
        )


def lines_of_filesystems(login: Mapping[str, str]) -> Iterator[str]:
    """Yield a table for each place that the login shell names, with the rule that the message of the day has for it."""
    rules = _rules(login.get("motd", ""))
    for line in login.get("places", "").splitlines():
        name, _, kind = line.partition(" ")
        if name not in PLACES:
            continue
        yield from ("", f"[filesystems.{name.lower()}]", f'path = "${name}"')
        yield f"use = {toml_text(f'what the login shell calls ${name}')}"
        if kind in _SHARED:
            yield 'scope = "shared"'
        days = next((days for text, days in rules if re.search(rf"\b{name}\b", text, re.IGNORECASE)), None)
        if days:
            yield f"purge_days = {days}"


def _rules(motd: str) -> list[tuple[str, int]]:
    """Return the sentences that say after how many days files are deleted, with the number."""
    lines = []
    for text in re.split(r"(?<=[.!])\s+|\n\s*\n|^\s*[*•-]\s", motd, flags=re.MULTILINE):
        days = re.search(r"\b([0-9]{1,4})[ -]days?\b", text)
        if days and int(days[1]) and re.search(r"purg|delet|remov|clean|expir", text, re.IGNORECASE):
            lines.append((text, int(days[1])))
    return lines


def lines_of_network(node: Mapping[str, str]) -> Iterator[str]:
    """Yield the way out, as far as a compute node showed it."""
    proxies = dict(line.partition("=")[::2] for line in node.get("proxies", "").splitlines())
    own_proxies = {name: value for name, value in proxies.items() if name in _LOWER and _without_password(value)}
    reach = node.get("reach", "").strip()
    kind = "proxy" if own_proxies else {"yes": "open", "no": "none"}.get(reach)
    if kind is None:
        return
    yield from ("", "[network]", f"internet = {toml_text(kind)}")
    if own_proxies:
        yield "[network.proxies]"
        yield from (f"{name} = {toml_text(value)}" for name, value in sorted(own_proxies.items()))


_LOWER = ("http_proxy", "https_proxy", "all_proxy")


def _without_password(value: str) -> bool:
    return "@" not in value
