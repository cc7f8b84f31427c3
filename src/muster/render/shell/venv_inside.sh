# Where the prologue itself runs in the image $1: the virtual environment $2 comes first.
muster_venv_inside() {
    [ -x "$2/bin/python" ] || muster_stop "the virtual environment $2 has no Python that runs in the image $1" \
        'make it with the Python of the image'
    export VIRTUAL_ENV="$2" PATH="$2/bin:$PATH"
}
