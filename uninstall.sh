# Run by rpm when the plugin is taken away, not when it is upgraded. The state folder and the settings stay.
plugin=/var/www/nailgun/plugins/%{name}
if [ "$(readlink /usr/bin/configdb-sync)" = "$plugin/deployment_scripts/configdb-sync" ]; then
    rm -f /usr/bin/configdb-sync
fi
rm -rf /var/cache/configdb-sync
