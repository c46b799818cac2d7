# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# How perftest is compiled, for scripts/perftest and scripts/check-series.

# compile_perftest SOURCE DIR RDMA_CORE: the part that runs inside the userland.
compile_perftest() {
	local src=$1 obj=$2 rdma=$3 flags=()
	copy_source "$src" "$obj"
	cd "$obj" || exit
	! grep -q enable_drm configure.ac || flags=(--enable-drm)
	autoreconf -fi
	./configure CC='ccache gcc' CPPFLAGS="-I$rdma/include" \
		LDFLAGS="-L$rdma/lib -Wl,-rpath,$rdma/lib" "${flags[@]}"
	make -j"$(nproc)"
}
