"""The same everywhere: nodes with each other, and the login node with them. Pure."""

from typing import Iterator, List, Optional

from muster.rank.finding import BROKEN, NOTE, WARNING, Finding, hosts_by_value, odd_hosts, values_in_words
from muster.rank.vendors import VENDORS

from .facts import CheckedWorld, Node

# What ranks on different nodes must share; the rest may differ.
_MUST_AGREE = {
    **{f"{vendor.maker} driver": BROKEN for vendor in VENDORS},
    "machine": BROKEN,
    "torch": BROKEN,
    **{vendor.library.lower(): BROKEN for vendor in VENDORS},
    "python": WARNING,
    "glibc": WARNING,
    "numpy": WARNING,
    "mpi4py": WARNING,
    "kernel": NOTE,
    "system": NOTE,
}


def judge_software(world: CheckedWorld) -> Iterator[Finding]:
    """Compare versions, node against node."""
    for name, status in _MUST_AGREE.items():
        versions = hosts_by_value((_of(node, name) or "none", node["host"]) for node in world.nodes)
        if len(versions) > 1:
            evidence = f"{name} differs: {values_in_words(versions)}"
            yield Finding("versions", status, evidence, _SAME_NODES, tuple(odd_hosts(versions.values())))


_SAME_NODES = "exclude the node that differs (--exclude), or ask for one kind of node (-C)"


def judge_login(world: CheckedWorld) -> Iterator[Finding]:
    """Yield how the job differs from the login node, where things were built and tried."""
    if world.login is None or not world.nodes:
        return
    login, node = world.login, world.nodes[0]
    for look in (_machine, _glibc, _python, _modules, _mounts, _egress):
        finding = look(login, node)
        if finding is not None:
            yield finding


def _of(node: Node, name: str) -> str:
    return node.get("software", {}).get(name, "")


def _machine(login: Node, node: Node) -> Optional[Finding]:
    login_machine, node_machine = _of(login, "machine"), _of(node, "machine")
    if not (login_machine and node_machine) or login_machine == node_machine:
        return None
    return _differs(
        BROKEN,
        f"the login node is {login_machine}, the compute nodes are {node_machine}: what is built here does not "
        "run there",
        "build on a compute node (muster build does), or take an image for that machine",
    )


def _glibc(login: Node, node: Node) -> Optional[Finding]:
    login_glibc, node_glibc = _of(login, "glibc"), _of(node, "glibc")
    if not (login_glibc and node_glibc) or _numbers(login_glibc) <= _numbers(node_glibc):
        return None
    return _differs(
        WARNING,
        f"glibc is {login_glibc} here and {node_glibc} on {node['host']}: a program compiled here may not start there",
        "build on a compute node (muster build does)",
    )


def _numbers(version: str) -> List[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


def _python(login: Node, node: Node) -> Optional[Finding]:
    for name in ("python", "torch", *(vendor.library.lower() for vendor in VENDORS)):
        login_version, node_version = _of(login, name), _of(node, name)
        if login_version and node_version and login_version != node_version:
            return _differs(
                WARNING,
                f"{name} is {login_version} here and {node_version} in the job",
                "name the environment: --venv, --image or --module; a job's own start files may choose another",
            )
    return None


def _modules(login: Node, node: Node) -> Optional[Finding]:
    login_modules = set(filter(None, login.get("environment", {}).get("LOADEDMODULES", "").split(":")))
    node_modules = set(filter(None, node.get("environment", {}).get("LOADEDMODULES", "").split(":")))
    lost_modules = sorted(login_modules - node_modules)
    if not lost_modules or not node_modules:
        return None
    return _differs(
        NOTE, f"modules loaded here and not in the job: {', '.join(lost_modules[:4])}", "--module NAME loads one there"
    )


def _mounts(login: Node, node: Node) -> Optional[Finding]:
    login_mounts, node_mounts = login.get("mounts", {}), node.get("mounts", {})
    for path in login_mounts:
        if path in node_mounts and login_mounts[path] != node_mounts[path] and path not in ("/tmp", "/dev/shm"):
            return _differs(
                WARNING,
                f"{path} is on {login_mounts[path] or 'another file system'} here and on "
                f"{node_mounts[path] or 'another'} in the job",
                "keep what both need on one shared file system",
            )
    return None


def _egress(login: Node, node: Node) -> Optional[Finding]:
    if not login.get("egress") or node.get("egress") is not False:
        return None
    return _differs(
        NOTE,
        f"{node['host']} has no way out of the cluster, this node has: a download in the job hangs",
        "fetch models and data here first, and set HF_HUB_OFFLINE=1 (--env)",
    )


def _differs(status: str, evidence: str, remedy: str) -> Finding:
    return Finding("login against compute", status, evidence, remedy)
