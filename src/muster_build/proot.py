"""The commands of a definition under proot, for places that give an ordinary user no other way to be root in an image.

The engine makes a directory of all but the commands, proot runs them in it, and the engine packs what came of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

# Every script that the image's own environment is made of, as when the engine runs something in it.
_SOURCED = 'for file in /.singularity.d/env/*.sh; do [ -r "$file" ] && . "$file"; done'
_FROM_OUTSIDE = ("/dev", "/proc", "/sys", "/etc/resolv.conf", "/etc/hosts")
_PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# As the engine starts them.
_OWN = {"HOME": "/root", "LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def proot_words(
    environment: Mapping[str, str], box: Path, shell: Sequence[str], script: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the words that run `script` as root of `box`, and the environment that they run in."""
    program = shutil.which("proot", path=environment.get("PATH")) or "proot"
    script_inside = "/.muster-post"
    binds = [word for path in (*_FROM_OUTSIDE, f"{script}:{script_inside}") for word in ("-b", path)]
    words = [program, "-0", "-r", str(box), *binds, "-w", "/"]
    passed_environment = {name: value for name, value in environment.items() if name in _PASSED_ON}
    # Its scratch is beside the script: what it puts there it has to be able to run.
    own_environment = {**passed_environment, **_OWN, "PROOT_TMP_DIR": str(script.parent)}
    return [*words, "/bin/sh", "-c", f'{_SOURCED}; exec "$@"', "sh", *shell, script_inside], own_environment
