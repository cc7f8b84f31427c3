"""What --image names, by its spelling."""

from __future__ import annotations

import pytest

from muster.errors import RequestError
from muster.images.reference import ImageReference, Scheme


@pytest.mark.parametrize(
    ("text", "scheme", "name"),
    [
        ("docker://nvcr.io/nvidia/pytorch:26.02-py3", Scheme.REGISTRY, "nvcr.io/nvidia/pytorch:26.02-py3"),
        ("site:pytorch", Scheme.SITE, "pytorch"),
        ("my images/x.sif", Scheme.PATH, "my images/x.sif"),
        ("my-edf", Scheme.PATH, "my-edf"),
    ],
)
def test_an_image_is_read_and_written_the_same(text: str, scheme: Scheme, name: str) -> None:
    image = ImageReference.parse(text)

    assert (image.scheme, image.name) == (scheme, name)
    assert str(image) == text
    assert image.of_site == (name if scheme is Scheme.SITE else None)


def test_an_address_of_another_kind_is_refused() -> None:
    for text in ("docker://", "docker:///a", "docker://a/b/c:d:e", "docker://a b", "docker://a/", "docker://a:"):
        with pytest.raises(RequestError, match=f"^{text} does not name an image"):
            ImageReference.parse(text)
    for text in ("docker://a@sha256:12ab", "docker://h:5000/a/b:c@sha256:1", "docker://h#a:b"):
        assert str(ImageReference.parse(text)) == text
    with pytest.raises(RequestError, match=r"oras://ghcr.io/a: docker:// is the only known kind"):
        ImageReference.parse("oras://ghcr.io/a")
