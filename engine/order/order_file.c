/* The file of the standing orders. Called by the order book: read by main before the first thread,
 * written by the book's owner. Must not accept what it would not have written: orders that went
 * missing unseen would send mail that somebody stopped. */
#include "engine/order/order_file.h"

#include "base/error.h"
#include "base/file.h"
#include "engine/config/label.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION  1
#define FILE_MAX (16 << 20) /* bytes: ORDER_COUNT_MAX orders of the longest kind, and some */

/* --- reading ---------------------------------------------------------------------------------- */

static bool take_time(const json_t *o, const char *name, usec_t *ret)
{
    const json_t *value = json_object_get(o, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *ret = json_integer_value(value);
    return true;
}

static bool take_text(const json_t *o, const char *name, size_t most, char **ret)
{
    const json_t *value = json_object_get(o, name);
    return json_is_string(value) &&
           order_set_text(ret, slice_make(json_string_value(value), json_string_length(value)),
                          most) == 0;
}

/* 16 hexadecimal digits; an order that this node keeps to itself has none. */
static bool take_shared(const json_t *o, uint64_t *ret)
{
    const json_t *value = json_object_get(o, "shared");
    const char *text = json_string_value(value);
    *ret = 0;
    if (value == NULL) {
        return true;
    }
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    *ret = strtoull(text, NULL, 16);
    return *ret != 0;
}

/* returns what is wrong with it, or NULL */
static const char *take_order(const json_t *o, uint64_t above, uint64_t below, struct order *ret)
{
    const json_t *id = json_object_get(o, "id"), *kind = json_object_get(o, "order");
    const char *word = NULL;
    if (!json_is_integer(id) || json_integer_value(id) <= 0 ||
        (uint64_t)json_integer_value(id) <= above || (uint64_t)json_integer_value(id) >= below) {
        return "id";
    }
    ret->id = (uint64_t)json_integer_value(id);
    ret->kind =
        json_is_string(kind) ? order_kind_find(slice_of(json_string_value(kind))) : ORDER_NONE;
    if (ret->kind == ORDER_NONE) {
        return "order";
    }
    if (selector_from_json(&ret->selector, o, &word) != 0) {
        return word;
    }
    ret->is_once = json_is_true(json_object_get(o, "once"));
    if (!take_text(o, "reason", ORDER_REASON_MAX, &ret->reason)) {
        return "reason";
    }
    if (!take_text(o, "by", ORDER_BY_MAX, &ret->by)) {
        return "by";
    }
    if (json_object_get(o, "owner") != NULL && /* an operator's order has none */
        !take_text(o, "owner", LABEL_MAX, &ret->owner)) {
        return "owner";
    }
    if (json_object_get(o, "site") != NULL && !take_text(o, "site", ORDER_SITE_MAX, &ret->site)) {
        return "site";
    }
    if (!take_shared(o, &ret->shared)) {
        return "shared";
    }
    const json_t *matched = json_object_get(o, "matched"); /* older files have none */
    if (matched != NULL && (!json_is_integer(matched) || json_integer_value(matched) < 0)) {
        return "matched";
    }
    ret->matched = (uint64_t)json_integer_value(matched);
    if (!take_time(o, "created", &ret->created)) {
        return "created";
    }
    return take_time(o, "until", &ret->until) && ret->until > ret->created ? NULL : "until";
}

static int take_orders(const json_t *list, struct order_file *f, char text[ORDER_FILE_TEXT_MAX])
{
    size_t count = json_array_size(list);
    f->orders = calloc(count + 1, sizeof(*f->orders));
    if (f->orders == NULL) {
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "out of memory");
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t above = i == 0 ? 0 : f->orders[i - 1].id;
        f->count = i + 1;
        const char *wrong = take_order(json_array_get(list, i), above, f->next_id, &f->orders[i]);
        if (wrong != NULL) {
            (void)snprintf(text, ORDER_FILE_TEXT_MAX, "the %s of order number %zu is wrong", wrong,
                           i + 1);
            return ERR_SYNTAX;
        }
    }
    return 0;
}

static int take_all(const json_t *root, struct order_file *f, char text[ORDER_FILE_TEXT_MAX])
{
    const json_t *list = json_object_get(root, "orders");
    const json_t *next = json_object_get(root, "next_id");
    const json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != VERSION) {
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "its version is not %d", VERSION);
        return ERR_SYNTAX;
    }
    if (!json_is_array(list) || json_array_size(list) > ORDER_COUNT_MAX || !json_is_integer(next) ||
        json_integer_value(next) < 1) {
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "it has no list of orders");
        return ERR_SYNTAX;
    }
    f->next_id = (uint64_t)json_integer_value(next);
    f->is_reviewed = json_is_true(json_object_get(root, "reviewed"));
    return take_orders(list, f, text);
}

