"""Bound into an image, this package stands on PYTHONPATH and so before the image's own packages: a Muster among them
comes first all the same.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Iterable, Optional


def own_package(bound: str, folders: Iterable[str]) -> Optional[Path]:
    """Return the Muster that an environment has itself: the first on its path that was not bound into it."""
    packages = (Path(folder) / "muster" for folder in folders)
    return next(
        (package for package in packages if str(package) != bound and (package / "rank" / "contract.py").is_file()),
        None,
    )


def give_way(bound: str) -> None:
    """Put the environment's own Muster in the place of this one, which is being imported."""
    package = own_package(bound, sys.path)
    if package is None:
        return
    spec = spec_from_file_location("muster", package / "__init__.py", submodule_search_locations=[str(package)])
    if spec is None or spec.loader is None:
        return
    for name in [name for name in sys.modules if name.startswith("muster.")]:
        del sys.modules[name]
    sys.modules["muster"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["muster"])
