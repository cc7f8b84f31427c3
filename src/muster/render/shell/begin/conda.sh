# Activates the conda environment $1 as `conda activate` does: its programs come first on PATH, and the activation
# scripts of its packages run.
muster_conda() {
    [ -x "$1/bin/python" ] || return 1
    export CONDA_PREFIX="$1" CONDA_DEFAULT_ENV="${1##*/}" PATH="$1/bin:$PATH"
    local script
    for script in "$1"/etc/conda/activate.d/*.sh; do
        # shellcheck disable=SC1090  # the file belongs to the environment
        [ ! -r "$script" ] || . "$script" || return 1
    done
}
