/* Reads and removes the files of mail that was not understood, tells of keys and asks for new ones. Called
 * on a clerk's thread; must not add files, which the thread that hears does alone, nor tell a secret. */
#include "engine/suppression/heard_report.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/heard/heard.h"
#include "engine/heard/return_book.h"
#include "engine/http/clerk.h"
#include "engine/inbound/unknown_mail.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"

#include <stdlib.h>

/* Of each message: From and Subject stand there, or are not told. */
enum { HEADER_BYTES = 16384 };

/* What a list needs room for; too large for a stack. */
struct heard_list {
    struct unknown_mail_file files[UNKNOWN_MAIL_MAX];
    size_t count;
    struct heard heard;
    struct buf header;
};

static const char *spool_path(const struct clerk *k)
{
    return k->engine->config->spool.path;
}

/* Up to the first empty line: a body costs time, and says nothing here. */
static struct slice header_of(struct slice message)
{
    size_t at = 0;
    while (at < message.len) {
        size_t len = slice_find(slice_from(message, at), '\n');
        if (slice_trim(slice_to(slice_from(message, at), len)).len == 0) {
            break;
        }
        at += at + len < message.len ? len + 1 : len;
    }
    return slice_to(message, at);
}

static json_t *file_object(const struct clerk *k, struct heard_list *list,
                           const struct unknown_mail_file *file)
{
    char id[MESSAGE_ID_TEXT];
    buf_clear(&list->header);
    if (unknown_mail_read(spool_path(k), file->id, HEADER_BYTES, &list->header) != 0) {
        buf_clear(&list->header); /* removed meanwhile: what else is known is told */
    }
    heard_read(header_of(buf_slice(&list->header)), SLICE(""), &list->heard);
    message_id_format(file->id, id);
    json_t *o = json_object();
    if (o != NULL) {
        api_set_text(o, "id", slice_of(id));
        api_set_time(o, "time", file->kept);
        api_set_number(o, "bytes", file->bytes);
        api_set_text(o, "from", slice_of(list->heard.from));
        api_set_text(o, "subject", slice_of(list->heard.subject));
    }
    return o;
}

void heard_report_list(struct clerk *k, struct api_call *c)
{
    uint64_t limit;
    size_t i = 0;
    if (!api_param_limit(c, &limit)) {
        return;
    }
    struct heard_list *list = calloc(1, sizeof(*list));
    if (list == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    buf_init(&list->header, 0);
    int err = unknown_mail_list(spool_path(k), list->files, &list->count);
    if (err != 0) {
        api_error(c, 503, "unavailable", "the folder cannot be read: %s", err_str(err));
    } else {
        for (; i < list->count && i < limit && !api_is_long(c); i++) {
            api_put(c, file_object(k, list, &list->files[i]));
        }
        api_end(c, i < list->count);
    }
    buf_fini(&list->header);
    free(list);
}

/* Whatever went wrong with one file. */
static void refuse(struct api_call *c, int err)
{
    if (err == ERR_MISSING) {
        api_error(c, 404, "missing", "there is no such message");
    } else {
        api_error(c, 503, "unavailable", "the message cannot be read: %s", err_str(err));
    }
}

/* false: the call is answered */
static bool read_id(struct api_call *c, uint64_t *ret)
{
    if (message_id_parse(api_argument(c), ret)) {
        return true;
    }
    api_error(c, 400, "usage", "an id has 16 hexadecimal digits");
    return false;
}

void heard_report_show(struct clerk *k, struct api_call *c)
{
    struct buf message;
    uint64_t id;
    if (!read_id(c, &id)) {
        return;
    }
    buf_init(&message, 0);
    int err = unknown_mail_read(spool_path(k), id, HEARD_BYTES_MAX, &message);
    if (err == 0) {
        api_raw(c, 200, "message/rfc822", buf_slice(&message));
    } else {
        refuse(c, err);
    }
    buf_fini(&message);
}

void heard_report_remove(struct clerk *k, struct api_call *c)
{
    char text[MESSAGE_ID_TEXT];
    uint64_t id;
    if (!read_id(c, &id)) {
        return;
    }
    int err = unknown_mail_remove(spool_path(k), id);
    if (err != 0) {
        refuse(c, err);
        return;
    }
    message_id_format(id, text);
    log_info("mail that was not understood: %s was removed by %s", text, api_who(c));
    api_object(c, 200, json_pack("{s:s}", "id", text));
}

/* --- keys of return addresses --------------------------------------------------------------------- */

static json_t *key_object(const struct return_keys *keys, size_t at)
{
    const struct return_key *key = &keys->keys[at];
    int64_t until = return_keys_kept_until(keys, at);
    json_t *o = json_object();
    if (o != NULL) {
        api_set_number(o, "number", key->number);
        api_set_time(o, "begin", key->begin * USEC_PER_SEC);
        if (until != INT64_MAX) {
            api_set_time(o, "until", until * USEC_PER_SEC);
        }
    }
    return o;
}

void heard_report_keys(struct clerk *k, struct api_call *c)
{
    const struct return_keys *keys = return_book_keys(k->engine->returns);
    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        api_put(c, key_object(keys, i));
    }
    api_end(c, false);
}

void heard_report_rotate(struct clerk *k, struct api_call *c)
{
    struct return_book *book = k->engine->returns;
    if (return_book_keys(book) == NULL) {
        api_error(c, 404, "missing", "there are no keys: no transport and no tenant has verp or list_unsubscribe");
        return;
    }
    int err = return_book_rotate(book, clock_wall() / USEC_PER_SEC, true);
    if (err == ERR_LIMIT) {
        api_error(c, 429, "busy", "there are %d keys, each kept 180 days behind its use",
                  RETURN_KEYS_ASKED_MAX);
    } else if (err != 0) {
        api_error(c, 503, "unavailable", "the key cannot be written: %s", err_str(err));
    } else {
        const struct return_keys *keys = return_book_keys(book);
        log_info("return addresses: key %u was made for %s", keys->keys[keys->count - 1].number,
                 api_who(c));
        api_object(c, 201, key_object(keys, keys->count - 1));
    }
}
