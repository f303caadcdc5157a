# A real cron daemon and a real systemd user manager, in namespaces of their own: test_schedule_fires.py runs this.
set -eu
mount -t tmpfs none /run
mount -t tmpfs none /var/spool/cron
[ "$(stat -f -c %T /var/spool/cron)" = tmpfs ]  # or else the script ends here
install -d -m 1730 -g crontab /var/spool/cron/crontabs
mount -t tmpfs none /etc/cron.d
: >/run/no_crontab
mount --bind /run/no_crontab /etc/crontab
mkdir -p /run/systemd/system -m 700 /run/user
export XDG_RUNTIME_DIR=/run/user HOME="$PWD/home"
unset XDG_CONFIG_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS

"$MANAGER" --user >manager 2>&1 &
for _ in $(seq 50); do
    if systemctl --user show --property=Version >/dev/null 2>&1; then touch answers; break; fi
    sleep 0.1
done

printf '%s' "$OTHERS" | crontab -
cron -f &
install_both() {
    "$SWEEP" schedule install "$ODD/cron.yaml" --at "$1" --cron >show_cron 2>hints_cron
    # Without a choice, as a manager answers.
    [ ! -e answers ] || "$SWEEP" schedule install "$ODD/timer.yaml" --at "$1" >show_timer 2>hints_timer
}
if [ -e answers ]; then  # one is to move from there to cron, the other to get another time
    "$SWEEP" schedule install "$ODD/cron.yaml" --at 00:00
    "$SWEEP" schedule install "$ODD/timer.yaml" --at 00:00
fi >earlier 2>&1
until
    minute=$((($(date +%s) + 65) / 60 * 60))
    install_both "$(date -d @$minute +%H:%M)"
    [ "$(date +%s)" -lt $minute ]
do  # too slow: what that minute started is not awaited
    sleep 3
    rm -f home/.local/state/cudnn-sweep/*.log
done
date -d @$minute '+%Y-%m-%d %H:%M:%S' >minute
crontab -l >crontab_installed
find home/.config -name '*.timer' -type f >timers_installed
awaited=$((1 + $(find answers 2>/dev/null | wc -l)))
for _ in $(seq 150); do
    if [ "$(cat home/.local/state/cudnn-sweep/*.log 2>/dev/null | grep -c standard)" = $awaited ]; then break; fi
    sleep 0.5
done
"$SWEEP" schedule remove "$ODD/cron.yaml" >removed
crontab -l >crontab_left
if [ -e answers ]; then
    "$SWEEP" schedule remove "$ODD/timer.yaml" >>removed
    systemctl --user list-timers --all --no-legend >timers_left
    systemctl --user exit
fi
