# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # the variables of paths.sh
#
# How a kernel module of the tests is built, for scripts/gpu, scripts/kernel-dm and
# scripts/steps.  Module NAME is tests/NAME, and becomes build/NAME/mrfd_NAME.ko, or
# build/NAME-debug/mrfd_NAME.ko.

# build_module NAME TITLE [--debug|--kcsan|--symbols]: build it for a guests' kernel, print
# its path.
build_module() {
	local variant='' arg
	name=$1 title=$2
	shift 2
	for arg; do
		case $arg in
		--help | -h) usage ;;
		--debug | --kcsan | --symbols) variant=$arg ;;
		*) misuse "unknown argument: $arg" ;;
		esac
	done
	place=$name${variant:+-${variant#--}}
	module=$build/$place/mrfd_$name.ko
	made "$module"
	ready "kernel${variant:+-${variant#--}}-modules"
	image=$("$top/scripts/kernel" --modules ${variant:+"$variant"})
	produce "$module" module_key module_recipe
	echo "$module"
}

module_key() {
	files_key "$top/tests/$name"/* "$top/kit/module.sh"
	cat "$image.stamp"
	userland_key
}

module_recipe() {
	local part=$module.part.$$
	step "build-$place.log" "building $title" \
		in_userland compile_module "$(inside "${image%/*}")" "$name" "$(inside "$part")"
	publish "$part" "$module"
}

# compile_module KERNEL NAME MODULE: the part that runs inside the userland.  It builds in
# /tmp: that path is always the same, so ccache hits, and no object lies among the sources.
compile_module() {
	cp -r "/mrfd/tests/$2" "/tmp/$2"
	make -C "$1" M="/tmp/$2" W=1 modules
	cp "/tmp/$2/mrfd_$2.ko" "$3"
}
