# Prints which GPUs the torch of an image is built for, or cpu; several if its torches differ; nothing
# without torch. It runs inside the image, in any sh, with builtins only.
# shellcheck disable=SC2016,SC2034  # it runs in another shell
muster_stack_text='
muster_stack=
for muster_file in /usr/lib/python3*/*-packages /usr/lib64/python3*/*-packages /usr/local/lib*/python3*/*-packages \
    /opt/*/lib/python3*/site-packages /opt/*/envs/*/lib/python3*/site-packages /*venv/lib/python3*/site-packages; do
    [ -r "$muster_file/torch/version.py" ] || continue
    muster_found=cpu
    while read -r muster_line; do
        case $muster_line in
        *=*None*) ;;
@TORCH_VERSIONS@
        esac
    done <"$muster_file/torch/version.py"
    case $muster_stack in
    "" | "$muster_found") muster_stack=$muster_found ;;
    *) muster_stack=several ;;
    esac
done
echo "stack=$muster_stack"'

# Checks the image $1, whose torch is built for $3, against the GPUs $2 of the node (node: the GPUs that it has).
muster_stack_fits() {
    muster_kind=$2
    [ "$muster_kind" != node ] || muster_gpu_kind
    case $muster_kind/$3 in
    */cpu)
        [ "${muster_rank:-1}" -ne 0 ] ||
            printf 'muster: warning: the torch in the image %s is built for CPUs, but GPUs are asked for\n' "$1" >&2
        ;;
    /* | */ | */several | "$3/$3") ;;
    *)
        muster_stop "the torch in the image $1 is built for $3, but this node has $muster_kind GPUs" \
            "use an image with torch for $muster_kind, or -g 0 to run without GPUs"
        ;;
    esac
}
