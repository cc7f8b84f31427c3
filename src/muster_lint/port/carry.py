"""A draft that was written for one site → the same job at another: each change with its reason. Pure.

What one site names and the other does not know (queues, accounts, networks, paths) cannot be kept. The plan of the
target has the last word: what it refuses is changed as its hint says, or asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from muster.errors import MusterError, Refusal, RequestError
from muster.facts import Facts, ImageFacts
from muster.job.options import parse, request_from
from muster.job.request import Request
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.sites.schema import NodeKind, Profile, Queue
from muster.sites.site import Site
from muster.units import Memory, format_walltime, parse_memory_mib, parse_walltime_s
from muster_lint.port.modules import meaning_of, same_at
from muster_lint.port.values import Draft, Fate, PortRow, is_open

_MOST_REPAIRS = 8


class Carried(msgspec.Struct, frozen=True):
    """The job at its target."""

    draft: Draft
    plan: Plan | None
    refusal: MusterError | None
    """Why the target's plan refuses it still; None: it does not."""


class Route(msgspec.Struct, frozen=True):
    """From where to where."""

    source: Site | None
    target: Site
    account: str | None = None

    @property
    def is_home(self) -> bool:
        """Tell whether the script stays where it was written for."""
        return self.source is not None and self.source.name == self.target.name

    @property
    def here(self) -> str:
        """Return the site that the script was written for, in words."""
        return _called(self.source.profile) if self.source else "the site that the script was written for"

    @property
    def there(self) -> str:
        """Return the target in words."""
        return _called(self.target.profile)


def _called(profile: Profile) -> str:
    return profile.title.partition(",")[0].partition(" (")[0]


def carry(draft: Draft, target: Site, source: Site | None, facts: Facts, *, account: str | None = None) -> Carried:
    """Return the job as the target wants it, and its plan."""
    way = Route(source, target, account)
    if not way.is_home:
        for step in _STEPS:
            step(draft, way)
    _renamed(draft, way)
    _required(draft, way)
    return _planned(draft, way, facts)


# ---------------------------------------------------------------- queues, accounts, features


def _queue(draft: Draft, way: Route) -> None:
    """Carry the queue: partition and QOS are names of one site, but what a queue is for is a request."""
    for field, word, flag in (("partition", "partition", "-p"), ("qos", "QOS", "-q")):
        name = draft.get(field)
        if name is None:
            continue
        selectors = _selectors(way.target.profile)
        reason = f"{flag} {name}: a {word} of {way.here}; {way.there} {selectors}"
        purpose = _purpose(way.source.profile if way.source else None, name)
        if purpose and not draft.get("trial"):
            draft.revise(field, Fate.CHANGED, None, f"{reason}. It is for short trials")
            draft.values["trial"] = [""]
            row = next(row for row in draft.rows if row.field == field)
            draft.replace(row, Fate.CHANGED, "--trial", row.why)
        else:
            draft.revise(field, Fate.CHANGED, None, reason)


def _selectors(profile: Profile) -> str:
    for name, word in (("qos", "QOS"), ("partition", "partition")):
        if _chosen(profile, name):
            return f"selects by {word}, which the plan chooses"
        if name in (profile.request.required or ()):
            return f"selects by {word}, which you choose"
    return "chooses the queue itself"


def _purpose(profile: Profile | None, name: str) -> bool:
    """Tell whether a queue is for short trials: by its site's profile, else by its name."""
    queue = (profile.partitions.get(name) or profile.qos.get(name)) if profile else None
    if queue is not None and queue.purpose is not None:
        return queue.purpose == "debug"
    return re.search(r"debug|(^|[-_])dev([-_]|$)|(^|[-_])test([-_]|$)", name) is not None


def _account(draft: Draft, way: Route) -> None:
    name = draft.get("account")
    if way.account is not None:
        draft.revise("account", Fate.CHANGED, way.account, "as you gave it")
        return
    if name is None:
        return
    request = way.target.profile.request
    reason = f"{name} is an account of {way.here}"
    if "account" in (request.required or ()):
        example = request.account_example or "ACCOUNT"
        draft.revise("account", Fate.ASKED, example, f"{reason}: put yours of {way.there} here")
    else:
        draft.revise(
            "account", Fate.ASKED, None, f"{reason}; {way.there} bills your default one unless -A names another"
        )


