# Takes away the temporary folder of a write that is given up. Arguments: its folder, itself, hiera folder, path below.
base=$3 path=$3/$4
cd -P -- "$1" || say gone
rm -rf -- "./$2"
prune
say gone
