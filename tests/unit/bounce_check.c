/* The rules, checked without any code of the formatter; see the header. */
#include "tests/unit/bounce_check.h"

#include <stdbool.h>
#include <string.h>

static const char *check_lines(struct slice text)
{
    size_t line = 0;
    if (text.len < 2 || memcmp(text.data + text.len - 2, "\r\n", 2) != 0) {
        return "the last line has no end";
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\0') {
            return "a NUL";
        }
        if ((c == '\r' && text.data[i + 1] != '\n') ||
            (c == '\n' && (i == 0 || text.data[i - 1] != '\r'))) {
            return "a bare CR or LF";
        }
        line = c == '\n' ? 0 : line + (c != '\r');
        if (line > 998) {
            return "a line over 998 bytes";
        }
    }
    return NULL;
}

static struct slice value_of(struct slice text, const char *start, char end)
{
    const char *at = memmem(text.data, text.len, start, strlen(start));
    if (at == NULL) {
        return SLICE("");
    }
    struct slice rest = slice_from(text, (size_t)(at - text.data) + strlen(start));
    return slice_to(rest, slice_find(rest, end));
}

static unsigned count_boundaries(struct slice text, struct slice boundary, bool *ret_is_closed)
{
    unsigned count = 0;
    *ret_is_closed = false;
    for (size_t i = 0; i + 4 + boundary.len + 2 <= text.len; i++) {
        if (memcmp(text.data + i, "\r\n--", 4) == 0 &&
            memcmp(text.data + i + 4, boundary.data, boundary.len) == 0) {
            const char *end = text.data + i + 4 + boundary.len;
            count++;
            *ret_is_closed = memcmp(end, "--", 2) == 0 && end + 4 == text.data + text.len;
        }
    }
    return count;
}

/* Outside the original nothing but printable text: it is made of values that strangers chose. */
static const char *check_report(struct slice report)
{
    for (size_t i = 0; i < report.len; i++) {
        unsigned char c = (unsigned char)report.data[i];
        if (c == 0x7f || (c < ' ' && c != '\r' && c != '\n' && c != '\t')) {
            return "a control in the report";
        }
    }
    return NULL;
}

const char *bounce_check(struct slice text)
{
    bool is_closed;
    if (text.data == NULL) {
        return "nothing";
    }
    const char *wrong = check_lines(text);
    if (wrong != NULL) {
        return wrong;
    }
    const char *end = memmem(text.data, text.len, "\r\n\r\n", 4);
    if (end == NULL) {
        return "no header";
    }
    struct slice header = slice_to(text, (size_t)(end - text.data) + 2);
    struct slice boundary = value_of(header, "\r\n\tboundary=\"", '"');
    if (boundary.len == 0 || boundary.len > 70) {
        return "no boundary of 1 to 70 bytes";
    }
    if (count_boundaries(text, boundary, &is_closed) != 4 || !is_closed) {
        return "not three parts and an end";
    }
    if (header.len < 6 || memcmp(header.data, "Date: ", 6) != 0 ||
        memmem(header.data, header.len, "\r\nDate: ", 8) != NULL) {
        return "not one date, at the start";
    }
    static const char *const fields[] = {
        "\r\nFrom: ",           "\r\nTo: ",          "\r\nSubject: ",
        "\r\nAuto-Submitted: ", "\r\nMessage-Id: <", "\r\nMIME-Version: 1.0\r\n"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const char *at = memmem(header.data, header.len, fields[i], strlen(fields[i]));
        if (at == NULL) {
            return "a header field is missing";
        }
        struct slice rest = slice_from(header, (size_t)(at - header.data) + 1);
        if (memmem(rest.data, rest.len, fields[i], strlen(fields[i])) != NULL) {
            return "a header field comes twice";
        }
    }
    const char *original = text.data;
    for (int i = 0; i < 3; i++) {
        struct slice rest = slice_from(text, (size_t)(original - text.data) + 4);
        original = memmem(rest.data, rest.len, "\r\n--=_sluice_", 13);
        if (original == NULL) {
            return "no original";
        }
    }
    return check_report(slice_to(text, (size_t)(original - text.data)));
}
