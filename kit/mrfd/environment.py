# SPDX-License-Identifier: GPL-2.0-or-later
"""The variables that make all programs in a guest use our libraries and programs."""

from mrfd import products
from mrfd.paths import inside


def of_our_libraries(rdma, *programs):
    """{name: value} for the build directory of rdma-core, and directories of more
    programs; all are paths inside."""
    return {
        # Our programs come before Debian's; Debian's run with our libraries.
        "PATH": ":".join([f"{rdma}/bin", *programs, "/usr/sbin:/usr/bin:/sbin:/bin"]),
        "LD_LIBRARY_PATH": f"{rdma}/lib",
        "PYTHONPATH": f"{rdma}/python",
        # gcc finds our headers and libraries, and what libdrm's headers include.
        "C_INCLUDE_PATH": f"{rdma}/include:/usr/include/libdrm",
        "LIBRARY_PATH": f"{rdma}/lib",
        "PKG_CONFIG_PATH": f"{rdma}/lib/pkgconfig",
        "MANPATH": f"{rdma}/share/man:",  # an empty part stands for Debian's pages
    }


def ours():
    """The same for rdma-core and perftest, which are built if needed."""
    return of_our_libraries(*(inside(products.tool(name)) for name in ("rdma-core", "perftest")))
