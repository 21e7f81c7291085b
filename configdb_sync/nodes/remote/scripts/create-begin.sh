# Makes ready to create a file. Arguments: hiera folder, path below it, temporary folder, the number of places where
# files may be written and these, the parts. A second line says which folder it is, or what must not be written.
base=$1 rest=$2 path=$1/$2 temporary=$3 count=$4
shift 4
within() {
    it=$1 left=$count
    shift
    for place do
        [ "$left" -gt 0 ] || break
        left=$((left - 1))
        case $it in "$place" | "$place"/*) return 0 ;; esac
    done
    printf 'configdb-sync 1 forbidden\n%s\n' "$it"
    exit 0
}
undo() {
    prune
    say "$@"
}
cd -P -- "$base" || say failed
while [ "$rest" != "${rest#*/}" ]; do
    step=${rest%%/*} rest=${rest#*/}
    if [ ! -d "./$step" ]; then
        [ ! -e "./$step" ] && [ ! -L "./$step" ] || undo blocked
        within "$(pwd -P)/$step" "$@"
        mkdir -m 700 -- "./$step" || undo failed
        : >"./$step/$MARK" && chown --reference=. -- "./$step" && chmod --reference=. -- "./$step" || undo failed
        ! labelled || restorecon -- "./$step" || :
    fi
    cd -P -- "./$step" || undo failed
done
within "$(pwd -P)/$rest" "$@"
[ ! -L "./$rest" ] || [ -e "./$rest" ] || undo dangling
[ ! -e "./$rest" ] || undo appeared
shift "$count"
begin "$@" || undo failed
printf 'configdb-sync 1 ready\n%s\n' "$(pwd -P)"
