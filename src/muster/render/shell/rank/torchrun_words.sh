# Doubles each $ of $1: torchrun replaces $$ and ${local_rank} in every word. Result in $muster_word.
muster_doubled() {
    muster_word=
    muster_tail=$1
    while :; do
        case $muster_tail in
        *'$'*) muster_word=$muster_word${muster_tail%%'$'*}'$$' muster_tail=${muster_tail#*'$'} ;;
        *) break ;;
        esac
    done
    muster_word=$muster_word$muster_tail
}

muster_line_end='
'
# Builds the command of torchrun under its keeper. The first $1 words start Python, in the image if there is one.
muster_words=$1
shift
muster_rest=$(($# - muster_words))
while [ "$muster_words" -gt 0 ]; do
    set -- "$@" "$1"
    shift
    muster_words=$((muster_words - 1))
done
set -- "$@" "$MUSTER_NTASKS_PER_NODE" "${MUSTER_GRACE:-10}" -m "${MUSTER_AGENT_MODULE:-torch.distributed.run}" \
    --nnodes="$muster_nodes" --nproc-per-node="$MUSTER_NTASKS_PER_NODE" \
    --rdzv-backend=c10d --rdzv-endpoint="$muster_address:$muster_port" --rdzv-id="$muster_id" \
    --rdzv-conf="is_host=$muster_host" --local-addr="${SLURMD_NODENAME:-$muster_here}${MUSTER_HOST_SUFFIX:-}" \
    --max-restarts=0
[ -z "${MUSTER_AGENT_NEEDS:-}" ] || set -- "$@" "$MUSTER_AGENT_NEEDS"
muster_tail=${MUSTER_AGENT_FLAGS:-}
while [ -n "$muster_tail" ]; do
    set -- "$@" "${muster_tail%%"$muster_line_end"*}"
    muster_tail=${muster_tail#*"$muster_line_end"}
done
set -- "$@" --no-python
while [ "$muster_rest" -gt 0 ]; do
    muster_doubled "$1"
    set -- "$@" "$muster_word"
    shift
    muster_rest=$((muster_rest - 1))
done
