/* Owns the words of classes and what is above what. Called by whoever reads or shows a class. */
#include "base/mail_class.h"

#include <assert.h>

enum { PRIORITY_URGENT = 3, PRIORITY_BULK = -1 };

static const char *const texts[MAIL_CLASS_COUNT] = {"urgent", "normal", "bulk"};

const char *mail_class_text(enum mail_class class)
{
    assert(class < MAIL_CLASS_COUNT);
    return texts[class];
}

enum mail_class mail_class_find(struct slice name)
{
    unsigned class = 0;
    while (class < MAIL_CLASS_COUNT && !slice_ieq(name, slice_of(texts[class]))) {
        class ++;
    }
    return (enum mail_class) class;
}

enum mail_class mail_class_lower(enum mail_class wanted, unsigned allowed)
{
    unsigned class = wanted;
    while (class < MAIL_BULK && (allowed & 1U << class) == 0) {
        class ++;
    }
    return (enum mail_class) class;
}

enum mail_class mail_class_of_priority(int priority)
{
    if (priority >= PRIORITY_URGENT) {
        return MAIL_URGENT;
    }
    return priority <= PRIORITY_BULK ? MAIL_BULK : MAIL_NORMAL;
}

int mail_class_priority(enum mail_class class)
{
    if (class == MAIL_URGENT) {
        return PRIORITY_URGENT;
    }
    return class == MAIL_BULK ? PRIORITY_BULK : 0;
}
