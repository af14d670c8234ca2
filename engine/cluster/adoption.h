/* When a log may be taken over, and what a reader of a log believes of mail that its writer took over
 * from another one. Pure: facts in, verdicts out.
 *
 * Each spool has a number for good, and its log goes by it. A log has an owner's key (log_owner.h):
 * an epoch and the number of the spool that holds the log, its own at first. Who takes it over sets the
 * key to the next epoch and itself by compare-and-set, fences the log, and reads it: receptions
 * less results. Then it takes the messages into its own spool in the order of their ids, and with each
 * batch a mark: up to which id this log was adopted. Message and mark are one commit of the spool,
 * and the mark lies behind the messages in the same batch of the taker's own log. So whoever goes on
 * knows where: the taker itself by its spool; who takes over the taker, by the taker's log.
 *
 *   - The log of a taker is adopted before the logs that it held: its marks are read there and
 *     nowhere else. A log whose holder is another one than itself is for who has adopted the holder.
 *   - A batch of a log is several frames, and the last one may be missing. So messages that were taken
 *     over are believed only when a mark behind them covers them; others the reader drops, as the
 *     source still has them, and nobody can have delivered them: its commit comes after the mark. A
 *     message that is believed already stays so when it is read once more.
 *   - When all is adopted the taker carries the marks of the source over into its own with the mark
 *     ADOPTION_DONE, in one commit; they are believed only with that one behind them. Only then
 *     the key says that nothing of the log is needed. A mark never goes back.
 *   - Who is about to set another's key looks at its own first, and sets none when that has another
 *     holder by now. So holders have their logs for longer than the logs that they hold, and no ring
 *     of logs comes to be in which each waits for the next one. That look and the key's change are
 *     two questions, some milliseconds apart, which the trial takes for one.
 *   - A taker that is stopped in order keeps its own mail until it returns, but gives back the logs that
 *     it has not adopted to the end: their keys say so, and its mark. Whoever takes such a log
 *     goes on behind that mark or its own, whichever is greater, and leaves it in the key, as it may die
 *     before it has a mark of its own. It keeps them while its own log may say more than its spool,
 *     until what was told anew since is all that the log has.
 *   - A spool that finds its key with another holder is void, whatever is in it: it is set aside, and
 *     its node begins with an empty one that has another number.
 *
 * tests/sim/adopt_random is the proof by trial, and that each of these rules is needed. */
#ifndef ENGINE_ADOPTION_H
#define ENGINE_ADOPTION_H

#include <stdbool.h>
#include <stdint.h>

/* The mark of a log of which nothing is left to adopt: it is above all ids. */
#define ADOPTION_DONE UINT64_MAX

/* A log as its owner's key says, and what is known of its holder. */
struct adoption_case {
    uint16_t log, holder;    /* numbers of spools */
    bool is_adopted;         /* nothing of it is needed any more */
    bool is_given;           /* the holder gave it back */
    bool is_gone;            /* nobody runs the holder's spool any more, or an operator says so */
    bool has_adopted_holder; /* our mark for the holder's log is ADOPTION_DONE */
};

/* Whether the spool with the number `own` may set the key to itself. */
static inline bool adoption_may_take(const struct adoption_case *c, uint16_t own)
{
    if (c->is_adopted || c->log == own) {
        return false;
    }
    if (c->holder == own || c->is_given) {
        return true; /* it goes on where it stopped, or another one did */
    }
    return c->holder == c->log ? c->is_gone : c->has_adopted_holder;
}

/* Whether a mark in the log of spool `writer` covers a message that was read in front of it. Those with
 * a number of the writer's own got new ids, as it had the old ones, each in a batch of its own.
 *
 * id    of the message, as the writer has it
 * mark  id up to which the source was adopted */
static inline bool adoption_is_covered(uint64_t id, uint64_t mark, uint16_t writer)
{
    return id <= mark || id >> 48 == writer;
}

#endif