def _features(draft: Draft, way: Route) -> None:
    for field, noun in (("constraint", "a feature"), ("nodelist", "nodes"), ("exclude", "nodes")):
        value = draft.get(field)
        if value is None:
            continue
        known_features = way.target.profile.request.features or ()
        if field == "constraint" and value in known_features:
            continue
        draft.revise(field, Fate.CHANGED, None, f"{value}: {noun} of {way.here}")
    gres = draft.get("gres")
    if gres is not None:
        draft.revise("gres", Fate.ASKED, None, f"{gres}: a resource of {way.here}")
    if draft.get("distribution") == "nopack":
        draft.revise("distribution", Fate.CHANGED, None, f"a word of {way.here}")


_OF_ONE_SITE = {
    "hint": "what counts as a CPU differs from site to site, and the plan knows it",
    "threads-per-core": "what counts as a CPU differs from site to site, and the plan knows it",
    "ntasks-per-core": "what counts as a CPU differs from site to site, and the plan knows it",
    "reservation": "a reservation of one site",
    "licenses": "a licence of one site",
    "dependency": "jobs of one site",
    "wckey": "a key of one site's accounting",
    "clusters": "a cluster of one site",
    "network": "a word for the network of one site",
    "switches": "the switches of one site",
    "core-spec": "cores that one site keeps for itself",
    "gres-flags": "a way to bind that the plan does not need",
    "tmp": "the disk of one site's nodes",
    "cpu-freq": "the clocks of one site's nodes",
    "gpu-freq": "the clocks of one site's nodes",
    "container": "an image of one site",
    "sockets-per-node": "the sockets of one site's nodes",
    "cores-per-socket": "the sockets of one site's nodes",
    "extra-node-info": "the sockets of one site's nodes",
    "mincpus": "the CPUs of one site's nodes",
}


def _flags(draft: Draft, way: Route) -> None:
    """Carry flags that are handed on: those about one site's machines stay behind."""
    forbidden = {rule.flag: rule.reason for rule in way.target.profile.request.forbidden if rule.value is None}
    for flag in list(draft.values.get("sbatch", ())):
        name = flag.removeprefix("--").partition("=")[0]
        if name in _OF_ONE_SITE or name in forbidden:
            reason = _OF_ONE_SITE.get(name) or f"{way.there}: {forbidden[name]}"
            draft.revise_one("sbatch", flag, Fate.CHANGED, None, reason)
    for flag in list(draft.values.get("srun", ())):
        draft.revise_one(
            "srun", flag, Fate.ASKED, None, f"a flag of the step at {way.here}: is it needed at {way.there}?"
        )
    for flag in ("exclusive",):
        if draft.get(flag) is not None and way.target.profile.request.sharing == "exclusive":
            draft.revise(flag, Fate.CHANGED, None, f"{way.there} gives whole nodes to every job")


# ---------------------------------------------------------------- sizes


def _gpu_type(draft: Draft, way: Route) -> None:
    """Carry the number of the GPUs: their type is a word of one site."""
    gpus = [re.fullmatch(r"gpu:([^:,]+):(\d+)", item) for item in (draft.get("gres") or "").split(",")]
    typed = next(filter(None, gpus), None)
    if typed is None:
        return
    draft.values["gpus_per_node"] = [typed[2]]
    others = ",".join(item for item in (draft.get("gres") or "").split(",") if item != typed[0])
    reason = f"{typed[1]}: a type of {way.here}; the GPUs of {way.there} are those of its queue"
    for row in [row for row in draft.rows if row.field == "gres" and typed[0] in row.now]:
        new = msgspec.structs.replace(
            row, verdict=Fate.CHANGED, now=f"-g {typed[2]}", why=reason, field="gpus_per_node"
        )
        draft.rows[draft.rows.index(row)] = new
    draft.values.pop("gres")
    if others:
        draft.values["gres"] = [others]
        draft.rows.append(PortRow(0, f"--gres {others}", Fate.KEPT, f"--gres {others}", "", "gres"))


