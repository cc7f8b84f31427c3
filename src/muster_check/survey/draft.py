"""What a cluster answered → a draft of its profile, as TOML. Pure.

It holds what Slurm cannot say: every plan asks Slurm itself for partitions, limits and shapes of nodes. A question that
was not asked or not answered is named in a comment: nothing is guessed. The draft loads as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from muster.older import tomllib
from muster.policy.masks import core_list, spell_cores
from muster.rank.vendors import VENDORS
from muster.sites.consistency import check
from muster.sites.layers import Layer, merge
from muster.sites.live import live_layer, name_of_kind
from muster.sites.schema import Profile
from muster.slurm.cluster import MPI_TYPES, SHARES
from muster.slurm.cluster_answers import CONTROLLER_FACTS, ask_accounting, read_kinds
from muster.slurm.cluster_facts import ClusterFacts, KindFacts
from muster.units import toml_text
from muster_check.survey.place import (
    LOGIN_SCRIPT,
    NODE_SCRIPT,
    lines_of_containers,
    lines_of_filesystems,
    lines_of_network,
)
from muster_check.survey.roce import GIDS_SCRIPT, read_gids

CLUSTER = "cluster"
ACCOUNTING = "accounting"

# What a login node is asked beside the facts of its cluster: a name, and the command. Each may be refused.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "mpi": MPI_TYPES.argv,
    # What the controller knows of this user, where the accounting database is closed to users.
    "shares": SHARES.argv,
    "place": ("bash", "-lc", LOGIN_SCRIPT),
    # A login shell knows `module`; its answer comes on either stream.
    "modules": (
        "bash",
        "-lc",
        'command -v module >/dev/null || exit 1; echo "@@ ${LMOD_VERSION:+lmod}"; module --terse avail 2>&1',
    ),
}

# What an answer must hold to be one: a greeting, or a page of HTML, is none.
_READERS: Mapping[str, Callable[[str], object]] = {"mpi": MPI_TYPES.read, "shares": SHARES.read}

WITHOUT_WHICH = (CLUSTER,)
"""The questions without whose answers nothing is known of the cluster."""


def is_readable(question: str, answer: str) -> bool:
    """Return whether what was said is an answer to the question."""
    return question not in _READERS or bool(_READERS[question](answer))


NODE_END = "@@ end"
"""The last line that a compute node says."""

OF_THE_SHELL = frozenset({"place", "modules"})
"""The questions that a shell answers, with a Slurm or without one."""

# What a torch job may want of a module system: the rest of its list is left out.
_OF_USE = re.compile(
    r"(cuda|rocm|nccl|rccl|cudnn|openmpi|mpich|hpcx|aws-ofi|python|anaconda|miniforge|miniconda|pytorch|torch|apptainer|singularity)",
    re.IGNORECASE,
)

# What a compute node is asked, in one step of a minute; the answers stand between lines of their own.
JOB_SCRIPT = (
    """\
ask() { echo "@@ $1"; shift; "$@" 2>/dev/null; }
ask lscpu lscpu -p=CPU,CORE,SOCKET,NODE
@GPUS@
ask interfaces ls /sys/class/net
ask hcas ls /sys/class/infiniband
ask link_layers sh -c 'cat /sys/class/infiniband/*/ports/1/link_layer'
@GIDS@
ask tmp sh -c 'df -PT /tmp | tail -n 1'
ask arch uname -m
ask self scontrol --oneliner show node "$SLURMD_NODENAME"
@PLACE@
ask end true
""".replace("@PLACE@\n", NODE_SCRIPT)
    .replace(
        "@GPUS@",
        "\n".join(f"ask {name} {shlex.join(words)}" for vendor in VENDORS for name, words in vendor.survey.items()),
    )
    .replace("@GIDS@\n", f"ask gids sh -c {shlex.quote(GIDS_SCRIPT)}\n")
)


class Survey(msgspec.Struct, frozen=True):
    """What was asked, and what was answered; a question without an answer is not in it."""

    day: str
    host: str
    user: str = ""
    cluster: ClusterFacts | None = None
    """What Slurm says of the cluster; None: it did not say."""

    answers: Mapping[str, str] = msgspec.field(default_factory=dict)
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)
    node: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Answers of a compute node; empty: no job was run."""


