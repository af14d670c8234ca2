#include "engine/writer/left_letter.h"

#include "engine/post/hearing.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/suppress_batch.h"

#include <stdlib.h>

void left_letter_drop(const struct letter *letter)
{
    usec_t until;
    if (letter->kind == LETTER_STAGE) {
        intake_free(letter_take_stage(letter));
    } else if (letter->kind == LETTER_STORE) {
        intake_free(letter_take_store(letter));
    } else if (letter->kind == LETTER_RESULT) {
        result_free(letter_take_result(letter));
    } else if (letter->kind == LETTER_HEARD) {
        hearing_free(letter_take_heard(letter));
    } else if (letter->kind == LETTER_SUPPRESS) {
        suppress_batch_free(letter_take_suppress(letter));
    } else if (letter->kind == LETTER_DAMAGED) {
        free(letter_take_damaged(letter));
    } else if (letter->kind == LETTER_PARK) {
        free(letter_take_park(letter, &until));
    } else if (letter->kind == LETTER_RETURNED) {
        message_put(letter_take_returned(letter));
    }
}
