# Run by rpm after the files are there. The name below becomes that of the folder, with the version X.Y.
plugin=/var/www/nailgun/plugins/%{name}
if [ -L /usr/bin/configdb-sync ] || [ ! -e /usr/bin/configdb-sync ]; then
    mkdir -p /usr/bin
    ln -sfn "$plugin/deployment_scripts/configdb-sync" /usr/bin/configdb-sync
fi
# A file of settings that holds a login must be its owner's alone from the first moment.
mkdir -p /etc/configdb-sync
chmod 0700 /etc/configdb-sync
# Compiled code of another version.
rm -rf /var/cache/configdb-sync
