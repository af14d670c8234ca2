/* Transcript tests for the SMTP client core: steps as strings, run once whole and once for every
 * place where the server's bytes can be cut.
 *
 *   "<220 mx ESMTP\r\n"  bytes from the server
 *   ">EHLO me\r\n"       exactly these bytes are in out; they are then written
 *   "!READY"             the next event, as smtp_script_event_text writes it
 *   "=start 2"           a transaction to r0@b, r1@b (words behind: size=N, 8bit, utf8,
 *                        requiretls, proved, broken)
 *   "=body TEXT"         TEXT is written as the body (dot-stuffed), then the body is ended
 *   "=partbody TEXT"     TEXT is written, the body goes on
 *   "=sent"              the body is queued; "=wrote N": N bytes of bodies are written
 *   "=take N"            N bytes of out are written; "=wait N": N ms pass; "=full": may not start
 *   "=bodyfail", "=bodybad", "=tls", "=tlsfail", "=quit", "=eof", "=reset", "=timeout" */
#ifndef TESTS_UNIT_SMTP_SCRIPT_H
#define TESTS_UNIT_SMTP_SCRIPT_H

#include "net/smtp_client.h"

struct smtp_script {
    struct smtp_client_config config;
    struct smtp_client_peer peer;
    uint16_t depth;     /* not 0: as if the pace had found it already */
    bool is_warm;       /* as if messages had been carried already, see smtp_warm.h */
    bool is_numbered;   /* events about a transaction have its number in front: "1 DONE reuse" */
    bool is_whole_only; /* cut nowhere: the case is about what stands behind a reply */
};

void smtp_script_init(struct smtp_script *script);
/* steps ends with NULL; fails the cmocka test with the step's number when something differs. */
void smtp_script_run(const struct smtp_script *script, const char *const *steps);

/* "READY", "CLOSED flush", "RECIPIENT 1 hard 5.1.1 550 RCPT", "REST ok 2.0.0 250 DOT",
 * "DONE reuse", "DONE close", "DONE lost", "RETURNED ...", "FAILED soft 4.4.2 0 GREETING site",
 * with "amb", "proto", "unlessfinal", "chunk", "neutral" behind where they hold. */
void smtp_script_event_text(const struct smtp_client_event *event, char *ret, size_t size);

#endif
