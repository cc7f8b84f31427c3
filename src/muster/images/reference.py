"""What --image names, by its spelling: an image of a registry, one of the site's own, or a path. Pure."""

from __future__ import annotations

import re

import msgspec

from muster.errors import RequestError
from muster.older import StrEnum


class Scheme(StrEnum):
    """Where an image is looked for; the value is what stands before its name."""

    REGISTRY = "docker://"
    SITE = "site:"
    PATH = ""  # a file, a sandbox, an EDF or the name of one: only a look can tell


_IN_REGISTRY = r"(?:[^\s/@]+[/#])*[^\s/@:#]+(?::[^\s/@:]+)?(?:@[^\s/@]+)?"
"""An address and folders, a name, a tag, a digest."""


class ImageReference(msgspec.Struct, frozen=True):
    """The name of an image, parsed once."""

    scheme: Scheme
    name: str

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Return the image that a person named; an address of another kind is refused."""
        scheme = next(scheme for scheme in Scheme if text.startswith(scheme.value))
        if scheme is Scheme.PATH and "://" in text:
            raise RequestError(
                f"{text}: docker:// is the only known kind of address", hint="docker://REGISTRY/NAME:TAG"
            )
        name = text[len(scheme.value) :]
        if scheme is Scheme.REGISTRY and not re.fullmatch(_IN_REGISTRY, name):
            raise RequestError(f"{text} does not name an image", hint="docker://REGISTRY/NAME:TAG")
        return cls(scheme, name)

    @property
    def of_site(self) -> str | None:
        """Return the name in the site's profile; None: it is not one of the site's images."""
        return self.name if self.scheme is Scheme.SITE else None

    def __str__(self) -> str:
        return f"{self.scheme.value}{self.name}"


NO_IMAGE = ImageReference(Scheme.PATH, "none")
"""What a person writes where a settings file names an image and this launch takes none."""
