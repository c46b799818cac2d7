// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The subnet administrator at LID 1, QP 1 (IBA volume 1, chapter 15): takes a request, has
 * it answered by the part that knows, and sends the answer.  There is one partition, the
 * default one.  What it does not have is refused with a status; only what asks for no answer
 * gets none (13.4.6).
 *
 * A table of several segments goes by RMPP (13.6): the first segment at once, more as far
 * as the receiver's acknowledgements open its window.  A port has one such answer under way;
 * its next request takes the place of it, and there is no timer, because who misses
 * something asks again.
 *
 * A request is a packet with good CRCs whose SLID the switch has checked.
 */
#include "sa.h"
#include "ifc.h"
#include "list.h"
#include "mad.h"
#include "packet.h"
#include "sa_parts.h"
#include "trace.h"
#include <stdlib.h>

#define UD_SEND_ONLY (IB_UD << 5 | IB_SEND_ONLY)
#define RESPONSE_TIME 18
#define CAP_UD_MULTICAST (1 << 9)
#define CAP2_SEND_ONLY_FULL (1 << 12)
#define WINDOW 64			/* segments for one acknowledgement, at most */

/* An answer of several segments.  HEAD is what all of them begin with. */
struct transfer {
	u8 head[MAD_DATA];
	uint32_t qpn;			/* whose */
	uint32_t segments, sent, acked, window;	/* the last ones of each */
	size_t len;
	u8 bytes[];
};

u8 *sa_add_record(struct query *q, size_t size, uint16_t *status)
{
	u8 *record = q->sa->table + q->count * size;

	*status = MAD_OK;
	if (q->count && q->method != MAD_GET_TABLE)
		*status = SA_TOO_MANY_RECORDS;
	else if ((q->count + 1) * size > TABLE_MAX)
		*status = SA_NO_RESOURCES;
	if (*status)
		return NULL;
	q->size = size;
	q->count++;
	return memset(record, 0, size);
}

uint16_t sa_found(const struct query *q)
{
	return q->count || q->method == MAD_GET_TABLE ? MAD_OK : SA_NO_RECORDS;
}

bool sa_matches(const struct query *q, const struct sa_component *c, size_t count,
		const u8 *record)
{
	for (size_t i = 0; i < count; i++)
		if (q->mask >> c[i].bit & 1 &&
		    memcmp(record + c[i].at, q->record + c[i].at, c[i].len))
			return false;
	return true;
}

static uint16_t class_port_info(struct query *q)
{
	uint16_t status;
	u8 *out = sa_add_record(q, 72, &status);

	out[0] = 1;			/* base version */
	out[1] = MAD_SA_VERSION;
	put_be16(out + 2, CAP_UD_MULTICAST);
	put_be32(out + 4, CAP2_SEND_ONLY_FULL << 5 | RESPONSE_TIME);
	return status;
}

/* The subscription is accepted; nothing is ever reported. */
static uint16_t inform_info(struct query *q)
{
	uint16_t status;

	memcpy(sa_add_record(q, 40, &status), q->record, 40);
	return status;
}

static const struct {
	uint16_t attr;
	u8 method;
	uint16_t (*answer)(struct query *q);
} answers[] = {
	{ SA_CLASS_PORT_INFO, MAD_GET, class_port_info },
	{ SA_INFORM_INFO, MAD_SET, inform_info },
	{ SA_NODE_RECORD, MAD_GET, sa_nodes },
	{ SA_NODE_RECORD, MAD_GET_TABLE, sa_nodes },
	{ SA_PORT_INFO_RECORD, MAD_GET, sa_ports },
	{ SA_PORT_INFO_RECORD, MAD_GET_TABLE, sa_ports },
	{ SA_SERVICE_RECORD, MAD_GET, sa_service_get },
	{ SA_SERVICE_RECORD, MAD_GET_TABLE, sa_service_get },
	{ SA_SERVICE_RECORD, MAD_SET, sa_service_set },
	{ SA_SERVICE_RECORD, MAD_DELETE, sa_service_delete },
	{ SA_PATH_RECORD, MAD_GET, sa_paths },
	{ SA_PATH_RECORD, MAD_GET_TABLE, sa_paths },
	{ SA_MCMEMBER_RECORD, MAD_GET, sa_member_get },
	{ SA_MCMEMBER_RECORD, MAD_GET_TABLE, sa_member_get },
	{ SA_MCMEMBER_RECORD, MAD_SET, sa_member_set },
	{ SA_MCMEMBER_RECORD, MAD_DELETE, sa_member_delete },
};

static uint16_t find_answer(struct query *q, uint16_t attr)
{
	uint16_t status = MAD_BAD_METHOD;

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (answers[i].method != q->method)
			continue;
		if (answers[i].attr == attr)
			return answers[i].answer(q);
		status = MAD_BAD_METHOD_ATTR;
	}
	return status;
}

