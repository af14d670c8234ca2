/* How many instructions a function takes, counted one by one, in a child process. Steps, not time, so
 * that a loaded machine changes nothing. */
#ifndef TESTS_UNIT_STEPS_H
#define TESTS_UNIT_STEPS_H

/* It ends there when there are more.
 *
 * returns  steps, at most `most` + 1; -1: they cannot be counted here: another processor than x86-64,
 *          or a sanitizer, whose own steps would count */
long steps_of(void (*run)(void *ctx), void *ctx, long most);

#endif
