# Run by rpm before the files are there. An upgrade takes the place of files that a run may be reading still: it waits
# until none is at work, five minutes at most. (The lock is freed by the kernel when its run ends.)
if command -v flock > /dev/null 2>&1; then
    for lock in /var/lib/configdb-sync/environment-*.lock; do
        if [ -e "$lock" ]; then
            flock -w 300 "$lock" true || echo "configdb-sync: a run is at work still ($lock); it may fail, and its retry goes on"
        fi
    done
fi
