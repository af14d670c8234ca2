/* The class of a message: whose turn is first where several wait. Said at reception and kept; the
 * words are those of configuration, requests, events and reports. Pure. */
#ifndef BASE_MAIL_CLASS_H
#define BASE_MAIL_CLASS_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>

/* In the order of their turns. Numbers of mail_class_bit: append only. */
enum mail_class {
    MAIL_URGENT,
    MAIL_NORMAL,
    MAIL_BULK,
    MAIL_CLASS_COUNT, /* where nothing says a class */
};

/* "urgent", "normal", "bulk". */
const char *mail_class_text(enum mail_class class) NONNULL_RET;
/* In either case of letters; MAIL_CLASS_COUNT: it is none of them. */
enum mail_class mail_class_find(struct slice name);

/* Classes as a set. */
static inline unsigned mail_class_bit(enum mail_class class)
{
    return 1U << class;
}

/* The highest class of a set that is not above the wanted one. Bulk needs no permission. */
enum mail_class mail_class_lower(enum mail_class wanted, unsigned allowed);

/* What a priority of RFC 6710 means: from 3 on urgent, below 0 bulk; and the other way round, the
 * priority nearest to 0 that means this class. */
enum mail_class mail_class_of_priority(int priority);
int mail_class_priority(enum mail_class class);

#endif
