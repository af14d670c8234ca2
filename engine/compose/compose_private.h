/* Inside of compose: what its two files share while one message is being composed. */
#ifndef ENGINE_COMPOSE_PRIVATE_H
#define ENGINE_COMPOSE_PRIVATE_H

#include "engine/compose/compose.h"

#define COMPOSE_KEY_SHOWN 48 /* bytes of a member's name in a place */

struct composer {
    const struct compose_options *options;
    const json_t *message;
    const char *prefix;
    uint64_t id;
    struct compose_mistakes *mistakes;
    struct composition *ret;
    struct slice sender_name; /* for a From field; of the JSON */
    struct slice first_name;  /* of the first recipient, for a To field */
    struct smtp_address first;
};

/* A mistake at a place of this message. */
void compose_wrong(struct composer *c, const char *what, const char *where_format, ...)
    PRINTF_LIKE(3, 4);
/* A member that is there; NULL: missing or null. */
const json_t *compose_member(const json_t *object, const char *key);
/* The text of a member. False: missing, or no text (a mistake then). */
bool compose_text(struct composer *c, const json_t *object, const char *where, const char *key,
                  struct slice *ret);
struct slice compose_string(const json_t *string);
/* "Name" or {"address", "name"} at a place. False: a mistake was told. */
bool compose_mailbox(struct composer *c, const json_t *value, const char *where, unsigned flags,
                     struct smtp_address *ret, struct slice *ret_name);
/* Tell every member of the object that is not in the NULL-terminated list. */
void compose_known_members(struct composer *c, const json_t *object, const char *where,
                           const char *const *known);

/* Append fields, by compose_header.c: those of "headers" and what is missing; or one of these. */
void compose_write_headers(struct composer *c);
void compose_write_from(struct composer *c);
void compose_write_date(struct composer *c);
void compose_write_message_id(struct composer *c);
/* Append the content, by compose_content.c. errors: -ENOMEM */
MUST_USE int compose_content(struct composer *c, struct slice raw);

#endif
