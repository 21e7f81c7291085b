# Run by rpm when the plugin is taken away, not when it is upgraded. The state folder and the settings stay.
plugin=/var/www/nailgun/plugins/%{name}
# The links in the Fuel UI, where Nailgun can still be asked; nothing of this may stop the removal.
for folder in /etc/fuel/cluster/*/ /var/lib/fuel/configs/*/; do
    environment=$(basename "$folder")
    case "$environment" in
        ''|*[!0-9]*) ;;
        *) timeout 30 "$plugin/deployment_scripts/configdb-sync" dashboard-link --remove --env "$environment" \
            >/dev/null 2>&1 || true ;;
    esac
done
if [ "$(readlink /usr/bin/configdb-sync)" = "$plugin/deployment_scripts/configdb-sync" ]; then
    rm -f /usr/bin/configdb-sync
fi
rm -rf /var/cache/configdb-sync
