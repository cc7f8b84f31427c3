"""A read-only registry on loopback, with one small image in it, and a password if one is asked for."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

OCI = "application/vnd.oci.image"


class SmallRegistry:
    """name:tag `small:1` and `small:latest`; `cut_after` ends every answer with a layer after so many bytes.

    While `may_send` is not set, nobody gets a layer.
    """

    def __init__(self, layer: bytes, password: str | None, environment: Sequence[str]) -> None:
        self.password = password
        self.cut_after: int | None = None
        self.may_send = Event()
        self.may_send.set()
        self.blobs: dict[str, bytes] = {}
        self.asked: list[str] = []
        packed = gzip.compress(layer, mtime=0)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": list(environment)},
            "history": [{"created_by": "tests"}],
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        self.layer = self._keep(packed)
        configuration = self._keep(json.dumps(config).encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": {"mediaType": f"{OCI}.config.v1+json", **self._named(configuration)},
            "layers": [{"mediaType": f"{OCI}.layer.v1.tar+gzip", **self._named(self.layer)}],
        }
        self.digest = self._keep(json.dumps(manifest).encode())
        self.host = ""

    def _keep(self, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return digest

    def _named(self, digest: str) -> dict[str, object]:
        return {"digest": digest, "size": len(self.blobs[digest])}

    @property
    def image(self) -> str:
        return f"docker://{self.host}/small:1"


@contextmanager
def small_registry(
    busybox: Path, password: str | None = None, ballast: bytes = b"", environment: Sequence[str] = ("PATH=/bin",)
) -> Iterator[SmallRegistry]:
    registry = SmallRegistry(_system(busybox, ballast), password, environment)

    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            registry.asked.append(self.path)
            word = None if password is None else base64.b64encode(f"me:{password}".encode()).decode()
            if word is not None and self.headers.get("Authorization") != f"Basic {word}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="small"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            name = self.path.rpartition("/")[2]
            digest = registry.digest if name in {"1", "latest"} else name
            if self.path == "/v2/":
                content, kind = b"{}", "application/json"
            elif digest in registry.blobs and "/small/" in self.path:
                content = registry.blobs[digest]
                kind = f"{OCI}.manifest.v1+json" if "/manifests/" in self.path else "application/octet-stream"
            else:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Docker-Content-Digest", digest)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if with_body:
                cut = registry.cut_after if digest == registry.layer else None
                if digest == registry.layer:
                    registry.may_send.wait()
                with suppress(ConnectionError):  # who asked may be gone
                    self.wfile.write(content if cut is None else content[:cut])
                self.close_connection = cut is not None

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's own name for it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _system(busybox: Path, ballast: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "usr", "var", "var/tmp", "opt", "root", "home"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        program = tarfile.TarInfo("bin/busybox")
        program.size, program.mode = busybox.stat().st_size, 0o755
        with busybox.open("rb") as file:
            archive.addfile(program, file)
        for name in ("sh", "true", "cat", "echo", "id", "ls", "mkdir", "touch", "cp", "chmod", "rm", "env", "grep"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        if ballast:
            load = tarfile.TarInfo("opt/ballast")
            load.size = len(ballast)
            archive.addfile(load, io.BytesIO(ballast))
        for name in ("passwd", "group", "hosts", "resolv.conf"):
            archive.addfile(tarfile.TarInfo(f"etc/{name}"))
    return packed.getvalue()
