/* Messages out of arbitrary JSON, and out of arbitrary text: what is taken is sound mail, whose
 * header has no line that the JSON did not name. */
#include "engine/compose/compose.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINE_MAX_BYTES = 998 };

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool begins(struct slice line, struct slice with)
{
    return line.len >= with.len && slice_ieq(slice_to(line, with.len), with);
}

/* CRLF lines without NUL; of composed ones none too long, and no field that is never written. */
static void check_content(struct slice content, bool is_raw)
{
    bool is_header = true;
    require(content.len >= 2 && memchr(content.data, '\0', content.len) == NULL);
    while (content.len > 0) {
        size_t at = slice_find(content, '\n');
        require(at > 0 && at < content.len && content.data[at - 1] == '\r');
        struct slice line = slice_to(content, at - 1);
        require(memchr(line.data, '\r', line.len) == NULL);
        is_header = is_header && line.len > 0;
        require(is_raw || line.len <= LINE_MAX_BYTES);
        require(is_raw || !is_header || !begins(line, SLICE("bcc:")));
        content = slice_from(content, at + 1);
    }
}

static void check_recipients(const struct composition *c)
{
    struct slice rest = buf_slice(&c->packed);
    uint32_t count = 0;
    while (rest.len > 0) {
        require(rest.len >= 2);
        size_t len = (size_t)((unsigned char)rest.data[0] << 8 | (unsigned char)rest.data[1]);
        require(len > 0 && len <= SMTP_ADDRESS_MAX && rest.len >= 2 + len);
        require(memchr(rest.data + 2, '\n', len) == NULL);
        rest = slice_from(rest, 2 + len);
        count++;
    }
    require(count == c->recipient_count && count > 0);
}

static void compose(const json_t *message, struct slice raw)
{
    static struct compose_mistakes mistakes;
    const struct compose_options options = {.hostname = SLICE("host.example"),
                                            .now = 1700000000LL * USEC_PER_SEC,
                                            .size_limit = 1 << 20,
                                            .recipient_limit = 100,
                                            .hop_limit = 50};
    struct composition c;
    mistakes.count = 0;
    composition_init(&c);
    const struct compose_input input = {message, raw, "", 1};
    require(compose_message(&options, &input, &mistakes, &c) == 0);
    if (mistakes.count == 0) {
        bool is_raw = raw.data != NULL || json_is_string(json_object_get(message, "raw")) ||
                      json_is_string(json_object_get(message, "raw_base64"));
        check_content(buf_slice(&c.content), is_raw);
        check_recipients(&c);
        require(c.expires == 0 || c.expires > options.now);
        require(c.not_before == 0 || c.not_before > options.now);
    }
    composition_fini(&c);
}

/* JSON; when it is none: the text of a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *message = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
    if (message != NULL) {
        compose(message, (struct slice){NULL, 0});
    } else if (size > 0) {
        message = json_pack("{s:s, s:s}", "from", "a@b.example", "recipients", "c@d.example");
        compose(message, slice_make((const char *)data, size));
    }
    json_decref(message);
    return 0;
}
