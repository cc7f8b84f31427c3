"""(request, site, facts) → the image and the engine that runs it, or the reason why it cannot run. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from muster.errors import Refusal, RequestError, refused
from muster.facts import Facts, ImageFacts
from muster.images import engine_named
from muster.images.base import ImageEngine
from muster.job.request import Request
from muster.launchers.base import Launcher, Starter
from muster.model.plan import Engine, Flag, ImageUse, Reason, Variable
from muster.plan.image_engine import Reference, choose_engine, find_image, reference_of
from muster.plan.mounts import LIBRARY, covered, make_mounts
from muster.plan.python_environment import venv_in_image
from muster.plan.site_values import node_kind, reason_for
from muster.rank.vendors import VENDORS
from muster.sites.schema import Container
from muster.sites.site import Site
from muster.sites.when import Situation

# What a host's Python and loader would bring into an image, where other versions of everything live.
HOST_NAMES = ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_*")


def use_image(
    request: Request, site: Site, facts: Facts, job: Situation, launcher: Launcher, engine: Engine
) -> ImageUse:
    """Return the image, its engine and all that goes with it; what cannot work is refused here."""
    reference = reference_of(request, site, facts)
    if reference is None:
        option = "bind" if request.bind else "engine"
        raise RequestError(f"--{option} is for an image, but no image is named", hint="--image X.sif")
    image_facts = facts.image or ImageFacts()
    found_image = find_image(reference, image_facts)
    name, reason = choose_engine(request, site, image_facts, reference, found_image, engine)
    image_engine = engine_named(name)
    container_name = _container_of(site, name, request, reference)
    container = site.profile.containers.get(container_name or "")
    venv = venv_in_image(request, facts)
    verb, verb_reason = _verb(image_engine, request, site, reference, container_name)
    library = not image_facts.has_rank_library and image_facts.package is not None
    ready = request.stacks_ready and image_facts.package is not None
    gpu_kind = image_facts.gpu_kind if engine is Engine.HERE else node_kind(site, request)[1].gpu_kind
    use = ImageUse(
        engine=name,
        image=found_image.name,
        registry_name=found_image.registry_name,
        reason=Reason(request.set_by("image"), request.origin("image")),
        engine_reason=reason,
        program=_program(image_engine, image_facts),
        verb=verb,
        verb_reason=verb_reason,
        kind=found_image.kind,
        flags=tuple(_flags(site, container_name, image_engine, gpu_kind, job)),
        mounts=make_mounts(request, site, facts, job, container_name, venv=venv, library=library or ready),
        activation=_activation(reference, image_facts),
        annotations=tuple(_annotations(container, job.stack)),
        entrypoint=container is not None and job.stack in container.entrypoint_stacks,
        library=LIBRARY if library else None,
        ready=f"{LIBRARY}/muster/rank/ready" if ready else None,
        container=container_name,
        asks_for_gpus=bool(job.gpus_per_node) and gpu_kind is None,
        compare_gpus=(gpu_kind or "node")
        if venv is None and _has_to_ask(image_engine, found_image.kind, image_facts, job)
        else "",
        venv=venv,
        venv_python=image_facts.venv.version
        if image_facts.venv and not (image_facts.looked_inside or image_facts.venv.in_image)
        else None,
        may_be_unpacked=image_engine.unpacks(found_image.kind),
        ranks_start_inside=bool(launcher.agent),
        joins_mpi=launcher.sets_mpi_variables,
    )
    _check_launch(use, image_engine, launcher, engine, image_facts)
    _check_names(use, image_engine)
    _check_machine(use, site, request, image_facts, engine, reference)
    _check_gpus(use, image_facts, reference, gpu_kind, job)
    _check_libraries(use, image_facts)
    _check_venv(use, image_facts)
    return use


def _verb(
    engine: ImageEngine, request: Request, site: Site, reference: Reference, container: str | None
) -> tuple[str, Reason]:
    """Return exec or run: a fact of the image that the site keeps, else of how the site runs images."""
    if engine.only_verb is not None:
        return engine.only_verb, Reason("its one way to start a command in an image")
    site_image = reference.of_site
    if site_image is not None and site_image.verb is not None and request.image is not None:
        reason = site_image.reason or "so the site says of this image"
        return site_image.verb, reason_for(site, f"images.{request.image.name}.verb", reason)
    container_known = site.profile.containers.get(container or "")
    if container_known is not None and container_known.verb is not None:
        return container_known.verb, reason_for(
            site, f"containers.{container}.verb", f"{site.name} starts its images with it"
        )
    return "exec", Reason("the command alone: the image's own run script does not start")


def _has_to_ask(engine: ImageEngine, kind: str, image_facts: ImageFacts, job: Situation) -> bool:
    """Return whether the nodes compare the image's torch with their GPUs; nothing is pulled for a question."""
    return bool(job.gpus_per_node) and not image_facts.looked_inside and engine.can_be_asked(kind)


