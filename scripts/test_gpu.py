"""`make test-gpu`: everything that one NVIDIA GPU can prove of Muster, in one report. Ten minutes at most.

    python3 scripts/test_gpu.py [--wheels DIR] [--report DIR]

It runs with a Python that has a torch for CUDA and pytest, on a machine that may have no network: what is missing is
taken from the wheels in DIR. The report, report.json and report.md, goes to .cache/gpu, or where --report says.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("pytest", "hypothesis", "msgspec", "rich")
OLDEST = (3, 11)


def main() -> int:
    """Return pytest's status; 1 with one sentence where something is missing."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--wheels", type=Path, help="a folder of wheels for what this Python lacks")
    words.add_argument("--report", type=Path, default=ROOT / ".cache" / "gpu", help="where the report goes")
    options = words.parse_args()
    site = ROOT / ".cache" / "gpu-wheels"
    if options.wheels:
        install_wheels(options.wheels, site)
        sys.path.insert(0, str(site))
    missing = what_is_missing()
    if missing:
        print(f"test-gpu: {missing}; nothing was tested", file=sys.stderr)
        return 1
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(site), os.environ.get("PYTHONPATH", "")])
    names = {
        "PYTHONPATH": path,
        "PATH": os.pathsep.join([str(site / "bin"), os.environ.get("PATH", os.defpath)]),
        "MUSTER_GPU_REPORT": str(options.report),
        "MUSTER_GPU_MACHINE": name_machine(),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    tests = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "tests/gpu"]
    status = subprocess.run(tests, cwd=ROOT, env={**os.environ, **names}, check=False).returncode
    print(f"test-gpu: the report is {options.report / 'report.md'}")
    return status


def what_is_missing() -> str:
    """Return what a proof would lack here, in words; empty: nothing."""
    if sys.version_info < OLDEST:
        return f"Python {'.'.join(map(str, OLDEST))} or newer is needed, this is {sys.version.split()[0]}"
    if not Path("/dev/nvidiactl").exists():
        return "there is no NVIDIA GPU here: /dev/nvidiactl does not exist"
    lacking = [name for name in (*NEEDED, "torch") if importlib.util.find_spec(name) is None]
    if lacking:
        return f"{sys.executable} lacks {', '.join(lacking)} (--wheels DIR, or PYTHON=… make test-gpu)"
    asked = ask_torch("print(torch.version.cuda or 'none', torch.cuda.device_count())").split()
    if asked[:1] == ["none"]:
        return f"the torch of {sys.executable} is built for CPUs"
    if asked[1:] == ["0"]:
        return "torch sees no GPU"
    return ""


def install_wheels(folder: Path, site: Path) -> None:
    """Unpack the wheels beside what this Python has."""
    wheels = [str(wheel) for wheel in sorted(folder.glob("*.whl"))]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade", "--target"]
    subprocess.run([*pip, str(site), *wheels], check=True)


def ask_torch(code: str) -> str:
    """Return what a Python with torch prints."""
    done = subprocess.run([sys.executable, "-c", f"import torch; {code}"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def name_machine() -> str:
    """Return the card, its driver and torch, in words."""
    card = ask_torch("print(torch.cuda.get_device_name(0), '· torch', torch.__version__)")
    version = Path("/sys/module/nvidia/version")
    driver = version.read_text().strip() if version.exists() else "unknown"
    return f"{card} · driver {driver}"


if __name__ == "__main__":
    sys.exit(main())
