"""`muster build image`: from what is asked to a proved file with a record beside it."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from muster.errors import MachineLacks, RequestError
from muster.look.image_facts import look_at_path
from muster_build.archive import check_archive
from muster_build.definition import Copy, compose, from_containerfile
from muster_build.draft import digest_of_inputs, digest_of_path, is_up_to_date, record_of, swapped_in
from muster_build.engine import Builder
from muster_build.enroot import credentials, edf_of, import_image, import_words
from muster_build.pins import pins_of_requirements
from muster_build.pip import offline_words
from muster_build.podman import (
    Built,
    bases_of,
    built_by_podman,
    digests_of_bases,
    digests_of_context,
    finds_podman,
    is_containerfile,
)
from muster_build.registry import Login, manifest_digest
from muster_build.source import ImageSource, parse_source

Say = Callable[[str], None]


# Stands for what podman is going to make: the same words whenever it is built.
_BUILT = "docker-archive:/what/podman/built"


class ImageOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be built, and into what."""

    output: Path
    source: ImageSource | None = None
    definition: Path | None = None
    containerfile: Path | None = None
    """The definition, where podman builds it."""

    requirements: Path | None = None
    wheelhouse: Path | None = None
    offline: bool = False
    copies: tuple[Copy, ...] = ()
    sandbox: bool = False
    replace: bool = False

    @property
    def is_squashfs(self) -> bool:
        """Return whether enroot makes it, for Pyxis and the Container Engine."""
        return self.output.suffix in {".sqsh", ".squashfs"}


def check_order(order: ImageOrder, say: Say) -> None:
    """Raise for what files and words show; nobody is asked for anything."""
    if order.source is None and order.definition is None:
        raise RequestError("no image to build from is named", hint="--from docker://REGISTRY/NAME:TAG, or --def FILE")
    _judge_packages(order, say)
    if order.definition is not None:
        _read(order.definition)
    if order.source is not None and order.source.registry is None:
        _base_of(order.source, None, say)
    for copy in order.copies:
        if not Path(copy.source).exists():
            raise RequestError(f"{copy.source} is not there", hint="check the name")


def build_image(order: ImageOrder, builder: Builder, say: Say, *, login: Login | None = None) -> bool:
    """Build it; False: what is there was built from the same."""
    check_order(order, say)
    podman = _podman_for(order, builder)
    if podman is None:
        order = _converted(order)
    base, plain_http = _base_of(order.source, login, say)
    if podman is not None:
        base = _BUILT
        order = msgspec.structs.replace(order, definition=None, containerfile=order.definition)
    text = _definition_of(order, base)
    inputs = _inputs(order, base, text, login, say)
    digest = digest_of_inputs(inputs)
    if is_up_to_date(order.output, record_of(order.output), digest, replace=order.replace):
        say(f"{order.output} is up to date")
        return False
    start_with_login = msgspec.structs.replace(
        builder, environment={**builder.environment, **(login.environment() if login else {})}
    )
    flags = [*(["--sandbox"] if order.sandbox else []), *(["--no-https"] if plain_http else [])]
    say(f"building {order.output}; what is fetched is kept in {builder.cache}")
    builder.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        swapped_in(order.output) as draft,
        tempfile.TemporaryDirectory(prefix="build-", dir=builder.cache) as folder,
        _built(order, podman, builder, login, say) as podman_image,
    ):
        if order.is_squashfs:
            words = (
                f"podman://{podman_image.name}"
                if podman_image and text is None
                else _words_for_enroot(order, base, text)
            )
            registry = order.source.registry if order.source and podman_image is None else None
            with credentials(Path(folder), registry, login) as credential_folder:
                import_image(
                    builder,
                    draft,
                    words,
                    say,
                    extra_environment={**(podman_image.environment if podman_image else {}), **credential_folder},
                )
        else:
            source = _written(Path(folder), base, text, podman_image.save(builder, say) if podman_image else None)
            start_with_login.build(draft, source, say, flags=flags, runs_commands="%post" in (text or ""))
            builder.prove(draft)
    if order.is_squashfs:
        order.output.with_suffix(".toml").write_text(edf_of(order.output))
    _write_record(
        order.output,
        {
            "from": order.source.words if order.source else None,
            "inputs": digest,
            **inputs,
            **({"base": None, "image": podman_image.identity, "pulled": podman_image.bases} if podman_image else {}),
            "engine": builder.version(),
            "definition": text,
        },
    )
    return True


def _podman_for(order: ImageOrder, builder: Builder) -> str | None:
    """Return podman, where it is the one to build a Containerfile; Apptainer builds what is converted."""
    if not is_containerfile(order.definition):
        return None
    podman = finds_podman(builder.environment)
    if order.is_squashfs and podman is None:
        raise MachineLacks(
            "podman",
            "podman is not on PATH, but a .sqsh of a Containerfile needs podman and enroot",
            hint="build on a node that has both: --job",
        )
    on_disk = order.source is not None and order.source.registry is None
    return None if on_disk else podman


def _converted(order: ImageOrder) -> ImageOrder:
    """Return a Containerfile's order for Apptainer: what its FROM names is an image of a registry like any other."""
    if not is_containerfile(order.definition) or order.source is not None:
        return order
    text = _read(order.definition)
    from_containerfile(text)  # what cannot be converted is reported before any question is asked
    return msgspec.structs.replace(order, source=parse_source(f"docker://{bases_of(text)[0]}"))


