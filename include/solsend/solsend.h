/**
 * libsolsend: tuned submission of Solana transactions.
 *
 * This header includes all the others; each can also be included alone. Read in this order:
 *
 *   error.h   codes, names and kinds; the detail record
 *   log.h     where lines go
 *   host.h    pin, lock, tune, and be told what was granted
 *   key.h     Ed25519 keys, signatures, base58
 *   tx.h      a signed transfer with a memo; the first checks of a transaction
 *   stats.h   the clock and latency histograms
 *   event.h   what happened to a transaction or a link
 *   link.h    one QUIC or UDP connection, driven by the caller; keep-hot shadows
 *
 * Manners of the whole API:
 *  - Functions return an int: >= 0 is success or a count, < 0 one of SOLSEND_ERR_…. No errno, no
 *    thread-locals, no abort. A call that fails causes no later event.
 *  - Options and stats are size-first structs: call solsend_…_init(&o, sizeof o), change what you
 *    want. A struct newer than the library is accepted when what the library lacks is zero.
 *  - Units stand in the names: _ns, _us, _ms, _bytes. Times are CLOCK_MONOTONIC nanoseconds.
 *  - Strings are UTF-8 and zero-terminated unless a length goes with them.
 *  - What is sent, written, acked are different words; see event.h.
 */
#ifndef SOLSEND_H
#define SOLSEND_H

#define SOLSEND_VERSION_MAJOR 0
#define SOLSEND_VERSION_MINOR 1
#define SOLSEND_VERSION_PATCH 0

#include <solsend/error.h>
#include <solsend/log.h>
#include <solsend/host.h>
#include <solsend/key.h>
#include <solsend/tx.h>
#include <solsend/stats.h>
#include <solsend/event.h>
#include <solsend/link.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The library's version at run time: major << 16 | minor << 8 | patch. */
SOLSEND_API uint32_t solsend_version(void);

/** "libsolsend 0.1.0, ngtcp2 1.11.0, GnuTLS 3.7.9, libsodium 1.0.18": what really is loaded. */
SOLSEND_API const char *solsend_build_info(void);

#ifdef __cplusplus
}
#endif
#endif