def node_answers(text: str) -> dict[str, str]:
    """Return the answers of JOB_SCRIPT's output, by name; an empty one is left out."""
    parts = re.split(r"^@@ (\w+)\n", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2])
    return {name: answer.strip("\n") for name, answer in pairs if answer.strip()}


def draft(survey: Survey, name: str) -> str:
    """Return the profile as far as it could be learned."""
    lines = [
        f"# A draft, made by `muster site probe` on {survey.host}. What could not be learned is named in comments.",
        "# Its partitions, limits and nodes are not written down: every plan asks Slurm for them.",
        "muster_site = 1",
        f"name = {toml_text(name)}",
        f"title = {toml_text(f'{name}, as probed on {survey.day}')}",
        f"summary = {toml_text(_summary(survey.cluster))}",
        "draft = true",
    ]
    lines += _detect(survey.cluster)
    lines += _own_node(survey)
    lines += _accounts(survey)
    lines += _launch(survey)
    lines += _modules(survey)
    lines += _fabric(survey)
    place = node_answers(survey.answers.get("place", ""))
    lines += lines_of_containers(place, survey.node)
    lines += lines_of_filesystems(place)
    lines += lines_of_network(survey.node)
    lines += _provenance(survey)
    lines += _not_learned(survey)
    return "\n".join(lines) + "\n"


def drafted_profile(survey: Survey) -> Profile:
    """Return the draft as a value: what is known beside Slurm's own facts."""
    layers = [_layer(survey)]
    profile = check(merge(layers), layers)
    # A login node's engines say nothing of the compute nodes'.
    return profile if survey.node else msgspec.structs.replace(profile, containers={})


def seen_profile(survey: Survey) -> Profile:
    """Return all that was seen: the draft, and what Slurm says."""
    drafted = drafted_profile(survey)
    if survey.cluster is None:
        return drafted
    layers = [_layer(survey), live_layer(drafted, survey.cluster).layer]
    seen = msgspec.convert(merge(layers).table, Profile)
    launch = msgspec.structs.replace(
        seen.launch, slurm=survey.cluster.version or None, kills_on_bad_exit=survey.cluster.kills_on_bad_exit
    )
    closed = {each.name for each in survey.cluster.partitions if not each.takes_jobs}
    partitions = {
        name: msgspec.structs.replace(queue, open=False) if name in closed else queue
        for name, queue in seen.partitions.items()
    }
    return msgspec.structs.replace(seen, containers=drafted.containers, launch=launch, partitions=partitions)


def _layer(survey: Survey) -> Layer:
    text = draft(survey, "seen")
    return Layer("probe", "the probe's draft", text, tomllib.loads(text))


def own_kind(survey: Survey) -> KindFacts | None:
    """Return the kind of the node that the job ran on; None: no job ran, or its node does not say what it is."""
    return next(iter(read_kinds(survey.node.get("self", ""))), None)


# ---------------------------------------------------------------- writing


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(toml_text, words)) + "]"


def _summary(cluster: ClusterFacts | None) -> str:
    main_kind = max(cluster.kinds if cluster else (), key=lambda kind: (kind.gpu_count, kind.nodes), default=None)
    if main_kind is None:
        return "nothing could be learned of its nodes"
    gpu_type = next((name for name, _ in main_kind.gpus if name), "GPU")
    gpus = f"{main_kind.gpu_count} × {gpu_type}" if main_kind.gpu_count else f"{main_kind.cpus} CPUs"
    return f"{main_kind.nodes} nodes × {gpus}"


def _detect(cluster: ClusterFacts | None) -> Iterator[str]:
    if cluster is not None:
        yield from ("", "[detect]", f"cluster_names = {_list([cluster.name])}")


