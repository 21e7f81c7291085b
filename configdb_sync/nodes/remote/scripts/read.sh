# Prints all settings files below some folders as one compressed stream, cut after so many characters.
# Arguments: the most bytes of one file, the most characters to print, the folders.
#
# In the stream: records that end in NUL, then the contents of the files one behind the other.
#   configdb-sync 1                          the first one
#   t PATH, and a record of its own: TARGET  where a link or one of the folders leads, "\n." behind it
#   f KIND MODE OWNER GROUP SIZE TIME DEVICE INODE PATH     an entry, links followed: *.yaml, folders, other links
#   x PATH                                   a file that is larger than the most
#   u PATH                                   a folder that can't be listed
#   s, then lines of sha256sum, an empty one at the end     of the regular files named *.yaml, in order
#   contents, in the order of these lines, and at the very end "end"
# The scripts within are quoted: they hold no quote of the kind that they are in, and no name is ever part of one.
export LC_ALL=C large=$1
most=$2
shift 2
{
    printf 'configdb-sync 1\0'
    for folder do
        printf 't %s\0%s\0' "$folder" "$(cd -P -- "$folder" && pwd -P && echo .)"
    done
    {
        find -H "$@" -maxdepth 17 -name '*.yaml' -prune \( -type f -size "+${large}c" -printf '+%p\0' -o -print0 \) \
            -o -type d -print0 -o -type l -print0 || printf '?\0'
    } | xargs -0rx -s 1000000 sh -c '
        for name do
            shift
            case $name in
            +*) printf "x %s\0" "${name#+}" ;;
            \?) for name do [ ! -d "$name" ] || ls -A -- "$name" >/dev/null || printf "u %s\0" "$name"; done ;;
            *) set -- "$@" "$name" ;;
            esac
        done
        [ $# != 0 ] || exit 0
        find -L "$@" -maxdepth 0 -printf "f %y %m %U %G %s %T@ %D %i %p\0"
        for name do
            shift
            if [ -L "$name" ]; then
                printf "t %s\0%s\0" "$name" "$(readlink -f -- "$name" && echo .)"
                case $name in *.yaml) [ "$(stat -Lc %s -- "$name")" -le "$large" ] || continue ;; esac
            fi
            case $name in *.yaml) [ ! -f "$name" ] || set -- "$@" "$name" ;; esac
        done
        printf "s\0"
        [ $# = 0 ] || sha256sum -b -- "$@"
        echo
        [ $# = 0 ] || cat -- "$@"' sh
    printf end
} 2>/dev/null | gzip -1 | base64 -w 0 | head -c "$most"
