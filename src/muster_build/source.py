"""Where an image comes from, as `--from` says it. Pure: nothing is looked at."""

from __future__ import annotations

import re

import msgspec

from muster.errors import RequestError

_DOCKER = "docker://"
_ARCHIVES = ("docker-archive:", "oci-archive:", "oci:")
_NAME = re.compile(r"[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?")


class RegistryImage(msgspec.Struct, frozen=True):
    """An image in a registry, every part of its name spelled out."""

    host: str
    name: str
    tag: str
    digest: str | None = None

    @property
    def is_moving(self) -> bool:
        """Return whether the same words may mean another image tomorrow."""
        return self.digest is None and self.tag == "latest"

    @property
    def is_plain_http(self) -> bool:
        """Return whether a registry is on this machine, which speaks http, as docker takes it too."""
        return _LOOPBACK.fullmatch(self.host) is not None

    @property
    def url(self) -> str:
        """Return the address of its manifests and blobs."""
        host = "registry-1.docker.io" if self.host == "docker.io" else self.host
        return f"{'http' if self.is_plain_http else 'https'}://{host}/v2/{self.name}"

    def pinned(self, digest: str) -> str:
        """Return the words that mean this very image for ever."""
        return f"{_DOCKER}{self.host}/{self.name}@{digest}"


class ImageSource(msgspec.Struct, frozen=True):
    """One of: a registry's image, an archive or a layout, an image or directory on disk, a name of the site."""

    words: str
    """As typed."""
    registry: RegistryImage | None = None
    archive: str | None = None
    """docker-archive, oci-archive, oci: the transport in front of `path`."""
    path: str | None = None
    site_name: str | None = None


def parse_source(words: str) -> ImageSource:
    """Return what `--from` names."""
    if not words.strip() or any(ord(character) < 32 for character in words):
        raise RequestError(f"--from {words!r} names no image", hint=_FORMS)
    if words.startswith(_DOCKER):
        return ImageSource(words, registry=_registry(words))
    for transport in _ARCHIVES:
        if words.startswith(transport):
            return ImageSource(words, archive=transport.removesuffix(":"), path=_rest(words, transport))
    if words.startswith("site:"):
        return ImageSource(words, site_name=_rest(words, "site:"))
    if "://" in words:
        raise RequestError(f"--from {words}: {words.partition('://')[0]}:// is not a known source", hint=_FORMS)
    return ImageSource(words, path=words)


_FORMS = "docker://REGISTRY/NAME:TAG, docker-archive:FILE, X.sif, X.sqsh, a sandbox directory, or site:NAME"


def _rest(words: str, start: str) -> str:
    rest = words.removeprefix(start)
    if not rest:
        raise RequestError(f"--from {words} names nothing", hint=_FORMS)
    return rest


def _registry(words: str) -> RegistryImage:
    rest, at, digest = words.removeprefix(_DOCKER).partition("@")
    first, slash, remainder = rest.partition("/")
    # A host has a dot or a port; anything else is a name of the common registry.
    host, rest = (
        (first, remainder) if slash and (re.search(r"[.:]", first) or first == "localhost") else ("docker.io", rest)
    )
    name, colon, tag = rest.partition(":")
    if host == "docker.io" and "/" not in name:
        name = f"library/{name}"
    parts_fit = _NAME.fullmatch(name) and (not colon or _TAG.fullmatch(tag)) and (not at or _DIGEST.fullmatch(digest))
    if not parts_fit:
        raise RequestError(
            f"{words} is not the name of an image in a registry",
            hint="docker://REGISTRY/NAME:TAG or docker://REGISTRY/NAME@sha256:…, with the name in small letters",
        )
    return RegistryImage(host, name, tag or "latest", digest or None)
