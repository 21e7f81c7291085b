# What comes before all scripts: the agent's environment is the node's own, and these variables change what programs do.
unset POSIXLY_CORRECT _POSIX2_VERSION GZIP CDPATH
export LC_ALL=C
