# Prints all settings files below some folders as one compressed stream, cut after so many characters.
# Arguments: the most bytes of one file, the most characters to print, "cat" to print contents ("true" for none), the
# most bytes of a hiera.yaml, three places where it may be, the folders. There are as few programs in it as can be:
# starting them is what it takes.
#
# In the stream: records that end in NUL, in any order after the first; at the very end "end".
#   configdb-sync 1        the first one
#   h BASE64               right behind it: the first hiera.yaml that is there, if any
#   t PATH NUL TARGET      where a link or one of the folders leads, empty if nowhere; behind a link's target "\n."
#   f KIND MODE OWNER GROUP SIZE TIME DEVICE INODE PATH     a folder, an entry named *.yaml, or what a link leads to
#   x PATH                 a file that is larger than the most
#   u PATH                 a folder that can't be listed
#   s                      then lines of sha256sum of files named *.yaml, an empty line, and their contents in order
# The script within is quoted: it holds no such quote, and no name is ever part of it. Find prints what it has before it
# starts it.
export large=$1 print=$3
most=$2
{
    printf 'configdb-sync 1\0'
    for file in "$5" "$6" "$7"; do
        [ -f "$file" ] && [ -r "$file" ] || continue
        printf 'h %s\0' "$(head -c "$4" -- "$file" | base64 -w 0)"
        break
    done
    shift 7
    for folder do
        cd -P -- "$folder" && printf 't %s\0%s\0' "$folder" "$PWD" || printf 't %s\0\0' "$folder"
    done
    form='f %y %m %U %G %s %T@ %D %i %p\0'
    find -H "$@" -maxdepth 17 -name '*.yaml' -prune -type f -size "+${large}c" -printf 'x %p\0' \
        -o \( -type l -o -name '*.yaml' -type f -printf "$form" \) -exec sh -c '
            for name do
                shift
                if [ -L "$name" ]; then
                    printf "t %s\0%s\0" "$name" "$(readlink -f -- "$name" && echo .)"
                    state=$(stat -L -c "%a %u %g %s %.Y %d %i" -- "$name") || continue
                    kind=o
                    [ ! -f "$name" ] || kind=f
                    [ ! -d "$name" ] || kind=d
                    printf "f %s %s %s\0" "$kind" "$state" "$name"
                    size=${state#* * * }
                    case $kind$name in f*.yaml) [ "${size%% *}" -le "$large" ] || continue ;; *) continue ;; esac
                fi
                set -- "$@" "$name"
            done
            [ $# != 0 ] || exit 0
            printf "s\0"
            sha256sum -b -- "$@"
            echo
            "$print" -- "$@"
            exit 0' sh {} + \
        -o \( -type d -o -name '*.yaml' \) -printf "$form" ||
        find -H "$@" -maxdepth 16 -name '*.yaml' -prune -o -type d -exec sh -c '
            for folder do
                ls -A -- "$folder" >/dev/null || printf "u %s\0" "$folder"
            done' sh {} +
    printf end
} 2>/dev/null | gzip -1 | base64 -w 0 | head -c "$most"
