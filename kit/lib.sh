# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What every shell program of the kit needs: where things are, how a long step
# is shown, how an error is told, and how a product is made so that a half of it
# can never be taken for the whole.
#
# The last rule is kept in one way everywhere: a product is made under a name
# of its own ("NAME.part.PID") and renamed when it is complete; a stamp file
# that says what it was made from is written after it.  Whoever comes next
# looks at the name and the stamp only.

set -euo pipefail

# shellcheck source=kit/paths.sh
. "$(dirname "${BASH_SOURCE[0]}")/paths.sh"

prog=${0##*/}

# die WHAT [WHY-OR-WHAT-TO-DO ...]: one line for each argument, then exit 1.
die() {
	printf '%s: %s\n' "$prog" "$1" >&2
	shift
	local line
	for line; do printf '  %s\n' "$line" >&2; done
	exit 1
}

say() { printf '%s\n' "$*" >&2; }

# usage: print the comment block at the head of the program (after #! and SPDX).
usage() {
	sed -n '/^# SPDX/d; 2,/^[^#]/ { /^#/ { s/^# \{0,1\}//; p } }' "$0"
	exit "${1:-0}"
}

# step LOG TITLE COMMAND...: run a long command with its output in
# build/logs/LOG; on a terminal show title and seconds, in CI a line for each
# minute and one at the end.  On failure show the end of the log and exit.  Call
# it plainly, never left of || or &&: that would switch off -e inside COMMAND.
step() {
	local log=$logs/$1 title=$2 start=$SECONDS pid status=0 minute=1
	shift 2
	mkdir -p "$logs"
	set -m # a process group of its own, so that Ctrl-C ends all of it
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064 # the pid of now is meant
	trap "kill -TERM -- -$pid 2>/dev/null; exit 130" INT TERM
	if [ ! -t 2 ]; then
		while kill -0 "$pid" 2>/dev/null; do
			sleep 0.2
			[ $((SECONDS - start)) -lt $((60 * minute)) ] || say "$title ... $((60 * minute++)) s"
		done
	else
		while kill -0 "$pid" 2>/dev/null; do
			printf '\r%s ... %ds ' "$title" $((SECONDS - start)) >&2
			sleep 1
		done
		printf '\r' >&2
	fi
	wait "$pid" || status=$?
	trap - INT TERM
	if [ "$status" != 0 ]; then
		say "$title ... FAILED after $((SECONDS - start)) s; the end of $log:"
		tail -n 40 "$log" >&2
		exit 1
	fi
	say "$title ... done in $((SECONDS - start)) s"
}

# lock NAME: let one run at a time make the product NAME; released at exit.
lock() {
	mkdir -p "$cache"
	exec 9>"$cache/$1.lock"
	flock -n 9 || { say "$prog: waiting for another run that makes $1"; flock 9; }
}

# publish PART NAME: the complete product PART becomes NAME.
publish() {
	sync -d "$1" 2>/dev/null || true
	mv -T "$1" "$2"
}

# sweep PREFIX: remove what interrupted runs left; the caller holds the lock.
sweep() { rm -rf "$1".part.*; }

# The userland is named after what it is made from: the list and the recipe.
rootfs_key() {
	{
		grep -v '^ *#' "$top/kit/userland.packages"
		sed -n '/^make_rootfs()/,/^}/p' "$top/scripts/rootfs"
	} | sha256sum | cut -c1-12
}

rootfs_dir() { echo "$cache/rootfs-$(rootfs_key)"; }

# ours_key: what our side of a project is, as a hash (after series_of).
ours_key() {
	find "$patches" "$ours" -type f ! -name cover.md -print0 |
		sort -z | xargs -0r sha256sum | sha256sum | cut -d' ' -f1
}

# The projects that we have a series for.
# shellcheck disable=SC2034 # it is for whoever sources this
projects=(linux rdma-core perftest)

# series_of PROJECT: where our side of it lives, and the licence that it has.
# shellcheck disable=SC2034 # they are for the caller
series_of() {
	licence='GPL-2.0 OR Linux-OpenIB'
	case $1 in
	linux) patches=$top/patches/linux-6.12 ours=$top/kernel ;;
	rdma-core) patches=$top/patches/rdma-core-56 ours=$top/rdma-core ;;
	perftest) patches=$top/patches/perftest-25 ours=$top/perftest licence='GPL-2.0 OR BSD-2-Clause' ;;
	*) return 1 ;;
	esac
}
