/* How many instructions a function takes, counted one by one: it runs in a child that is stepped
 * through. Steps, not time, so that a loaded machine changes nothing. */
#ifndef TESTS_UNIT_STEPS_H
#define TESTS_UNIT_STEPS_H

/* It ends the child there when there are more.
 *
 * returns  steps, at most `most` + 1; -1: this process may not trace another one, or is checked by a
 *          sanitizer, whose own steps would count */
long steps_of(void (*run)(void *ctx), void *ctx, long most);

#endif