def _own_node(survey: Survey) -> Iterator[str]:
    """Yield what the job saw inside its node, under the shape by which Slurm's kinds of node are known again."""
    kind = own_kind(survey)
    if kind is None:
        return
    yield from (
        "",
        f"[nodes.{toml_text(name_of_kind(kind))}]",
        f"gpus = {kind.gpu_count}",
        f"cores = {max(1, kind.cores)}",
    )
    yield f"threads_per_core = {kind.threads}"
    gpu_type = next((name for name, _ in kind.gpus if name), None)
    if gpu_type:
        yield f"gpu_type = {toml_text(gpu_type)}"
    yield from _seen_on_a_node(survey, kind.cores)


def _seen_on_a_node(survey: Survey, cores: int) -> Iterator[str]:
    node = survey.node
    if node.get("arch") in {"x86_64", "aarch64"}:
        yield f"arch = {toml_text(node['arch'])}"
    vendor = next((vendor for vendor in VENDORS if vendor.survey.keys() & node.keys()), None)
    if vendor is not None:
        yield f"gpu_kind = {toml_text(vendor.kind)}"
    names = [line.split(",")[1].strip() for line in node.get("nvidia", "").splitlines() if line.count(",") == 2]
    names += re.findall(r'"device_name": *"([^"]+)"', node.get("xpu", ""))
    if names:
        yield f"gpu = {toml_text(names[0])}"
    numa = _numa(node.get("lscpu", ""))
    if sum(len(core_list(domain)) for domain in numa) != cores:
        yield "# not learned: NUMA domains: what lscpu shows are not the cores that Slurm counts"
        return
    yield f"numa = {_list(numa)}"
    places = re.findall(r"GPU\[\d+\].*?Numa Node:\s*(\d+)", node.get("rocm", "")) or _nvidia_numa(
        node.get("topology", "")
    )
    if places:
        yield f"gpu_numa = [{', '.join(places)}]"


def _nvidia_numa(topology: str) -> list[str]:
    """Return the NUMA domain of each GPU, from `nvidia-smi topo -m`; none where one has several."""
    header, *lines = topology.splitlines() or [""]
    titles = re.split(r"\t+", header.strip())
    if "NUMA Affinity" not in titles:
        return []
    from_the_end = len(titles) - titles.index("NUMA Affinity")
    rows = [re.split(r"\t+", line.rstrip()) for line in lines if line.startswith("GPU")]
    values = [row[-from_the_end].strip() for row in rows if len(row) > from_the_end]
    return values if len(values) == len(rows) and all(value.isdigit() for value in values) else []


def _numa(lscpu: str) -> list[str]:
    """Return the first hardware thread of the cores of each NUMA domain, from `lscpu -p=CPU,CORE,SOCKET,NODE`."""
    domains: dict[int, dict[int, int]] = {}
    for line in lscpu.splitlines():
        cells = line.split(",")
        if re.fullmatch(r"[0-9]{1,9},[0-9]{1,9},[^,]*,[0-9]{1,9}", line):
            domains.setdefault(int(cells[3]), {}).setdefault(int(cells[1]), int(cells[0]))
    return [spell_cores(cores.values()) for _, cores in sorted(domains.items())]


def _launch(survey: Survey) -> Iterator[str]:
    types = MPI_TYPES.read(survey.answers.get("mpi", ""))
    if types:
        yield from ("", "[launch]", f"mpi_types = {_list(types)}")
    yield from ("", "[rendezvous]", 'host = "as-is"')


def _modules(survey: Survey) -> Iterator[str]:
    first, _, module_list = survey.answers.get("modules", "").partition("\n")
    if not first.startswith("@@"):
        return
    words = (line.strip().partition("(")[0] for line in module_list.splitlines())
    module_names = [word for word in words if "/" in word and not word.endswith((":", "/")) and " " not in word]
    useful_modules = [word for word in module_names if _OF_USE.search(word.partition("/")[0])]
    yield from ("", "[modules]", f"system = {toml_text('lmod' if 'lmod' in first else 'tmod')}", 'where = "everywhere"')
    yield f"catalogue = {_list(list(dict.fromkeys(useful_modules)))}"


