# Every rank sees only its own GPU.
for muster_name in @VISIBLE_FIRST@; do
    eval "muster_visible=\${$muster_name:-}"
    muster_index=0
    muster_ifs=$IFS
    IFS=,
    for muster_device in $muster_visible; do
        [ "$muster_index" -ne "$muster_local_rank" ] || export "$muster_name=$muster_device"
        muster_index=$((muster_index + 1))
    done
    IFS=$muster_ifs
done
