# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # other programs use the variables
#
# The one place that knows where things lie, on the host and inside.
#
# Inside the userland and in a guest the project is always at /mrfd and the cache at
# /cache, wherever they are on the host.  So no tool that is built or run there ever
# sees a name with a space or a colon, nothing that is built contains the path of the
# checkout, and all checkouts share the compiler cache.  Programs of the kit use the
# host's paths, and translate a path with inside() when they pass it in.
#
# kit/mrfd/paths.py reads these variables for the Python programs.
#
# What the kit makes is also for other users: a process in a guest has any uid, and has to
# find our libraries there.
umask 022

# cannot REASON: print in one line why the kit cannot work here, and fail.
cannot() { printf 'mrfd: %s\n' "$1" >&2; return 1; }

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P && echo .) # "." keeps a newline at the end
top=${top%$'\n.'}
build=$top/build
logs=$build/logs
home=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)} || home=
case ${XDG_CACHE_HOME:-${home:+$home/.cache}} in
/*) cache=$(realpath -ms -- "${XDG_CACHE_HOME:-$home/.cache}/mrfd") ;;
'') cannot "no place for the cache: this user has no home; set XDG_CACHE_HOME to a directory" || return ;;
*) cannot "the place for the cache has to be an absolute path: ${XDG_CACHE_HOME:-HOME=$HOME}" || return ;;
esac
case $top$cache in
*$'\n'*) cannot "there is a newline in the path of the project or of the cache: move it" || return ;;
esac

# inside PATH: print the name that a path of the project or of the cache has inside.
inside() {
	case $1/ in
	"$top"/*) printf '/mrfd%s\n' "${1#"$top"}" ;;
	"$cache"/*) printf '/cache%s\n' "${1#"$cache"}" ;;
	*)
		printf '%s is neither in the project nor in the cache\n' "$1" >&2
		return 1
		;;
	esac
}
