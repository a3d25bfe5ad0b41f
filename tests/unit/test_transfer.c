#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

#include <solsend/tx.h>

/* A reader of its own, so that builder and checker cannot agree on a common mistake. */
struct instruction {
    unsigned program;
    unsigned account_count;
    const uint8_t *account_indexes;
    unsigned data_bytes;
    const uint8_t *data;
};

struct parsed {
    unsigned signatures;
    unsigned signers, read_signers, read_others;
    unsigned keys;
    const uint8_t *key[8];
    const uint8_t *blockhash;
    unsigned instructions;
    struct instruction instruction[4];
    const uint8_t *message;
    size_t message_bytes;
};

static unsigned number(const uint8_t **at)
{
    unsigned value = 0;
    unsigned shift = 0;
    for (;;) {
        unsigned byte = *(*at)++;
        value |= (byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
        shift += 7;
    }
}

static void parse(struct parsed *p, const uint8_t *wire, size_t bytes)
{
    memset(p, 0, sizeof *p);
    const uint8_t *at = wire;
    p->signatures = number(&at);
    at += 64 * (size_t)p->signatures;
    p->message = at;
    p->message_bytes = bytes - (size_t)(at - wire);
    p->signers = *at++;
    p->read_signers = *at++;
    p->read_others = *at++;
    p->keys = number(&at);
    assert_true(p->keys <= 8);
    for (unsigned i = 0; i < p->keys; i++, at += 32) {
        p->key[i] = at;
    }
    p->blockhash = at;
    at += 32;
    p->instructions = number(&at);
    assert_true(p->instructions <= 4);
    for (unsigned i = 0; i < p->instructions; i++) {
        struct instruction *in = &p->instruction[i];
        in->program = *at++;
        in->account_count = number(&at);
        in->account_indexes = at;
        at += in->account_count;
        in->data_bytes = number(&at);
        in->data = at;
        at += in->data_bytes;
    }
    assert_int_equal(at - wire, bytes);
}

static solsend_key *payer(void)
{
    uint8_t seed[32];
    memset(seed, 7, sizeof seed);
    solsend_key *key = NULL;
    assert_int_equal(solsend_key_from_seed(&key, seed), 0);
    return key;
}

static solsend_transfer transfer_of(const solsend_key *key)
{
    solsend_transfer t;
    assert_int_equal(solsend_transfer_init(&t, sizeof t), 0);
    assert_int_equal(t.lamports, 1);
    assert_int_equal(t.size, sizeof t);
    t.payer = key;
    memset(t.blockhash, 0xb1, sizeof t.blockhash);
    return t;
}

static void assert_key_is(const uint8_t *key, const char *base58)
{
    char text[45];
    assert_true(solsend_base58_encode(text, sizeof text, key, 32) > 0);
    assert_string_equal(text, base58);
}

static void assert_signed(const struct parsed *p, const uint8_t *wire)
{
    assert_int_equal(p->signatures, 1);
    assert_int_equal(crypto_sign_verify_detached(wire + 1, p->message, p->message_bytes, p->key[0]),
                     0);
}

static void to_self_without_memo(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    int bytes = solsend_tx_transfer(wire, sizeof wire, &t);
    assert_int_equal(bytes, 183);
    struct parsed p;
    parse(&p, wire, (size_t)bytes);
    assert_signed(&p, wire);
    assert_int_equal(p.signers, 1);
    assert_int_equal(p.read_signers, 0);
    assert_int_equal(p.read_others, 1);
    assert_int_equal(p.keys, 2);
    assert_key_is(p.key[0], "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB");
    assert_key_is(p.key[1], "11111111111111111111111111111111");
    assert_memory_equal(p.blockhash, t.blockhash, 32);
    assert_int_equal(p.instructions, 1);
    assert_int_equal(p.instruction[0].program, 1);
    assert_int_equal(p.instruction[0].account_count, 2);
    assert_memory_equal(p.instruction[0].account_indexes, "\0\0", 2);
    assert_int_equal(p.instruction[0].data_bytes, 12);
    assert_memory_equal(p.instruction[0].data, "\2\0\0\0\1\0\0\0\0\0\0\0", 12);
    assert_int_equal(solsend_tx_check(wire, (size_t)bytes, NULL), 0);
    solsend_key_close(key);
}

static void to_somebody_with_memo(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    assert_int_equal(
        solsend_base58_decode(t.to, 32, "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9", 44, NULL),
        0);
    t.lamports = UINT64_C(0x0102030405060708);
    t.memo = (const uint8_t *)"gm\0\xff";
    t.memo_bytes = 4;
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    int bytes = solsend_tx_transfer(wire, sizeof wire, &t);
    assert_int_equal(bytes, 183 + 32 + 32 + 2 + 1 + 4);
    struct parsed p;
    parse(&p, wire, (size_t)bytes);
    assert_signed(&p, wire);
    assert_int_equal(p.signers, 1);
    assert_int_equal(p.read_signers, 0);
    assert_int_equal(p.read_others, 2);
    assert_int_equal(p.keys, 4);
    assert_key_is(p.key[0], "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB");
    assert_key_is(p.key[1], "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9");
    assert_key_is(p.key[2], "11111111111111111111111111111111");
    assert_key_is(p.key[3], "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr");
    assert_int_equal(p.instructions, 2);
    assert_int_equal(p.instruction[0].program, 2);
    assert_int_equal(p.instruction[0].account_count, 2);
    assert_memory_equal(p.instruction[0].account_indexes, "\0\1", 2);
    assert_memory_equal(p.instruction[0].data, "\2\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01", 12);
    assert_int_equal(p.instruction[1].program, 3);
    assert_int_equal(p.instruction[1].account_count, 0);
    assert_int_equal(p.instruction[1].data_bytes, 4);
    assert_memory_equal(p.instruction[1].data, "gm\0\xff", 4);
    assert_int_equal(solsend_tx_check(wire, (size_t)bytes, NULL), 0);
    solsend_key_close(key);
}

static void the_payer_named_as_receiver_stands_once(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    uint8_t implied[SOLSEND_TX_BYTES_MAX], named[SOLSEND_TX_BYTES_MAX];
    int bytes = solsend_tx_transfer(implied, sizeof implied, &t);
    assert_int_equal(solsend_key_public(key, t.to), 0);
    assert_int_equal(solsend_tx_transfer(named, sizeof named, &t), bytes);
    assert_memory_equal(named, implied, (size_t)bytes);
    solsend_key_close(key);
}

static void exact_lengths(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    uint8_t memo[SOLSEND_TX_BYTES_MAX];
    memset(memo, 'm', sizeof memo);
    t.memo = memo;
    uint32_t possible = 0;
    for (uint32_t want = 0; want <= SOLSEND_TX_BYTES_MAX; want++) {
        int memo_bytes = solsend_transfer_memo_bytes(want);
        if (memo_bytes < 0) {
            assert_int_equal(memo_bytes, SOLSEND_ERR_USAGE);
            continue;
        }
        possible++;
        t.memo_bytes = (uint32_t)memo_bytes;
        uint8_t wire[SOLSEND_TX_BYTES_MAX];
        assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), want);
        struct parsed p;
        parse(&p, wire, want);
        assert_int_equal(p.instructions, memo_bytes > 0 ? 2 : 1);
        assert_int_equal(solsend_tx_check(wire, want, NULL), 0);
    }
    /* 183, and from 219 on all but the one where the memo's length takes a second byte */
    assert_int_equal(possible, 1 + (SOLSEND_TX_BYTES_MAX - 219 + 1) - 1);
    assert_int_equal(solsend_transfer_memo_bytes(183), 0);
    assert_int_equal(solsend_transfer_memo_bytes(218), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_transfer_memo_bytes(219), 1);
    assert_int_equal(solsend_transfer_memo_bytes(250), 32);
    assert_int_equal(solsend_transfer_memo_bytes(345), 127);
    assert_int_equal(solsend_transfer_memo_bytes(346), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_transfer_memo_bytes(347), 128);
    assert_int_equal(solsend_transfer_memo_bytes(1232), 1013);
    assert_int_equal(solsend_transfer_memo_bytes(1233), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_transfer_memo_bytes(UINT32_MAX), SOLSEND_ERR_USAGE);
    solsend_key_close(key);
}

