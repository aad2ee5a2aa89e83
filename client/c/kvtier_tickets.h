/* kvtier_tickets.h: holds blocks between two processes of a tenant. A scheduler brings a prefix to
 * host memory and takes a ticket; each worker redeems it by its 16 bytes for leases of its own. The
 * conventions are those of kvtier.h. */
#ifndef KVTIER_TICKETS_H_
#define KVTIER_TICKETS_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"
#include "kvtier_sequences.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define KVTIER_MAX_REDEMPTIONS 64 /* Redemptions of one ticket, at most. */
#define KVTIER_MAX_TICKET_LIFETIME_MS 60000

/* A ticket's 128 random bits. The scheduler hands them to the workers by any means. */
typedef struct {
  uint8_t bytes[16];
} kvtier_ticket;

/* Brings blocks as kvtier_onboard_sequences() does and holds them for `redemptions` ranks (1 to
 * KVTIER_MAX_REDEMPTIONS), until all have redeemed the ticket or `lifetime_ms` (1 to
 * KVTIER_MAX_TICKET_LIFETIME_MS) is over. blocks[i], where `blocks` is not NULL, gets how many
 * blocks of sequence i are held. Returns how many are held altogether; 0: there is no ticket.
 * KVTIER_INVALID names the argument. */
int64_t kvtier_take_ticket(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           uint32_t redemptions, uint32_t lifetime_ms, uint32_t flags,
                           int32_t timeout_ms, kvtier_ticket* ticket, uint64_t* blocks);

/* Leases the blocks that the ticket holds, once for each rank: hits[i] gets a hit for the ticket's
 * sequence i, whose space is spaces[i] of this client; give all back by kvtier_release_hits().
 * Returns how many blocks there are; 0: no block, or the ticket is unknown, has ended, is another
 * tenant's, or was redeemed by this rank. On an error each hits[i] is NULL. */
int64_t kvtier_redeem_ticket(kvtier_client* client, const kvtier_ticket* ticket, uint32_t rank,
                             const kvtier_space* spaces, size_t count, int32_t timeout_ms,
                             kvtier_hit** hits);

/* Operations of the calls below, which do the same without waiting. The `blocks` of a completion
 * (kvtier.h) is what the waiting call returns, and the kvtier_poll() that returns the completion
 * fills what the waiting call would fill, as in kvtier_sequences.h. */
enum { KVTIER_OP_TAKE_TICKET = 7, KVTIER_OP_REDEEM_TICKET = 8 };
int kvtier_submit_take_ticket(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                              uint32_t redemptions, uint32_t lifetime_ms, uint32_t flags,
                              int32_t timeout_ms, kvtier_ticket* ticket, uint64_t* blocks,
                              uint64_t tag);
int kvtier_submit_redeem_ticket(kvtier_client* client, const kvtier_ticket* ticket, uint32_t rank,
                                const kvtier_space* spaces, size_t count, int32_t timeout_ms,
                                kvtier_hit** hits, uint64_t tag);

/* Ends a ticket before its time. Never blocks. */
void kvtier_release_ticket(kvtier_client* client, const kvtier_ticket* ticket);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // KVTIER_TICKETS_H_
