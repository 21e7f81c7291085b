# Run by rpm before the files are there. An upgrade takes the place of files that a run may be reading still: it waits
# until none is at work, five minutes at most for all. (A lock is freed by the kernel when its run ends.)
state=/var/lib/configdb-sync
# Another user's folder, or what a link leads to, is no state of ours.
if command -v flock > /dev/null 2>&1 &&
    [ "$(LC_ALL=C stat -c '%%F %%u %%a' "$state" 2> /dev/null)" = 'directory 0 700' ]; then
    timeout 300 sh -c 'for lock in "$1"/environment-*.lock; do [ ! -f "$lock" ] || flock "$lock" true; done' sh "$state" ||
        echo "configdb-sync: a run is at work still (locks in $state); it may fail, and its retry goes on"
fi
