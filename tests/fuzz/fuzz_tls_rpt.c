/* Records of TLS-RPT out of arbitrary bytes: what is taken lies within the text, has a scheme that
 * is known, and a mailbox has nothing in it that would end a command or a header field. */
#include "net/tls_rpt.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_mailbox(struct slice uri)
{
    char mailbox[TLS_RPT_MAILBOX_MAX + 1];
    if (tls_rpt_mailbox(uri, mailbox) != 0) {
        return;
    }
    size_t len = strlen(mailbox);
    require(len > 2 && len <= TLS_RPT_MAILBOX_MAX && strchr(mailbox, '@') != NULL);
    require(strchr(mailbox, '@') == strrchr(mailbox, '@'));
    for (size_t i = 0; i < len; i++) {
        require(mailbox[i] > ' ' && mailbox[i] <= '~' && mailbox[i] != '<' && mailbox[i] != '>');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_make((const char *)data, size);
    struct tls_rpt_record record;
    check_mailbox(text);
    if (tls_rpt_record(&text, 1, &record) != 0) {
        return 0;
    }
    require(record.count <= TLS_RPT_RUA_MAX && record.count + record.skipped > 0);
    for (uint32_t i = 0; i < record.count; i++) {
        struct slice uri = record.rua[i].uri;
        require(uri.data > text.data && uri.data + uri.len <= text.data + text.len);
        require(slice_ieq(slice_to(uri, 6), SLICE("https:")) ==
                (record.rua[i].way == TLS_RPT_HTTPS));
        require(memchr(uri.data, ' ', uri.len) == NULL && memchr(uri.data, ';', uri.len) == NULL);
        check_mailbox(uri);
    }
    return 0;
}
