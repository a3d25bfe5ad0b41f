/*
 * Knowing that we are a forked child without a system call: a page that the kernel wipes in the
 * child (MADV_WIPEONFORK) holds the process's epoch; a handle keeps the epoch it was opened in.
 */
#ifndef BASE_FORK_H
#define BASE_FORK_H

#include <stdint.h>

/* The page's word; set up by fork_epoch. Zero in a child until it opens a handle of its own. */
extern volatile const uint64_t *fork_epoch_word;

/* This process's epoch, never 0; sets the page up at the first call of a process. */
uint64_t fork_epoch(void);

/* 1 if `epoch` is of another process. */
static inline int fork_is_foreign(uint64_t epoch)
{
    return *fork_epoch_word != epoch;
}

#endif
