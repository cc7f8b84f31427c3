"""Rules on the meeting point of the ranks: its address and its port."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from muster_lint import sources
from muster_lint.bash import Word
from muster_lint.job import BatchScript
from muster_lint.launch import Stage
from muster_lint.rule import rule
from muster_lint.samples import STEP, TASKS
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import trains

_FIRST = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
_PORT = "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 9999))\n"
_ADDRESS_OPTIONS = ("--master-addr", "--master_addr", "--rdzv-endpoint", "--rdzv_endpoint", "--main_process_ip")
_PORT_OPTIONS = ("--master-port", "--master_port", "--main_process_port")
_ADDRESS_NAMES = re.compile(
    r"^(MASTER_ADDR|MASTER_ADDRESS|MASTER_IP|MASTER_NODE|HEAD_NODE_IP|HEAD_NODE|HEAD_NODE_ADDR|head_node_ip|head_node|master_addr|MAIN_PROCESS_IP)$"
)


def _addresses(job: BatchScript) -> Iterator[tuple[TextSpan, Word]]:
    """Yield what an address is made from."""
    read_names = _names_read(job)
    for each in job.assignments:
        if _ADDRESS_NAMES.match(each.name) and each.value is not None and each.name in read_names:
            yield each.place, each.value
    for launch in job.all_launches:
        stage = launch.stage("agent")
        word = stage.option(*_ADDRESS_OPTIONS) if stage else None
        if word is not None:
            yield word.place, word


def _names_read(job: BatchScript) -> set[str]:
    """Return the variables that the ranks meet by: those that programs read, and those in an agent's address."""
    names = {"MASTER_ADDR", "MAIN_PROCESS_IP"}
    for launch in job.all_launches:
        stage = launch.stage("agent")
        word = stage.option(*_ADDRESS_OPTIONS) if stage else None
        names |= set(word.names) if word is not None else set()
    for _ in range(2):
        names |= {name for each in job.assignments if each.name in names and each.value for name in each.value.names}
    return names


@rule(
    "address-is-loopback",
    Severity.HANGS,
    "localhost as the meeting point of several nodes",
    why="Every node means itself by localhost; the ranks of the other nodes wait until their time-out.",
    instead='Use the first host of the job: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1).',
    source=sources.TORCH_C10D,
    bad=TASKS + "export MASTER_ADDR=localhost\n" + _PORT + STEP,
    good=TASKS + _FIRST + _PORT + STEP,
)
def find_loopback(job: BatchScript) -> Iterator[Hit]:
    """Yield loopback addresses in a job of several nodes."""
    if job.nodes is None or job.nodes < 2:
        return
    spreads = any(each.stage("step") or each.stage("mpi") for each in job.launches)
    names = [each.name for each in job.assignments]
    agents = [stage for launch in job.all_launches if (stage := launch.stage("agent")) is not None]
    options = [word for stage in agents if (word := stage.option(*_ADDRESS_OPTIONS)) is not None]
    told = [(word.place, [each.value for each in job.assignments if each.name in word.names]) for word in options]
    for place, word in _addresses(job):
        if not spreads or (word.value.endswith(":0") and "--nnodes" not in job.body):
            continue  # nothing runs on the other nodes, or each of them meets itself at a port of its own
        by_agent = any(place == each or word in values for each, values in told)
        is_only = all(names.count(each.name) == 1 for each in job.assignments if each.value == word)
        if re.search(r"(^|=)(localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0)(:|$)", word.value):
            unknown = "" if is_only else "which of the assignments counts"
            unknown = unknown or ("" if by_agent else "whether the program takes another address")
            yield Hit(place, f"every one of {job.nodes} nodes means itself", unknown=unknown)


@rule(
    "address-by-ip-guess",
    Severity.STYLE,
    "an address from hostname --ip-address",
    why="""It gives all addresses of the host, or a loopback one where /etc/hosts says so, or that of a network that the other nodes do not
    reach.""",
    instead='Use the host\'s name: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1).',
    source=sources.TORCHTITAN,
    bad=TASKS
    + 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
    + 'export MASTER_ADDR=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address)\n'
    + _PORT
    + STEP,
    good=TASKS + _FIRST + _PORT + STEP,
)
def find_ip_guesses(job: BatchScript) -> Iterator[Hit]:
    """Yield addresses from hostname -i, -I or --ip-address; fragile where several nodes take all addresses of one as one."""
    for place, word in _addresses(job):
        for text in word.substitutions:
            asks = re.search(r"\bhostname\s+(--ip-address|--all-ip-addresses|-[iI])\b(.*)", text, re.DOTALL)
            if asks:
                is_all = asks[1] in {"-I", "--all-ip-addresses"}  # -i is right wherever /etc/hosts is
                is_raw = is_all and (job.nodes or 1) > 1 and "|" not in asks[2] and not _is_cut(job, word)
                message = "hostname lists addresses that other nodes may not reach"
                severity = Severity.FRAGILE if is_raw else Severity.STYLE
                yield Hit(place, message, unknown="which addresses the node has", severity=severity)


