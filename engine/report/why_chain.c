/* Builds links of causes. Called by the files that know causes; knows none itself. */
#include "engine/report/why_chain.h"

#include "engine/config/config.h"
#include "engine/config/config_origin.h"
#include "engine/http/api.h"
#include "engine/http/clerk.h"
#include "engine/state/settings.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 1500 };

void why_init(struct why *w, struct clerk *k)
{
    *w = (struct why){.clerk = k,
                      .owner = clerk_owner(k),
                      .now = clock_wall(),
                      .about = json_object(),
                      .chain = json_array(),
                      .next_change = USEC_NEVER};
    why_refresh(w);
}

void why_refresh(struct why *w)
{
    w->config = settings_of(w->clerk->engine)->config;
    w->transport_count = (uint32_t)w->config->transport_count;
}

void why_fini(struct why *w)
{
    json_decref(w->about);
    json_decref(w->chain);
    w->about = w->chain = NULL;
}

json_t *why_answer(struct why *w)
{
    json_t *o = json_pack("{s:O?, s:O?}", "about", w->about, "chain", w->chain);
    if (o != NULL && w->next_change != USEC_NEVER) {
        api_set_time(o, "next_change", w->next_change);
    }
    return o;
}

/* len: what vsnprintf said */
static void set_formatted(json_t *o, const char *key, const char text[static TEXT_BYTES], int len)
{
    api_set_text(o, key, slice_of_printed(text, TEXT_BYTES, len));
}

json_t *why_link(struct why *w, int level, const char *what, ...)
{
    json_t *o = json_array_size(w->chain) < WHY_LINKS_MAX ? json_object() : NULL;
    if (o == NULL || json_array_append_new(w->chain, o) != 0) {
        return NULL;
    }
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, what);
    set_formatted(o, "what", text, vsnprintf(text, sizeof(text), what, args));
    va_end(args);
    api_set_number(o, "level", (uint64_t)level);
    return o;
}

void why_because(json_t *link, struct slice text)
{
    if (link != NULL && text.len > 0) {
        api_set_text(link, "because", text);
    }
}

void why_next(json_t *link, const char *what, ...)
{
    if (link != NULL) {
        char text[TEXT_BYTES];
        va_list args;
        va_start(args, what);
        set_formatted(link, "next", text, vsnprintf(text, sizeof(text), what, args));
        va_end(args);
    }
}

void why_until(struct why *w, json_t *link, usec_t until)
{
    if (link != NULL) {
        api_set_time(link, "until", until);
        if (until > w->now && until < w->next_change) {
            w->next_change = until;
        }
    }
}

static void set_limit(struct why *w, json_t *link, enum config_section section, size_t index,
                      const char *option, json_t *value)
{
    char at[CONFIG_ORIGIN_BYTES];
    if (link == NULL) {
        json_decref(value);
        return;
    }
    api_set_text(link, "limit", slice_of(option));
    (void)json_object_set_new(link, "value", value); /* out of memory leaves it out */
    if (w->owner.len == 0) {
        (void)config_origin(w->config, section, index, option, at);
        api_set_text(link, "at", slice_of(at));
    }
}

void why_number(struct why *w, json_t *link, enum config_section section, size_t index,
                const char *option, int64_t value)
{
    set_limit(w, link, section, index, option, json_integer((json_int_t)value));
}

void why_span(struct why *w, json_t *link, enum config_section section, size_t index,
              const char *option, usec_t value)
{
    char text[WHY_SPAN_TEXT];
    if (value > 0 && value < USEC_PER_SEC) { /* a rate's pause; rounded it would be another limit */
        (void)snprintf(text, sizeof(text), "%lldms", (long long)(value / USEC_PER_MSEC));
    } else {
        (void)why_span_text(value, text);
    }
    set_limit(w, link, section, index, option, json_string(text));
}

void why_word(struct why *w, json_t *link, enum config_section section, size_t index,
              const char *option, const char *value)
{
    set_limit(w, link, section, index, option, json_string(value));
}

const char *why_span_text(usec_t span, char ret[static WHY_SPAN_TEXT])
{
    static const struct {
        long long seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    long long seconds = (long long)((span + USEC_PER_SEC / 2) / USEC_PER_SEC);
    seconds = seconds < 0 ? 0 : seconds;
    for (size_t i = 0; i < 4; i++) {
        long long whole = seconds / units[i].seconds;
        long long rest = i < 3 ? seconds % units[i].seconds / units[i + 1].seconds : 0;
        if (whole > 0 && rest > 0) {
            (void)snprintf(ret, WHY_SPAN_TEXT, "%lld%c%lld%c", whole, units[i].unit, rest,
                           units[i + 1].unit);
            return ret;
        }
        if (whole > 0 || i == 3) {
            (void)snprintf(ret, WHY_SPAN_TEXT, "%lld%c", whole, units[i].unit);
            return ret;
        }
    }
    return ret;
}
