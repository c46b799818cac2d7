# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What every shell program of the kit needs: messages, long steps, commands inside the
# userland, and the one rule of when a product is made again:
#
# A product (the userland, a source, a joined tree, a build) has a key: lines that name
# everything that goes into it, that is the content of its inputs, the text of its
# recipe, and the userland that it is made in.  Beside PRODUCT is PRODUCT.stamp with
# the key that PRODUCT was made from.  produce() makes the product if the two keys
# differ.  It compares them first without a lock, then again with PRODUCT.lock held,
# because another run may have made the product meanwhile.  It removes the stamp before
# the recipe runs and writes it after, so an interrupted run leaves no stamp and the
# next run starts again.  The stamps that make and ninja keep inside a build directory are
# not part of this.
#
# The cache serves checkouts of different ages: a product there has a hash of its key in
# its name.

set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=kit/paths.sh
. "$(dirname "${BASH_SOURCE[0]}")/paths.sh"
# shellcheck source=kit/userland.sh
. "$top/kit/userland.sh"
# shellcheck source=kit/apt.sh
. "$top/kit/apt.sh"
# shellcheck source=kit/host.sh
. "$top/kit/host.sh"

# The project may belong to another user than the one that builds it, for example in CI.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'

prog=scripts/${0##*/}

# --- Messages ----------------------------------------------------------------

# die WHAT [WHY-OR-WHAT-TO-DO ...]: print one line for each argument and exit with 1.
die() {
	printf '%s: %s\n' "$prog" "$1" >&2
	shift
	local line
	for line; do printf '  %s\n' "$line" >&2; done
	exit 1
}

say() { printf '%s\n' "$*" >&2; }

# any PATTERN (expanded): whether a file matches it.
any() { [ -e "$1" ]; }

# usage: print the comment block at the head of the program (after #! and SPDX).
usage() {
	sed -n '2,/^$/ { /^# SPDX/d; s/^# \{0,1\}//p }' "$0"
	exit
}

# misuse WHAT: the program was called in a wrong way.
misuse() {
	printf '%s: %s\n  %s --help lists the arguments\n' "$prog" "$1" "$prog" >&2
	exit 2
}

# --- Products ----------------------------------------------------------------

# produce [--with OTHER] PRODUCT KEY RECIPE [ARGUMENT...]: make PRODUCT by running RECIPE,
# unless it was made from what the function KEY prints now.  Call it as a command of its own,
# not left of || or && and not in a condition: these switch off set -e inside RECIPE.
# --with: never while OTHER is made, which has the same build directory.
produce() {
	local key other=
	[ "$1" != --with ] || { other=$2; shift 2; }
	key=$("$2")
	is_made "$1" "$key" || locked "${other:-$1}" remake "$@"
	[ -z "${MRFD_MADE-}" ] || : >"$MRFD_MADE/${1//\//%}"
}

# made PRODUCT [LINE]: if PRODUCT was found fresh, or made, earlier in the same run of
# scripts/check, print LINE, or PRODUCT, and exit.  Such a run uses one build of each product,
# and to find out whether one is still fresh takes seconds.  MRFD_MADE is the directory of the
# run that has a file for each of these products.
made() {
	if [ -n "${MRFD_MADE-}" ] && [ -e "$MRFD_MADE/${1//\//%}" ] && [ -e "$1.stamp" ]; then
		echo "${2-$1}"
		exit
	fi
}

is_made() { [ -e "$1" ] && [ "$(cat "$1.stamp" 2>/dev/null)" = "$2" ]; }

# locked PRODUCT COMMAND...: run COMMAND while no other run makes PRODUCT.
locked() {
	local lock
	mkdir -p -- "$(dirname -- "$1")"
	exec {lock}>"$1.lock"
	if ! flock -n "$lock"; then # a run beside this one shows what it makes
		[ -n "${MRFD_STEPS-}" ] || say "$prog: waiting for another run that makes $1"
		flock "$lock"
	fi
	shift
	"$@"
	exec {lock}>&-
}

# The part of produce() that runs with the lock held.
remake() {
	local product=$1 key
	key=$("$2")
	shift 2
	! is_made "$product" "$key" || return 0
	rm -f "$product.stamp"
	rm -rf "$product".part.* # what interrupted runs left
	"$@"
	echo "$key" >"$product.stamp"
}

# check_edits TREE normal|no: stop if a joined tree has edits that are not committed, or (normal)
# files that git does not know.
check_edits() {
	local edits at=${1#"$top"/}
	edits=$(git -C "$1" status --porcelain -u"$2")
	[ -z "$edits" ] || die "$at has edits that would be lost:" "$edits" \
		"commit them there and run scripts/refresh ${1##*/}, or drop them with git -C $at reset --hard"
}

# check_commits TREE COMMIT...: stop if a joined tree is at a commit that neither join made nor
# refresh has written to patches/, and that is none of these.
check_commits() {
	local tree=$1 at made
	shift
	at=$(git -C "$tree" rev-parse -q --verify HEAD) || return 0
	made=$(cat "$tree/.git/mrfd-head" 2>/dev/null) || true
	case " $made $* " in *" $at "*) return ;; esac
	die "${tree#"$top"/} has commits that patches/ does not have" \
		"run scripts/refresh ${tree##*/} to keep them, or git -C ${tree#"$top"/} reset --hard ${made:-$1}"
}

# publish PART PRODUCT: the complete PART becomes PRODUCT, in place of an older one.
publish() {
	sync -d "$1" 2>/dev/null || true
	[ ! -d "$2" ] || mv -T "$2" "$2.part.old.$$"
	mv -T "$1" "$2"
	rm -rf "$2.part.old.$$"
}

# Lines for a key: the text of this program, the userland, the content of files, and a
# git tree with its edits, committed or not.
program_key() { echo "program $(sha256sum <"$0")"; }
userland_key() { echo "userland $(rootfs_key)"; }
files_key() { echo "files $(cat -- "$@" | sha256sum)"; }
tree_key() {
	echo "commit $(git -C "$1" rev-parse HEAD)"
	echo "edits $(git -C "$1" diff --no-ext-diff --binary HEAD | sha256sum)"
	echo "new files $(cd "$1" && git ls-files -z -o --exclude-standard | xargs -0r sha256sum | sha256sum)"
}

# ours_key: print a hash of our patches and files of a project.  Call series_of first.
# What the patches are made for has a key of its own, the commit of the base.
ours_key() {
	local files=(find "${patches#"$top"/}" "${ours#"$top"/}" -type f ! -name cover.md
		! -path "${patches#"$top"/}/base")
	(cd "$top" && {
		"${files[@]}" -print0 | sort -z | xargs -0r sha256sum
		"${files[@]}" -perm /111 | sort
	} | sha256sum | cut -d' ' -f1)
}

# --- Steps and the userland --------------------------------------------------

# step LOG TITLE COMMAND...: run a long command with its output in build/logs/LOG.  Meanwhile
# kit/progress shows how far it is.  On failure show the end of the log and exit.  Call it as
# a command of its own, like produce.
step() {
	local log=$logs/$1 title=$2 start=$SECONDS pid shown status=0 tell
	shift 2
	mkdir -p "$logs"
	set -m # a process group of its own, so that Ctrl-C ends all of it
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064 # expand $pid now
	trap "kill -TERM -- -$pid 2>/dev/null; exit 130" INT TERM
	exec {tell}> >(exec python3 -SE "$top/kit/progress" "$log" "$title" "$cache/steps" >&2 2>/dev/null)
	shown=$!
	wait "$pid" || status=$?
	trap - INT TERM
	[ "$status" != 0 ] || (echo made >&"$tell") 2>/dev/null || true
	exec {tell}>&-
	wait "$shown" || true
	[ ! -t 2 ] || printf '\r\033[K' >&2 # a step beside this one may have written a line
	if [ "$status" != 0 ]; then
		say "$title ... FAILED after $((SECONDS - start)) s; the end of $log:"
		if [ -s "$log" ]; then tail -n 40 "$log" >&2; else say "(nothing is in it)"; fi
		full_disks
		exit 1
	fi
	say "$title ... done in $((SECONDS - start)) s"
}

# in_userland [--tree DIR PATH] FUNCTION [ARGUMENT...]: run a function of this program
# inside the userland (see scripts/enter), under nice; in that of other people's programs if
# $userland_list is theirs.  The function can call the program's
# other functions and use the variables of kit/paths.sh; pass everything else as arguments.
# Translate paths with inside().
in_userland() {
	local options=()
	[ "$1" != --tree ] || { options=("${@:1:3}"); shift 3; }
	[ "$userland_list" = userland.packages ] || options=(--programs "${options[@]}")
	# shellcheck disable=SC2016 # the shell inside expands it
	nice "$top/scripts/enter" "${options[@]}" \
		bash -c '. /mrfd/kit/lib.sh; use_huge_pages; eval "$1"; shift; "$@"' \
		"$0" "$(declare -f)" "$@"
}

# use_huge_pages: of in_userland, inside.  The programs that start next get large pieces of
# memory in huge pages (kit/huge.c).  A lock, and not a name with $$, keeps two runs apart:
# both have the same $$, since each is in a PID namespace of its own.
use_huge_pages() {
	local library=$build/huge.so lock
	exec {lock}>"$library.lock"
	flock "$lock"
	[ "$library" -nt "$top/kit/huge.c" ] || {
		/usr/bin/gcc -O2 -Wall -Wextra -shared -fPIC -o "$library.part" "$top/kit/huge.c"
		mv "$library.part" "$library"
	}
	exec {lock}>&-
	export LD_PRELOAD=$library
}

# --- Projects ----------------------------------------------------------------

# The projects that we have a series for.
# shellcheck disable=SC2034 # programs use it
projects=(linux rdma-core perftest libfabric ucx)

# series_of PROJECT: set where our patches and files of PROJECT are, and their licence.
# shellcheck disable=SC2034 # callers use them
series_of() {
	licence='GPL-2.0 OR Linux-OpenIB'
	case $1 in
	linux) patches=$top/patches/linux ours=$top/kernel ;;
	rdma-core) patches=$top/patches/rdma-core ours=$top/rdma-core ;;
	perftest) patches=$top/patches/perftest ours=$top/perftest licence='GPL-2.0 OR BSD-2-Clause' ;;
	libfabric) patches=$top/patches/libfabric ours=$top/libfabric licence='BSD-2-Clause OR GPL-2.0' ;;
	ucx) patches=$top/patches/ucx ours=$top/ucx licence=BSD-3-Clause ;;
	*) return 1 ;;
	esac
}

