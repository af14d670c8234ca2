/* Reads lists through a clerk's reader, some thousand entries a view; changes nothing. */
#include "engine/suppression/suppression_report.h"

#include "base/error.h"
#include "engine/config/label.h"
#include "engine/http/clerk.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/suppression/suppress_line.h"

#include <stdio.h>
#include <string.h>

enum { ENTRIES_PER_VIEW = 1000, SEEN_MOST = 1000000 };

const char *const suppression_report_params[] = {"tenant", "after", "match", "limit",
                                                 "format", "node",  NULL};

static json_t *suppression_object(const struct spool_suppression *s, usec_t now)
{
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    api_set_text(o, "tenant", s->tenant);
    api_set_text(o, "address", s->address);
    if (s->is_damaged) {
        (void)json_object_set_new(o, "damaged", json_true()); /* out of memory leaves it out */
        return o;
    }
    api_set_text(o, "reason", slice_of(spool_suppress_reason_text(s->reason)));
    api_set_time(o, "added", s->added);
    if (s->expires != 0) {
        api_set_time(o, "expires", s->expires);
    }
    if (s->expires != 0 && s->expires <= now) {
        (void)json_object_set_new(o, "over", json_true()); /* likewise */
    }
    api_set_text(o, "source", s->source);
    return o;
}

/* Where a walk stands, and what it is for. */
struct suppression_walk {
    struct slice tenant; /* its list alone; data NULL: all lists */
    struct slice match;  /* entries that begin with it */
    bool is_csv, is_after;
    uint64_t limit, put, seen;
    char list[SPOOL_SUPPRESS_TENANT_MAX], at[SPOOL_SUPPRESS_ADDRESS_MAX];
    size_t list_len, at_len;
    struct buf csv;
    bool has_more;
};

static void walk_stand(struct suppression_walk *w, struct slice list, struct slice at,
                       bool is_after)
{
    memmove(w->list, list.data, list.len);
    memmove(w->at, at.data, at.len);
    w->list_len = list.len;
    w->at_len = at.len;
    w->is_after = is_after;
}

static bool begins_with(struct slice text, struct slice start)
{
    return text.len >= start.len && memcmp(text.data, start.data, start.len) == 0;
}

/* The next entry. errors: ERR_MISSING at the end */
static int walk_next(struct clerk *k, struct suppression_walk *w, struct spool_suppression *ret)
{
    for (;;) {
        struct slice list = slice_make(w->list, w->list_len), next;
        int err =
            spool_suppress_next(k->reader, list, slice_make(w->at, w->at_len), w->is_after, ret);
        bool is_behind = err == 0 && w->match.len > 0 && !begins_with(ret->address, w->match);
        if ((err != ERR_MISSING && !is_behind) || w->tenant.data != NULL) {
            return is_behind ? ERR_MISSING : err;
        }
        err = spool_suppress_next_list(k->reader, list, &next);
        if (err != 0) {
            return err;
        }
        walk_stand(w, next, w->match, false);
    }
}

static void walk_put(struct api_call *c, struct suppression_walk *w,
                     const struct spool_suppression *s, usec_t now)
{
    if (w->is_csv) {
        suppress_line_put(&w->csv, s);
    } else {
        api_put(c, suppression_object(s, now));
    }
    w->put++;
}

/* One view's entries. returns 0 to go on, ERR_MISSING at the end, other errors */
static int walk_view(struct clerk *k, struct api_call *c, struct suppression_walk *w)
{
    usec_t now = clock_wall();
    for (int i = 0; i < ENTRIES_PER_VIEW; i++) {
        struct spool_suppression s;
        int err = walk_next(k, w, &s);
        if (err != 0) {
            return err;
        }
        if (w->put == w->limit || (!w->is_csv && api_is_long(c))) {
            w->has_more = true;
            return ERR_MISSING;
        }
        walk_put(c, w, &s, now);
        walk_stand(w, s.tenant, s.address, true);
    }
    return 0;
}