static void distinct_memos_give_distinct_signatures(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    char memo[33];
    static uint8_t ids[COUNT][64];
    t.memo = (const uint8_t *)memo;
    t.memo_bytes = 32;
    for (int i = 0; i < COUNT; i++) {
        snprintf(memo, sizeof memo, "%032d", i);
        uint8_t wire[250];
        assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), 250);
        assert_int_equal(solsend_tx_signature(wire, sizeof wire, ids[i]), 0);
        struct parsed p;
        parse(&p, wire, sizeof wire);
        assert_signed(&p, wire);
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(ids[i], ids[j], 64);
        }
    }
    /* and the same gives the same */
    uint8_t wire[250], id[64];
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), 250);
    assert_int_equal(solsend_tx_signature(wire, sizeof wire, id), 0);
    assert_memory_equal(id, ids[COUNT - 1], 64);
    solsend_key_close(key);
}

/* The whole of one transaction, so that no byte moves unnoticed. */
static void golden_bytes(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    t.memo = (const uint8_t *)"hello";
    t.memo_bytes = 5;
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    int bytes = solsend_tx_transfer(wire, sizeof wire, &t);
    static const char message[] =
        "01000203"                                                         /* header, keys */
        "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c" /* payer */
        "0000000000000000000000000000000000000000000000000000000000000000" /* system program */
        "054a535a992921064d24e87160da387c7c35b5ddbc92bb81e41fa8404105448d" /* memo program */
        "b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1" /* blockhash */
        "02"                                                               /* instructions */
        "010200000c020000000100000000000000"                               /* transfer */
        "02000568656c6c6f";                                                /* memo */
    char hex[2 * SOLSEND_TX_BYTES_MAX + 1];
    sodium_bin2hex(hex, sizeof hex, wire + 65, (size_t)bytes - 65);
    assert_string_equal(hex, message);
    solsend_key_close(key);
}

