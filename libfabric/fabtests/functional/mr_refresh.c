/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * A region moves from one dma-buf to another, by FI_REFRESH, and the traffic
 * goes with it: RMA of a peer, its atomics (with -e rdm), receives and sends.
 * What is in the dma-buf that the region has left stays as it was.
 *
 * The server has the region.  After each step it tells the client where the
 * region is, both move data through it, and the server looks at all bytes of
 * both dma-bufs through their mappings.
 */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include <shared.h>
#include <hmem.h>

#define BUFFERS 2
#define MR_REFRESH_KEY (FT_MR_KEY + 0x10)
#define OPERAND 0x0102030405060708ULL	/* of the atomic */

static struct fid_mr *region;
static char *buffers[BUFFERS];
static char *wanted[BUFFERS];	/* what has to be in them */
static size_t buf_len;
static struct fi_context2 region_ctx;
static unsigned int seed;	/* the same at both ends */

/* The address that a part of a buffer has in the region.  It stays, so that
 * where the key stays too a peer notices nothing.  But over rdm a provider may
 * copy by the CPU, and then it has to be that of a mapping.
 */
static char *address(int number, size_t offset)
{
	return buffers[hints->ep_attr->type == FI_EP_MSG ? 0 : number] + offset;
}

static void fill(char *data, size_t size, unsigned int with)
{
	size_t i;

	for (i = 0; i < size; i++)
		data[i] = (char) (i * 7 + (i >> 8) * 13 + with * 31 + 1);
}

static int check(const char *data, const char *expected, size_t size,
		 const char *what)
{
	size_t i;

	for (i = 0; i < size && data[i] == expected[i]; i++)
		;
	if (i == size)
		return 0;
	FT_ERR("%s: byte %zu of %zu is %02x and not %02x", what, i, size,
	       data[i] & 0xff, expected[i] & 0xff);
	return -FI_EIO;
}

static void add(char *data)
{
	uint64_t value;

	memcpy(&value, data, sizeof(value));
	value += OPERAND;
	memcpy(data, &value, sizeof(value));
}

/* All bytes of all buffers, those outside the region too. */
static int check_buffers(const char *when)
{
	char what[64];
	int i, ret;

	for (i = 0; i < BUFFERS; i++) {
		snprintf(what, sizeof(what), "buffer %d after %s", i, when);
		ret = check(buffers[i], wanted[i], buf_len, what);
		if (ret)
			return ret;
	}
	return 0;
}

static int check_arrived(const char *data, const char *what)
{
	char *expected = malloc(opts.transfer_size);
	int ret;

	if (!expected)
		return -FI_ENOMEM;
	fill(expected, opts.transfer_size, seed);
	ret = check(data, expected, opts.transfer_size, what);
	free(expected);
	return ret;
}

/* Wait for all receives that are posted, and post that of the next message. */
static int receive(void)
{
	int ret = ft_get_rx_comp(rx_seq);

	return ret ? ret : ft_post_rx(ep, rx_size, &rx_ctx);
}

static int tell(size_t size)
{
	int ret = ft_post_tx(ep, remote_fi_addr, size, NO_CQ_DATA, &tx_ctx);

	return ret ? ret : ft_get_tx_comp(tx_seq);
}

static int server_traffic(int number, size_t offset)
{
	char *at = buffers[number] + offset, *want = wanted[number] + offset;
	char *addr = address(number, offset);
	size_t size = opts.transfer_size, key_size, len = FT_MAX_CTRL_MSG;
	int ret;

	fill(at, size, ++seed);
	ret = ft_fill_rma_info(region, addr, (struct fi_rma_iov *) tx_buf,
			       &key_size, &len);
	if (ret)
		return ret;
	ret = tell(len);
	if (ret)
		return ret;

	/* The client reads it, writes it, and adds to the first word. */
	ret = receive();
	if (ret)
		return ret;
	fill(want, size, ++seed);
	if (fi->caps & FI_ATOMIC)
		add(want);
	ret = check_buffers("a write of the peer");
	if (ret)
		return ret;

	/* Of the two messages that come now the second is for the region. */
	ret = ft_post_rx_buf(ep, size, &region_ctx, addr, fi_mr_desc(region),
			     ft_tag);
	if (ret)
		return ret;
	ret = tell(1);
	if (ret)
		return ret;
	ret = receive();
	if (ret)
		return ret;
	fill(want, size, ++seed);
	ret = check_buffers("a receive");
	if (ret)
		return ret;

	fill(at, size, ++seed);
	fill(want, size, seed);
	ret = ft_post_tx_buf(ep, remote_fi_addr, size, NO_CQ_DATA, &region_ctx,
			     addr, fi_mr_desc(region), ft_tag);
	if (ret)
		return ret;
	ret = ft_get_tx_comp(tx_seq);
	if (ret)
		return ret;
	ret = receive();
	if (ret)
		return ret;
	return check_buffers("a send");
}