def _is_cut(job: BatchScript, value: Word) -> bool:
    """Tell whether the script looks into a variable of this value, or takes a part of it."""
    names = "|".join(each.name for each in job.assignments if each.value == value)
    looks = rf"\{{({names})(%|#|/|\[)|\$\{{?({names})\}}?\"?\s*(\||=)|<<<\s*\"?\$\{{?({names})\b"
    return bool(names) and re.search(looks, job.body) is not None


@rule(
    "address-is-a-list",
    Severity.HANGS,
    "a node list as an address",
    why="SLURM_NODELIST is a list such as node[1-4]; no host has that name.",
    instead='Expand it: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1).',
    source=sources.SBATCH,
    bad=TASKS + "export MASTER_ADDR=$SLURM_JOB_NODELIST\n" + _PORT + STEP,
    good=TASKS + _FIRST + _PORT + STEP,
)
def find_node_lists(job: BatchScript) -> Iterator[Hit]:
    """Yield addresses that are the unexpanded node list."""
    taken: set[TextSpan] = set()
    for each in job.shell.assignments:
        if each.value is not None and re.search(r"\{SLURM_(JOB_|STEP_)?NODELIST:\d", each.value.text):
            taken.add(each.place)
            message = "the first host is cut out of the node list by the place of its letters"
            yield Hit(each.place, message, unknown="how the hosts of the site are named")
        for text in each.value.substitutions if each.value is not None and each.place not in taken else ():
            if re.search(r"SLURM_\w*NODELIST", text) and _AT_A_DASH.search(text):
                taken.add(each.place)
                message = (
                    "the first host is cut out of the node list at a dash: a host with a dash in its name loses its end"
                )
                yield Hit(each.place, message, unknown="how the hosts of the site are named")
    if job.nodes == 1 or (job.nodes is None and "nodes" not in job.header):
        return  # the list of one node is its name
    lists = {"SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"}
    for place, word in _addresses(job):
        cut = any(
            set(re.findall(r"SLURM_\w*NODELIST", text))
            and re.fullmatch(r"[$`(\s]*echo [^|]*(\|\s*(cut|head|tail|tr)\b[^|]*)*", text)
            for text in word.substitutions
        )
        if place not in taken and ((set(word.names) & lists and not word.substitutions) or cut):
            is_part = re.search(r"\{SLURM_\w*NODELIST[:%#/]", word.text) is not None
            unknown = "how the hosts of the site are named" if is_part or cut else ""
            yield Hit(place, "the node list is not expanded: node[1-4] is not a host", unknown=unknown)


_AT_A_DASH = re.compile(r"s/-\.\*//|\bcut -d ?[\"']?-|-F ?[\"']?-[\"' ]")


@rule(
    "port-fixed",
    Severity.FRAGILE,
    "a fixed port",
    why="""Two jobs on one node, or a restart beside its dying predecessor, want the same port: the second stops with "address already in
    use".""",
    instead="Make it from the job: $((20000 + SLURM_JOB_ID % 9999)), below the ephemeral ports.",
    source=sources.TORCHTITAN,
    bad=TASKS.replace("node=4", "node=2") + _FIRST + "export MASTER_PORT=29500\n" + STEP,
    good=TASKS.replace("node=4", "node=2") + _FIRST + _PORT + STEP,
)
def find_fixed_ports(job: BatchScript) -> Iterator[Hit]:
    """Yield fixed ports; of style where the job has four GPUs of a node, which is most often the whole node."""
    per_task = (job.header["gpus-per-task"].value or "") if "gpus-per-task" in job.header else ""
    number = re.fullmatch(r"(?:[A-Za-z]\w*:)?(\d{1,2})", per_task)
    gpus = max(job.gpus_per_node or 0, int(number[1]) * (job.tasks_per_node or 1) if number else 0)
    if job.is_slurm and gpus < 8 and not has_whole_nodes(job):
        for hit in _fixed_ports(job):
            is_half = _EIGHT_OF_A_NODE.search(" ".join(each.value or "" for each in job.directives)) is not None
            yield msgspec.structs.replace(hit, severity=Severity.STYLE) if gpus >= 4 and not is_half else hit