def _activation(reference: Reference, image_facts: ImageFacts) -> tuple[str, ...]:
    """Return what makes the image's environment ready: the site says it of its own images, others say it themselves."""
    site_activation = reference.of_site.activation if reference.of_site else None
    return image_facts.activation if site_activation is None else site_activation


def _container_of(site: Site, engine: str, request: Request, reference: Reference) -> str | None:
    """Return the site's entry for the engine, by name."""
    containers = site.profile.containers
    for name in (request.engine, reference.of_site.engine if reference.of_site else None):
        if name in containers:
            return name
    return next((name for name, candidate in containers.items() if candidate.engine == engine), None)


def _program(engine: ImageEngine, image_facts: ImageFacts) -> str:
    """Return the name of the program; its path where only this shell's PATH leads to it."""
    if not engine.program:
        return ""
    path = image_facts.programs.get(engine.program, engine.program)
    return engine.program if str(PurePosixPath(path).parent) in {"/usr/bin", "/usr/local/bin", "/bin", "."} else path


def _flags(site: Site, name: str | None, engine: ImageEngine, gpu_kind: str | None, job: Situation) -> Iterator[Flag]:
    """Yield the site's own flags of the engine, or of the step for it, and the one that brings the GPUs in."""
    container = site.profile.containers.get(name or "", Container(engine="none"))
    reason = reason_for(site, f"containers.{name}", "how this site starts the engine")
    for word in (container.flags if engine.program else container.srun) or ():
        if not any(word in flags for flags in engine.gpu_flags.values()):
            yield Flag(word, reason)
    if job.gpus_per_node and gpu_kind is not None and gpu_kind in engine.gpu_flags and container.gpu_flag:
        text = f"the driver's libraries come from the host, for {job.gpus_per_node} GPUs of a node"
        for word in engine.gpu_flags[gpu_kind]:
            yield Flag(word, Reason(text))


def _annotations(container: Container | None, stack: str | None) -> Iterator[tuple[str, str]]:
    if container is None:
        return
    yield from {**container.hooks, **container.hooks_by_stack.get(stack or "", {})}.items()


def _check_launch(
    use: ImageUse, engine: ImageEngine, launcher: Launcher, place: Engine, image_facts: ImageFacts
) -> None:
    if engine.in_step and launcher.starter(place) is not Starter.STEP:
        place_words = "without Slurm" if place is Engine.HERE else f"under {launcher.site_name}"
        message = f"{use.engine} is a part of srun, but {place_words} there is no srun"
        hint = "--launcher srun, or --engine apptainer"
        raise refused((Refusal("engine-in-step", message, hint, accepted={"launcher": "srun"}), ""))
    needs_sh = engine.needs_sh or launcher.needs_sh_in_image or use.activation
    if needs_sh and image_facts.has_sh is False:
        reason = launcher.needs_sh_in_image or f"{use.engine} needs it"
        raise RequestError(
            f"the image {use.image} has no sh, but {reason}",
            hint="use --launcher srun with apptainer, which needs no sh in the image",
        )


def _check_names(use: ImageUse, engine: ImageEngine) -> None:
    """Refuse paths with colons or commas where the engine separates with them and cannot quote them."""
    for mount in use.mounts:
        if set(mount.source + mount.target) & set(engine.separators):
            raise RequestError(
                f"{use.engine} cannot bind {mount.source}: its name contains a colon or a comma",
                hint="work in a directory without these characters, or use --engine apptainer",
            )


