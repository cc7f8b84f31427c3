# Reads words NAME=VALUE into variables muster_NAME. $1: the function that has them, a colon, and the names it knows.
muster_take() {
    muster_known=$1
    shift
    for muster_word in "$@"; do
        case "$muster_known $muster_word" in
        *" ${muster_word%%=*} "*=*) eval "muster_${muster_word%%=*}=\${muster_word#*=}" ;;
        *) muster_stop "${muster_known%%:*} knows no word '$muster_word'" \
            "its words are NAME=VALUE, of the names${muster_known#*:}" ;;
        esac
    done
}