/* errors: -ENOENT, -errno, ERR_LIMIT, ERR_SYNTAX (text says where) */
static int parse_order_file(const char *path, json_t **ret, char text[ORDER_FILE_TEXT_MAX])
{
    struct stat about;
    json_error_t error;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &about) != 0) {
        int err = -errno;
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "%s", err_str(err));
        if (fd >= 0) {
            (void)close(fd); /* nothing was written */
        }
        return err;
    }
    if (!S_ISREG(about.st_mode) || about.st_size > FILE_MAX) {
        (void)close(fd); /* nothing was written */
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "it is no file, or too large for one");
        return ERR_LIMIT;
    }
    /* Not json_loadfd: it reads byte by byte, 11 seconds for as many orders as there may be. */
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        (void)close(fd); /* likewise */
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "out of memory");
        return -ENOMEM;
    }
    *ret = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    (void)fclose(file); /* likewise */
    if (*ret == NULL) {
        (void)snprintf(text, ORDER_FILE_TEXT_MAX, "line %d: %s", error.line, error.text);
        return ERR_SYNTAX;
    }
    return 0;
}

int order_file_read(const char *folder, struct order_file *ret,
                    char text[static ORDER_FILE_TEXT_MAX])
{
    struct order_file f = {.next_id = 1};
    char path[4096], why[ORDER_FILE_TEXT_MAX] = "";
    json_t *root = NULL;
    int len = snprintf(path, sizeof(path), "%s/%s", folder, ORDER_FILE_NAME);
    int err =
        len < 0 || (size_t)len >= sizeof(path) ? -ENAMETOOLONG : parse_order_file(path, &root, why);
    if (err == -ENOENT) {
        *ret = f;
        return 0;
    }
    if (err == 0) {
        err = take_all(root, &f, why);
        json_decref(root);
    }
    if (err != 0) {
        order_file_fini(&f);
        (void)snprintf(text, ORDER_FILE_TEXT_MAX,
                       "standing orders: %.200s cannot be used: %.200s; repair it, or remove it "
                       "to start without orders",
                       path, why);
        return err;
    }
    *ret = f;
    return 0;
}

void order_file_fini(struct order_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        order_fini(&f->orders[i]);
    }
    free(f->orders);
    *f = (struct order_file){0};
}

/* --- writing ---------------------------------------------------------------------------------- */

/* NULL: out of memory */
static json_t *order_json(const struct order *o)
{
    json_t *object = json_pack("{s:I, s:s, s:b, s:s, s:s, s:I, s:I, s:I}", "id", (json_int_t)o->id,
                               "order", order_kind_text(o->kind), "once", o->is_once, "reason",
                               o->reason, "by", o->by, "created", (json_int_t)o->created, "until",
                               (json_int_t)o->until, "matched", (json_int_t)o->matched);
    char shared[17];
    (void)snprintf(shared, sizeof(shared), "%016" PRIx64, o->shared);
    if (object != NULL &&
        (selector_to_json(&o->selector, object) != 0 ||
         (o->shared != 0 && json_object_set_new(object, "shared", json_string(shared)) != 0) ||
         (o->site != NULL && json_object_set_new(object, "site", json_string(o->site)) != 0) ||
         (o->owner != NULL && json_object_set_new(object, "owner", json_string(o->owner)) != 0))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* The text of the file, heap; NULL: out of memory */
static char *render(uint64_t next_id, bool is_reviewed, const struct order *const *orders,
                    size_t count)
{
    json_t *root = json_pack("{s:i, s:I, s:b, s:[]}", "version", VERSION, "next_id",
                             (json_int_t)next_id, "reviewed", is_reviewed, "orders");
    json_t *list = json_object_get(root, "orders");
    bool is_complete = root != NULL;
    for (size_t i = 0; i < count && is_complete; i++) {
        is_complete = json_array_append_new(list, order_json(orders[i])) == 0;
    }
    char *text = is_complete ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    return text;
}

int order_file_write(const char *folder, uint64_t next_id, bool is_reviewed,
                     const struct order *const *orders, size_t count)
{
    char *text = render(next_id, is_reviewed, orders, count);
    if (text == NULL) {
        return -ENOMEM;
    }
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/%s", folder, ORDER_FILE_NAME);
    int err = len < (int)sizeof(path) ? file_replace(path, slice_of(text)) : -ENAMETOOLONG;
    free(text);
    return err;
}