@contextmanager
def _built(
    order: ImageOrder, podman: str | None, builder: Builder, login: Login | None, say: Say
) -> Iterator[Built | None]:
    """Yield the image that podman makes of the Containerfile, for as long as it is needed."""
    if podman is None:
        yield None
        return
    assert order.containerfile is not None  # noqa: S101  # podman builds nothing else
    start = order.source.registry if order.source else None
    with built_by_podman(builder, podman, order.containerfile, say, start=start, login=login) as podman_image:
        yield podman_image


def _written(folder: Path, base: str | None, text: str | None, archive: Path | None) -> str:
    """Return what the engine is given: a definition's file, or the base alone."""
    base = f"docker-archive:{archive}" if archive else base
    if text is None:
        return base or ""
    file = folder / "image.def"
    file.write_text(text.replace(_BUILT.partition(":")[2], str(archive)) if archive else text)
    return str(file)


def _judge_packages(order: ImageOrder, say: Say) -> None:
    """Warn of packages that --pip does not name firmly; refuse a wheelhouse that cannot serve them."""
    offline_words(order.wheelhouse, offline=order.offline)
    if order.wheelhouse is not None and order.requirements is None:
        raise RequestError("--wheelhouse goes with --pip", hint="--pip requirements.txt --wheelhouse DIR")
    if order.requirements is None:
        return
    pins = pins_of_requirements(_read(order.requirements, "--pip"))
    loose = [pin.name for pin in pins if pin.level == "unpinned"]
    if loose:
        say(f"warning: not pinned, so the next build may install other versions: {', '.join(loose)}")


def _words_for_enroot(order: ImageOrder, base: str | None, text: str | None) -> str:
    registry = order.source.registry if order.source else None
    if registry is None or base is None or text is not None or order.sandbox:
        raise RequestError(
            f"{order.output.name} is made by enroot, which can only convert an image of a registry",
            hint="give --from docker://REGISTRY/NAME:TAG alone, or make a .sif",
        )
    return import_words(registry, base.rpartition("@")[2])


def _base_of(source: ImageSource | None, login: Login | None, say: Say) -> tuple[str | None, bool]:
    """Return the words for the engine; a registry's image by its digest, so what is recorded is what is pulled."""
    if source is None:
        return None, False
    if source.registry is not None:
        if source.registry.is_moving:
            say(f"warning: {source.words} has no tag but latest, which can change: the pulled digest is recorded")
        return source.registry.pinned(manifest_digest(source.registry, login)), source.registry.is_plain_http
    path = Path(source.path or "").absolute()
    if source.archive is not None:
        check_archive(source.archive, path)
        return f"{source.archive}:{path}", False
    image_facts = look_at_path(path)
    if image_facts.kind == "missing":
        raise RequestError(f"there is no image {path}", hint="check the name")
    if image_facts.broken is not None:
        raise RequestError(
            f"the image {path} cannot be used: {image_facts.broken}", hint="pull, copy or build the image again"
        )
    if image_facts.kind not in {"sif", "squashfs", "sandbox"}:
        raise RequestError(f"{path} is not a known kind of image", hint="a .sif, a .sqsh or a sandbox directory")
    return str(path), False


def _definition_of(order: ImageOrder, base: str | None) -> str | None:
    """Return the text to build from; None: the base alone says it all."""
    definition_text = _read(order.definition) if order.definition else ""
    if is_containerfile(order.definition):
        definition_text = from_containerfile(definition_text)
    requirements = str(order.requirements.absolute()) if order.requirements else None
    copies = [Copy(str(Path(copy.source).absolute()), copy.target) for copy in order.copies]
    if base == _BUILT and not (requirements or copies):
        return None
    if base is None:
        if requirements or copies:
            raise RequestError("--pip and --copy need --from beside --def", hint="or write them into the definition")
        return definition_text
    if not (definition_text or requirements or copies):
        return None
    return compose(
        base,
        copies=copies,
        requirements=requirements,
        wheelhouse=str(order.wheelhouse.absolute()) if order.wheelhouse else None,
        offline=order.offline,
        definition=definition_text,
    )


def _read(file: Path, option: str = "--def") -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}", hint=f"{option} names a text file") from None


def _inputs(order: ImageOrder, base: str | None, text: str | None, login: Login | None, say: Say) -> Mapping[str, Any]:
    """Return all that decides what comes out."""
    inputs = dict(_own_inputs(order, base, text))
    if order.containerfile is not None:
        content = _read(order.containerfile)
        start = order.source.registry if order.source else None
        inputs |= {
            "containerfile": digest_of_inputs({"text": content}),
            "context": digests_of_context(order.containerfile, content),
            "bases": digests_of_bases(content, start, login, say),
        }
    return inputs


def _own_inputs(order: ImageOrder, base: str | None, text: str | None) -> Mapping[str, Any]:
    files = [Path(copy.source) for copy in order.copies] + ([order.requirements] if order.requirements else [])
    files += [order.wheelhouse] if order.wheelhouse else []
    path = order.source.path if order.source else None
    return {
        "base": base,
        "base_content": None if path is None else digest_of_path(Path(path)),
        "text": digest_of_inputs({"text": text}),
        "files": {str(file): digest_of_path(file) for file in files},
        "sandbox": order.sandbox,
    }


def _write_record(output: Path, content: Mapping[str, Any]) -> None:
    build_time = dt.datetime.now(tz=dt.timezone.utc).isoformat(timespec="seconds")
    draft = record_of(output).with_name(f".{output.name}.json.part")
    draft.write_text(json.dumps({"muster_build": 1, "built": build_time, **content}, indent=2) + "\n")
    draft.rename(record_of(output))
