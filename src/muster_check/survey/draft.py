"""What a cluster answered → a draft of its profile, as TOML. Pure.

What was not asked or not answered is left out and named in a comment: nothing is guessed. The draft loads as it is.
Long: one short writer for each part of a profile.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from muster.errors import RequestError
from muster.older import tomllib
from muster.policy.masks import core_list, spell_cores
from muster.rank.vendors import VENDORS
from muster.sites.consistency import check
from muster.sites.layers import Layer, merge
from muster.sites.schema import Profile
from muster.slurm.cluster import (
    ACCOUNTS,
    CONFIGURATION,
    DEFAULT_PARTITIONS,
    MPI_TYPES,
    NODE_GROUPS,
    QOS_LIMITS,
    SHARES,
    NodeGroup,
)
from muster.units import format_walltime, parse_walltime_s, toml_text
from muster_check.survey.place import (
    LOGIN_SCRIPT,
    NODE_SCRIPT,
    lines_of_containers,
    lines_of_filesystems,
    lines_of_network,
)
from muster_check.survey.roce import GIDS_SCRIPT, read_gids

# What a login node is asked: a name, and the command. Each may be refused.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "config": CONFIGURATION.argv,
    "partitions": NODE_GROUPS.argv,
    "default": DEFAULT_PARTITIONS.argv,
    "mpi": MPI_TYPES.argv,
    "accounts": ACCOUNTS.argv,
    "shares": SHARES.argv,
    "qos": QOS_LIMITS.argv,
    "place": ("bash", "-lc", LOGIN_SCRIPT),
    # A login shell knows `module`; its answer comes on either stream.
    "modules": (
        "bash",
        "-lc",
        'command -v module >/dev/null || exit 1; echo "@@ ${LMOD_VERSION:+lmod}"; module --terse avail 2>&1',
    ),
}

# What an answer must hold to be one: a greeting, or a page of HTML, is none.
_READERS: Mapping[str, Callable[[str], object]] = {
    "config": lambda stdout: "ClusterName" in CONFIGURATION.read(stdout),
    "partitions": NODE_GROUPS.read,
    "mpi": MPI_TYPES.read,
    "accounts": ACCOUNTS.read,
    "shares": SHARES.read,
    "qos": QOS_LIMITS.read,
}

WITHOUT_WHICH = ("config", "partitions")
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
    answers: Mapping[str, str] = msgspec.field(default_factory=dict)
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)
    node: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Answers of a compute node; empty: no job was run."""


class _Kind(msgspec.Struct, frozen=True):
    """Nodes that look alike from outside."""

    cpus: int
    threads: int
    memory_mib: int
    gpus: int
    gpu_type: str | None
    features: tuple[str, ...]


def node_answers(text: str) -> dict[str, str]:
    """Return the answers of JOB_SCRIPT's output, by name; an empty one is left out."""
    parts = re.split(r"^@@ (\w+)\n", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2])
    return {name: answer.strip("\n") for name, answer in pairs if answer.strip()}


def draft(survey: Survey, name: str) -> str:
    """Return the profile as far as it could be learned."""
    rows = NODE_GROUPS.read(survey.answers.get("partitions", ""))
    kinds = _kinds(rows)
    config = CONFIGURATION.read(survey.answers.get("config", ""))
    lines = [
        f"# A draft, made by `muster site probe` on {survey.host}. What could not be learned is named in comments.",
        "muster_site = 1",
        f"name = {toml_text(name)}",
        f"title = {toml_text(f'{name}, as probed on {survey.day}')}",
        f"summary = {toml_text(_summary(rows, kinds))}",
    ]
    lines += _detect(config)
    lines += _nodes(kinds, survey)
    lines += _request(kinds, rows)
    lines += _accounts(survey)
    lines += _partitions(rows, kinds, survey)
    lines += _qos(survey)
    lines += _launch(config, survey)
    lines += _modules(survey)
    lines += _fabric(survey)
    place = node_answers(survey.answers.get("place", ""))
    lines += lines_of_containers(place, survey.node)
    lines += lines_of_filesystems(place)
    lines += lines_of_network(survey.node)
    lines += _provenance(survey)
    lines += _not_learned(survey)
    return "\n".join(lines) + "\n"


