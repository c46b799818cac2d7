# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# How libfabric and its tests, fabtests, are compiled, for scripts/libfabric and
# scripts/check-series.

# compile_libfabric SOURCE DIR RDMA_CORE: the part that runs inside the userland.  What is
# installed is in DIR/bin and DIR/lib, and is used there.  It has the providers that send by
# verbs and no others, and checks its assertions, because NDEBUG is not defined.
compile_libfabric() {
	local src=$1 obj=$2 rdma=$3
	local options=(CC='ccache gcc' CFLAGS='-O2 -g -Wall' --prefix="$obj")
	copy_source "$src" "$obj/source"
	cd "$obj/source" || exit
	autoreconf -fi
	./configure "${options[@]}" --enable-only --enable-verbs="$rdma" --enable-rxm --enable-rxd \
		LDFLAGS="-Wl,-rpath,$rdma/lib"
	make -j"$(nproc)" install
	cd fabtests || exit
	autoreconf -fi
	./configure "${options[@]}" --with-libfabric="$obj" --disable-efa --disable-lpp \
		LDFLAGS="-Wl,-rpath,$obj/lib"
	make -j"$(nproc)" install
}
