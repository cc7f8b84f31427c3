"""Which versions of torch the library works with: one that is too old is told of without being loaded."""

import re
import sys
from typing import Optional, Tuple

from .errors import TorchTooOld

OLDEST_TORCH = (2, 3)  # its store can be asked whether a key is there without waiting for it

_WRITTEN = re.compile(r"""^__version__\b[^=\n]*=\s*['"]([^'"\n]+)""", re.MULTILINE)


def refuse_old_torch(version: Optional[str] = None) -> None:
    """Raise TorchTooOld where this version, or else that of the torch which stands here, is too old.

    A version that nobody can tell is not refused: it is looked at again once torch is loaded.
    """
    version = version or torch_here()
    numbers = _numbers(version or "")
    if numbers is None or numbers >= OLDEST_TORCH:
        return
    oldest = ".".join(map(str, OLDEST_TORCH))
    raise TorchTooOld(
        f"muster's library needs torch {oldest} or newer, but this is {version}",
        "without it the wire-up still works: muster run sets RANK, WORLD_SIZE and the rest for env://",
    )


def torch_here() -> Optional[str]:
    """Return the version of the torch in this process, or of the one that `import torch` would load."""
    loaded = sys.modules.get("torch")
    if loaded is not None:
        return str(getattr(loaded, "__version__", "")) or None
    from importlib.util import find_spec
    from pathlib import Path

    try:
        spec = find_spec("torch")  # a package of its own: nothing of it is loaded
        if spec is None or not spec.origin:
            return None
        match = _WRITTEN.search(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
    except (ImportError, OSError, ValueError):
        return None
    return match.group(1) if match else None


def _numbers(version: str) -> Optional[Tuple[int, int]]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else None
