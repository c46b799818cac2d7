# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # the variables of paths.sh
#
# How a kernel module of the tests is built, for scripts/gpu, scripts/kernel-dm,
# scripts/steps, scripts/importer and scripts/dmabuf-test.  Module NAME is tests/NAME, and
# becomes build/NAME/mrfd_NAME.ko, or build/NAME-debug/mrfd_NAME.ko.

# A program may set these: folders of which the module is built besides tests/NAME, and
# whether the kernel without our patches can have it.
more=() stock_too=''

# build_module NAME TITLE [--debug|--kcsan|--symbols|--stock]: build it for a guests' kernel,
# print its path.
build_module() {
	local variant='' arg
	name=$1 title=$2
	shift 2
	for arg; do
		case $arg in
		--help | -h) usage ;;
		--debug | --kcsan | --symbols) variant=$arg ;;
		--stock)
			[ -n "$stock_too" ] || misuse "unknown argument: $arg"
			variant=$arg
			;;
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
	local folder files=("$top/tests/$name"/* "$top/kit/module.sh")
	for folder in "${more[@]}"; do files+=("$top/$folder"/*); done
	files_key "${files[@]}"
	cat "$image.stamp"
	userland_key
}

module_recipe() {
	local part=$module.part.$$ tree=()
	# The kernel was built with its tree in the place of the joined one (scripts/kernel).
	[ "$variant" != --stock ] ||
		tree=(--tree "$("$top/scripts/join" --stock linux)" "$(inside "$build/linux")")
	step "build-$place.log" "building $title" \
		in_userland "${tree[@]}" compile_module "$(inside "${image%/*}")" "$name" \
		"$(inside "$part")" "${more[@]}"
	publish "$part" "$module"
}

# compile_module KERNEL NAME MODULE [FOLDER...]: the part that runs inside the userland.  It
# builds in /tmp: that path is always the same, so ccache hits, and no object lies among the
# sources.
compile_module() {
	local folder
	cp -r "/mrfd/tests/$2" "/tmp/$2"
	for folder in "${@:4}"; do cp "/mrfd/$folder"/* "/tmp/$2"; done
	make -C "$1" M="/tmp/$2" W=1 modules
	cp "/tmp/$2/mrfd_$2.ko" "$3"
}