enum access { READ, WRITE, ADD };

static int client_access(enum access what, char *data,
			 const struct fi_rma_iov *there)
{
	int ret = 0;

	do {
		switch (what) {
		case READ:
			ret = fi_read(ep, data, opts.transfer_size, mr_desc,
				      remote_fi_addr, there->addr, there->key,
				      &tx_ctx);
			break;
		case WRITE:
			ret = fi_write(ep, data, opts.transfer_size, mr_desc,
				       remote_fi_addr, there->addr, there->key,
				       &tx_ctx);
			break;
		case ADD:
			ret = fi_atomic(ep, data, 1, mr_desc, remote_fi_addr,
					there->addr, there->key, FI_UINT64,
					FI_SUM, &tx_ctx);
			break;
		}
		if (ret == -FI_EAGAIN)
			ft_force_progress();
	} while (ret == -FI_EAGAIN);
	if (ret) {
		FT_PRINTERR("access to the region", ret);
		return ret;
	}
	return ft_get_tx_comp(++tx_seq);
}

static int client_traffic(void)
{
	struct fi_rma_iov there;
	int ret;

	ret = ft_get_rx_comp(rx_seq);
	if (ret)
		return ret;
	ret = ft_get_rma_info((struct fi_rma_iov *) rx_buf, &there,
			      sizeof(there.key));
	if (ret)
		return ret;

	/* No receive is posted, so rx_buf is free. */
	ret = client_access(READ, rx_buf, &there);
	if (ret)
		return ret;
	seed++;
	ret = check_arrived(rx_buf, "what was read");
	if (ret)
		return ret;
	fill(tx_buf, opts.transfer_size, ++seed);
	ret = client_access(WRITE, tx_buf, &there);
	if (ret)
		return ret;
	if (fi->caps & FI_ATOMIC) {
		memcpy(tx_buf, &(uint64_t) { OPERAND }, sizeof(uint64_t));
		ret = client_access(ADD, tx_buf, &there);
		if (ret)
			return ret;
	}
	ret = ft_post_rx(ep, rx_size, &rx_ctx);
	if (ret)
		return ret;
	ret = tell(1);
	if (ret)
		return ret;

	ret = receive();
	if (ret)
		return ret;
	ret = tell(1);
	if (ret)
		return ret;
	fill(tx_buf, opts.transfer_size, ++seed);
	ret = tell(opts.transfer_size);
	if (ret)
		return ret;

	ret = ft_get_rx_comp(rx_seq);
	if (ret)
		return ret;
	seed++;
	ret = check_arrived(rx_buf, "what was received");
	if (ret)
		return ret;
	ret = ft_post_rx(ep, rx_size, &rx_ctx);
	return ret ? ret : tell(1);
}

/* Move the region to this part of a buffer. */
static int refresh(int number, size_t offset, size_t len)
{
	struct fi_mr_dmabuf dmabuf = { .len = len };
	struct fi_mr_modify modify = {
		.flags = FI_MR_DMABUF,
		.attr = { .dmabuf = &dmabuf, .iov_count = 1 },
	};
	uint64_t before = fi_mr_key(region);
	int ret;

	ret = ft_hmem_get_dmabuf_fd(opts.iface, buffers[number] + offset, len,
				    &dmabuf.fd, &dmabuf.offset);
	if (ret)
		return ret;

	dmabuf.base_addr = address(number, offset) - dmabuf.offset;
	ret = fi_control(&region->fid, FI_REFRESH, &modify);
	if (ret) {
		FT_PRINTERR("FI_REFRESH", ret);
		return ret;
	}
	printf("buffer %d from byte %zu: key 0x%" PRIx64 ", before 0x%" PRIx64
	       "\n", number, offset, fi_mr_key(region), before);
	return 0;
}

static int refused(struct fid_mr *mr, uint64_t flags, int fd, size_t count,
		   int expected, const char *what)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .len = buf_len };
	struct fi_mr_modify modify = {
		.flags = flags,
		.attr = { .dmabuf = &dmabuf, .iov_count = count },
	};
	uint64_t key = fi_mr_key(mr);
	int ret = fi_control(&mr->fid, FI_REFRESH, &modify);

	if (ret != expected || fi_mr_key(mr) != key) {
		FT_ERR("%s: %s and not %s", what, fi_strerror(-ret),
		       fi_strerror(-expected));
		return -FI_EOTHER;
	}
	return 0;
}

