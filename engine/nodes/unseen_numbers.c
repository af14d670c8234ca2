/* Owns since when numbers without an entry are met. Called when parts of limits are divided; must not know
 * of what. */
#include "engine/nodes/unseen_numbers.h"

#include "engine/cluster/member.h"

bool unseen_numbers_meet(struct unseen_numbers *u, uint16_t number, usec_t overlooked, usec_t heard,
                         usec_t now)
{
    size_t i = 0;
    while (i < u->count && u->all[i].number != number) {
        i++;
    }
    if (i == u->count && i < UNSEEN_NUMBERS_MAX) {
        u->all[u->count++] = (struct unseen_number){number, now};
    }
    if (i == UNSEEN_NUMBERS_MAX) {
        return false;
    }
    usec_t since = u->all[i].since > overlooked ? u->all[i].since : overlooked;
    return heard - since >= MEMBER_LATE_AFTER;
}
