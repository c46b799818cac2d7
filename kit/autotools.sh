# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # $top and $build are of kit/paths.sh
#
# How the projects are built that have a configure script, perftest, libfabric and UCX, for their
# programs in scripts/ and for scripts/check-series.

# begin_build PROJECT ARGUMENT...: of a program of scripts/; ARGUMENT... are its own.  It goes on
# unless the product is known to be fresh.
begin_build() {
	name=$1 tree=$build/$1 obj=$build/$1-obj arguments=() made_with=()
	shift
	local arg
	for arg; do
		case $arg in
		--help | -h) usage ;;
		*) misuse "unknown argument: $arg" ;;
		esac
	done
	made "$obj"
	ready "$name-obj"
}

# end_build: build it and print where it is.  compile_PROJECT also gets the paths $arguments;
# the product is made again if a file of $made_with, a stamp of what it was made with, changes.
end_build() {
	"$top/scripts/join" "$name" >/dev/null
	produce "$obj" build_key build_recipe
	echo "$obj"
}

build_key() {
	tree_key "$tree"
	cat /dev/null "${made_with[@]}"
	program_key
	declare -f copied "compile_$name"
	userland_key
}

build_recipe() {
	step "build-$name.log" "building $name" in_userland \
		"compile_$name" "$(inside "$tree")" "$(inside "$obj")" "${arguments[@]}"
}

# What runs inside the userland.

# copied SOURCE DIR: go to a new copy of the source, DIR, to build in: autoreconf writes to it.
copied() {
	rm -rf "$2"
	mkdir -p "$2"
	tar -C "$1" --exclude=./.git -c . | tar -C "$2" -x
	cd "$2" || exit
	echo "objects there before: 0" # for kit/progress
	autoreconf -fi
}

# compile_perftest SOURCE DIR RDMA_CORE
compile_perftest() {
	local rdma=$3 flags=()
	copied "$1" "$2"
	! grep -q enable_drm configure.ac || flags=(--enable-drm)
	./configure CC='ccache gcc' --enable-silent-rules CPPFLAGS="-I$rdma/include" \
		LDFLAGS="-L$rdma/lib -Wl,-rpath,$rdma/lib" "${flags[@]}"
	make -j"$(nproc)"
}

# compile_libfabric SOURCE DIR RDMA_CORE: it and its tests, fabtests; what is installed is in
# DIR/bin and DIR/lib, and is used there.  It has the providers that send by verbs and no others,
# knows memory of AMD's GPUs, whose runtime tests/hsa stands in for, and checks its assertions,
# because NDEBUG is not defined.
compile_libfabric() {
	local obj=$2 rdma=$3
	local options=(CC='ccache gcc' CFLAGS='-O2 -g -Wall' --prefix="$obj" --enable-silent-rules)
	rm -rf "$obj"
	copied "$1" "$obj/source"
	./configure "${options[@]}" --enable-only --enable-verbs="$rdma" --enable-rxm --enable-rxd \
		--with-rocr=/usr --enable-rocr-dlopen LDFLAGS="-Wl,-rpath,$rdma/lib"
	make -j"$(nproc)" install
	cd fabtests || exit
	autoreconf -fi
	./configure "${options[@]}" --with-libfabric="$obj" --with-rocr=/usr --disable-efa --disable-lpp \
		LDFLAGS="-Wl,-rpath,$obj/lib"
	make -j"$(nproc)" install
}

# compile_ucx SOURCE DIR: as Debian configures it, with what guests have devices for and the module
# for AMD's GPUs, which tests/hsa stands in for, to DIR/install; and of UCX's own tests those of
# mapped dma-bufs, to DIR/test/gtest/gtest: to compile all of them takes several times as long.
compile_ucx() {
	local obj=$2 make=(make -s -j"$(nproc)") folder test tests=()
	copied "$1" "$obj"
	./configure CC='ccache gcc' CXX='ccache g++' --prefix="$obj/install" --enable-silent-rules \
		--disable-static --disable-doxygen-doc --enable-mt --enable-logging --enable-gtest --with-verbs \
		--with-rocm=/usr --without-{cuda,ze,gdrcopy,knem,xpmem,ugni,go,java,fuse3}
	if ! grep -q '^#define HAVE_ROCM 1' config.h; then
		echo "UCX's configure has not found the HSA runtime (libhsa-runtime-dev)" >&2
		return 1
	fi
	for folder in ucm ucs uct ucp tools/info tools/perf; do "${make[@]}" -C "src/$folder" install; done
	[ -e test/gtest/uct/test_dmabuf.cc ] || return 0
	sed -i '/^#define HAVE_ROCM 1/d' config.h # with it UCX's tests want HIP, too
	for test in common/{main,mem_buffer,test,test_helpers,test_watchdog} uct/{test_dmabuf,uct_test}; do
		tests+=("${test%/*}/gtest-${test##*/}.o")
	done
	"${make[@]}" -C test/gtest/common/googletest
	"${make[@]}" -C test/gtest gtest_OBJECTS="${tests[*]}" gtest
}
