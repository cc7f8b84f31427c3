# Activates the virtual environment $2, where the prologue itself runs in the image $1.
muster_venv_inside() {
    [ -x "$2/bin/python" ] || muster_stop "the virtual environment $2 has no Python that runs in the image $1" \
        'make the environment with the Python of the image'
    export VIRTUAL_ENV="$2" PATH="$2/bin:$PATH"
}
