# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For scripts that run in a guest: $patience, fail() and within().  The program that sources
# this has as many seconds as an idle machine may need, times $patience on a busy one.

patience=${MRFD_PATIENCE:-3}
patience=${patience%.*}

fail() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# within SECONDS WHAT COMMAND...: wait until the command succeeds; fail with WHAT if it is too late.
within() {
	local end=$((SECONDS + $1 * patience + 1)) what=$2
	shift 2
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "$what"
		sleep 0.1
	done
}