def _shape(draft: Draft, way: Route) -> None:
    """Give the same ranks and GPUs on nodes that have more or fewer of them."""
    node = _node(way.target.profile)
    old_gpus, nodes = draft.number("gpus_per_node") or 0, draft.number("nodes") or 1
    ranks = draft.number("ntasks_per_node")
    has = node.gpus if node else None
    if not old_gpus or not has or ranks not in {None, old_gpus}:
        if old_gpus and has and old_gpus > has:
            draft.revise("gpus_per_node", Fate.ASKED, str(has), f"a node of {way.there} has {has} GPUs")
            if ranks and ranks > has:
                draft.revise("ntasks_per_node", Fate.ASKED, str(has), f"a node of {way.there} has {has} GPUs")
        return
    total = old_gpus * nodes
    whole = way.target.profile.request.sharing == "exclusive" or way.target.profile.request.gpus == "whole-node"
    if old_gpus <= has and not (whole and old_gpus < has and nodes > 1):
        if way.target.profile.request.gpus == "whole-node" and old_gpus != has:
            draft.revise("gpus_per_node", Fate.CHANGED, str(has), f"{way.there} gives whole nodes of {has} GPUs only")
        return
    new_gpus = max(count for count in range(1, has + 1) if total % count == 0)
    reason = (
        f"{nodes} × {old_gpus} = {total} GPUs: {total // new_gpus} × {new_gpus} of {way.there}, whose nodes have {has}"
    )
    draft.revise("nodes", Fate.CHANGED, str(total // new_gpus), reason)
    draft.revise("gpus_per_node", Fate.CHANGED, str(new_gpus), reason)


def _most_nodes(draft: Draft, way: Route) -> None:
    """Ask about more nodes than any queue of the target gives, where the plan names no queue to be held against."""
    profile, nodes = way.target.profile, draft.number("nodes") or 1
    gpus = bool(draft.number("gpus_per_node"))
    fit = [queue for queue in profile.partitions.values() if queue.open and bool(queue.gpus) == gpus]
    limits = [queue.nodes_max for queue in fit if queue.nodes_max is not None]
    if fit and len(limits) == len(fit) and nodes > max(limits):
        reason = f"{nodes} nodes, but no queue of {way.there} gives a job more than {max(limits)}"
        draft.revise("nodes", Fate.ASKED, str(max(limits)), reason)


def _node(profile: Profile, draft: Draft | None = None) -> NodeKind | None:
    """Return the kind of node that the job gets: the first with GPUs, or the first of all for a job without."""
    wants = draft is None or (draft.number("gpus_per_node") or 0) > 0
    return next((node for node in profile.nodes.values() if wants == bool(node.gpus)), None) or next(
        iter(profile.nodes.values()), None
    )


def _cpus(draft: Draft, way: Route) -> None:
    """Give a rank its GPU's share of the target's cores, not of the source's."""
    cpus = draft.number("cpus_per_task")
    node = _node(way.target.profile, draft)
    if cpus is None or node is None:
        return
    if node.cores_per_gpu and draft.number("gpus_per_node"):
        reason = f"{cpus} for each rank is a matter of {way.here}; a GPU of {way.there} has {node.cores_per_gpu} cores"
        draft.revise("cpus_per_task", Fate.CHANGED, None, reason)
    elif node.cores and cpus * (draft.number("ntasks_per_node") or draft.number("gpus_per_node") or 1) > node.cores:
        share = max(1, node.cores // (draft.number("ntasks_per_node") or draft.number("gpus_per_node") or 1))
        draft.revise("cpus_per_task", Fate.CHANGED, str(share), f"a node of {way.there} has {node.cores} cores")


def _memory(draft: Draft, way: Route) -> None:
    text = draft.get("mem")
    if text is None:
        return
    memory, node = way.target.profile.memory, _node(way.target.profile, draft)
    if memory.policy in {"whole-node", "forbidden", "per-gpu", "explicit"}:
        alternative = {
            "whole-node": "gives all memory of a node",
            "forbidden": "takes no --mem",
            "per-gpu": "gives memory by the GPU, which the plan asks for",
            "explicit": "wants it asked for, and the plan does that",
        }[memory.policy]
        if memory.policy != "explicit" or memory.mem or memory.mem_per_gpu:
            draft.revise("mem", Fate.CHANGED, None, f"{text} is a size of {way.here}; {way.there} {alternative}")
            return
    limit = parse_memory_mib(node.memory_usable) if node and node.memory_usable else (node.memory_mib if node else None)
    mib = Memory.parse(text).mib
    if limit is not None and (mib > limit or mib == 0):
        draft.revise("mem", Fate.CHANGED, f"{limit}M", f"a node of {way.there} gives {limit} MiB at most")
    elif mib == 0:
        draft.revise("mem", Fate.CHANGED, None, f"all memory of a node: what {way.there} gives for it is not known")


def _time(draft: Draft, way: Route) -> None:
    text = draft.get("time")
    if text is None:
        return
    seconds = parse_walltime_s(text)
    longest = _longest(way.target.profile)
    if longest is not None and (seconds is None or seconds > longest):
        reason = f"{text} is more than any queue of {way.there} allows: let the job save, and submit it again"
        draft.revise("time", Fate.CHANGED, format_walltime(longest), reason)


def _longest(profile: Profile) -> int | None:
    ruled_queues = {rule.qos or rule.partition for rule in profile.queue_rules}
    queues = [
        queue
        for group in (profile.partitions, profile.qos)
        for name, queue in group.items()
        if queue.open
        and (not ruled_queues or name in ruled_queues)
        and queue.purpose not in {"debug", "interactive", "test"}
    ]
    limits = [parse_walltime_s(queue.time_max) for queue in queues if queue.time_max]
    known_limits = [limit for limit in limits if limit is not None]
    return max(known_limits) if known_limits and len(known_limits) == len(limits) else None


# ---------------------------------------------------------------- environment, modules, images


_OF_NETWORKS = re.compile(
    r"(NCCL|RCCL|GLOO|TP)_(SOCKET_IFNAME|IB_\w+|NET\w*|CROSS_NIC|P2P\w*|COLLNET\w*|ALGO|PROTO|SHM\w*|TOPO\w*|DMABUF\w*)"
    r"|(FI|UCX|PSM2?|OPX|MPICH|CXI|OFI|SHARP|HCOLL|MV2|I_MPI|PMIX|PMI|SLURM|OMPI_MCA|OMPI|ROCR|HSA|HIP|MIOPEN|AITER)_\w+"
)


def _variables(draft: Draft, way: Route) -> None:
    """Keep the user's variables; those of the network and of the machine are the target's profile's."""
    source_names = {setting.name for setting in way.source.profile.environment} if way.source else set()
    target_settings = {setting.name: setting for setting in way.target.profile.environment}
    for setting in list(draft.values.get("env", ())):
        name = setting.partition("=")[0]
        target_setting = target_settings.get(name)
        if name == "CUDA_VISIBLE_DEVICES":
            draft.revise_one(
                "env", setting, Fate.CHANGED, None, "every rank sees all GPUs, and takes its own by LOCAL_RANK"
            )
        elif name.lower() in {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy"}:
            reason = f"a proxy of {way.here}; --env sets the one of {way.there}, if it has one"
            draft.revise_one("env", setting, Fate.ASKED, None, reason)
        elif name.startswith(("APPTAINER", "SINGULARITY", "ENROOT", "PODMAN", "SLURM_")):
            reason = f"the engine of {way.there} and its cache are the plan's"
            draft.revise_one("env", setting, Fate.CHANGED, None, reason)
        elif target_setting is not None:
            shown_value = (
                f"{target_setting.value}"
                if target_setting.verdict == "kept" and not target_setting.unset
                else "not set"
            )
            draft.revise_one(
                "env", setting, Fate.CHANGED, None, f"{way.there}: {shown_value}, for {target_setting.reason}"
            )
        elif name in source_names or _OF_NETWORKS.fullmatch(name):
            reason = f"for the network and the machine of {way.here}; {way.there} has settings of its own"
            draft.revise_one("env", setting, Fate.CHANGED, None, reason)
    _settings(draft, way)


def _settings(draft: Draft, way: Route) -> None:
    """Take the settings of one site's machine out of the task's shell."""
    if len(draft.command) != 3 or draft.command[1] != "-c":
        return
    target_settings = {setting.name: setting for setting in way.target.profile.environment}
    source_names = {setting.name for setting in way.source.profile.environment} if way.source else set()
    kept_texts = []
    for part in draft.command[2].split("; "):
        match = re.match(r"export (\w+)=", part)
        name = match[1] if match else ""
        if name and (
            name in target_settings
            or name in source_names
            or _OF_NETWORKS.fullmatch(name)
            or name == "CUDA_VISIBLE_DEVICES"
        ):
            for row in [row for row in draft.rows if row.now == "in the command" and f"{name}=" in row.what]:
                reason = f"for the machine of {way.here}; {way.there} has settings of its own"
                draft.replace(row, Fate.CHANGED, "", reason)
            continue
        kept_texts.append(part)
    text = "; ".join(kept_texts)
    words = _plain_words(text)
    new = words if words is not None else ("bash", "-c", text)
    for row in [row for row in draft.rows if row.now.startswith("bash -c") and row.what.endswith("…")]:
        draft.replace(row, row.verdict, " ".join(new), row.why)
    draft.command = new


def _plain_words(text: str) -> tuple[str, ...] | None:
    """Return the words of `exec …` where no shell is needed for them."""
    import shlex

    if not text.startswith("exec ") or re.search(r"[$`;|&<>]", text):
        return None
    try:
        return tuple(shlex.split(text.removeprefix("exec ")))
    except ValueError:
        return None


def _modules(draft: Draft, way: Route) -> None:
    """Match modules by what they bring; a module's name is one site's."""
    profile = way.target.profile
    loads = {meaning_of(name.partition("|")[0])[0] for name in profile.modules.load or ()}
    taken_words: set[str] = set()
    for name in list(draft.values.get("module", ())):
        kind, words = meaning_of(name)
        new = same_at(profile, kind) if kind else None
        if draft.get("image") and kind in {
            "container",
            "cuda",
            "rocm",
            "nccl",
            "build",
            "mpi",
            "slurm",
            "torch",
            "python",
        }:
            reason = f"{words}: the image and the engine of {way.there} bring what is needed"
            draft.revise_one("module", name, Fate.CHANGED, None, reason)
        elif kind in {"slurm", "container"}:
            draft.revise_one("module", name, Fate.CHANGED, None, f"{words}: it is there without a module")
        elif kind and (kind in loads or kind in taken_words):
            draft.revise_one("module", name, Fate.CHANGED, None, f"{words}: {new or 'a module'} is loaded by the plan")
        elif new is not None and kind != "build":
            taken_words.add(kind)
            draft.revise_one(
                "module", name, Fate.CHANGED, new, f"{words}: {name} at {way.here} is {new} at {way.there}"
            )
        elif profile.modules.system == "none":
            reason = f"{words or 'a module'}: {way.there} has no modules; an image or a virtual environment brings it"
            draft.revise_one("module", name, Fate.ASKED, None, reason)
        else:
            reason = f"{words or 'a module of ' + way.here}: which module of {way.there} brings it? --module NAME"
            draft.revise_one("module", name, Fate.ASKED, None, reason)
    for folder in list(draft.values.get("module_use", ())):
        draft.revise_one("module_use", folder, Fate.ASKED, None, f"a folder of {way.here}: does {way.there} have one?")


def _launcher(draft: Draft, way: Route) -> None:
    name = draft.get("launcher")
    launch = way.target.profile.launch
    if name is None or not launch.allowed or name in launch.allowed:
        return
    better = {"mpirun+torchrun": "torchrun", "mpirun": "srun"}.get(name, launch.preferred or "srun")
    reason = launch.refused.get(name, f"it is not how ranks start at {way.there}")
    draft.revise("launcher", Fate.CHANGED, better if better in launch.allowed else launch.preferred, reason)


def _mpi(draft: Draft, way: Route) -> None:
    name, known_types = draft.get("mpi"), way.target.profile.launch.mpi_types
    if name is None:
        return
    target_type = way.target.profile.launch.mpi
    if known_types and name in known_types:
        return
    reason = f"--mpi={name} is the process management of {way.here}"
    new = target_type if target_type and (not known_types or target_type in known_types) else None
    draft.revise(
        "mpi",
        Fate.CHANGED,
        new,
        f"{reason}; {way.there} has {new}" if new else f"{reason}; ranks of torch need none",
    )


def _image(draft: Draft, way: Route) -> None:
    """Carry the image: it is a file of one site, made for one kind of GPU."""
    image = draft.get("image")
    if image is None:
        return
    node = _node(way.target.profile)
    source_node = _node(way.source.profile) if way.source else None
    reason = f"bring it to {way.there}, or build it there: muster build image"
    if source_node and node and source_node.gpu_kind and node.gpu_kind and source_node.gpu_kind != node.gpu_kind:
        reason = f"it is made for {source_node.gpu_kind}, but {way.there} has {node.gpu_kind}: it needs another image"
    elif source_node and node and source_node.arch and node.arch and source_node.arch != node.arch:
        reason = f"it is made for {source_node.arch}, but {way.there} has {node.arch}: it needs another image"
    engines = {container.engine for container in way.target.profile.containers.values()}
    site_image = next((name for name, image in way.target.profile.images.items() if not image.gone), None)
    is_file = not re.match(r"\w+://|site:", image)
    if is_file and engines and not engines & {"apptainer", "singularity"}:
        new = f"site:{site_image}" if site_image else "docker://IMAGE"
        draft.revise(
            "image",
            Fate.ASKED,
            new,
            f"{way.there} does not run {image}: {', '.join(sorted(engines))} runs its images",
        )
    elif is_file and not image.startswith("/") and not image.endswith((".sif", ".sqsh", ".toml")) and "/" not in image:
        new = f"site:{site_image}" if site_image else "IMAGE.sif"
        draft.revise("image", Fate.ASKED, new, f"{image} is the name of an image at {way.here}")
    elif is_file:
        new = (
            image
            if image.endswith((".sif", ".sqsh")) or not image.endswith(".toml")
            else (f"site:{site_image}" if site_image else "IMAGE.sif")
        )
        draft.revise("image", Fate.ASKED, new, reason)
    _binds(draft, way)


def _binds(draft: Draft, way: Route) -> None:
    site_paths = (
        [filesystem.path.partition("$")[0].rstrip("/") for filesystem in way.source.profile.filesystems.values()]
        if way.source
        else []
    )
    profile = way.target.profile
    known_paths = {
        bind.path for container in profile.containers.values() for bind in container.binds if bind.verdict == "kept"
    }
    system = ("/opt/cray", "/usr/lib", "/var/spool/slurmd", "/etc/slurm", "/usr/bin", "/run/munge", "/lib")
    for bind in list(draft.values.get("bind", ())):
        path = bind.partition(":")[0]
        if path in known_paths:
            draft.revise_one("bind", bind, Fate.CHANGED, None, f"the profile of {way.there} binds it already")
        elif path.startswith(system):
            draft.revise_one(
                "bind",
                bind,
                Fate.CHANGED,
                None,
                f"a part of {way.here} itself; the profile of {way.there} binds what is needed",
            )
        elif path in site_paths or any(
            root and path.startswith(f"{root}/") and root.count("/") >= 1 for root in site_paths
        ):
            draft.revise_one(
                "bind", bind, Fate.ASKED, None, f"a path of {way.here}: where does it lie at {way.there}? --bind DIR"
            )
        elif path != "/tmp":  # noqa: S108  # a path of the script, which is read and never opened
            for row in [row for row in draft.rows if row.field == "bind" and row.now.endswith(f" {bind}")]:
                draft.replace(row, Fate.ASKED, row.now, f"is the path there at {way.there}?")


_MADE = {"venv": " muster build venv makes one", "conda": " muster build venv makes an environment"}


def _places(draft: Draft, way: Route) -> None:
    """Keep the paths of the script, and ask about them."""
    for field in ("chdir", "venv", "conda"):
        value = draft.get(field)
        if value is not None and value != "none":
            draft.revise(field, Fate.ASKED, value, f"is it there at {way.there}?{_MADE.get(field, '')}")
    for field in ("output", "error"):
        value = draft.get(field)
        if value is not None and value.startswith("/"):
            draft.revise(field, Fate.ASKED, value, f"a path of {way.here}: is it there at {way.there}?")


def _engine(draft: Draft, way: Route) -> None:
    if draft.get("engine") is not None:
        draft.revise("engine", Fate.CHANGED, None, f"{way.there} has its own")


_STEPS: tuple[Callable[[Draft, Route], None], ...] = (
    _gpu_type,
    _queue,
    _account,
    _features,
    _flags,
    _shape,
    _most_nodes,
    _cpus,
    _memory,
    _time,
    _variables,
    _modules,
    _launcher,
    _mpi,
    _image,
    _engine,
    _places,
)


# ---------------------------------------------------------------- what the target wants besides, and its plan


def _required(draft: Draft, way: Route) -> None:
    """Give what the target refuses a job without, and ask about it."""
    profile = way.target.profile
    for name in profile.request.required or ():
        if name == "account" and draft.get("account") is None:
            value = way.account or profile.request.account_example or "ACCOUNT"
            verdict = Fate.CHANGED if way.account else Fate.ASKED
            draft.revise("account", verdict, value, f"{way.there} wants an account: put yours here")
        elif name == "time" and draft.get("time") is None:
            draft.revise("time", Fate.ASKED, "01:00:00", f"{way.there} wants a time limit: an hour is a guess")


def _choose(draft: Draft, way: Route, name: str) -> bool:
    """Take the first queue that fits where the target wants one and no rule of its profile chooses it, and ask."""
    profile = way.target.profile
    queues = profile.qos if name == "qos" else profile.partitions
    purpose = "debug" if "trial" in draft.values else "production"
    fit = [name for name, queue in queues.items() if queue.open and queue.gpus != 0 and _takes(queue, draft)]
    fit.sort(key=lambda name: queues[name].purpose != purpose)
    if not fit or draft.get(name) is not None:
        return False
    draft.revise(name, Fate.ASKED, fit[0], f"{way.there} wants a {name}: which of {', '.join(fit)}?")
    return True


def _chosen(profile: Profile, name: str) -> bool:
    """Tell whether the rules of a profile choose a queue of this kind."""
    return any(getattr(rule, name) and not (rule.when and rule.when.trial) for rule in profile.queue_rules)


def _takes(queue: Queue, draft: Draft) -> bool:
    """Tell whether a queue takes a job of this size and time."""
    nodes, time = draft.number("nodes") or 1, parse_walltime_s(draft.get("time") or "1")
    longest = parse_walltime_s(queue.time_max) if queue.time_max else None
    short = longest is None or (time is not None and time <= longest)
    return short and (queue.nodes_max is None or nodes <= queue.nodes_max) and (queue.nodes_min or 1) <= nodes


def _renamed(draft: Draft, way: Route) -> None:
    """Take the new name of a module or a queue that its site has renamed."""
    profile = way.target.profile
    for name in list(draft.values.get("module", ())):
        new = profile.modules.renamed.get(name) or profile.modules.renamed.get(name.partition("/")[0])
        if new is None:
            continue
        fits = re.fullmatch(r"[\w./+-]+", new) is not None and new not in draft.values["module"]
        reason = f"{way.there} has renamed it: {new}"
        draft.revise_one("module", name, Fate.CHANGED if fits else Fate.ASKED, new if fits else None, reason)
    for field in ("partition", "qos"):
        old = draft.get(field)
        if old is not None and old in profile.queues_renamed:
            draft.revise(field, Fate.CHANGED, profile.queues_renamed[old], f"{way.there} has renamed it")


def request_of(draft: Draft, site: str | None = None) -> Request:
    """Return the request of a draft, as the command line would make it."""
    words = [*draft.words(), *(("--site", site) if site else ()), "--", *draft.command]
    values, origins, command = parse(words)
    return request_from({}, values, origins, command)


def facts_of(working_directory: str, home: str, user: str) -> Facts:
    """Return the facts that a plan for another place may have: nothing of this machine's Python or Slurm."""
    image = ImageFacts(project=working_directory, programs={})
    return Facts(working_directory=working_directory, home=home, user=user, python=None, image=image)


def _planned(draft: Draft, way: Route, facts: Facts) -> Carried:
    """Make the plan; what it refuses is repaired as the refusal's values say, as long as that helps."""
    seen_words: set[tuple[str, ...]] = set()
    passed_on = {word: "…" for word in draft.values.get("env", ()) if "=" not in word}
    facts = msgspec.structs.replace(facts, environment={**facts.environment, **passed_on})
    while True:
        option_texts = tuple(draft.words())
        try:
            request = request_of(draft, way.target.name)
            command_words = (*option_texts, "--site", way.target.name, "--", *draft.command)
            plan = make_plan(request, way.target, facts, typed=command_words)
            if _kept_srun(draft, plan, way):
                continue
            _hold_ranks(draft, plan)
            return Carried(draft, plan, None)
        except MusterError as error:
            refusals = error.refusals if isinstance(error, RequestError) else ()
            seen_words.add(option_texts)
            repaired = [_repair(draft, refusal, way) for refusal in refusals]
            if not any(repaired) or tuple(draft.words()) in seen_words or len(seen_words) > _MOST_REPAIRS:
                return Carried(draft, None, error)


def _kept_srun(draft: Draft, plan: Plan, way: Route) -> bool:
    """Keep srun where the script has it and the target prefers another launcher; tell whether the request changed."""
    rows = [row for row in draft.rows if row.field == "started"]
    if not rows or draft.get("launcher") is not None:
        return False
    if plan.launcher == "srun":
        for row in rows:
            draft.replace(row, row.verdict if is_open(row) else Fate.KEPT, row.now, "srun starts the ranks")
        return False
    allowed = way.target.profile.launch.allowed
    if allowed and "srun" not in allowed:
        refused = way.target.profile.launch.refused.get("srun", f"{way.there} does not start ranks with srun")
        for row in rows:
            draft.replace(row, Fate.CHANGED, "", f"{plan.launcher} starts the ranks: {refused}")
        return False
    draft.values["launcher"] = ["srun"]
    for row in rows:
        reason = f"srun starts the ranks, where {way.there} prefers {plan.launcher}"
        draft.replace(row, row.verdict if is_open(row) else Fate.KEPT, "--launcher srun", reason)
    return True


def _hold_ranks(draft: Draft, plan: Plan) -> None:
    """Ask about a job that has not as many ranks as the script."""
    ranks = plan.shape.nodes * plan.shape.ntasks_per_node
    if not draft.world or ranks == draft.world:
        return
    reason = f"the script starts {draft.world} ranks, and the job {ranks}"
    rows = [row for row in draft.rows if row.field in {"nodes", "ntasks_per_node", "gpus_per_node", "gres"}]
    for row in rows:
        draft.replace(row, Fate.ASKED, row.now, "; ".join(filter(None, [row.why, reason])))
    if not rows:
        draft.ask(0, "(ranks)", reason)


_REPAIRS: Mapping[str, str] = {
    "time": "time",
    "cpus-per-task": "cpus_per_task",
    "gpus-per-node": "gpus_per_node",
    "ntasks-per-node": "ntasks_per_node",
    "mem": "mem",
    "launcher": "launcher",
    "account": "account",
}
"""The fields that a repair changes, by the long names of their options."""


def _repair(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Change the draft so that this rule is kept, and tell whether anything was changed."""
    return any(
        repair(draft, refusal, way) for repair in (_required_by_plan, _accepted, _no_trial, _kept_image, _fewer_nodes)
    )


def _required_by_plan(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Ask about what the plan wants besides."""
    if refusal.rule in {"required-qos", "required-partition"}:
        return _choose(draft, way, refusal.rule.removeprefix("required-"))
    guesses = {
        "required-mem": ("mem", "16G", f"{way.there} wants the memory of a node: 16G is a guess"),
        "no-time-limit": (
            "time",
            "01:00:00",
            "the ranks save before the time limit, which is needed: an hour is a guess",
        ),
    }
    field, value, reason = guesses.get(refusal.rule, ("", "", ""))
    if not field or draft.get(field) is not None:
        return False
    draft.revise(field, Fate.ASKED, value, reason)
    return True


def _accepted(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Take the values that the rule would accept. An account of the target is known to its owner alone."""
    is_changed = False
    for name, value in refusal.accepted.items():
        field = _REPAIRS.get(name)
        is_refused = field == "launcher" and value not in (way.target.profile.launch.allowed or (value,))
        if field is None or draft.get(field) == value or is_refused:
            continue
        verdict = Fate.ASKED if field == "account" else Fate.CHANGED
        draft.revise(field, verdict, value, f"{way.there}: {refusal.message}")
        is_changed = True
    return is_changed


def _no_trial(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Ask for no trial where the queue for trials refuses the job."""
    profile = way.target.profile
    trial_queues = {
        name
        for rule in profile.queue_rules
        if rule.when is not None and rule.when.trial
        for name in (rule.partition, rule.qos)
    }
    if draft.get("trial") is None or not refusal.queue or refusal.queue not in trial_queues:
        return False
    draft.revise("trial", Fate.CHANGED, None, f"{way.there}: {refusal.message}")
    return True


def _kept_image(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Take a file in the place of an image that the nodes cannot pull."""
    image = draft.get("image")
    if image is None or refusal.rule != "image-pull":
        return False
    name = f"{image.rpartition('/')[2].partition(':')[0]}.sif"
    reason = f"the nodes of {way.there} have no way out: muster build image --from {image} -o {name} where there is one"
    draft.revise("image", Fate.ASKED, name, reason)
    return True


def _fewer_nodes(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Follow a queue that takes fewer nodes."""
    if refusal.rule != "nodes-max" or refusal.limit is None:
        return False
    reason = f"{way.there}: {refusal.queue} takes jobs of at most {refusal.limit} nodes"
    draft.revise("nodes", Fate.ASKED, str(refusal.limit), reason)
    return True
