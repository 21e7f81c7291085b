# The common part of all writing scripts. They print one line that begins with "configdb-sync 1" and says the result.
# Everything happens in the folder where the file really lies (cd -P), so nobody can put another one in its place.
umask 077
MARK=.configdb-sync.folder
say() {
    printf 'configdb-sync 1 %s\n' "$*"
    exit 0
}
drop() {
    rm -rf -- "./$temporary"
    say "$@"
}
# The sha256 of a file, and whether the file "$name" is still the one that was read.
digest() { sha256sum <"$1" | head -c 64; }
unchanged() {
    [ "$(readlink -f -- "$path")" = "$target" ] && [ -f "./$name" ] && [ ! -L "./$name" ] &&
        [ "$(digest "./$name")" = "$sha256" ]
}
# Goes to the folder of the file "$path", which must be "$target".
enter() {
    [ "$(readlink -f -- "$path")" = "$target" ] || say changed
    folder=${target%/*} name=${target##*/}
    cd -P -- "${folder:-/}" && [ "$(pwd -P)" = "${folder:-/}" ] || say changed
    [ -f "./$name" ] && [ ! -L "./$name" ] || say changed
}
# Removes what killed runs left: of the same file at once, of others after ten minutes.
clean() {
    same=${temporary%????????.tmp}
    for old in "$same"????????.tmp; do
        [ -L "$old" ] || [ ! -d "$old" ] || rm -rf -- "./$old"
    done
    find . -maxdepth 1 -type d -name '.configdb-sync.????????????????.tmp' -mmin +10 -exec rm -rf -- {} + || :
}
# Makes the folder (0700) that the content goes to, with empty files (0600) in it.
begin() {
    clean
    mkdir -m 700 -- "./$temporary" || return 1
    for part in new "$@"; do
        (set -C && : >"./$temporary/$part") || { rm -rf -- "./$temporary" && return 1; }
    done
}
# Puts the parts together and checks the whole. A part named *p has one byte too many, which made it fit to be sent.
gather() {
    [ $# = 0 ] || for part do
        case $part in
        *p) head -c -1 -- "./$temporary/$part" ;;
        *) cat -- "./$temporary/$part" ;;
        esac || drop failed
    done >"./$temporary/new" || drop failed
    [ "$(digest "./$temporary/new")" = "$new" ] || drop damaged
}
labelled() { [ -e /sys/fs/selinux/enforce ] || [ -e /selinux/enforce ]; }
# Syncs a file, or a folder's names, to the disk. The shell opens it, since dd opens no folder; dd syncs its output.
# A file system that can't sync one file alone syncs everything.
settle() {
    said=$(dd if=/dev/null conv=fsync status=none 2>&1 1<"$1") || case $said in
    *'Invalid argument' | *'not implemented' | *'not supported') sync ;;
    *)
        printf '%s\n' "$said" >&2
        return 1
        ;;
    esac
}
# "written" is reported only after a sync, also if an earlier try was killed before it could report.
report() {
    settle . || say unsettled
    say written "$(stat -c '%a %u %g' -- "./$name")" "$(digest "./$name")"
}
# Removes the folders between "$base" and "$path" that we made and that hold nothing else.
prune() {
    at=$path
    while at=${at%/*} && [ "$at" != "$base" ]; do
        [ ! -L "$at" ] && [ "$(ls -A -- "$at")" = "$MARK" ] && rm -f -- "$at/$MARK" && rmdir -- "$at" || break
        settle "${at%/*}"
    done 2>/dev/null
}
