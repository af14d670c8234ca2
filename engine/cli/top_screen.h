/* The terminal of `sluice top`: drawing and keys, by ncurses. One at a time; main thread. */
#ifndef ENGINE_TOP_SCREEN_H
#define ENGINE_TOP_SCREEN_H

#include "base/attr.h"
#include "engine/cli/top_detail.h"
#include "engine/cli/top_feed.h"
#include "engine/cli/top_model.h"

#include <stdbool.h>
#include <wchar.h>

enum top_key {
    TOP_KEY_NONE, /* nothing was pressed */
    TOP_KEY_CHARACTER,
    TOP_KEY_UP,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_ENTER,
    TOP_KEY_ESCAPE,
    TOP_KEY_TAB,
    TOP_KEY_BACK_TAB,
    TOP_KEY_BACKSPACE,
    TOP_KEY_RESIZED,
    TOP_KEY_OTHER
};

/* What is drawn. */
struct top_picture {
    struct top_model *model;   /* drawing scrolls it to the selected row */
    struct top_detail *detail; /* drawing scrolls it to the lines that there are */
    const struct top_feed *feed;
    const char *typed;  /* the filter that is being typed; NULL: none is */
    const char *notice; /* an answer to the last key; "" none */
};

/* Take the terminal over. returns false: it can do too little */
MUST_USE bool top_screen_open(void);
/* Give the terminal back as it was. */
void top_screen_close(void);
void top_screen_draw(const struct top_picture *p);
/* The next key, without waiting. ret: of TOP_KEY_CHARACTER */
enum top_key top_screen_key(wchar_t *ret);
/* Lines of rows that fit. */
size_t top_screen_lines(void);

#endif
