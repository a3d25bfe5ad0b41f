#include "mock/admission.h"

#include <stdlib.h>
#include <string.h>

#define S                  1e9
#define PER_MINUTE         8u
#define BURST_FACTOR       10.0
#define ALL_PER_SECOND     2500.0
#define ALL_BURST          1000.0
#define PER_IP             8u
#define PER_KEY            16u
#define UNSTAKED_MAX       2000u
#define STAKED_MAX         2000u
#define PRUNE_TO           0.9
#define STAKE_SHARE_MIN    (1.0 / 50000.0)
#define STREAMS_UNSTAKED   128.0
#define STREAMS_STAKED_MAX 512.0
#define STREAMS_PER_SHARE  99872.0
#define RTT_REFERENCE_MS   50.0
#define RTT_MAX_MS         350.0
#define ADDRESSES_MAX      65536u

static uint64_t limit(uint64_t wanted, uint64_t usual)
{
    return wanted == FAULT_DEFAULT ? usual : wanted;
}

static uint32_t chain(const uint8_t *bytes, size_t count)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(h >> 20) % ADMISSION_CHAINS;
}

void admission_open(struct admission *a, const struct fault *fault, uint64_t seed,
                    void (*evict)(void *owner))
{
    memset(a, 0, sizeof *a);
    a->fault = fault;
    a->random = seed;
    a->evict = evict;
    a->all.tokens = ALL_BURST;
}

void admission_close(struct admission *a)
{
    for (uint32_t i = 0; i < ADMISSION_CHAINS; i++) {
        while (a->addresses[i] != NULL) {
            struct admission_address *gone = a->addresses[i];
            a->addresses[i] = gone->next;
            free(gone);
        }
        while (a->peers[i] != NULL) {
            struct admission_peer *gone = a->peers[i];
            a->peers[i] = gone->next;
            free(gone);
        }
    }
    free(a->stakes);
    memset(a, 0, sizeof *a);
}

/* ---- stakes -----------------------------------------------------------------------------------
 */

static struct admission_stake *stake_find(const struct admission *a, const uint8_t key[32])
{
    for (uint32_t i = 0; i < a->stakes_count; i++) {
        if (memcmp(a->stakes[i].key, key, 32) == 0) {
            return &a->stakes[i];
        }
    }
    return NULL;
}

int admission_stake(struct admission *a, const uint8_t key[32], uint64_t lamports)
{
    struct admission_stake *stake = stake_find(a, key);
    if (stake == NULL) {
        struct admission_stake *more =
            realloc(a->stakes, (a->stakes_count + 1) * sizeof *a->stakes);
        if (more == NULL) {
            return -1;
        }
        a->stakes = more;
        stake = &more[a->stakes_count++];
        memcpy(stake->key, key, 32);
        stake->lamports = 0;
    }
    a->stake_total += lamports - stake->lamports;
    stake->lamports = lamports;
    return 0;
}

/* ---- buckets ----------------------------------------------------------------------------------
 */

static void fill(struct admission_bucket *bucket, double per_second, double most, uint64_t now_ns)
{
    bucket->tokens += (double)(now_ns - bucket->filled_ns) / S * per_second;
    bucket->filled_ns = now_ns;
    if (bucket->tokens > most) {
        bucket->tokens = most;
    }
}

/* Buckets that have been full for long say nothing; they make room when the table is full. */
static void forget_addresses(struct admission *a)
{
    for (uint32_t i = 0; i < ADMISSION_CHAINS; i++) {
        while (a->addresses[i] != NULL) {
            struct admission_address *gone = a->addresses[i];
            a->addresses[i] = gone->next;
            free(gone);
        }
    }
    a->addresses_count = 0;
}

