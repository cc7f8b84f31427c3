# Lets ranks in an image show their stacks by themselves (--stacks-ready): the folder of the module that does so stands
# first on PYTHONPATH.

# Puts the folder $1 first on PYTHONPATH, where the prologue itself runs in the image.
muster_add_ready() {
    export PYTHONPATH="$1${PYTHONPATH:+:$PYTHONPATH}"
}

# Puts the folder $2 first on PYTHONPATH, by the variable $1: before the user's value, else before the image's value.
muster_image_ready() {
    eval "muster_value=\${$1-}"
    if [ -n "$muster_value" ]; then
        export "$1=$2:$muster_value"
    else
        export "$1=$2\${PYTHONPATH:+:\$PYTHONPATH}"
    fi
}