/* ---- RMPP ---- */

static void drop_transfer(struct sa *sa, uint16_t lid)
{
	free(sa->transfer[lid - SWITCH_FIRST_LID]);
	sa->transfer[lid - SWITCH_FIRST_LID] = NULL;
}

static void segment(u8 *out, uint32_t number, uint32_t segments, const u8 *bytes, size_t len)
{
	bool first = number == 1, last = number == segments;
	size_t done = (size_t)(number - 1) * MAD_DATA_SIZE;
	size_t part = last ? len - done : MAD_DATA_SIZE;
	uint32_t payload = 0;		/* of all segments, or of the last one */

	out[MAD_RMPP_VERSION] = RMPP_VERSION;
	out[MAD_RMPP_TYPE] = RMPP_DATA;
	out[MAD_RMPP_FLAGS] = RMPP_ACTIVE | (first ? RMPP_FIRST : 0) | (last ? RMPP_LAST : 0);
	put_be32(out + MAD_RMPP_SEGMENT, number);
	if (first)
		payload = segments * MAD_SA_HEADER + len;
	else if (last)
		payload = MAD_SA_HEADER + part;
	put_be32(out + MAD_RMPP_PAYLEN, payload);
	memset(out + MAD_DATA, 0, MAD_DATA_SIZE);
	memcpy(out + MAD_DATA, bytes + done, part);
}

/* The first segment of LEN bytes of the table, and what the others need. */
static uint16_t start_table(struct sa *sa, uint16_t lid, uint32_t qpn, size_t len, u8 *out)
{
	uint32_t segments = len ? (len + MAD_DATA_SIZE - 1) / MAD_DATA_SIZE : 1;
	struct transfer *t;

	segment(out, 1, segments, sa->table, len);
	if (segments == 1)
		return MAD_OK;
	t = malloc(sizeof(*t) + len);
	if (!t)
		return SA_NO_RESOURCES;
	*t = (struct transfer) {
		.qpn = qpn, .segments = segments, .sent = 1, .window = 1, .len = len,
	};
	memcpy(t->head, out, MAD_DATA);
	memcpy(t->bytes, sa->table, len);
	sa->transfer[lid - SWITCH_FIRST_LID] = t;
	return MAD_OK;
}

bool sa_next(struct sa *sa, struct packet *answer)
{
	struct transfer *t = sa->transfer[answer->dlid - SWITCH_FIRST_LID];

	if (!t || t->sent >= t->window)
		return false;
	memcpy(answer->payload, t->head, MAD_DATA);
	segment(answer->payload, ++t->sent, t->segments, t->bytes, t->len);
	answer->psn = sa->psn++ & PSN_MASK;
	return true;
}

/*
 * An acknowledgement, which has the method of the request, or the end of a transfer.  One
 * that says nothing new is for what was lost.
 */
static bool take_ack(struct sa *sa, const struct packet *p, struct packet *answer)
{
	struct transfer *t = sa->transfer[p->slid - SWITCH_FIRST_LID];
	const u8 *mad = p->payload;
	uint32_t number = be32_at(mad + MAD_RMPP_SEGMENT);
	uint32_t window = be32_at(mad + MAD_RMPP_PAYLEN);

	if (!t || t->qpn != p->sqpn || memcmp(t->head + MAD_TID, mad + MAD_TID, 8))
		return false;
	if (mad[MAD_RMPP_TYPE] != RMPP_ACK || window < number || number >= t->segments) {
		drop_transfer(sa, p->slid);
		return false;
	}
	if (number < t->acked)
		return false;		/* an old one */
	/* Or it has them already, of a transfer before its request came again. */
	if (number == t->acked || number > t->sent)
		t->sent = number;
	t->acked = number;
	if (window - number > WINDOW)
		window = number + WINDOW;
	t->window = window < t->segments ? window : t->segments;
	return sa_next(sa, answer);
}

/* ---- requests ---- */

/* The answer to the MAD, in OUT. */
static void answer_mad(struct sa *sa, const struct packet *p, u8 *out)
{
	const u8 *mad = p->payload;
	struct query q = {
		.sa = sa, .lid = p->slid, .method = mad[MAD_METHOD],
		.mask = be64_at(mad + MAD_COMP_MASK), .record = mad + MAD_DATA,
	};
	uint16_t attr = be16_at(mad + MAD_ATTR), status = MAD_BAD_VERSION;

	if (mad[MAD_CLASS_VERSION] == MAD_SA_VERSION)
		status = find_answer(&q, attr);
	if (status) {
		q.count = q.size = 0;
		trace("SA: method 0x%02x attribute 0x%04x of LID %u: status 0x%04x", q.method,
		      attr, q.lid, status);
	}
	put_be64(out + MAD_COMP_MASK, q.mask);
	put_be16(out + MAD_ATTR_OFFSET, q.size / 8);
	drop_transfer(sa, q.lid);
	if (q.method == MAD_GET_TABLE) {
		uint16_t err = start_table(sa, q.lid, p->sqpn, q.count * q.size, out);

		if (err) {
			start_table(sa, q.lid, p->sqpn, 0, out);
			status = err;
		}
	} else {
		memcpy(out + MAD_DATA, sa->table, q.count * q.size);
	}
	put_be16(out + MAD_STATUS, status);
}

