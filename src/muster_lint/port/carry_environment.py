"""What the ranks need at another site: variables, modules, a launcher, an image, folders. Pure."""

from __future__ import annotations

import re

from muster_lint.port.modules import meaning_of, same_at
from muster_lint.port.target import Route, node_of
from muster_lint.port.values import Draft, Fate

_OF_NETWORKS = re.compile(
    r"(NCCL|RCCL|GLOO|TP)_(SOCKET_IFNAME|IB_\w+|NET\w*|CROSS_NIC|P2P\w*|COLLNET\w*|ALGO|PROTO|SHM\w*|TOPO\w*|DMABUF\w*)"
    r"|(FI|UCX|PSM2?|OPX|MPICH|CXI|OFI|SHARP|HCOLL|MV2|I_MPI|PMIX|PMI|SLURM|SRUN|SBATCH|OMPI_MCA|OMPI|ROCR|HSA|HIP|MIOPEN|AITER)_\w+"
)


def carry_variables(draft: Draft, way: Route) -> None:
    """Keep the user's variables; those of the network and of the machine are the target's profile's."""
    source_names = {setting.name for setting in way.source.profile.environment} if way.source else set()
    target_settings = {setting.name: setting for setting in way.target.profile.environment}
    for setting in list(draft.values.get("env", ())):
        name = setting.partition("=")[0]
        target_setting = target_settings.get(name)
        if name in _SEARCHED:
            reason = f"folders that programs are searched in: are they there at {way.there}?"
            draft.revise_one("env", setting, Fate.ASKED, setting, reason)
        elif name == "CUDA_VISIBLE_DEVICES":
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
            reason = f"it is for the network and the nodes of {way.here}; Muster sets what those of {way.there} need"
            draft.revise_one("env", setting, Fate.CHANGED, None, reason)
    _settings(draft, way)


_SEARCHED = frozenset({"PYTHONPATH", "PATH", "LD_LIBRARY_PATH"})
"""Variables that the user's own folders stand in, whatever a site sets them to."""


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
        if name in _SEARCHED:
            for row in [row for row in draft.rows if row.now == "in the command" and f"{name}=" in row.what]:
                reason = f"folders that programs are searched in: are they there at {way.there}?"
                draft.replace(row, Fate.ASKED, row.now, reason)
        elif name and (
            name in target_settings
            or name in source_names
            or _OF_NETWORKS.fullmatch(name)
            or name == "CUDA_VISIBLE_DEVICES"
        ):
            for row in [row for row in draft.rows if row.now == "in the command" and f"{name}=" in row.what]:
                reason = f"it is for the nodes of {way.here}; Muster sets what those of {way.there} need"
                draft.replace(row, Fate.CHANGED, "", reason)
            continue
        kept_texts.append(part)
    text = "; ".join(kept_texts)
    words = _plain_words(text)
    new = words if words is not None else ("bash", "-c", text)
    for row in [row for row in draft.rows if row.now.startswith("bash -c")]:
        draft.replace(row, row.verdict, " ".join(new), row.why)
    draft.command = new


def _plain_words(text: str) -> tuple[str, ...] | None:
    """Return the words of `exec …` where no shell is needed for them."""
    import shlex

    if not text.startswith("exec ") or re.search(r"[$`;|&<>*?[{~]", text):
        return None
    try:
        return tuple(shlex.split(text.removeprefix("exec ")))
    except ValueError:
        return None


def carry_modules(draft: Draft, way: Route) -> None:
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


def carry_launcher(draft: Draft, way: Route) -> None:
    name = draft.get("launcher")
    launch = way.target.profile.launch
    if name is None or not launch.allowed or name in launch.allowed:
        return
    better = {"mpirun+torchrun": "torchrun", "mpirun": "srun"}.get(name, launch.preferred or "srun")
    reason = launch.refused.get(name, f"it is not how ranks start at {way.there}")
    new = better if better in launch.allowed else launch.preferred
    draft.revise("launcher", Fate.CHANGED, new, reason)


def carry_mpi(draft: Draft, way: Route) -> None:
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


def carry_image(draft: Draft, way: Route) -> None:
    """Carry the image: it is a file of one site, made for one kind of GPU."""
    image = draft.get("image")
    if image is None:
        return
    node = node_of(way.target.profile)
    source_node = node_of(way.source.profile) if way.source else None
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
    elif is_file and "/" not in image and not image.endswith((".sif", ".sqsh", ".toml")):
        new = f"site:{site_image}" if site_image else "IMAGE.sif"
        draft.revise("image", Fate.ASKED, new, f"{image} is the name of an image at {way.here}")
    elif is_file:
        here_too = not image.endswith(".toml")
        new = image if here_too else f"site:{site_image}" if site_image else "IMAGE.sif"
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
        elif any(root and f"{path}/".startswith(f"{root}/") for root in site_paths):
            draft.revise_one(
                "bind", bind, Fate.ASKED, None, f"a path of {way.here}: where does it lie at {way.there}? --bind DIR"
            )
        elif path != "/tmp":  # noqa: S108  # a path of the script, which is read and never opened
            for row in [row for row in draft.rows if row.field == "bind" and row.now.endswith(f" {bind}")]:
                draft.replace(row, Fate.ASKED, row.now, f"is the path there at {way.there}?")


_MADE = {"venv": " muster build venv makes one", "conda": " muster build venv makes an environment"}


def carry_places(draft: Draft, way: Route) -> None:
    """Keep the paths of the script, and ask about them."""
    for field in ("chdir", "venv", "conda"):
        value = draft.get(field)
        if value is not None and value != "none":
            variable = re.search(r"\$\{?\w+\}?", value)
            ask = f"write its value in the place of {variable[0]}: no shell reads it" if variable else ""
            ask = ask or f"is it there at {way.there}?{_MADE.get(field, '')}"
            draft.revise(field, Fate.ASKED, value, ask)
    for field in ("output", "error"):
        value = draft.get(field)
        if value is not None and value.startswith("/"):
            draft.revise(field, Fate.ASKED, value, f"a path of {way.here}: is it there at {way.there}?")


def find_conda(draft: Draft) -> None:
    """Ask where a conda environment lies that has a name alone: the job's script has its folder."""
    name = draft.get("conda")
    if name is not None and "/" not in name:
        reason = (
            f"{name} is a name: the script of the job needs its folder, --conda DIR; muster submit finds it by name"
        )
        draft.revise("conda", Fate.ASKED, name, reason)


def carry_engine(draft: Draft, way: Route) -> None:
    if draft.get("engine") is not None:
        draft.revise("engine", Fate.CHANGED, None, f"{way.there} has its own")
