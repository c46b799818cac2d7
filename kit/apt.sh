# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # $cache is of kit/paths.sh, $suite of kit/userland.sh
#
# The host's apt with the userland's suites, and its state in the cache.  So a source is
# fetched while the userland is being made, and no setting of the host for its own packages
# has a say.  Debian's index is signed; apt checks that.
#
# The caller sets $mirror, and holds apt_lock, because there is one state for all.

# apt_lock, apt_unlock: no other run uses this apt meanwhile.
apt_lock() {
	mkdir -p "$cache"
	exec 7>"$cache/apt.lock"
	flock 7
}
apt_unlock() { exec 7>&-; }

# apt_options [SUITE]: set $apt_options to those with which apt knows the userland's suites.
# Of another SUITE it knows the sources alone, and not whether its index is of today: what is
# found by it is not run, and its date says nothing about its content.
apt_options() {
	local apt=$cache/apt type part
	local keys="signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
	mkdir -p "$apt/lists/partial" "$apt/archives/partial"
	: >"$apt/status"
	{
		for type in deb deb-src; do
			for part in "$suite" "$suite-updates" "$suite-backports"; do
				echo "$type [$keys] $mirror $part main"
			done
		done
		case ${1:-$suite} in "$suite" | "$suite"-*) ;; *)
			echo "deb-src [$keys check-valid-until=no] $mirror $1 main"
			;;
		esac
	} >"$apt/sources.list"
	apt_options=(-q -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=-
		-o Dir::Etc::Preferences=- -o Dir::Etc::PreferencesParts=-
		-o "Dir::State::Lists=$apt/lists" -o "Dir::State::Status=$apt/status"
		-o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
}

# apt_of_suite ARGUMENT..., apt_of_cache ARGUMENT...: apt-get and apt-cache.  $other_suite
# is one more suite to know, if it is set.
apt_of_suite() {
	local apt_options
	apt_options "${other_suite-}"
	apt-get "${apt_options[@]}" "$@"
}
apt_of_cache() {
	local apt_options
	apt_options "${other_suite-}"
	apt-cache "${apt_options[@]}" "$@"
}

# apt_proxy: print the proxy that the host's apt uses for http, if it has one.
apt_proxy() {
	apt-config shell P Acquire::http::Proxy | sed -n "s/^P='\(.*\)'$/\1/p" | grep -vx DIRECT || true
}
