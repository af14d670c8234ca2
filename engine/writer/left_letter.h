/* What becomes of letters to the spool writer that nobody takes any more, at its end. */
#ifndef ENGINE_LEFT_LETTER_H
#define ENGINE_LEFT_LETTER_H

struct letter;

/* Free what the letter hands over. Thread: the one that frees the spool writer, when all others have
 * ended. */
void left_letter_drop(const struct letter *letter);

#endif
