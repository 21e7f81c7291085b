# Run by rpm after the files are there. The name below becomes that of the folder, with the version X.Y.
plugin=/var/www/nailgun/plugins/%{name}
if [ -L /usr/bin/configdb-sync ] || [ ! -e /usr/bin/configdb-sync ]; then
    mkdir -p /usr/bin
    ln -sfn "$plugin/deployment_scripts/configdb-sync" /usr/bin/configdb-sync
fi
# A file of settings that holds a login must be its owner's alone from the first moment.
mkdir -p /etc/configdb-sync /var/log/configdb-sync
chmod 0700 /etc/configdb-sync /var/log/configdb-sync
# Compiled code of another version.
rm -rf /var/cache/configdb-sync
# The services are off until the settings say otherwise; an upgrade starts those anew that run, and only these.
mkdir -p /etc/systemd/system /etc/logrotate.d
for service in configdb tenants; do
    cp -f "$plugin/services/configdb-sync-$service.service" /etc/systemd/system/
    chmod 0644 "/etc/systemd/system/configdb-sync-$service.service"
done
if [ ! -e /etc/logrotate.d/configdb-sync ]; then
    cp "$plugin/services/logrotate" /etc/logrotate.d/configdb-sync
    chmod 0644 /etc/logrotate.d/configdb-sync
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    systemctl try-restart configdb-sync-configdb.service configdb-sync-tenants.service || :
fi
