# Makes ready to replace a file. Arguments: its path, where that leads, its sha256, the temporary folder, a link that
# must lead there too (or nothing), its parts.
path=$1 target=$2 sha256=$3 temporary=$4 link=$5
shift 5
[ -z "$link" ] || [ "$(readlink -f -- "$link")" = "$target" ] || say forbidden
enter
[ "$(digest "./$name")" = "$sha256" ] || say changed
links=$(stat -c %h -- "./$name")
[ "$links" = 1 ] || say linked "$links"
begin "$@" || say failed
cp --attributes-only --preserve=all -- "./$name" "./$temporary/new" || drop failed
chmod 600 -- "./$temporary/new" || drop failed
say ready
