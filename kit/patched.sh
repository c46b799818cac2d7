# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # $build and $top are of kit/lib.sh
#
# How a program of another project is built with our patches and against our rdma-core.
# scripts/NAME calls build_patched NAME; kit/NAME.sh has compile_NAME SOURCE DIR RDMA_CORE,
# the part that runs inside the userland.

# copy_source SOURCE DIR: the new directory DIR is a copy of the tree, without its git:
# autoreconf writes to the source.
copy_source() {
	rm -rf "$2"
	mkdir -p "$2"
	tar -C "$1" --exclude=./.git -c . | tar -C "$2" -x
}

# build_patched NAME: build build/NAME-obj of build/NAME, and print its path.
build_patched() {
	local name=$1 tree=$build/$1 obj=$build/$1-obj rdma
	made "$obj"
	ready "$name-obj"
	rdma=$("$top/scripts/rdma-core")
	"$top/scripts/join" "$name" >/dev/null
	produce "$obj" patched_key patched_recipe
	echo "$obj"
}

patched_key() {
	tree_key "$tree"
	cat "$rdma.stamp"
	program_key
	declare -f copy_source "compile_$name" build_patched patched_recipe
	userland_key
}

patched_recipe() {
	step "build-$name.log" "building $name" in_userland \
		"compile_$name" "$(inside "$tree")" "$(inside "$obj")" "$(inside "$rdma")"
}