_EIGHT_OF_A_NODE = re.compile(r"gpu:(h800|a800|h200|h20|b200|mi300\w*):4\b", re.IGNORECASE)
"""GPUs of which a node has eight wherever they are sold: four are half a node."""


def _fixed_ports(job: BatchScript) -> Iterator[Hit]:
    """Yield literal ports of the meeting point, of Ray and of servers, and agents that take torch's own."""
    said: set[str] = set()
    agents = [stage for each in job.all_launches if (stage := each.stage("agent")) is not None]
    takes_none = [stage for stage in agents if _takes_default_port(job, stage)]
    has_others = any(
        trains(each) and not each.command.reads for each in job.all_launches if each.stage("agent") is None
    )
    takes_own = agents and not has_others and all(stage.has("--standalone") for stage in agents)
    for each in job.assignments:
        if (
            each.name in {"MASTER_PORT", "MAIN_PROCESS_PORT", "RDZV_PORT"}
            and each.value is not None
            and each.value.value.isdigit()
            and not takes_none
            and not takes_own
            and (each.exported or re.search(rf"\$\{{?{each.name}\b|\bexport .*{each.name}\b", job.body))
        ):
            said.add(each.value.value)
            yield Hit(each.place, f"the port {each.value.value} is the same in every job")
    for launch in job.all_launches:
        for port, place in _ports_of(job, launch.stage("agent")):
            if port not in said:  # the variable that holds it is named already
                said.add(port)
                yield Hit(place, f"the port {port} is the same in every job")
    for stage in takes_none[:1]:
        reads = f"{stage.name} does not read MASTER_PORT: it" if job.shell.assigned("MASTER_PORT") else stage.name
        option = "--main_process_port" if stage.name == "accelerate" else "--master_port"
        instead = f"Give --standalone to torchrun, or {option} with a port of this job."
        yield Hit(stage.word.place, f"{reads} takes port 29500, as in every job", instead)
    if not agents:
        yield from _server_ports(job, said)
    works = [each.command.words for each in job.all_launches if trains(each)]
    values = [each.value for each in job.shell.assignments if each.value is not None]
    for word in [*values, *(word for words in works for word in words)]:
        match = re.search(r"tcp://[^:\s]+:([1-9]\d{3,4})$|\$\{\w*PORT\w*:-([1-9]\d{3,4})\}", word.value)
        port = (match[1] or match[2]) if match else ""
        if port and port not in said:
            said.add(port)
            unknown = "whether the submitting shell sets another" if match and match[2] else ""
            yield Hit(word.place, f"the port {port} is the same in every job", unknown=unknown)


def _takes_default_port(job: BatchScript, stage: Stage) -> bool:
    """Tell whether an agent on one node is given no port at all, so that it takes 29500."""
    if stage.name == "accelerate":
        several = stage.has("--multi_gpu", "--multi-gpu") or (stage.text("--num_processes") or "1") not in {"0", "1"}
        told = stage.has("--config_file", "--config-file", "--num_machines", *_PORT_OPTIONS)
        return several and not told and not stage.hidden and (job.nodes or 1) == 1 and job.asks_for_gpus
    if stage.name not in {"torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed"} or stage.hidden:
        return False
    if (job.nodes or 1) > 1 or not job.asks_for_gpus or any("$" in name for name, _ in stage.options):
        return False
    return not stage.has("--standalone", "--rdzv-endpoint", "--rdzv_endpoint", *_PORT_OPTIONS)


_SERVES = re.compile(r"\bray start --head|\bvllm serve|vllm\.entrypoints|sglang\.launch_server")


def _server_ports(job: BatchScript, said: set[str]) -> Iterator[Hit]:
    """Yield the literal ports of Ray's head and of servers of models, on a node that other jobs may share."""
    for each in job.commands:
        text = " ".join(word.value for word in each.words)
        word = each.option("--port") if _SERVES.search(text) else None
        is_bare = re.search(r"\bray start\b.*--head\b(?!.*--port)", text) and not any(
            w.may_be_several for w in each.words
        )
        if is_bare and (job.nodes or 1) == 1 and "6379" not in said:
            said.add("6379")
            yield Hit(
                each.place, "without --port Ray takes 6379, as in every job", "Give it --port, and --dashboard-port."
            )
        if word is None or (job.nodes or 1) > 1:
            continue
        value = job.shell.value_of(word.names[0]) if word.names else None
        port = (value.value if value is not None else word.value).rpartition("=")[2]
        if port.isdigit() and port not in said:
            said.add(port)
            yield Hit(word.place, f"the port {port} is the same in every job")


