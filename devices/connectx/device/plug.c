// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The link does not know the device.  Here it is told who gets what arrives: the port its
 * LID and its state, the transport the packets.  So the floor of the fabric can be tested,
 * and read, without queue pairs.
 */
#include "plug.h"
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "packet.h"
#include "port.h"
#include "qp.h"

static void set(void *arg, uint16_t lid, uint16_t sm_lid, u8 state)
{
	port_set(arg, lid, sm_lid, state);
}

static void receive(void *arg, struct packet *p)
{
	transport_receive(arg, p);
}

bool hca_plug(struct hca *hca, const char *fabric, const char *pcap)
{
	const struct link_user user = {
		.loop = hca->loop, .guid = hca->port.guid, .count = &hca->port.count,
		.stats = &hca->stats, .set = set, .receive = receive, .arg = hca,
	};

	hca->link = link_new(&user, fabric, pcap);
	return hca->link;
}
