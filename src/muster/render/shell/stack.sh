# What kind of GPUs the torch of an image is built for: cuda, rocm or cpu; nothing where there is none, or of several kinds.
# Runs inside, in any sh, with builtins only.
# shellcheck disable=SC2016,SC2034  # it runs elsewhere
muster_stack_text='
muster_stack=
for muster_file in /usr/lib/python3*/*-packages /usr/lib64/python3*/*-packages /usr/local/lib*/python3*/*-packages \
    /opt/*/lib/python3*/site-packages /opt/*/envs/*/lib/python3*/site-packages /*venv/lib/python3*/site-packages; do
    [ -r "$muster_file/torch/version.py" ] || continue
    muster_found=cpu
    while read -r muster_line; do
        case $muster_line in
        cuda*=*None* | hip*=*None*) ;;
        cuda*=*) muster_found=cuda ;;
        hip*=*) muster_found=rocm ;;
        esac
    done <"$muster_file/torch/version.py"
    case $muster_stack in
    "" | "$muster_found") muster_stack=$muster_found ;;
    *) muster_stack=several ;;
    esac
done
echo "stack=$muster_stack"'

# The image $1, whose torch is for $3, on a node of the GPUs $2 (node: those that it has).
muster_stack_fits() {
    muster_kind=$2
    if [ "$muster_kind" = node ]; then
        muster_kind=
        [ ! -e /dev/kfd ] || muster_kind=rocm
        [ ! -e /dev/nvidiactl ] || muster_kind=cuda
    fi
    case $muster_kind/$3 in
    cuda/rocm | rocm/cuda)
        muster_stop "the torch in the image $1 is built for $3, and this node has $muster_kind GPUs" \
            "an image with torch for $muster_kind, or -g 0 to run without GPUs"
        ;;
    */cpu)
        [ "${muster_rank:-1}" -ne 0 ] || printf 'muster: warning: the torch in the image %s is built for CPUs, and GPUs are asked for\n' "$1" >&2
        ;;
    esac
}
