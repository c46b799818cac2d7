# SPDX-License-Identifier: GPL-2.0-or-later
#
# The entry point: every target runs a program of scripts/, which has --help.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: NEEDS = $(if $(filter connectx,$(DEVICE)),kernel-modules connectx,kernel) rdma-core-obj
demo: device painter ready ## build all, RDMA-write a picture into a GPU's frame buffer, show it; PICTURE=file.png; DEVICE=connectx for moving pictures into VRAM by mlx5, with DIRECT=1 by Data Direct; PAINTER=vulkan for pictures that are rendered
	@scripts/demo $(if $(DEVICE),"--$$DEVICE") $(if $(DIRECT),--direct) $(if $(PAINTER),"--$$PAINTER") $(if $(PICTURE),--picture "$$PICTURE")

check: ready ## run the tests; FULL=1 all there is, SINCE=commit all that changes since then may affect, T=pattern some (see scripts/check --help); DEBUG=1 on a kernel with every checker, KCSAN=1 looks for data races, STOCK=1 T=pattern on the kernel without our patches
	@scripts/check $(if $(filter-out 0,$(DEBUG)),--debug) $(if $(filter-out 0,$(KCSAN)),--kcsan) $(if $(filter-out 0,$(STOCK)),--stock) $(if $(filter-out 0,$(FULL)),--full) $(if $(filter undefined,$(origin SINCE)),,--since "$$SINCE") $(if $(T),"$$T")

bench: ready ## measure registration and transfer, and the ConnectX model; tables and plots in build/bench
	@scripts/bench

shell: device ready ## an interactive guest with an RDMA device and the tools on the path; DEVICE=connectx for the ConnectX model, with DIRECT=1 for its second function too
	@scripts/shell $(if $(DEVICE),"--$$DEVICE") $(if $(DIRECT),-d direct)

gdb: SYMBOLS = -symbols
gdb: device ready ## gdb on the kernel of such a guest and on programs in it; DEVICE=connectx for the ConnectX model, with DIRECT=1 too
	@scripts/gdb $(if $(DEVICE),"--$$DEVICE") $(if $(DIRECT),-d direct)

scoreboard: ready ## rdma-core's suite on the stock stack beside ours, and on the ConnectX model; build/report/index.html shows all results
	@scripts/scoreboard

report: ## one page of the results so far, build/report/index.html
	@scripts/report

series: ## write the patches of each series as mails to build/series; SIGNOFF="Name <mail>" signs them
	@scripts/series $(if $(SIGNOFF),--signoff "$$SIGNOFF")

proof: ready ## run the tests that the cover letter of a series names; SERIES=name or number; STOCK=1 shows its faults on the kernel without our patches
	@scripts/proof $(if $(filter-out 0,$(STOCK)),--stock) "$$SERIES"

check-series: ## prove that each series applies, builds and is clean, patch by patch
	@scripts/check-series

kernel: ## build the kernel and its modules, print its path; DEBUG=1 with every checker, KCSAN=1 with the data race detector
	@scripts/kernel --modules $(if $(filter-out 0,$(DEBUG)),--debug) $(if $(filter-out 0,$(KCSAN)),--kcsan)

rdma-core: ## build rdma-core, print its path
	@scripts/rdma-core

perftest: ## build perftest with buffers of DRM devices, print its path
	@scripts/perftest

libfabric: ## build libfabric and its tests with dma-bufs that regions move to, print its path
	@scripts/libfabric

ucx: ## build UCX that registers mapped dma-bufs by their fd, print its path
	@scripts/ucx

connectx: ## build the ConnectX model and its fabric, print their path
	@scripts/connectx

update: ## try the patches on the newest sources that Debian has, and say which merge; the base stays (LINUX_SRC=, RDMA_CORE_SRC=: on your tree)
	@scripts/update

clean: ## remove build/, unless it has edits or commits of yours; the cache of userland, sources and compiler stays
	@kit/clean

distclean: clean ## remove the cache too
	@bash -c '. kit/paths.sh && set -x && rm -rf "$$cache"'

device:
	@case "$$DEVICE" in '' | connectx) ;; *) echo "DEVICE=$$DEVICE: without DEVICE it is Soft-RoCE, and DEVICE=connectx is all else there is" >&2; exit 2 ;; esac
	@case "$$DIRECT/$$DEVICE" in /* | */connectx) ;; *) echo "DIRECT=$$DIRECT goes with DEVICE=connectx: Soft-RoCE has no second PCI function" >&2; exit 2 ;; esac

painter:
	@case "$$PAINTER" in '' | vulkan) ;; *) echo "PAINTER=$$PAINTER: without PAINTER the picture is a file, and PAINTER=vulkan is all else there is" >&2; exit 2 ;; esac

# Report what the host lacks before anything is built.
ready:
	@kit/ready $(or $(NEEDS),kernel$(if $(filter-out 0,$(DEBUG)),-debug)$(SYMBOLS)-modules rdma-core-obj perftest-obj connectx connectx-test)

.PHONY: help device painter demo check bench shell gdb scoreboard report series proof check-series kernel rdma-core perftest libfabric ucx connectx update clean distclean ready