def _ports_of(job: BatchScript, stage: Stage | None) -> Iterator[tuple[str, TextSpan]]:
    """Yield the literal ports in the options of an agent."""
    for names in (_PORT_OPTIONS, ("--rdzv-endpoint", "--rdzv_endpoint")):
        text, word = (stage.text(*names), stage.option(*names)) if stage is not None else (None, None)
        match = re.search(r"(?:^|:)([1-9]\d*)$", job.shell.filled(text or ""))
        if match is not None and word is not None:
            yield match[1], word.place


@rule(
    "address-literal",
    Severity.FRAGILE,
    "an address written as numbers",
    why="Slurm gives each job other hosts: the next job waits for a host that is not one of its own.",
    instead='Use the first host of the job: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1).',
    source=sources.TORCH_C10D,
    bad=TASKS + "export MASTER_ADDR=10.25.1.83\n" + _PORT + STEP,
    good=TASKS + _FIRST + _PORT + STEP,
)
def find_literal_addresses(job: BatchScript) -> Iterator[Hit]:
    """Yield a meeting point that is an IPv4 address of another host."""
    for place, word in _addresses(job):
        match = re.search(r"(?:^|=)(\d+\.\d+\.\d+\.\d+)(?::|$)", word.value)
        if match and job.directives and not match[1].startswith(("127.", "0.")) and "nodelist" not in job.header:
            yield Hit(place, f"{match[1]} is one host, and the job may be given others")


@rule(
    "port-random",
    Severity.FRAGILE,
    "a port that may be one of the system's",
    why="$RANDOM is 0 to 32767: below 1024 only root may listen, so one job in 32 stops at its start.",
    instead="Make it from the job: $((20000 + SLURM_JOB_ID % 9999)), below the ephemeral ports.",
    source=sources.BASH,
    bad=TASKS + _FIRST + "export MASTER_PORT=$RANDOM\n" + STEP,
    good=TASKS + _FIRST + _PORT + STEP,
)
def find_random_ports(job: BatchScript) -> Iterator[Hit]:
    """Yield a port that is $RANDOM as it is."""
    for each in job.assignments:
        text = each.value.value if each.value is not None else ""
        if each.name in {"MASTER_PORT", "PORT", "port", "master_port"} and text in {"$RANDOM", "${RANDOM}"}:
            yield Hit(each.place, "this port may be below 1024")
    drawn = {each.name for each in job.assignments if each.value and each.value.value in {"$RANDOM", "${RANDOM}"}}
    for launch in job.all_launches:
        stage = launch.stage("agent")
        word = stage.option(*_PORT_OPTIONS, "--rdzv-endpoint", "--rdzv_endpoint") if stage is not None else None
        match = re.search(r"\$\{?(\w+)\}?$", word.value) if word is not None else None
        if word is not None and match is not None and match[1] in drawn | {"RANDOM"}:
            yield Hit(word.place, "this port may be below 1024")


@rule(
    "port-missing",
    Severity.FRAGILE,
    "MASTER_ADDR without MASTER_PORT",
    why="init_process_group with env:// needs both; it stops with 'environment variable MASTER_PORT expected'.",
    instead="Export MASTER_PORT too.",
    source=sources.TORCH_C10D,
    bad=TASKS + _FIRST + STEP,
    good=TASKS + _FIRST + _PORT + STEP,
)
def find_missing_ports(job: BatchScript) -> Iterator[Hit]:
    """Yield an exported address without any port, where srun starts the ranks itself."""
    names = {each.name for each in job.assignments}
    if any(each.program in {"source", "."} and "activate" not in each.words[-1].value for each in job.shell.commands):
        return  # a file that is read may set it
    if "MASTER_PORT" in names or "MASTER_PORT" in job.text or any(each.stage("agent") for each in job.all_launches):
        return
    ranks = any(each.stage("python") for each in job.steps)
    for each in job.assignments:
        if (
            each.name == "MASTER_ADDR"
            and each.exported
            and ranks
            and not (each.value and re.search(r":\S+$", each.value.value))
        ):
            unknown = "whether the program has a port of its own"
            yield Hit(each.place, "MASTER_PORT is not set anywhere", unknown=unknown)