static struct admission_bucket *bucket_of(struct admission *a, const uint8_t ip[16],
                                          uint64_t now_ns)
{
    double per_minute = (double)limit(a->fault->conn_per_min, PER_MINUTE);
    struct admission_address **head = &a->addresses[chain(ip, 16)];
    struct admission_address *at = *head;
    while (at != NULL && memcmp(at->ip, ip, 16) != 0) {
        at = at->next;
    }
    if (at == NULL) {
        if (a->addresses_count >= ADDRESSES_MAX) {
            forget_addresses(a);
        }
        at = calloc(1, sizeof *at);
        if (at == NULL) {
            return NULL;
        }
        a->addresses_count++;
        memcpy(at->ip, ip, 16);
        at->bucket.tokens = per_minute;
        at->bucket.filled_ns = now_ns;
        at->next = *head;
        *head = at;
    }
    fill(&at->bucket, per_minute / 60, per_minute * BURST_FACTOR, now_ns);
    return &at->bucket;
}

int admission_hello(struct admission *a, const uint8_t ip[16], uint32_t open, uint64_t now_ns)
{
    uint64_t all =
        limit(a->fault->max_staked, STAKED_MAX) + limit(a->fault->max_unstaked, UNSTAKED_MAX);
    fill(&a->all, ALL_PER_SECOND, ALL_BURST, now_ns);
    struct admission_bucket *bucket = bucket_of(a, ip, now_ns);
    if (a->all.tokens < 1 || bucket == NULL || bucket->tokens < 1) {
        return ADMISSION_SILENCE;
    }
    return open >= limit(a->fault->max_connections, all * 5 / 4) ? ADMISSION_FULL
                                                                 : ADMISSION_WELCOME;
}

/* ---- seats ------------------------------------------------------------------------------------
 */

static struct admission_peer *peer_find(struct admission *a, const uint8_t key[32], int by_key,
                                        int staked)
{
    struct admission_peer **head = &a->peers[chain(key, 32)];
    for (struct admission_peer *p = *head; p != NULL; p = p->next) {
        if (p->by_key == by_key && p->staked == staked && memcmp(p->key, key, 32) == 0) {
            return p;
        }
    }
    struct admission_peer *p = calloc(1, sizeof *p);
    if (p != NULL) {
        memcpy(p->key, key, 32);
        p->by_key = (uint8_t)by_key;
        p->staked = (uint8_t)staked;
        p->next = *head;
        *head = p;
    }
    return p;
}

static void peer_drop(struct admission *a, struct admission_peer *peer)
{
    struct admission_peer **at = &a->peers[chain(peer->key, 32)];
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    free(peer);
}

void admission_leave(struct admission *a, struct admission_seat *seat)
{
    struct admission_peer *peer = seat->peer;
    if (peer == NULL) {
        return;
    }
    struct admission_seat **at = &peer->seats;
    while (*at != seat) {
        at = &(*at)->next;
    }
    *at = seat->next;
    seat->peer = NULL;
    (*(peer->staked ? &a->staked_count : &a->unstaked_count))--;
    if (--peer->count == 0) {
        peer_drop(a, peer);
    }
}

/* The whole peer goes, with every connection it has. */
static void evict(struct admission *a, struct admission_peer *peer)
{
    uint32_t left = peer->count;
    while (left-- > 0) {
        struct admission_seat *seat = peer->seats; /* read before the last leave frees the peer */
        a->evict(seat->owner);
        admission_leave(a, seat);
    }
}

static struct admission_peer *oldest_unstaked(struct admission *a)
{
    struct admission_peer *oldest = NULL;
    for (uint32_t i = 0; i < ADMISSION_CHAINS; i++) {
        for (struct admission_peer *p = a->peers[i]; p != NULL; p = p->next) {
            if (!p->staked && p->count > 0 &&
                (oldest == NULL || p->updated_ns < oldest->updated_ns)) {
                oldest = p;
            }
        }
    }
    return oldest;
}

static void prune_unstaked(struct admission *a)
{
    uint64_t most = limit(a->fault->max_unstaked, UNSTAKED_MAX);
    if (a->unstaked_count < most) {
        return;
    }
    uint64_t keep = (uint64_t)((double)most * PRUNE_TO);
    while (a->unstaked_count > keep) {
        evict(a, oldest_unstaked(a));
    }
}

