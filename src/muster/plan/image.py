"""(request, site, facts) → the image and the engine that runs it, or the reason why it cannot run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from muster.errors import MachineLacks, RequestError, UnknownName
from muster.facts import Facts, ImageFacts
from muster.job.request import Request
from muster.plan.model import Engine, Flag, ImageUse, Reason, Variable
from muster.plan.mounts import LIBRARY, make_mounts, without_tilde
from muster.plan.site_terms import node_kind, reason_for
from muster.sites.load import Site
from muster.sites.schema import Container
from muster.sites.schema import Image as SiteImage
from muster.sites.when import Situation

__all__ = ["HOST_NAMES", "Reference", "keep_host_outside", "reference_of", "use_image"]

# Which kinds of image an engine runs. Engines that are programs wrap the command; the others live in srun's flags.
_RUNS: Mapping[str, frozenset[str]] = {
    "apptainer": frozenset({"sif", "sandbox", "squashfs", "registry"}),
    "singularity": frozenset({"sif", "sandbox", "squashfs", "registry"}),
    "pyxis": frozenset({"squashfs", "registry"}),
    "cscs": frozenset({"squashfs", "registry", "edf"}),
}
_PROGRAMS = ("apptainer", "singularity")
_ENDINGS = {".sif": "sif", ".sqsh": "squashfs", ".sqfs": "squashfs", ".squashfs": "squashfs", ".toml": "edf"}
_SHOWN = {"sif": "a .sif file", "squashfs": "a squashfs file", "sandbox": "a sandbox", "edf": "an EDF"}
_GPU_FLAGS = {"cuda": "--nv", "rocm": "--rocm"}

# What a host's Python and loader would bring into an image, where other versions of everything live.
HOST_NAMES = ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_*")


@dataclass(frozen=True)
class Reference:
    """What --image says, before anybody has looked: a path, a registry's name, or the name of an EDF."""

    text: str
    kind: str | None
    """By its spelling; None: a path of which only a look can tell."""

    path: str | None
    """Where it lies on this host, if it is a path."""

    of_site: SiteImage | None = None


def reference_of(request: Request, site: Site, facts: Facts) -> Reference | None:
    """The image that was asked for; None: none was."""
    text = request.image
    if text is None:
        return None
    kept = _kept_by_site(text.removeprefix("site:"), site) if text.startswith("site:") else None
    text = kept.path if kept else text
    if text.startswith("docker://"):
        return Reference(text, "registry", None, kept)
    spelled = _ENDINGS.get(PurePosixPath(text).suffix)
    if kept and not text.startswith("/") and spelled is None:
        return Reference(f"docker://{text}", "registry", None, kept)
    if "://" in text:
        raise RequestError(
            f"--image {text}: of the addresses only docker:// is known", hint="docker://REGISTRY/NAME:TAG"
        )
    path = PurePosixPath(facts.working_directory) / without_tilde(text, facts.home)
    return Reference(text, spelled, str(path), kept)


def _kept_by_site(name: str, site: Site) -> SiteImage:
    images = site.profile.images
    if name not in images:
        raise UnknownName(f"image of {site.name}", name, [each for each, image in images.items() if not image.gone])
    if images[name].gone:
        raise RequestError(f"the image {name} of {site.name} is gone: {images[name].reason}", hint=_others(images))
    return images[name]


def _others(images: Mapping[str, SiteImage]) -> str:
    return "one of: " + ", ".join(f"site:{name}" for name, image in images.items() if not image.gone)


def use_image(request: Request, site: Site, facts: Facts, job: Situation, engine: Engine) -> ImageUse:
    """The image, its engine and all that goes with it; what cannot work is refused here."""
    reference = reference_of(request, site, facts)
    if reference is None:
        if request.bind or request.engine not in {None, "none"}:
            option = "bind" if request.bind else "engine"
            raise RequestError(f"--{option} says how an image runs, and there is none", hint="--image X.sif")
        return ImageUse("none", None, Reason("no image was asked for"))
    seen = facts.image or ImageFacts()
    kind = _kind(reference, seen)
    name, why = _engine(request, site, seen, reference, kind, engine)
    container_name = _container_of(site, name, request, reference)
    container = site.profile.containers.get(container_name or "")
    library = not seen.has_rank_library and seen.package is not None
    use = ImageUse(
        engine=name,
        image=reference.text if reference.path is None or kind == "edf-name" else reference.path,
        reason=Reason("set by you", request.origin("image")),
        engine_reason=why,
        program=_program(name, seen),
        verb=(reference.of_site and reference.of_site.verb) or (container and container.verb) or "exec",
        kind=kind.removesuffix("-name"),
        flags=tuple(_flags(site, container_name, container, request, seen, job, name)),
        mounts=make_mounts(request, site, facts, job, container_name, library=library),
        activation=(reference.of_site.activation or ()) if reference.of_site else (),
        annotations=tuple(_annotations(container, reference)),
        library=LIBRARY if library else None,
        asks_for_gpus=bool(job.gpus_per_node) and _gpu_kind(site, request, seen, engine) is None,
    )
    _check_launch(use, job, engine, seen)
    _check_machine(use, site, request, seen, engine, reference)
    return use


