/* A strict JSON checker, enough to know that what we write can be read. */
#ifndef JSON_CHECK_H
#define JSON_CHECK_H

/* Null if `text` is one JSON value (RFC 8259), else where it stops being one. */
const char *json_check(const char *text);

#endif
