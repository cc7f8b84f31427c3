# On one node: $1 have | unpack | drop | clean, $2 the folder of the node, $3 the key, $4 the archive's digest, $5 the archive.
# Says HOST and one word on a line of its own. What is there under its key is whole: it was renamed to it.
umask 077
read -r muster_host </proc/sys/kernel/hostname
muster_host=${SLURMD_NODENAME:-$muster_host}
muster_place=$2/$3
muster_tell() {
    echo "muster-stage $muster_host $1"
    exit 0
}
# A folder in /tmp that somebody else has made: nothing in it is ours to trust.
[ ! -e "$2" ] || [ -O "$2" ] || muster_tell foreign
case $1 in
have)
    [ -e "$muster_place/.muster-$4" ] || muster_tell need
    touch "$muster_place" # used today: not to be cleaned
    muster_tell have
    ;;
drop)
    rm -f "$5"
    muster_tell dropped
    ;;
clean)
    # $5 days without use; another job of this user may be on the node, and has touched what it uses.
    find "$2" -mindepth 1 -maxdepth 1 -mmin +"$(($5 * 1440))" -exec rm -rf {} + 2>/dev/null
    muster_tell clean
    ;;
esac
[ ! -e "$muster_place/.muster-$4" ] || { rm -f "$5" && muster_tell have; }
trap 'rm -rf "$muster_place.$$" "$5"' EXIT
echo "$4  $5" | sha256sum -c --status - || muster_tell damaged
mkdir -p "$muster_place.$$" || muster_tell full
case $5 in
*.zst)
    command -v zstd >/dev/null || muster_tell no-zstd
    zstd -dcq "$5" | tar -xf - -C "$muster_place.$$" || muster_tell full
    ;;
*) tar -xf "$5" -C "$muster_place.$$" || muster_tell full ;;
esac
: >"$muster_place.$$/.muster-$4" || muster_tell full
# Another job may have been faster: then its copy stays.
mv -T "$muster_place.$$" "$muster_place" 2>/dev/null || [ -e "$muster_place/.muster-$4" ] || muster_tell full
muster_tell have
