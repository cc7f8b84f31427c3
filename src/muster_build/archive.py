"""An image in a tar file, as `docker save` and `skopeo copy` write it: whole, or not worth starting with."""

from __future__ import annotations

import tarfile
from pathlib import Path

from muster.errors import RequestError

# Transport → the member without which it is no such archive, and who writes it.
_FORMS = {
    "docker-archive": ("manifest.json", "docker save NAME -o FILE, or podman save"),
    "oci-archive": ("index.json", "podman save --format oci-archive, or skopeo copy"),
}
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")


def check_archive(transport: str, path: Path) -> None:
    """Raise for one that is not there, is cut off, or is something else; the heads of its members are read, no more."""
    if not path.exists():
        raise RequestError(f"{path} is not there", hint="docker save NAME -o FILE makes it")
    if transport not in _FORMS or path.is_dir():
        return
    member, maker = _FORMS[transport]
    hint = f"carry it here again, and compare its size; {maker} makes it"
    with path.open("rb") as file:
        if file.read(6).startswith(_PACKED):
            return  # only reading all of it would tell
    try:
        with tarfile.open(path, "r:") as archive:
            names = archive.getnames()
    except (tarfile.TarError, EOFError) as error:
        raise RequestError(f"the archive {path} cannot be read: {error}", hint) from None
    if member not in names:
        raise RequestError(f"{path} is not a valid {transport}: it has no {member}", hint)
