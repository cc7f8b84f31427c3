# Spack writes the checksum and the address of the sdist by itself: `pypi` is its own way to say both.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyMusterHpc(PythonPackage):
    """One unchanged PyTorch script, distributed, on any Slurm cluster, and the reasons why it will work."""

    pypi = "muster_hpc/muster_hpc-@VERSION@.tar.gz"

    license("Apache-2.0")

    version("@VERSION@", sha256="@SHA256@")

    # Spack's own packages have no py-tree-sitter-bash (looked 2026-11): the variant lint is for a repository that has
    # it. Without the two variants lint and port, and the lines of stacks, are told to be missing.
    variant("stacks", default=False, description="Where the ranks of a running job stand")
    variant("lint", default=False, description="The shell parser of muster lint")
    variant("lsp", default=False, description="muster lint --server, for editors")

    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("py-msgspec@0.19:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-eval-type-backport@0.2:", type=("build", "run"), when="^python@:3.9")
    depends_on("py-tomli@2.0:", type=("build", "run"), when="^python@:3.10")
    depends_on("py-pygls@2.0:", type="run", when="+lsp")
    depends_on("py-py-spy@0.4:", type="run", when="+stacks")
    depends_on("py-tree-sitter@0.23:", type="run", when="+lint")
    depends_on("py-tree-sitter-bash@0.23:", type="run", when="+lint")