def seen_profile(survey: Survey) -> Profile:
    """Return the draft as a value."""
    text = draft(survey, "seen")
    layers = [Layer("probe", "the probe's draft", text, tomllib.loads(text))]
    profile = check(merge(layers), layers)
    # A login node's engines say nothing of the compute nodes'.
    return profile if survey.node else msgspec.structs.replace(profile, containers={})


# ---------------------------------------------------------------- reading


def _kind(row: NodeGroup) -> _Kind:
    gpus, gpu_type = 0, None
    for item in re.sub(r"\([^)]*\)", "", row.gres).split(","):
        match = re.fullmatch(r"gpu(?::([^:]+))?:([0-9]{1,9})", item)
        if match:
            gpus, gpu_type = gpus + int(match[2]), match[1]
    shape = row.shape.split(":")
    threads = _number(shape[2]) or 1 if len(shape) == 3 else 1
    features = tuple(word for word in row.features.split(",") if word and word != "(null)")
    return _Kind(_number(row.cpus), threads, _number(row.memory_mib), gpus, gpu_type, features)


def _number(text: str) -> int:
    """Return the number at the start: sinfo writes 8+ where nodes differ."""
    match = re.match(r"[0-9]{1,15}", text)
    return int(match[0]) if match else 0


def _kinds(rows: Sequence[NodeGroup]) -> dict[_Kind, str]:
    """Return a name for each kind of node, those with most GPUs first."""
    node_kinds = sorted(dict.fromkeys(map(_kind, rows)), key=lambda kind: -kind.gpus)
    names: dict[_Kind, str] = {}
    for kind in node_kinds:
        base = f"{kind.gpu_type or 'gpu'}{kind.gpus}" if kind.gpus else f"cpu{kind.cpus}"
        taken_names = sum(name.startswith(base) for name in names.values())
        names[kind] = base if not taken_names else f"{base}-{taken_names + 1}"
    return names


# ---------------------------------------------------------------- writing


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(toml_text, words)) + "]"


def _summary(rows: Sequence[NodeGroup], kinds: Mapping[_Kind, str]) -> str:
    main_kind = next(iter(kinds), None)
    if main_kind is None:
        return "nothing could be learned of its nodes"
    nodes = max((_number(row.nodes) for row in rows if _kind(row) == main_kind), default=0)
    gpus = f"{main_kind.gpus} × {main_kind.gpu_type or 'GPU'}" if main_kind.gpus else f"{main_kind.cpus} CPUs"
    return f"{nodes} nodes × {gpus}"


def _detect(config: Mapping[str, str]) -> Iterator[str]:
    if "ClusterName" in config:
        yield from ("", "[detect]", f"cluster_names = {_list([config['ClusterName']])}")


