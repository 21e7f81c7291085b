# Puts the new content in place. Arguments: path, target, sha256, sha256 of the new content, temporary folder, parts.
path=$1 target=$2 sha256=$3 new=$4 temporary=$5
shift 5
enter
if [ ! -d "./$temporary" ]; then
    # Asked twice, as after a lost connection: it may be done already.
    [ "$(digest "./$name")" != "$new" ] || report
    say lost
fi
gather "$@"
chown --reference="./$name" -- "./$temporary/new" && chmod --reference="./$name" -- "./$temporary/new" || drop failed
form='%a %u %g'
if labelled; then
    form='%a %u %g %C'
    [ "$(stat -c %C -- "./$temporary/new")" = "$(stat -c %C -- "./$name")" ] ||
        chcon --reference="./$name" -- "./$temporary/new" || drop failed
fi
[ "$(stat -c "$form" -- "./$temporary/new")" = "$(stat -c "$form" -- "./$name")" ] || drop undressed
settle "./$temporary/new" || drop failed
unchanged && [ "$(stat -c %h -- "./$name")" = 1 ] || drop changed
mv -fT -- "./$temporary/new" "./$name" || drop failed
rm -rf -- "./$temporary"
report
