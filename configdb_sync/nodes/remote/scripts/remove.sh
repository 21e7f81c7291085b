# Takes away a file, and the folders that were made for it. Arguments: hiera folder, path below it, target, sha256.
base=$1 path=$1/$2 target=$3 sha256=$4 temporary=.configdb-sync.none
enter
unchanged || say changed
rm -f -- "./$name" || say failed
settle . || say unsettled
prune
say gone
