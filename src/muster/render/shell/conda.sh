# The conda environment $1, as `conda activate` leaves it: its programs first, and what its packages bring for a start.
muster_conda() {
    [ -x "$1/bin/python" ] || return 1
    export CONDA_PREFIX="$1" CONDA_DEFAULT_ENV="${1##*/}" PATH="$1/bin:$PATH"
    local script
    for script in "$1"/etc/conda/activate.d/*.sh; do
        # shellcheck disable=SC1090  # a file of the environment's own
        [ ! -r "$script" ] || . "$script" || return 1
    done
}