def _accounts(survey: Survey) -> Iterator[str]:
    """Yield the accounts that pay for this user: the first is the example, all are listed."""
    paying = sorted(survey.cluster.associations or () if survey.cluster else (), key=lambda each: not each.is_default)
    names = list(dict.fromkeys(each.account for each in paying)) or SHARES.read(survey.answers.get("shares", ""))
    if names:
        yield from ("", "[request]", f"# yours: {_printable(', '.join(names))}")
        yield f"account_example = {toml_text(names[0])}"


def _fabric(survey: Survey) -> Iterator[str]:
    interfaces = [name for name in survey.node.get("interfaces", "").split() if re.match(r"(ib|hsn|bond|en|eth)", name)]
    hcas = survey.node.get("hcas", "").split()
    if not interfaces and not hcas:
        return
    layers = set(survey.node.get("link_layers", "").split())
    kind = next(
        (
            kind
            for kind, interfaces in (
                ("slingshot", any(name.startswith("hsn") for name in interfaces)),
                ("infiniband", "InfiniBand" in layers),
                ("roce", bool(hcas) and layers == {"Ethernet"}),
            )
            if interfaces
        ),
        "ethernet",
    )
    yield from ("", "[fabric]", f"kind = {toml_text(kind)}", f"interfaces = {_list(interfaces)}")
    if hcas:
        yield f"hcas = {_list(hcas)}"
    if kind != "roce":
        return
    gids = read_gids(survey.node.get("gids", ""))
    if gids.index is None:
        yield f"# not learned: NCCL_IB_GID_INDEX: {gids.why_not}"
    else:
        yield from (
            "",
            "[[environment]]",
            'name = "NCCL_IB_GID_INDEX"',
            f'value = "{gids.index}"',
            'when = { nodes_min = 2, nccl_below = "2.21" }',
            'reason = "the entry with an IPv4 address and RoCE v2, seen on a node; since 2.21 NCCL finds it itself"',
            'source = "probe"',
        )


def _provenance(survey: Survey) -> Iterator[str]:
    nodes = "its login node and one compute node" if survey.node else "its login node alone"
    command = f"muster site probe on {survey.host}: {nodes}"
    yield from ("", "[sources.probe]", f"title = {toml_text(f'muster site probe on {survey.host}')}")
    yield from (f"at = {toml_text(command)}", f"checked = {survey.day}", 'trust = "V"', "", "[facts]")
    for key in (
        "nodes",
        "request",
        "launch",
        "rendezvous",
        "modules",
        "fabric",
        "containers",
        "filesystems",
        "network",
    ):
        yield f'{key} = "probe"'


# Questions whose words are long: what stands for them in a comment.
_SHOWN = {
    CLUSTER: " ".join(CONTROLLER_FACTS.argv),
    ACCOUNTING: " ".join(ask_accounting("").argv),
    "node": "a compute node",
    "modules": "module avail",
    "place": "the login shell's places and message of the day",
}


def not_answered(survey: Survey) -> dict[str, str]:
    """Return the questions without an answer, each with the command and what was said instead of one."""
    return {
        question: f"{_SHOWN.get(question) or ' '.join(QUESTIONS[question])}: "
        + (_printable(trouble.strip().splitlines()[0]) if trouble.strip() else "no answer")
        for question, trouble in survey.refused.items()
    }


def _printable(text: str) -> str:
    """Return words of a program as a comment may hold them: TOML refuses control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _not_learned(survey: Survey) -> Iterator[str]:
    yield ""
    yield from (f"# not learned: {sentence}" for sentence in not_answered(survey).values())
    if survey.node and "reach" not in survey.node and "proxies" not in survey.node:
        yield "# not learned: whether a compute node has a way out: --job --reach HOST tries one connection"
    if not survey.node:
        yield "# not learned: NUMA domains, GPUs, interfaces: they take a job of a minute (muster site probe --job)"
    elif own_kind(survey) is None:
        yield "# not learned: NUMA domains and GPUs: the node of the job does not say which kind of node it is"
    yield "# not to be learned by asking: environment, quotas, rules that no message of the day names, whom to ask"
