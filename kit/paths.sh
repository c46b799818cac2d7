# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # the variables are for whoever sources this
#
# The one place that knows where things lie, on the host and inside.
#
# Inside the userland and in a guest the project is always at /mrfd and the cache at
# /cache, wherever they are on the host.  So no tool that is built or run there ever
# sees a name with a space or a colon, nothing that is built remembers where the
# checkout is, and the compiler cache serves every checkout.  Programs of the kit work
# with the host's paths and translate what they hand in with inside().
#
# kit/mrfd/paths.py reads these variables for the Python programs.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$top/build
logs=$build/logs
home=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
cache=$(realpath -ms -- "${XDG_CACHE_HOME:-${home:-/nonexistent}/.cache}/mrfd")

# inside PATH: the name of a path of the project or of the cache inside.
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
