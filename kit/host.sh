# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # the variables of paths.sh
#
# What the kit needs of the host: directories that it can write to, a few programs, ids
# for the userland, and room on the disks.  ready() checks this before anything is made,
# so that the user learns in the first second what is missing and what to do.
#
# Products are named as in build/ (linux, kernel-debug, rdma-core-obj); those in the cache
# are rootfs, programs-rootfs (the userland of other people's programs) and source-PROJECT.

# ready PRODUCT...: die unless the host has all that is needed to make these products and
# the products that they are made from.
ready() {
	local product
	declare -A room=()
	for product; do need "$product"; done
	check_places
	check_tools
	[ -z "${room[rootfs:tmp]-}" ] || [ "$(id -u)" = 0 ] || check_ids
	check_room
}

# --- Places to write to ------------------------------------------------------

check_places() {
	local path
	for path in "$build" "$logs" "$cache"; do
		mkdir -p -- "$path" 2>/dev/null || true
		[ -w "$path" ] || no_place "$path"
	done
	for path in "$build"/* "$logs"/* "$cache"/*; do
		[ -w "$path" ] || [ ! -e "$path" ] || no_place "$path"
	done
}

# no_place PATH: say why PATH cannot be written to.
no_place() {
	local path=$1 why at owner elsewhere="clone the project to a directory of yours"
	why=$(LC_ALL=C mkdir -p -- "$path" 2>&1) || true
	[ -n "$why" ] || why=$(LC_ALL=C touch -c -- "$path" 2>&1) || true
	why=${why##*: }
	case $path in "$cache"*) elsewhere="set XDG_CACHE_HOME to a directory of yours" ;; esac
	[ "$why" != 'No space left on device' ] || full_disks
	at=$(existing "$path")
	owner=$(stat -c %U -- "$at")
	if [ "$why" = 'Permission denied' ] && [ "$path" != "$at" ]; then
		die "cannot make $path: $at belongs to $owner" "$elsewhere"
	elif [ "$why" = 'Permission denied' ]; then
		die "cannot write to $path: it belongs to $owner; was the kit run by $owner before?" \
			"run: sudo chown -R $(id -un) '$build' '$cache', or $elsewhere"
	fi
	die "cannot write to $path: ${why:-Permission denied}" "$elsewhere"
}

# --- Programs and ids --------------------------------------------------------

check_tools() {
	local missing=() pair pairs=(bwrap:bubblewrap python3:python3 git:git flock:util-linux)
	if [ -n "${room[rootfs:tmp]-}" ]; then
		pairs+=(mmdebstrap:mmdebstrap)
		[ "$(id -u)" = 0 ] || pairs+=(newuidmap:uidmap)
	fi
	case ${!room[*]} in
	*rootfs:* | *source-* | *newest-* | *debian-kernel:*)
		[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
		;;
	esac
	for pair in "${pairs[@]}"; do
		command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || die "missing on this host: ${missing[*]}" \
		"run: sudo apt-get install --no-install-recommends ${missing[*]}"
	say "installing on this host: ${missing[*]}"
	if ! apt-get update -q >&2 || ! DEBIAN_FRONTEND=noninteractive \
		apt-get install -qy --no-install-recommends "${missing[@]}" >&2; then
		die "cannot install ${missing[*]}" "install them, then run this again"
	fi
}

# As an ordinary user mmdebstrap needs a range of ids that the user owns.
check_ids() {
	local user file first
	user=$(id -un)
	for file in /etc/subuid /etc/subgid; do
		awk -F: -v user="$user" '$1 == user { found = $3 >= 65536; exit }
			END { exit !found }' "$file" 2>/dev/null && continue
		first=$(cat /etc/subuid /etc/subgid 2>/dev/null |
			awk -F: '$2 + $3 > n { n = $2 + $3 } END { print (n > 100000 ? n : 100000) }')
		die "the user $user has no range of 65536 ids in $file, which are needed to make the userland" \
			"run: sudo usermod --add-subuids $first-$((first + 65535)) --add-subgids $first-$((first + 65535)) $user"
	done
}

# --- Room on the disks -------------------------------------------------------

# The sizes after a whole "make check"; the README has them too.
build_takes='2.6 GB' cache_takes='2.2 GB'

# takes PRODUCT PLACE MB: to make PRODUCT needs MB in PLACE (cache, build or tmp).
takes() { room[$1:$2]=$3; }

# need_userland PRODUCT LIST MB: the same for a userland.  mmdebstrap works in the temporary
# directory; two userlands are made one after the other.
need_userland() {
	# shellcheck disable=SC2034 # kit/userland.sh uses it
	local userland_list=$2
	[ ! -e "$(rootfs_dir).stamp" ] || return 0
	takes "$1" cache "$3"
	takes rootfs tmp 1750
}

# need PRODUCT: count the room for PRODUCT and for what it is made from, unless it exists.
# The numbers were measured with du during the build.
need() {
	local tree
	case $1 in
	rootfs) need_userland "$1" userland.packages 1650 ;;
	programs-rootfs) need_userland "$1" programs.packages 1450 ;;
	source-*)
		[ -z "$(own_source "${1#source-}")" ] || return 0
		! any "$cache/$1"-*.git.stamp || return 0
		case $1 in *-linux) takes "$1" cache 700 ;; *) takes "$1" cache 50 ;; esac
		;;
	newest-*) # of scripts/sources --newest
		case $1 in *-linux) takes "$1" build 700 ;; *) takes "$1" build 50 ;; esac
		;;
	debian-kernel)
		need rootfs
		[ -e "$build/debian-kernel" ] || takes "$1" build 600
		;;
	kernel*-modules)
		need "${1%-modules}"
		[ -e "$build/${1%-modules}/modules" ] || takes "$1" build 100
		;;
	kernel*)
		need rootfs
		[ ! -e "$build/$1/bzImage" ] || return 0
		case $1 in kernel-stock*) need linux-stock ;; *) need linux ;; esac
		case $1 in
		kernel-debug) takes "$1" build 550 ;;
		kernel-symbols) takes "$1" build 1500 ;;
		*) takes "$1" build 250 ;;
		esac
		;;
	check-*) # a tree and objects of check-series
		[ ! -e "$build/check-series/${1#check-}-obj" ] || return 0
		case $1 in *-linux) takes "$1" build 2200 ;; *) takes "$1" build 200 ;; esac
		;;
	connectx*)
		need rootfs
		[ ! -e "$build/$1" ] || return 0
		need linux
		need rdma-core-obj
		case $1 in connectx) takes "$1" build 5 ;; *) takes "$1" build 50 ;; esac
		;;
	*-obj)
		need rootfs
		[ ! -e "$build/$1" ] || return 0
		need "${1%-obj}"
		case $1 in libfabric-obj | ucx-obj) need programs-rootfs ;; esac
		case $1 in perftest-obj | libfabric-obj) need rdma-core-obj ;; esac
		case $1 in ucx-obj) takes "$1" build 250 ;; *) takes "$1" build 200 ;; esac
		;;
	*)
		tree=${1%-stock}
		need "source-$tree"
		[ ! -e "$build/$1/.git" ] || return 0
		case $tree in linux) takes "$1" build 1900 ;; *) takes "$1" build 30 ;; esac
		;;
	esac
}

# existing PATH: print PATH, or the nearest directory above it that exists.
existing() {
	local at=$1
	while [ ! -e "$at" ]; do at=${at%/*}; at=${at:-/}; done
	echo "$at"
}

# The directory of a place, and the file system that it is on.
place() { case $1 in cache) echo "$cache" ;; build) echo "$build" ;; tmp) echo "${TMPDIR:-/tmp}" ;; esac; }
file_system() { df --output=target -- "$(existing "$(place "$1")")" | tail -n 1; }
free_mb() { df --output=avail -BM -- "$(existing "$(place "$1")")" | tail -n 1 | tr -dc 0-9; }

check_room() {
	local key where at free
	declare -A needed=() parts=() frees=()
	for where in cache build tmp; do
		at=$(file_system "$where")
		for key in "${!room[@]}"; do
			[ "${key#*:}" != "$where" ] || needed[$at]=$((${needed[$at]-0} + room[$key]))
		done
		frees[$at]=$(free_mb "$where")
		parts[$at]="${parts[$at]-}${parts[$at]:+, }$(place "$where")"
	done
	for at in "${!needed[@]}"; do
		free=${frees[$at]}
		[ "$free" -ge "${needed[$at]}" ] || die \
			"the file system $at has $free MB free and ${needed[$at]} MB are needed on it (for ${parts[$at]})" \
			"make room there; or set XDG_CACHE_HOME=DIR to move the cache, TMPDIR=DIR to move temporary files"
	done
}

# full_disks: after a failure, name each disk that is full.
full_disks() {
	local where at free seen=' '
	for where in build cache tmp; do
		at=$(file_system "$where")
		free=$(free_mb "$where")
		[[ $free -lt 50 && $seen != *" $at "* ]] || continue
		seen+="$at "
		say "$prog: the file system $at is full: it has $free MB free, and $(place "$where") is on it" \
			"($build takes $build_takes in all, $cache $cache_takes)"
	done
}
