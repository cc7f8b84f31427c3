# Ends the processes of this node whose mark begins with $1: what the end of their step has left.
for file in $(grep -lszF -e "MUSTER_MARK=$1" /proc/[0-9]*/environ); do
    file=${file%/environ} && [ -O "$file" ] && kill -KILL "${file#/proc/}"
done