def _kind(reference: Reference, seen: ImageFacts) -> str:
    """What the image is; what is missing or broken goes no further."""
    if reference.kind == "registry":
        return "registry"
    text = reference.text
    if seen.kind == "missing" and "/" not in text and reference.kind is None:
        return "edf-name"
    if seen.kind == "missing" and reference.of_site is None:
        raise RequestError(f"there is no image {text}", hint=f"looked for {reference.path}")
    if seen.broken is not None:
        raise RequestError(f"the image {text} cannot be used: {seen.broken}", hint="pull, copy or build it again")
    if seen.kind in {"directory", "file"}:
        what = "a directory without programs" if seen.kind == "directory" else "no image that we know"
        raise RequestError(f"{text} is {what}", hint="a .sif, a .sqsh, a sandbox with its bin/ and usr/, or an EDF")
    found = seen.kind if seen.kind != "missing" else None
    return found or reference.kind or ("sandbox" if "/" in text else "edf-name")


def _engine(
    request: Request, site: Site, seen: ImageFacts, reference: Reference, kind: str, place: Engine
) -> tuple[str, Reason]:
    """The engine that was asked for, else the one the site keeps the image for, else the site's, else what is here."""
    kind = kind.removesuffix("-name")
    containers = site.profile.containers
    if request.engine is not None:
        name = containers[request.engine].engine if request.engine in containers else request.engine
        if name not in _RUNS:
            raise UnknownName("container engine", name, tuple(_RUNS))
        if kind not in _RUNS[name]:
            raise RequestError(_cannot(name, kind, reference.text), hint=f"it runs with {_or(_engines_for(kind))}")
        return name, Reason("set by you", request.origin("engine"))
    if reference.of_site is not None and reference.of_site.engine in containers:
        named = containers[reference.of_site.engine].engine
        if named in _RUNS:
            return named, Reason("the site keeps the image for it", f"site {site.name}: images")
    offered = sorted(containers.items(), key=lambda each: not each[1].preferred)
    for key, container in offered:
        if container.engine in _RUNS and kind in _RUNS[container.engine]:
            return container.engine, reason_for(site, f"containers.{key}", f"{site.name} has it")
    return _engine_here(site, seen, kind, reference, offered[0][1].engine if offered else None, place)


def _engine_here(
    site: Site, seen: ImageFacts, kind: str, reference: Reference, has: str | None, place: Engine
) -> tuple[str, Reason]:
    if has is not None:
        raise RequestError(_cannot(has, kind, reference.text, site.name), hint=f"--engine {_engines_for(kind)[0]}")
    if kind == "edf" and reference.kind is None:
        raise RequestError(
            f"there is no image {reference.text}",
            hint=f"looked for {reference.path}; an EDF's name wants --engine cscs",
        )
    for program in _PROGRAMS:
        if program in seen.programs and kind in _RUNS[program]:
            return program, Reason(f"it runs {_SHOWN.get(kind, 'such images')}, and this host has it")
    name = _engines_for(kind)[0]
    if name in _PROGRAMS and (place is Engine.HERE or facts_were_gathered(seen)):
        where = "this machine" if place is Engine.HERE else f"neither this host nor the profile {site.name}"
        raise MachineLacks(
            name,
            f"{where} has {'no' if place is Engine.HERE else 'a'} program that runs {_SHOWN.get(kind, reference.text)}",
            hint="load the module that has apptainer or singularity, or name what the nodes have with --engine",
        )
    return name, Reason(f"it runs {_SHOWN.get(kind, 'such images')}")


def facts_were_gathered(seen: ImageFacts) -> bool:
    """Whether anybody has looked at this host."""
    return seen.machine is not None


def _engines_for(kind: str) -> list[str]:
    return [name for name, kinds in _RUNS.items() if kind in kinds]


def _or(names: list[str]) -> str:
    return " or ".join(names)


