# Prints pieces of files. Arguments: for each piece the file, the offset and the length in bytes.
#
# Five lines for each: state before (KIND MODE OWNER GROUP SIZE TIME DEVICE INODE, links followed), sha256 of the whole
# file (for offset 0), the piece (gzip, base64), state after, what the system says if it can't be read (base64).
# A line is empty where there is nothing to say.
state() { find -L "$1" -maxdepth 0 -printf '%y %m %U %G %s %T@ %D %i' 2>/dev/null; echo; }
while [ $# -ge 3 ]; do
    state "$1"
    if [ -f "$1" ]; then
        [ "$2" != 0 ] || sha256sum <"$1" 2>/dev/null | head -c 64
        echo
        tail -c "+$(($2 + 1))" -- "$1" 2>/dev/null | head -c "$3" | gzip -1 | base64 -w 0
        echo
        state "$1"
        head -c 1 -- "$1" 2>&1 >/dev/null | tail -n 1 | head -c 300 | base64 -w 0
    else
        echo && echo && echo
    fi
    echo
    shift 3
done
