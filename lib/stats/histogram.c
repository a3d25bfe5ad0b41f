#include "stats/histogram.h"

#include <stdlib.h>

typedef unsigned __int128 u128;

/* After so many interrupted looks a reader counts the buckets instead: reading never blocks. */
enum { SNAPSHOT_TRIES = 64 };

/* The totals of one moment. */
struct totals {
    uint64_t count;
    u128 sum;
    u128 squares;
    uint64_t min;
    uint64_t max;
};

static uint64_t acquire(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static u128 join(const _Atomic uint64_t pair[2])
{
    uint64_t low = acquire(&pair[0]);
    return (u128)acquire(&pair[1]) << 64 | low;
}

static uint64_t bucket_low(uint32_t index)
{
    if (index < 2u << HISTOGRAM_SUB_BITS) {
        return index;
    }
    uint32_t shift = (index >> HISTOGRAM_SUB_BITS) - 1;
    return (uint64_t)(index - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

/* The end of a bucket, exclusive. The last one ends after the largest value seen. */
static uint64_t bucket_high(uint32_t index, uint64_t max)
{
    if (index < HISTOGRAM_BUCKETS) {
        return bucket_low(index + 1);
    }
    return max == UINT64_MAX ? max : max + 1;
}

/* The middle of a bucket, limited to what was really seen. */
static uint64_t bucket_middle(uint32_t index, const struct totals *t)
{
    uint64_t low = bucket_low(index);
    uint64_t middle = low + (bucket_high(index, t->max) - low - 1) / 2;
    return middle < t->min ? t->min : middle > t->max ? t->max : middle;
}

static u128 add_saturated(u128 a, u128 b)
{
    return a + b < a ? ~(u128)0 : a + b;
}

/* 1 if no change fell into the reading. */
static int totals_try(const struct solsend_histogram *h, struct totals *out)
{
    uint64_t before = acquire(&h->sequence);
    out->count = acquire(&h->count);
    out->sum = join(h->sum);
    out->squares = join(h->squares);
    out->min = ~acquire(&h->min_not);
    out->max = acquire(&h->max);
    return before % 2 == 0 && histogram_get(&h->sequence) == before;
}

/*
 * For a writer that never pauses, or was preempted in the middle of a change: the sums of the
 * buckets' middles, at most 1.6 % off. Minimum and maximum are one word each and need no help.
 */
static void totals_estimate(const struct solsend_histogram *h, struct totals *t)
{
    t->count = 0;
    t->sum = 0;
    t->squares = 0;
    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        uint64_t here = acquire(&h->counts[i]);
        if (here != 0) {
            u128 middle = bucket_middle(i, t);
            t->count += here;
            t->sum += here * middle;
            t->squares = add_saturated(t->squares, here * (middle * middle));
        }
    }
}

static void totals_read(const struct solsend_histogram *h, struct totals *out)
{
    for (int i = 0; i < SNAPSHOT_TRIES; i++) {
        if (totals_try(h, out)) {
            return;
        }
    }
    totals_estimate(h, out);
}

static void totals_write(struct solsend_histogram *h, const struct totals *t)
{
    histogram_put(&h->sum[0], (uint64_t)t->sum);
    histogram_put(&h->sum[1], (uint64_t)(t->sum >> 64));
    histogram_put(&h->squares[0], (uint64_t)t->squares);
    histogram_put(&h->squares[1], (uint64_t)(t->squares >> 64));
    histogram_put(&h->min_not, ~t->min);
    histogram_put(&h->max, t->max);
    histogram_put(&h->count, t->count);
}

static uint64_t change_begin(struct solsend_histogram *h)
{
    uint64_t sequence = histogram_get(&h->sequence);
    atomic_store_explicit(&h->sequence, sequence + 1, memory_order_relaxed);
    return sequence;
}

static void change_end(struct solsend_histogram *h, uint64_t sequence)
{
    histogram_put(&h->sequence, sequence + 2);
}

void histogram_init(struct solsend_histogram *histogram)
{
    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        atomic_init(&histogram->counts[i], 0);
    }
    atomic_init(&histogram->sequence, 0);
    totals_write(histogram, &(struct totals){.min = UINT64_MAX});
}

int solsend_histogram_open(solsend_histogram **out)
{
    if (out == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    *out = aligned_alloc(HISTOGRAM_ALIGN, HISTOGRAM_BYTES);
    if (*out == NULL) {
        return SOLSEND_ERR_MEMORY;
    }
    histogram_init(*out);
    return 0;
}

void solsend_histogram_close(solsend_histogram *histogram)
{
    free(histogram);
}

void solsend_histogram_record(solsend_histogram *histogram, uint64_t ns)
{
    if (histogram != NULL) {
        histogram_record(histogram, ns);
    }
}

void solsend_histogram_reset(solsend_histogram *histogram)
{
    if (histogram == NULL) {
        return;
    }
    uint64_t sequence = change_begin(histogram);
    /* the total first: a reader that finds fewer values than it counted stops at the maximum */
    totals_write(histogram, &(struct totals){.min = UINT64_MAX});
    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        histogram_put(&histogram->counts[i], 0);
    }
    change_end(histogram, sequence);
}

void solsend_histogram_merge(solsend_histogram *target, const solsend_histogram *source)
{
    if (target == NULL || source == NULL) {
        return;
    }
    struct totals t;
    struct totals s;
    totals_read(target, &t);
    totals_read(source, &s);
    uint64_t sequence = change_begin(target);
    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        uint64_t more = acquire(&source->counts[i]);
        if (more != 0) {
            histogram_put(&target->counts[i], histogram_get(&target->counts[i]) + more);
        }
    }
    t.count += s.count;
    t.sum += s.sum;
    t.squares = add_saturated(t.squares, s.squares);
    t.min = s.min < t.min ? s.min : t.min;
    t.max = s.max > t.max ? s.max : t.max;
    totals_write(target, &t);
    change_end(target, sequence);
}