def _cannot(engine: str, kind: str, text: str, site: str | None = None) -> str:
    if engine not in _RUNS:
        return f"{site} runs images with {engine}, which Muster does not drive"
    return f"{engine} cannot run {_SHOWN.get(kind, text)}"


def _container_of(site: Site, engine: str, request: Request, reference: Reference) -> str | None:
    """The site's entry for the engine, by name."""
    containers = site.profile.containers
    for name in (request.engine, reference.of_site.engine if reference.of_site else None):
        if name in containers:
            return name
    return next((name for name, each in containers.items() if each.engine == engine), None)


def _program(engine: str, seen: ImageFacts) -> str:
    """The name of the program; its path where only this shell's PATH leads to it."""
    if engine not in _PROGRAMS:
        return ""
    path = seen.programs.get(engine, engine)
    return engine if str(PurePosixPath(path).parent) in {"/usr/bin", "/usr/local/bin", "/bin", "."} else path


def _gpu_kind(site: Site, request: Request, seen: ImageFacts, place: Engine) -> str | None:
    return seen.gpu_kind if place is Engine.HERE else node_kind(site, request)[1].gpu_kind


def _flags(
    site: Site,
    name: str | None,
    container: Container | None,
    request: Request,
    seen: ImageFacts,
    job: Situation,
    engine: str,
) -> Iterator[Flag]:
    """The site's own flags of the engine, and the one that brings the GPUs in."""
    own = (container.flags or ()) if engine in _PROGRAMS and container else ()
    step = (container.srun or ()) if container else ()
    place = Engine.HERE if job.launcher == "local" else Engine.SLURM
    gpu = _GPU_FLAGS.get(_gpu_kind(site, request, seen, place) or "")
    for word in own if engine in _PROGRAMS else step:
        if word not in _GPU_FLAGS.values():
            yield Flag(word, reason_for(site, f"containers.{name}", "how this site starts the engine"))
    if engine in _PROGRAMS and gpu and job.gpus_per_node:
        yield Flag(gpu, Reason(f"the driver's libraries for {job.gpus_per_node} GPUs of a node come from the host"))


def _annotations(container: Container | None, reference: Reference) -> Iterator[tuple[str, str]]:
    if container is None:
        return
    stack = reference.of_site.stack if reference.of_site else None
    yield from {**container.hooks, **container.hooks_by_stack.get(stack or "", {})}.items()


def _check_launch(use: ImageUse, job: Situation, place: Engine, seen: ImageFacts) -> None:
    if use.engine not in _PROGRAMS and (place is Engine.HERE or job.launcher.startswith("mpirun")):
        where = "without Slurm" if place is Engine.HERE else f"under {job.launcher}"
        raise RequestError(
            f"{use.engine} lives in srun, and {where} there is none", hint="--launcher srun, or --engine apptainer"
        )
    inside = use.engine not in _PROGRAMS or "torchrun" in job.launcher or bool(use.activation)
    if inside and seen.has_sh is False:
        why = "torchrun starts its ranks in the image" if "torchrun" in job.launcher else f"{use.engine} needs it"
        raise RequestError(
            f"the image {use.image} has no sh, and {why}", hint="--launcher srun with apptainer needs none in the image"
        )


def _check_machine(
    use: ImageUse, site: Site, request: Request, seen: ImageFacts, place: Engine, reference: Reference
) -> None:
    node = seen.machine if place is Engine.HERE else node_kind(site, request)[1].arch
    image = seen.arch or (reference.of_site.arch if reference.of_site else None)
    if node and image and node != image:
        where = "this machine" if place is Engine.HERE else f"a node of {site.name}"
        raise RequestError(f"the image {use.image} is for {image}, and {where} is {node}", hint=f"build it for {node}")
    if use.kind == "registry" and site.profile.network.internet in {"none", "none-even-login"}:
        raise RequestError(
            f"{use.image} would be pulled by the nodes, and those of {site.name} have no way out",
            hint="pull it where there is one, and give the file",
        )


def keep_host_outside(use: ImageUse) -> Iterator[Variable]:
    """What of the host's environment does not enter; what the user or the site sets stands after it."""
    if use.image is None:
        return
    why = Reason("the image has its own: the host's stays outside unless asked for (--env)")
    # Apptainer never passes LD_LIBRARY_PATH on, and a host's mpirun needs it to start.
    names = HOST_NAMES if use.engine in _PROGRAMS else (*HOST_NAMES, "LD_LIBRARY_PATH")
    for name in names:
        yield Variable(name, None, why)
    yield Variable("PYTHONNOUSERSITE", "1", Reason("packages in ~/.local are the host's: they stay outside"))