static void refusals(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    static uint8_t memo[5000];
    t.memo = memo;
    t.memo_bytes = 1013;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), 1232);
    assert_int_equal(solsend_tx_transfer(wire, 1231, &t), SOLSEND_ERR_BUFFER_TOO_SMALL);
    assert_int_equal(solsend_tx_transfer(wire, 0, &t), SOLSEND_ERR_BUFFER_TOO_SMALL);
    t.memo_bytes = 1014;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), SOLSEND_ERR_TX_TOO_LARGE);
    t.memo_bytes = UINT32_MAX;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), SOLSEND_ERR_TX_TOO_LARGE);
    t.memo_bytes = 5;
    t.memo = NULL;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), SOLSEND_ERR_USAGE);
    t.memo_bytes = 0;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), 183);
    assert_int_equal(solsend_tx_transfer(NULL, sizeof wire, &t), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, NULL), SOLSEND_ERR_USAGE);
    solsend_base58_decode(t.to, 32, "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", 43, NULL);
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), SOLSEND_ERR_USAGE);
    t.size = 0;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), SOLSEND_ERR_BAD_SIZE);
    t = transfer_of(NULL);
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &t), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_transfer_init(&t, 3), SOLSEND_ERR_BAD_SIZE);
    assert_int_equal(solsend_transfer_init(NULL, sizeof t), SOLSEND_ERR_BAD_SIZE);
    solsend_key_close(key);
}

/* A caller built with an older header has fewer members, one with a newer header more. */
static void other_sizes_of_the_struct(void **state)
{
    (void)state;
    solsend_key *key = payer();
    struct {
        solsend_transfer known;
        uint64_t later;
    } newer;
    assert_int_equal(solsend_transfer_init(&newer.known, sizeof newer), 0);
    newer.known.payer = key;
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &newer.known), 183);
    newer.later = 1;
    assert_int_equal(solsend_tx_transfer(wire, sizeof wire, &newer.known),
                     SOLSEND_ERR_UNKNOWN_OPTION);

    solsend_transfer older = transfer_of(key);
    older.size = offsetof(solsend_transfer, blockhash);
    int bytes = solsend_tx_transfer(wire, sizeof wire, &older);
    assert_int_equal(bytes, 183);
    struct parsed p;
    parse(&p, wire, (size_t)bytes);
    const uint8_t zero[32] = {0};
    assert_memory_equal(p.blockhash, zero, 32);
    solsend_key_close(key);
}

static void a_forked_child_cannot_sign(void **state)
{
    (void)state;
    solsend_key *key = payer();
    solsend_transfer t = transfer_of(key);
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(solsend_tx_transfer(wire, sizeof wire, &t) == SOLSEND_ERR_FORKED ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    solsend_key_close(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_self_without_memo),
        cmocka_unit_test(to_somebody_with_memo),
        cmocka_unit_test(the_payer_named_as_receiver_stands_once),
        cmocka_unit_test(exact_lengths),
        cmocka_unit_test(distinct_memos_give_distinct_signatures),
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(other_sizes_of_the_struct),
        cmocka_unit_test(a_forked_child_cannot_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
