# Runs a Ruby program. Arguments: the program (base64 of gzip), and its own arguments.
program=$1
shift
command -v ruby >/dev/null || { echo 'sh: it has no ruby' >&2; exit 1; }
printf %s "$program" | base64 -d | gzip -d | exec ruby - "$@"
