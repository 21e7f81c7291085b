# Puts a new file in place, never over another. Arguments: the folder that create-begin named, hiera folder, path below
# it, sha256 of the content, mode, temporary folder, parts.
folder=$1 base=$2 path=$2/$3 name=${3##*/} new=$4 mode=$5 temporary=$6
shift 6
cd -P -- "$folder" && [ "$(pwd -P)" = "$folder" ] || say changed
if [ ! -d "./$temporary" ]; then
    # Asked twice, as after a lost connection: it may be done already.
    [ ! -f "./$name" ] || [ "$(digest "./$name")" != "$new" ] || report
    say lost
fi
undo() {
    rm -rf -- "./$temporary"
    prune
    say "$@"
}
drop() { undo "$@"; }
gather "$@"
chown --reference=. -- "./$temporary/new" && chmod "$mode" -- "./$temporary/new" || undo failed
settle "./$temporary/new" || undo failed
if ! ln -T -- "./$temporary/new" "./$name"; then
    [ ! -e "./$name" ] && [ ! -L "./$name" ] || undo appeared
    undo failed
fi
rm -rf -- "./$temporary"
! labelled || ! restorecon -- "./$name" || settle "./$name" || say unsettled
# The folders on the way may be new as well.
at=$path
while at=${at%/*} && [ "${#at}" -ge "${#base}" ]; do
    settle "$at" || say unsettled
done
report