def _nodes(kinds: Mapping[_Kind, str], survey: Survey) -> Iterator[str]:
    for number, (kind, name) in enumerate(kinds.items()):
        yield from ("", f"[nodes.{name}]", f"gpus = {kind.gpus}")
        if kind.cpus:
            yield f"cores = {kind.cpus // kind.threads}"
            yield f"threads_per_core = {kind.threads}"
        if kind.gpus and kind.cpus // kind.threads >= kind.gpus:
            yield f"cores_per_gpu = {kind.cpus // kind.threads // kind.gpus}"
        if kind.memory_mib:
            yield f"memory_mib = {kind.memory_mib}"
        if number == 0:  # the job of a minute ran on one of these
            yield from _seen_on_a_node(survey, kind.cpus // kind.threads)


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


def _request(kinds: Mapping[_Kind, str], rows: Sequence[NodeGroup]) -> Iterator[str]:
    yield from ("", "[request]", 'gpus = "gpus-per-node"')
    yield f"cpus = {toml_text('threads' if any(kind.threads > 1 for kind in kinds) else 'cores')}"
    types = sorted({kind.gpu_type for kind in kinds if kind.gpu_type})
    if types:
        yield f"gres_names = {_list([f'gpu:{gpu_type}' for gpu_type in types])}"
    features = sorted({feature for kind in kinds for feature in kind.features})
    if kinds:
        yield f"features = {_list(features)}"
    if rows and not any(row.partition.endswith("*") for row in rows):
        yield "# whether an account, a QOS or a time limit has to be given is not to be learned by asking"


def _partitions(rows: Sequence[NodeGroup], kinds: Mapping[_Kind, str], survey: Survey) -> Iterator[str]:
    default = DEFAULT_PARTITIONS.read(survey.answers.get("default", ""))
    shown_partitions = set()
    for row in rows:
        name = row.partition.rstrip("*")
        if name in shown_partitions:
            continue
        shown_partitions.add(name)
        kind = _kind(row)
        yield from ("", f"[partitions.{toml_text(name)}]", f"node = {toml_text(kinds[kind])}", f"gpus = {kind.gpus}")
        if _number(row.nodes):
            yield f"nodes = {_number(row.nodes)}"
        yield from _limit("time_max", row.time_limit)
        yield from _limit("time_default", row.default_time)
        sizes = re.fullmatch(r"[0-9]+K?-([0-9]{1,9})(K?)", row.job_size)  # sinfo writes 1024 as 1K
        if sizes:
            yield f"nodes_max = {int(sizes[1]) * (1024 if sizes[2] else 1)}"
        if name in default:
            yield "default = true"
        if row.availability != "up":
            yield "open = false"


def _limit(key: str, text: str) -> Iterator[str]:
    if text and text not in {"infinite", "n/a", "UNLIMITED"}:
        try:
            seconds = parse_walltime_s(text)
        except RequestError:
            return
        if seconds:
            yield f"{key} = {toml_text(format_walltime(seconds))}"


def _qos(survey: Survey) -> Iterator[str]:
    for qos in QOS_LIMITS.read(survey.answers.get("qos", "")):
        yield from ("", f"[qos.{toml_text(qos.name)}]")
        yield from _limit("time_max", qos.time_limit)
        if qos.nodes:
            yield f"nodes_max = {qos.nodes}"


def _launch(config: Mapping[str, str], survey: Survey) -> Iterator[str]:
    yield from ("", "[launch]")
    types = MPI_TYPES.read(survey.answers.get("mpi", ""))
    if types:
        yield f"mpi_types = {_list(types)}"
    if "SLURM_VERSION" in config:
        yield f"slurm = {toml_text(config['SLURM_VERSION'])}"
    if config.get("KillOnBadExit") in {"0", "1"}:
        yield f"kills_on_bad_exit = {'true' if config['KillOnBadExit'] == '1' else 'false'}"
    yield from ("", "[rendezvous]", 'host = "as-is"')
    reserved = re.search(r"ports=(\d+)-(\d+)", config.get("MpiParams", ""))
    if reserved:
        yield "reserved_ports = true"


def _modules(survey: Survey) -> Iterator[str]:
    first, _, module_list = survey.answers.get("modules", "").partition("\n")
    if not first.startswith("@@"):
        return
    words = (line.strip().partition("(")[0] for line in module_list.splitlines())
    module_names = [word for word in words if "/" in word and not word.endswith((":", "/")) and " " not in word]
    useful_modules = [
        word for word in module_names if not word.startswith("/") and _OF_USE.search(word.partition("/")[0])
    ]
    yield from ("", "[modules]", f"system = {toml_text('lmod' if 'lmod' in first else 'tmod')}", 'where = "everywhere"')
    yield f"catalogue = {_list(list(dict.fromkeys(useful_modules)))}"


def _accounts(survey: Survey) -> Iterator[str]:
    """Yield the accounts that pay for this user: the first is the example, all are listed."""
    names = ACCOUNTS.read(survey.answers.get("accounts", "")) or SHARES.read(survey.answers.get("shares", ""))
    if names:
        yield f"# yours: {', '.join(names)}"
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
        "partitions",
        "qos",
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
    yield "# not to be learned by asking: environment, quotas, rules that no message of the day names, whom to ask"
