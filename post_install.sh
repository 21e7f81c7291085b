# Run by rpm after the files are there. The name below becomes that of the folder, with the version X.Y.
plugin=/var/www/nailgun/plugins/%{name}
# A file of settings that holds a login must be its owner's alone from the first moment. Where a folder's parent is open to
# others, as /var/log is on some systems, another user may have made it, or a link to somewhere else.
for folder in /etc/configdb-sync /var/log/configdb-sync; do
    mkdir -p -m 0700 "$folder"
    if [ "$(stat -c %%u "$folder")" = 0 ] && [ "$(stat -L -c %%u "$folder")" = 0 ]; then
        chmod 0700 "$folder"
    else
        echo "configdb-sync: $folder is another user's and was left as it is; remove it, and install the plugin again"
    fi
done
sh "$plugin/services/claim"