/* After an error the region is what it was. */
static int check_errors(void)
{
	struct fid_mr *host;
	int ret;

	ret = refused(region, FI_MR_DMABUF, -1, 1, -EBADF, "no descriptor");
	if (ret)
		return ret;
	ret = refused(region, FI_MR_DMABUF, 0, 2, -FI_EINVAL, "two dma-bufs");
	if (ret)
		return ret;
	ret = refused(region, 0, -1, 0, -FI_ENOSYS, "a range of addresses");
	if (ret)
		return ret;

	ret = fi_mr_reg(domain, wanted[0], buf_len, FI_SEND, 0,
			MR_REFRESH_KEY + 1, 0, &host, NULL);
	if (ret) {
		FT_PRINTERR("fi_mr_reg", ret);
		return ret;
	}
	ret = refused(host, FI_MR_DMABUF, -1, 1, -FI_ENOSYS,
		      "memory without a dma-buf");
	FT_CLOSE_FID(host);
	return ret;
}

static int open_buffers(void)
{
	void *desc;
	int i, ret;

	buf_len = 4 * opts.transfer_size;
	for (i = 0; i < BUFFERS; i++) {
		ret = ft_hmem_alloc(opts.iface, opts.device,
				    (void **) &buffers[i], buf_len);
		if (ret)
			return ret;
		wanted[i] = malloc(buf_len);
		if (!wanted[i])
			return -FI_ENOMEM;
		fill(wanted[i], buf_len, 1000 + i);
		fill(buffers[i], buf_len, 1000 + i);
	}
	return ft_reg_mr(fi, buffers[0], buf_len, ft_info_to_mr_access(fi),
			 MR_REFRESH_KEY, opts.iface, opts.device, &region,
			 &desc);
}

static void close_buffers(void)
{
	int i;

	FT_CLOSE_FID(region);
	for (i = 0; i < BUFFERS; i++) {
		if (buffers[i])
			ft_hmem_free(opts.iface, buffers[i]);
		free(wanted[i]);
	}
}

static int server(void)
{
	size_t offset = opts.transfer_size;
	int ret;

	ret = open_buffers();
	if (ret)
		return ret;
	ret = server_traffic(0, 0);
	if (ret)
		return ret;

	ret = refresh(1, 0, buf_len);
	if (ret)
		return ret;
	ret = server_traffic(1, 0);
	if (ret)
		return ret;

	ret = check_errors();
	if (ret)
		return ret;
	ret = server_traffic(1, 0);
	if (ret)
		return ret;

	ret = refresh(0, offset, buf_len - offset);
	if (ret)
		return ret;
	return server_traffic(0, offset);
}

static int client(void)
{
	int i, ret = 0;

	for (i = 0; i < 4 && !ret; i++)
		ret = client_traffic();
	return ret;
}

static int run(void)
{
	int ret;

	ret = (hints->ep_attr->type == FI_EP_MSG) ?
	      ft_init_fabric_cm() : ft_init_fabric();
	if (ret)
		return ret;

	ret = opts.dst_addr ? client() : server();
	if (ret)
		return ret;
	printf("the traffic went with the region\n");
	return ft_finalize();
}

int main(int argc, char **argv)
{
	int op, ret;

	opts = INIT_OPTS;
	opts.options |= FT_OPT_SIZE;
	opts.transfer_size = 65536;
	opts.window_size = 1;

	hints = fi_allocinfo();
	if (!hints)
		return EXIT_FAILURE;

	hints->ep_attr->type = FI_EP_RDM;

	while ((op = getopt(argc, argv, "h" CS_OPTS INFO_OPTS)) != -1) {
		switch (op) {
		default:
			ft_parseinfo(op, optarg, hints, &opts);
			ft_parsecsopts(op, optarg, &opts);
			break;
		case '?':
		case 'h':
			ft_csusage(argv[0],
				   "Moves a region to other dma-bufs.");
			return EXIT_FAILURE;
		}
	}

	if (!(opts.options & FT_OPT_REG_DMABUF_MR))
		ft_parse_hmem_opts('D', "udmabuf", &opts);
	if (opts.iface != FI_HMEM_SYSTEM) {
		FT_ERR("only with dma-bufs that the CPU reaches: -D udmabuf");
		return EXIT_FAILURE;
	}

	if (opts.transfer_size < FT_MAX_CTRL_MSG) {
		FT_ERR("-S of %d bytes at least", FT_MAX_CTRL_MSG);
		return EXIT_FAILURE;
	}

	if (optind < argc)
		opts.dst_addr = argv[optind];

	hints->caps = FI_MSG | FI_RMA;
	if (hints->ep_attr->type == FI_EP_RDM)
		hints->caps |= FI_ATOMIC;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = opts.mr_mode;
	hints->addr_format = opts.address_format;

	ret = run();

	close_buffers();
	ft_free_res();
	return ft_exit_code(ret);
}