/* One of the staked peers, each with the same chance. */
static struct admission_peer *random_staked(struct admission *a)
{
    uint64_t seen = 0;
    struct admission_peer *chosen = NULL;
    for (uint32_t i = 0; i < ADMISSION_CHAINS; i++) {
        for (struct admission_peer *p = a->peers[i]; p != NULL; p = p->next) {
            if (!p->staked || p->count == 0) {
                continue;
            }
            a->random = a->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            if ((a->random >> 33) % ++seen == 0) {
                chosen = p;
            }
        }
    }
    return chosen;
}

/* Makes room in the staked table for this stake. Returns 1 when there is some. */
static int staked_room(struct admission *a, uint64_t stake)
{
    if (a->staked_count < limit(a->fault->max_staked, STAKED_MAX)) {
        return 1;
    }
    struct admission_peer *one = random_staked(a);
    struct admission_peer *two = random_staked(a);
    struct admission_peer *lower = one->stake <= two->stake ? one : two;
    if (lower->stake >= stake) {
        return 0;
    }
    evict(a, lower);
    return 1;
}

static int sit(struct admission *a, struct admission_seat *seat, const uint8_t key[32], int by_key,
               int staked, uint64_t stake, uint64_t now_ns)
{
    uint64_t most = staked ? limit(a->fault->per_key, PER_KEY) : limit(a->fault->per_ip, PER_IP);
    struct admission_peer *peer = peer_find(a, key, by_key, staked);
    if (peer == NULL || peer->count >= most) {
        if (peer != NULL && peer->count == 0) {
            peer_drop(a, peer);
        }
        return ADMISSION_TOO_MANY;
    }
    peer->stake = stake;
    peer->updated_ns = now_ns;
    peer->count++;
    seat->peer = peer;
    seat->next = peer->seats;
    peer->seats = seat;
    (*(staked ? &a->staked_count : &a->unstaked_count))++;
    return ADMISSION_WELCOME;
}

int admission_enter(struct admission *a, struct admission_seat *seat, const uint8_t ip[16],
                    const uint8_t *key, uint64_t now_ns)
{
    struct admission_bucket *bucket = bucket_of(a, ip, now_ns);
    fill(&a->all, ALL_PER_SECOND, ALL_BURST, now_ns);
    if (bucket == NULL || bucket->tokens < 1 || a->all.tokens < 1) {
        return ADMISSION_DISALLOWED;
    }
    bucket->tokens -= 1;
    a->all.tokens -= 1;
    const struct admission_stake *known = key == NULL ? NULL : stake_find(a, key);
    uint64_t stake = known == NULL ? 0 : known->lamports;
    int staked = stake > 0 && (double)stake >= (double)a->stake_total * STAKE_SHARE_MIN;
    if (staked && staked_room(a, stake)) {
        return sit(a, seat, key, 1, 1, stake, now_ns);
    }
    prune_unstaked(a);
    if (stake > 0) {
        return sit(a, seat, key, 1, 0, 0, now_ns);
    }
    uint8_t by_ip[32] = {0};
    memcpy(by_ip, ip, 16);
    return sit(a, seat, by_ip, 0, 0, 0, now_ns);
}

uint64_t admission_streams(const struct admission *a, const struct admission_seat *seat,
                           uint64_t rtt_ns)
{
    double streams = STREAMS_UNSTAKED;
    double rtt_ms = (double)rtt_ns / 1e6;
    if (seat->peer != NULL && seat->peer->staked && a->stake_total > 0) {
        streams += (double)seat->peer->stake / (double)a->stake_total * STREAMS_PER_SHARE;
        streams = streams > STREAMS_STAKED_MAX ? STREAMS_STAKED_MAX : streams;
    }
    rtt_ms = rtt_ms < RTT_REFERENCE_MS ? RTT_REFERENCE_MS : rtt_ms;
    rtt_ms = rtt_ms > RTT_MAX_MS ? RTT_MAX_MS : rtt_ms;
    return (uint64_t)streams * (uint64_t)rtt_ms / (uint64_t)RTT_REFERENCE_MS;
}