/* false: the call is answered */
static bool read_params(struct api_call *c, struct suppression_walk *w, char lower[static 512])
{
    struct slice after, format = SLICE("");
    struct slice tenant = api_tenant(c);
    if (tenant.len > 0) {
        w->tenant = tenant;
    }
    if (api_param(c, "tenant", &tenant)) {
        if (tenant.len > 0 ? !api_may_name(c, tenant) : api_tenant(c).len > 0) {
            if (!api_is_answered(c)) {
                api_deny(c, DENIAL_TENANT, "the list for all is the operator's");
            }
            return false;
        }
        w->tenant = tenant;
    }
    if (api_param(c, "format", &format) && !slice_eq(format, SLICE("csv"))) {
        api_error(c, 400, "usage", "format is csv, or not there");
        return false;
    }
    w->is_csv = format.len > 0;
    (void)api_param(c, "match", &w->match); /* none: all */
    if (w->tenant.len > SPOOL_SUPPRESS_TENANT_MAX || w->match.len > 320) {
        api_error(c, 400, "usage", "tenant or match is too long");
        return false;
    }
    slice_lower(w->match, lower);
    w->match = slice_make(lower, w->match.len);
    walk_stand(w, w->tenant.data == NULL ? SLICE("") : w->tenant, w->match, false);
    if (api_param(c, "after", &after)) {
        size_t at = slice_find(after, ' ');
        struct slice list = slice_to(after, at < after.len ? at : 0);
        struct slice address = slice_from(after, at < after.len ? at + 1 : 0);
        if (list.len > SPOOL_SUPPRESS_TENANT_MAX || address.len > SPOOL_SUPPRESS_ADDRESS_MAX) {
            api_error(c, 400, "usage", "after is what an answer said: TENANT ADDRESS");
            return false;
        }
        walk_stand(w, w->tenant.data == NULL ? list : w->tenant, address, true);
    }
    return api_param_limit(c, &w->limit);
}

static void answer_walk(struct api_call *c, struct suppression_walk *w)
{
    char after[SPOOL_SUPPRESS_TENANT_MAX + SPOOL_SUPPRESS_ADDRESS_MAX + 2];
    if (w->is_csv) {
        if (w->csv.failed) {
            api_error(c, 503, "unavailable", "out of memory");
        } else {
            api_raw(c, 200, "text/csv", buf_slice(&w->csv));
        }
        return;
    }
    int len = snprintf(after, sizeof(after), "%.*s %.*s", (int)w->list_len, w->list, (int)w->at_len,
                       w->at);
    json_t *members = w->has_more ? json_object() : NULL;
    if (members != NULL) {
        api_set_text(members, "after", slice_of_printed(after, sizeof(after), len));
    }
    api_end_with(c, w->has_more, members);
}

void suppression_report_list(struct clerk *k, struct api_call *c)
{
    char lower[512];
    struct suppression_walk w = {.match = SLICE("")};
    if (!read_params(c, &w, lower)) {
        return;
    }
    buf_init(&w.csv, 0);
    if (w.is_csv) {
        suppress_line_put_names(&w.csv);
    }
    int err = 0;
    while (err == 0 && !clerk_must_end(k)) {
        if (!clerk_begin(k, c)) {
            buf_fini(&w.csv);
            return;
        }
        err = walk_view(k, c, &w);
        clerk_end(k);
        clerk_quiesce(k);
    }
    if (err != 0 && err != ERR_MISSING) {
        api_error(c, 503, "unavailable", "the list cannot be read: %s", err_str(err));
    } else {
        answer_walk(c, &w);
    }
    buf_fini(&w.csv);
}

void suppression_report_show(struct clerk *k, struct api_call *c)
{
    char address[SPOOL_SUPPRESS_ADDRESS_MAX];
    struct slice tenant = api_tenant(c);
    struct spool_suppression found;
    size_t len = suppress_line_address(api_argument(c), address);
    if (api_param(c, "tenant", &tenant) && tenant.len > 0 && !api_may_name(c, tenant)) {
        return;
    }
    if (tenant.len == 0) {
        tenant = api_tenant(c); /* whoever is bound asks for its own mail */
    }
    if (len == 0) {
        api_error(c, 400, "usage", "no address, nor a domain with @ in front");
        return;
    }
    if (!clerk_begin(k, c)) {
        return;
    }
    int err =
        spool_suppress_find(k->reader, tenant, slice_make(address, len), clock_wall(), &found);
    if (err == 0 && api_tenant(c).len > 0 && found.tenant.len == 0) {
        found.source =
            SLICE(""); /* the operator's: that it is in force is all that a tenant learns */
    }
    if (err == 0) {
        json_t *o = suppression_object(&found, clock_wall());
        (void)json_object_set_new(o, "suppressed", json_true()); /* out of memory leaves it out */
        api_object(c, 200, o);
    } else if (err == ERR_MISSING) {
        api_error(c, 404, "missing", "%.*s is not suppressed", (int)len, address);
    } else {
        api_error(c, 503, "unavailable", "the list cannot be read: %s", err_str(err));
    }
    clerk_end(k);
}
