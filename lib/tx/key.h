/* What the layers above may see of a key: TLS needs the seed itself. */
#ifndef TX_KEY_H
#define TX_KEY_H

#include <solsend/key.h>

/*
 * The 32 secret bytes, in locked memory, until the key is closed. All zero in a forked child:
 * check the fork first.
 */
const uint8_t *key_seed(const solsend_key *key);

/* The 32 public bytes. */
const uint8_t *key_public(const solsend_key *key);

/* 1 if the key was opened by another process. */
int key_is_foreign(const solsend_key *key);

#endif