def _check_machine(
    use: ImageUse, site: Site, request: Request, image_facts: ImageFacts, place: Engine, reference: Reference
) -> None:
    node = image_facts.machine if place is Engine.HERE else node_kind(site, request)[1].arch
    image = image_facts.arch or (reference.of_site.arch if reference.of_site else None)
    if node and image and node != image:
        place_words = "this machine" if place is Engine.HERE else f"a node of {site.name}"
        raise RequestError(
            f"the image {use.image} is for {image}, but {place_words} is {node}", hint=f"build it for {node}"
        )
    if use.kind == "registry" and site.profile.network.internet in {"none", "none-even-login"}:
        message = f"{use.image} would be pulled by the nodes, but the nodes of {site.name} cannot reach the internet"
        raise refused((Refusal("image-pull", message, "pull it on a host that can, and give the file"), ""))


_GPU_NAMES = {vendor.kind: vendor.software for vendor in VENDORS}


def _check_gpus(
    use: ImageUse, image_facts: ImageFacts, reference: Reference, gpu_kind: str | None, job: Situation
) -> None:
    made_for = _made_for(use, image_facts, reference)
    if job.gpus_per_node and made_for in _GPU_NAMES and gpu_kind in _GPU_NAMES and made_for != gpu_kind:
        subject = f"image {use.image}" if use.venv is None else f"torch in {use.venv}"
        raise RequestError(
            f"the {subject} is made for {_GPU_NAMES[made_for]}, but the nodes have {_GPU_NAMES[gpu_kind]} GPUs",
            hint=f"one with torch for {_GPU_NAMES[gpu_kind]}, or -g 0 to run without GPUs",
        )


def _made_for(use: ImageUse, image_facts: ImageFacts, reference: Reference) -> str | None:
    """Return the kind of GPU by the image's torch, else by the site's word.

    The torch of a virtual environment is not its own.
    """
    if use.venv is not None:
        return image_facts.venv.made_for if image_facts.venv else None
    site_kind = ((reference.of_site.gpu_library or "") if reference.of_site else "").partition(" ")[0].lower()
    return image_facts.made_for or (site_kind if site_kind in _GPU_NAMES else None)


def _check_venv(use: ImageUse, image_facts: ImageFacts) -> None:
    """Refuse a virtual environment whose Python the image does not have in the same version."""
    venv_facts = image_facts.venv
    if use.venv is None or venv_facts is None or venv_facts.in_image:
        return
    if venv_facts.version is None or venv_facts.base is None:
        raise RequestError(f"there is no Python in {use.venv}", hint="name the folder that holds bin/python")
    if image_facts.looked_inside and not venv_facts.base_in_image and not covered(venv_facts.base, use.mounts):
        raise RequestError(
            f"the virtual environment {use.venv} stands on {venv_facts.base} of Python {venv_facts.version}, "
            f"which the image {use.image} does not have",
            hint="make the environment with the Python of the image, or --bind the Python that it was made with",
        )
    if image_facts.glibc is not None and venv_facts.glibc is not None and venv_facts.glibc > image_facts.glibc:
        raise RequestError(
            f"the image {use.image} has glibc {_dotted(image_facts.glibc)}, but packages of the virtual environment "
            f"{use.venv} need {_dotted(venv_facts.glibc)}",
            hint="make it in the image, or with --glibc of muster build lock",
        )


def _check_libraries(use: ImageUse, image_facts: ImageFacts) -> None:
    """Refuse a library of the host that is newer than the image's C library: it cannot be loaded in the image."""
    bound = {mount.source for mount in use.mounts}
    for path, needed_version in sorted(image_facts.glibc_needed.items()):
        if image_facts.glibc is not None and path in bound and needed_version > image_facts.glibc:
            raise RequestError(
                f"the image {use.image} has glibc {_dotted(image_facts.glibc)}, but {path} of the host, "
                f"which is bound into the image, needs {_dotted(needed_version)}",
                hint="build the image on a newer base: the ranks reach the fabric of this site through that library",
            )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def keep_host_outside(use: ImageUse) -> Iterator[Variable]:
    """Yield what of the host's environment does not enter; what the user or the site sets stands after it."""
    reason = Reason(
        "the image has its own: the host's stays outside unless asked for (--env)",
        short="the host's: the image has its own",
    )
    # Apptainer never passes LD_LIBRARY_PATH on, and a host's mpirun needs it to start.
    for name in (*HOST_NAMES, *engine_named(use.engine).kept_outside):
        yield Variable(name, None, reason)
    yield Variable(
        "PYTHONNOUSERSITE",
        "1",
        Reason("packages in ~/.local are the host's: they stay outside", short="packages in ~/.local are the host's"),
    )
