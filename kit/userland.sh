# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # $top and $cache are of kit/paths.sh
#
# The recipe of the Debian 13 userland, which scripts/rootfs runs, and the key of the
# userland.  All products are made in the userland, so their keys contain rootfs_key.

suite=trixie

# The list of its packages; programs.packages is that of scripts/rootfs --programs.
userland_list=userland.packages

userland_packages() { grep -v '^ *#' "$top/kit/$userland_list"; }

# debian_mirror: print where Debian comes from: DEBIAN_MIRROR, or what the host's apt uses,
# as apt itself reads its configuration.
debian_mirror() {
	local mirror=${DEBIAN_MIRROR-}
	# shellcheck disable=SC2016 # $(...) is apt's
	[ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(CREATED_BY) $(REPO_URI)' |
		awk '$1 == "Packages" && $2 ~ /\/debian\/?$/ { print $2; exit }')
	[ -n "$mirror" ] || die "the host's apt names no Debian mirror" \
		"set DEBIAN_MIRROR=http://mirror/debian"
	echo "$mirror"
}

# make_userland MIRROR PART: make it in the new directory PART.
make_userland() {
	local mirror=$1 part=$2 packages options=() proxy
	packages=$(userland_packages | tr -s ' \n' ',')
	proxy=$(apt-config shell P Acquire::http::Proxy | sed -n "s/^P='\(.*\)'$/\1/p")
	[ -z "$proxy" ] || options+=(--aptopt="Acquire::http::Proxy \"$proxy\"")
	mkdir "$part"
	# A tar stream, not a directory: its files then belong to the user that runs
	# this, root or not, who can remove them.
	# QEMU, with its firmware, comes from backports: vfio-user, for a device model
	# in a process of its own, needs 10.1.
	# shellcheck disable=SC2016 # $1 is for the hook's own shell
	mmdebstrap --variant=minbase --components=main "${options[@]}" \
		--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
		--setup-hook='printf "Package: src:qemu src:seabios\nPin: release n=trixie-backports\nPin-Priority: 990\n" >"$1/etc/apt/preferences.d/qemu"' \
		--include="${packages%,}" "$suite" - \
		"deb $mirror $suite main" "deb $mirror $suite-updates main" \
		"deb $mirror $suite-backports main" |
		tar -C "$part" -x --no-same-owner --exclude='./dev/*' --warning=no-timestamp
	chmod -R u+rwX "$part"
}

# The list and the recipe, without their comments.
rootfs_key() { { userland_packages; declare -f make_userland; } | sha256sum | cut -c1-12; }

rootfs_dir() { echo "$cache/rootfs-$(rootfs_key)"; }
