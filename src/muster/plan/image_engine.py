"""What --image names, and which engine runs it: the one asked for, else the site's, else what is here. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from muster.errors import MachineLacks, RequestError, UnknownName
from muster.facts import Facts, ImageFacts
from muster.images import engine_named, engines_in_options, is_engine
from muster.images.base import ImageEngine
from muster.images.reference import ImageReference, Scheme
from muster.job.request import Request
from muster.model.plan import Engine, Reason
from muster.plan.site_values import reason_for
from muster.sites.schema import Image as SiteImage
from muster.sites.site import Site

_ENDINGS = {".sif": "sif", ".sqsh": "squashfs", ".sqfs": "squashfs", ".squashfs": "squashfs", ".toml": "edf"}
_SHOWN = {
    "sif": "a .sif file",
    "squashfs": "a squashfs file",
    "sandbox": "a sandbox",
    "edf": "an EDF",
    "registry": "an image of a registry",
}


class Reference(msgspec.Struct, frozen=True):
    """What --image says, before anybody has looked: a path, a registry's name, or the name of an EDF."""

    image: ImageReference
    kind: str | None
    """By its spelling; None: a path of which only a look can tell."""

    path: str | None
    """Where it lies on this host, if it is a path."""

    of_site: SiteImage | None = None


def reference_of(request: Request, site: Site, facts: Facts) -> Reference | None:
    """Return the image that was asked for; None: none was."""
    image, site_image = request.image, None
    if image is None:
        return None
    if image.of_site is not None:
        site_image = _kept_by_site(image.of_site, site)
        image = _image_of_profile((facts.image.kept if facts.image else None) or site_image.path)
    if image.scheme is Scheme.REGISTRY:
        return Reference(image, "registry", None, site_image)
    path = PurePosixPath(facts.working_directory) / image.name
    return Reference(image, _ENDINGS.get(path.suffix), str(path), site_image)


def _image_of_profile(text: str) -> ImageReference:
    """Return the image that a profile names: a registry's may stand there without docker://."""
    image = ImageReference.parse(text)
    if image.scheme is Scheme.PATH and not text.startswith("/") and PurePosixPath(text).suffix not in _ENDINGS:
        return ImageReference(Scheme.REGISTRY, text)
    return image


def _kept_by_site(name: str, site: Site) -> SiteImage:
    images = site.profile.images
    there = [other for other, image in images.items() if not image.gone]
    if name not in images:
        raise UnknownName(f"image of {site.name}", name, there)
    if images[name].gone:
        hint = "one of: " + ", ".join(f"site:{other}" for other in there)
        raise RequestError(f"the image {name} of {site.name} is gone: {images[name].reason}", hint=hint)
    return images[name]


class NamedImage(msgspec.Struct, frozen=True):
    """What the image is, and the name that the engine is given."""

    kind: str
    name: str
    registry_name: str = ""
    """Its name in a registry, without docker://; empty: it is not of a registry."""


def find_image(reference: Reference, image_facts: ImageFacts) -> NamedImage:
    """Return what --image names, after a look; what is missing or broken goes no further."""
    if reference.path is None:
        return NamedImage("registry", str(reference.image), reference.image.name)
    text, kind = reference.image.name, image_facts.kind
    if kind == "missing" and reference.of_site is not None:
        kind = None  # the site keeps it where its nodes see it
    if kind in {"missing", None} and reference.kind is None and "/" not in text:
        return NamedImage("edf", text)
    if kind == "missing":
        raise RequestError(
            f"there is no image {text}: looked for {reference.path}",
            hint="give its path, or docker://REGISTRY/NAME:TAG; muster build image makes one",
        )
    if image_facts.broken is not None:
        raise RequestError(
            f"the image {text} cannot be used: {image_facts.broken}", hint="pull, copy or build the image again"
        )
    if kind in {"directory", "file"}:
        complaint = "a directory without programs" if kind == "directory" else "not a known kind of image"
        raise RequestError(
            f"{text} is {complaint}", hint="a .sif, a .sqsh, a sandbox with its bin/ and usr/, or an EDF"
        )
    return NamedImage(kind or reference.kind or "sandbox", reference.path)


def choose_engine(
    request: Request, site: Site, image_facts: ImageFacts, reference: Reference, found_image: NamedImage, place: Engine
) -> tuple[str, Reason]:
    """Return the engine and the reason for it."""
    containers = site.profile.containers
    if request.engine is not None:
        name = containers[request.engine].engine if request.engine in containers else request.engine
        if name == "none" or not is_engine(name):
            raise UnknownName("container engine", name, engines_in_options())
        if found_image.kind not in engine_named(name).runs:
            raise RequestError(f"{name} cannot run {_SHOWN[found_image.kind]}", hint=_with(found_image.kind))
        return name, Reason(request.set_by("engine"), request.origin("engine"))
    kept_for = reference.of_site.engine if reference.of_site else None
    for key, container in sorted(containers.items(), key=lambda row: (row[0] != kept_for, not row[1].preferred)):
        if found_image.kind in engine_named(container.engine).runs:
            return container.engine, reason_for(site, f"containers.{key}", f"{site.name} has it")
    if containers:
        offered = ", ".join(dict.fromkeys(candidate.engine for candidate in containers.values()))
        raise RequestError(
            f"{_SHOWN[found_image.kind]} is not known to run at {site.name}, which offers {offered}",
            hint=f"give another form of the image; {_with(found_image.kind)}, where the nodes have that after all",
        )
    if found_image.kind == "edf" and reference.kind is None:
        hint = f"looked for {reference.path}; if it is the name of an EDF: --engine cscs"
        raise RequestError(f"there is no image {reference.image}", hint=hint)
    return _engine_here(image_facts, found_image, place)


def _engine_here(image_facts: ImageFacts, found_image: NamedImage, place: Engine) -> tuple[str, Reason]:
    """Return the engine if no profile names one: a program that this host has, else what runs such images at all."""
    able = _able(found_image.kind)
    image_kind = _SHOWN[found_image.kind]
    for candidate in able:
        if candidate.program in image_facts.programs:
            return candidate.name, Reason(f"it runs {image_kind}, and this host has it")
    if able[0].program and image_facts.machine is not None:
        lacks = "this machine has no" if place is Engine.HERE else "neither this host nor a site profile has a"
        raise MachineLacks(
            able[0].program,
            f"{lacks} program that runs {image_kind}",
            hint="load the module that has apptainer or singularity, or name what the nodes have with --engine",
        )
    return able[0].name, Reason(f"it runs {image_kind}")


def _able(kind: str) -> list[ImageEngine]:
    """Return the engines that run such an image, the first choice first."""
    return [candidate for candidate in map(engine_named, engines_in_options()) if kind in candidate.runs]


def _with(kind: str) -> str:
    return "--engine " + " or ".join(candidate.name for candidate in _able(kind))