/* The rank-th smallest value for `quantile`: 1…count. */
static uint64_t rank_of(double quantile, uint64_t count)
{
    if (!(quantile > 0)) { /* also what is not a number */
        return 1;
    }
    if (quantile >= 1) {
        return count;
    }
    /* 0.07 x 100 is a little more than 7 in binary; it must not become the eighth */
    double exact = quantile * (double)count * (1 - 0x1p-51);
    uint64_t rank = (uint64_t)exact;
    rank += (double)rank < exact;
    return rank < 1 ? 1 : rank > count ? count : rank;
}

/* A walk over the buckets in which the ranks asked for must not fall. */
struct walk {
    const struct solsend_histogram *histogram;
    const struct totals *totals;
    uint32_t index;
    uint64_t before; /* values in the buckets before index */
};

static uint64_t walk_to(struct walk *walk, uint64_t rank)
{
    const struct totals *t = walk->totals;
    if (rank <= 1 || rank >= t->count) {
        return rank <= 1 ? t->min : t->max; /* these two are known exactly */
    }
    for (; walk->index < HISTOGRAM_COUNTS; walk->index++) {
        uint64_t here = acquire(&walk->histogram->counts[walk->index]);
        if (walk->before + here >= rank) {
            break;
        }
        walk->before += here;
    }
    if (walk->index == HISTOGRAM_COUNTS) {
        return t->max;
    }
    uint64_t low = bucket_low(walk->index);
    uint64_t middle = low + (bucket_high(walk->index, t->max) - low - 1) / 2;
    return middle < t->min ? t->min : middle > t->max ? t->max : middle;
}

uint64_t solsend_histogram_quantile(const solsend_histogram *histogram, double quantile)
{
    if (histogram == NULL) {
        return 0;
    }
    struct totals t;
    totals_read(histogram, &t);
    if (t.count == 0) {
        return 0;
    }
    struct walk walk = {.histogram = histogram, .totals = &t};
    return walk_to(&walk, rank_of(quantile, t.count));
}

static uint64_t square_root(u128 value)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 63; bit != 0; bit >>= 1) {
        uint64_t trial = root | bit;
        if ((u128)trial * trial <= value) {
            root = trial;
        }
    }
    return root;
}

/*
 * Of the recorded values themselves, in whole numbers: no cancellation however small the spread
 * is beside the mean. With sum = n m + r, n x mean^2 is n m^2 + 2 m r + r^2/n.
 */
static uint64_t deviation(const struct totals *t)
{
    if (t->squares == ~(u128)0) {
        return UINT64_MAX;
    }
    u128 m = t->sum / t->count;
    u128 r = t->sum % t->count;
    u128 mean_part = t->count * m * m + 2 * m * r + r * r / t->count;
    if (t->squares <= mean_part) {
        return 0;
    }
    return square_root((t->squares - mean_part) / t->count);
}

void solsend_histogram_summary(const solsend_histogram *histogram, solsend_summary *out)
{
    if (out == NULL) {
        return;
    }
    *out = (solsend_summary){0};
    if (histogram == NULL) {
        return;
    }
    struct totals t;
    totals_read(histogram, &t);
    if (t.count == 0) {
        return;
    }
    struct walk walk = {.histogram = histogram, .totals = &t};
    out->count = t.count;
    out->min = t.min;
    out->p50 = walk_to(&walk, rank_of(0.5, t.count));
    out->p90 = walk_to(&walk, rank_of(0.9, t.count));
    out->p99 = walk_to(&walk, rank_of(0.99, t.count));
    out->p999 = walk_to(&walk, rank_of(0.999, t.count));
    out->max = t.max;
    out->mean = (uint64_t)((t.sum + t.count / 2) / t.count);
    out->sd = deviation(&t);
}

int solsend_histogram_next(const solsend_histogram *histogram, uint32_t *index, uint64_t *low_ns,
                           uint64_t *high_ns, uint64_t *count)
{
    if (histogram == NULL || index == NULL) {
        return 0;
    }
    for (uint32_t i = *index; i < HISTOGRAM_COUNTS; i++) {
        uint64_t here = acquire(&histogram->counts[i]);
        if (here == 0) {
            continue;
        }
        *low_ns = bucket_low(i);
        *high_ns = bucket_high(i, acquire(&histogram->max));
        *count = here;
        *index = i + 1;
        return 1;
    }
    *index = HISTOGRAM_COUNTS;
    return 0;
}