/* The headers of a packet back to who sent P. */
static void address(struct sa *sa, const struct packet *p, struct packet *answer)
{
	memset(answer, 0, offsetof(struct packet, payload));
	answer->dlid = p->slid;
	answer->slid = SWITCH_SM_LID;
	answer->sl = p->sl;
	if (p->global) {
		answer->global = true;
		answer->hop_limit = p->hop_limit;
		answer->tclass = p->tclass;
		answer->flow_label = p->flow_label;
		memcpy(answer->dgid, p->sgid, 16);
		sa_gid_of(SWITCH_SM_GUID, answer->sgid);
	}
	answer->opcode = UD_SEND_ONLY;
	answer->pkey = p->pkey | 0x8000;
	answer->dqpn = p->sqpn;
	answer->sqpn = MAD_GSI_QPN;
	answer->qkey = MAD_GSI_QKEY;
	answer->psn = sa->psn++ & PSN_MASK;
	answer->length = MAD_SIZE;
}

/* Sends, traps, reports and answers ask for none. */
static bool wants_answer(const u8 *mad)
{
	switch (mad[MAD_METHOD]) {
	case MAD_SEND:
	case MAD_TRAP:
	case MAD_REPORT:
	case MAD_TRAP_REPRESS:
		return false;
	}
	if (mad[MAD_CLASS] == MAD_CLASS_SA)
		return !(mad[MAD_METHOD] & MAD_RESPONSE);
	/* Other agents are not here; as Linux says that (generate_unmatched_resp()). */
	return mad[MAD_METHOD] == MAD_GET || mad[MAD_METHOD] == MAD_SET;
}

bool sa_receive(struct sa *sa, const struct packet *p, struct packet *answer)
{
	const u8 *mad = p->payload;
	u8 *out = answer->payload;

	if (p->opcode != UD_SEND_ONLY || p->dqpn != MAD_GSI_QPN || p->qkey != MAD_GSI_QKEY ||
	    p->length != MAD_SIZE || mad[MAD_BASE_VERSION] != 1 ||
	    mad[MAD_CLASS] == MAD_CLASS_SMP || mad[MAD_CLASS] == MAD_CLASS_SMP_DIRECTED ||
	    p->slid < SWITCH_FIRST_LID || !switch_guid(sa->fabric, p->slid) ||
	    !wants_answer(mad))
		return false;
	address(sa, p, answer);
	if (mad[MAD_CLASS] == MAD_CLASS_SA && mad[MAD_RMPP_FLAGS] & RMPP_ACTIVE &&
	    mad[MAD_RMPP_TYPE] != RMPP_DATA)
		return take_ack(sa, p, answer);
	memcpy(out, mad, MAD_RMPP_VERSION);
	memset(out + MAD_RMPP_VERSION, 0, MAD_SIZE - MAD_RMPP_VERSION);
	/* The answer to a Set has the method of one to a Get (13.4.5). */
	out[MAD_METHOD] = (mad[MAD_METHOD] == MAD_SET ? MAD_GET : mad[MAD_METHOD]) | MAD_RESPONSE;
	if (mad[MAD_CLASS] == MAD_CLASS_SA)
		answer_mad(sa, p, out);
	else
		put_be16(out + MAD_STATUS, MAD_BAD_METHOD_ATTR);
	return true;
}

void sa_port_gone(struct sa *sa, uint16_t lid)
{
	drop_transfer(sa, lid);
	sa_services_leave(sa, lid);
	sa_groups_leave(sa, lid);
}

struct sa *sa_new(struct ib_switch *s, struct loop *loop)
{
	struct sa *sa = calloc(1, sizeof(*sa));

	if (!sa || !sa_groups_init(sa)) {
		free(sa);
		return NULL;
	}
	sa->fabric = s;
	sa->loop = loop;
	list_init(&sa->services);
	return sa;
}

void sa_free(struct sa *sa)
{
	for (uint16_t lid = SWITCH_FIRST_LID; lid <= SWITCH_LAST_LID; lid++)
		drop_transfer(sa, lid);
	sa_services_leave(sa, 0);
	sa_groups_free(sa);
	free(sa);
}
