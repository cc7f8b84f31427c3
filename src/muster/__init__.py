"""Muster: one unchanged PyTorch script, distributed, on any Slurm cluster.

Importing this package does nothing: no file, process, socket or variable is touched, and the
public names are looked up when they are first used. The module must stay valid on Python 3.8,
because training images still carry it and `import muster` has to work in a rank.
"""

import sys

__version__ = "0.2.0"

__all__ = ["WireupError", "World", "__version__", "role", "world"]

_HOME = {
    "World": "muster.rank.world",
    "WireupError": "muster.rank.errors",
    "role": "muster.rank.role",
    "world": "muster.rank.world",
}

# For notebooks and workflow tools (api/). `plan` and `job` are rooms too: a room that is called does what api does.
_LOGIN_SIDE = ("job", "plan", "submit")


def from_login_side(name):  # type: ignore[no-untyped-def]
    """Return a function of `muster.api`, or say in one sentence why there is none here."""
    from importlib import import_module

    if sys.version_info < (3, 9):
        version = "{}.{}".format(*sys.version_info[:2])
        message = "muster.{} needs Python 3.9 or newer, but this is {}".format(name, version)
        raise ImportError(message)
    try:
        return getattr(import_module("muster.api"), name)
    except ModuleNotFoundError as error:
        message = "muster.{} needs the whole of Muster, but here is only the library of the ranks ({})"
        raise ImportError(message.format(name, error)) from None


def __getattr__(name):  # type: ignore[no-untyped-def]  # annotations would cost an import in every rank
    if name in _LOGIN_SIDE:
        found = from_login_side(name)  # type: ignore[no-untyped-call]
        return globals().setdefault(name, found)
    if name not in _HOME:
        message = "module 'muster' has no attribute {!r}".format(name)
        raise AttributeError(message)
    from importlib import import_module

    if name not in ("WireupError", "role"):  # these need no torch
        import_module("muster.rank.torch_range").refuse_old_torch()
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__():  # type: ignore[no-untyped-def]
    return sorted([*__all__, *_LOGIN_SIDE])


# Where a launch binds this package into images that may have their own (plan/mounts.py).
_IN_IMAGES = "/opt/muster-ranks/muster"
if __path__[0] == _IN_IMAGES:
    from importlib import import_module

    import_module("muster.rank.behind").give_way(_IN_IMAGES)

# An import looks at no file, so it can tell of a torch that is too old only where that is loaded; else the first name
# that is taken tells it, from the torch that stands on the path. The command line never has torch loaded.
if "torch" in sys.modules and sys.modules[__name__].__dict__ is globals():
    from importlib import import_module

    import_module("muster.rank.torch_range").refuse_old_torch()