# A series is a directory of patches with its cover letter, cover.md, beside them: a folder
# NN-name of $patches, whose number gives the order, or $patches itself if the project has
# one series only; that one is called ".".  In the joined tree the last lines of a commit's
# message say "Series: NN-name", and nothing for ".".

# series_names: print the series of the project in their order.
series_names() {
	[ ! -d "$patches" ] || (cd "$patches" && find . -maxdepth 2 -regextype posix-extended \
		-regex '\./([0-9]{2}-[a-z0-9-]+/)?cover\.md' -printf '%P\n' | xargs -r dirname | LC_ALL=C sort)
}

# has_patches: whether the project has a patch in any series.
has_patches() { [ -n "$(find "$patches" -name '*.patch' -print -quit 2>/dev/null)" ]; }

# depends_on SERIES: print the series that its cover letter names in a line "Depends on: ".
depends_on() { sed -n 's/^Depends on: //p' "$patches/$1/cover.md" | tr -s ', ' '\n'; }

# message_series, message_text: of a commit's message on stdin print its series, or the
# message without it.
message_series() { sed -n 's/^Series: *//p' | sort -u | grep . || echo .; }
message_text() { sed '/^Series:/d' | git stripspace; }

# own_source PROJECT: print the directory that the caller has for its source, if any, in the
# variable whose name source_variable prints: LINUX_SRC, RDMA_CORE_SRC and so on.
source_variable() { local name=${1//-/_}; echo "${name^^}_SRC"; }
own_source() { local -n value; value=$(source_variable "$1"); echo "${value-}"; }

# one_project ARGUMENT: take ARGUMENT as the one project of this run; sets $name.
one_project() {
	[ -z "$name" ] || misuse "one project at a time; unknown argument: $1"
	series_of "$1" || misuse "unknown argument: $1"
	name=$1
}
