/* Owns the beginning and the end of a message's account. Called by message.c and the activator; in
 * between the account is the spool writer's. */
#include "engine/post/message_account.h"

#include "engine/post/result.h"

#include <stdlib.h>

void message_account_init(struct message_account *a)
{
    *a = (struct message_account){0};
    list_init(&a->touched);
    list_init(&a->journaled);
}

void message_account_fini(struct message_account *a)
{
    result_free_all(a->fresh);
    free(a->stored.park_text);
}

void message_account_open(struct message_account *a, uint32_t pending, uint32_t failed)
{
    a->pending = pending;
    a->stored.failed = failed;
}
