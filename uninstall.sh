# Run by rpm when the plugin is taken away, not when it is upgraded. The state folder and the settings stay.
plugin=/var/www/nailgun/plugins/%{name}
used=$(readlink /usr/bin/configdb-sync)
# Another version that lies beside this one, the newest of them.
other=$(ls -d /var/www/nailgun/plugins/configdb-sync-*/services/claim 2> /dev/null |
    grep -vxF "$plugin/services/claim" | sort -V | tail -n 1)
if [ -n "$other" ]; then
    # It uses command, units and logrotate's file already, or takes them over now; services that run go on with it.
    if [ "$used" = "$plugin/deployment_scripts/configdb-sync" ] || [ ! -e /usr/bin/configdb-sync ]; then
        sh "$other"
    fi
else
    # The links in the Fuel UI, where Nailgun can still be asked; nothing of this may stop the removal.
    for folder in /etc/fuel/cluster/*/ /var/lib/fuel/configs/*/; do
        environment=$(basename "$folder")
        case "$environment" in
            ''|*[!0-9]*) ;;
            *) timeout 30 "$plugin/deployment_scripts/configdb-sync" dashboard-link --remove --env "$environment" \
                >/dev/null 2>&1
                # What hangs for one environment does for all.
                [ $? != 124 ] || break ;;
        esac
    done
    if [ -d /run/systemd/system ]; then
        systemctl disable configdb-sync-configdb.service configdb-sync-tenants.service configdb-sync-watch.timer || :
        systemctl stop configdb-sync-configdb.service configdb-sync-tenants.service configdb-sync-watch.timer \
            configdb-sync-watch.service || :
    fi
    for name in configdb.service tenants.service watch.service watch.timer; do
        rm -rf "/etc/systemd/system/configdb-sync-$name" "/etc/systemd/system/configdb-sync-$name.d"
    done
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || :
    fi
    rm -f /etc/logrotate.d/configdb-sync
    if [ "$used" = "$plugin/deployment_scripts/configdb-sync" ]; then
        rm -f /usr/bin/configdb-sync
    fi
    for file in bash-completion/completions/configdb-sync man/man1/configdb-sync.1; do
        if [ "$(readlink "/usr/share/$file")" = "$plugin/share/$file" ]; then
            rm -f "/usr/share/$file"
        fi
    done
    rm -rf /var/cache/configdb-sync
    echo "configdb-sync: the state in /var/lib/configdb-sync and the settings in /etc/configdb-sync stay, passwords in them;"
    echo "configdb-sync: remove both by hand when nothing of it is needed any more."
fi
