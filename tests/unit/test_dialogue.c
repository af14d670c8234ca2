/* What is recorded of a dialogue: lines come back as they were said, secrets do not, and memory has
 * an end. */
#include "engine/trace/dialogue.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define BUDGET ((size_t)64 << 10)

struct bed {
    size_t budget;
    struct dialogue d;
    usec_t now;
    struct buf all; /* "DIRECTION TEXT\n" for each line read */
    uint32_t lines, last_number;
};

static int setup(void **state)
{
    struct bed *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->budget = BUDGET;
    b->now = 5 * USEC_PER_SEC;
    dialogue_init(&b->d, b->now, &b->budget);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bed *b = *state;
    dialogue_fini(&b->d);
    assert_int_equal(b->budget, BUDGET);
    buf_fini(&b->all);
    free(b);
    return 0;
}

static void add(struct bed *b, enum dialogue_kind kind, const char *text)
{
    b->now += USEC_PER_MSEC;
    dialogue_append(&b->d, kind, slice_of(text), b->now);
}

/* Reads it all; numbers must ascend, and each text be printable. */
static const char *read_all(struct bed *b, const struct dialogue *d)
{
    struct dialogue_cursor c;
    struct dialogue_line line;
    struct buf text = {.limit = 0};
    buf_clear(&b->all);
    b->lines = 0;
    usec_t at = 0;
    dialogue_begin_reading(d, &c);
    while (dialogue_next_line(&c, &line, &text)) {
        assert_true(b->lines == 0 || line.number > b->last_number);
        assert_true(line.at >= at || text.data[0] == '.');
        assert_true(text.len <= DIALOGUE_LINE_MAX * 4 + 3);
        for (size_t i = 0; i < text.len; i++) {
            assert_in_range((unsigned char)text.data[i], 0x20, 0x7e);
        }
        at = line.at;
        b->last_number = line.number;
        b->lines++;
        buf_append_char(&b->all, line.direction);
        buf_append_char(&b->all, ' ');
        buf_append_slice(&b->all, buf_slice(&text));
        buf_append_char(&b->all, '\n');
    }
    buf_append_char(&b->all, '\0');
    assert_false(b->all.failed);
    buf_fini(&text);
    return b->all.data;
}

static void lines_come_back_as_they_were(void **state)
{
    struct bed *b = *state;
    assert_string_equal(read_all(b, &b->d), "");
    add(b, DIALOGUE_NOTE, "connected");
    add(b, DIALOGUE_HEARD, "220 mx ESMTP\r\n");
    add(b, DIALOGUE_SAID, "MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n");
    add(b, DIALOGUE_HEARD, "250 2.1.0 Ok\r\n25");
    add(b, DIALOGUE_HEARD, "0 2.1.5 Ok\r\n354 Go on\r\n");
    dialogue_append_body(&b->d, 0x1234abcd, 4096, b->now);
    add(b, DIALOGUE_SAID, ".\r\n");
    add(b, DIALOGUE_HEARD, "250 2.0.0 q\n");
    assert_string_equal(read_all(b, &b->d), "- connected\n"
                                            "< 220 mx ESMTP\n"
                                            "> MAIL FROM:<a@b.test>\n"
                                            "> RCPT TO:<c@d.test>\n"
                                            "> DATA\n"
                                            "< 250 2.1.0 Ok\n"
                                            "< 250 2.1.5 Ok\n"
                                            "< 354 Go on\n"
                                            "> [4096 bytes of message 000000001234abcd]\n"
                                            "> .\n"
                                            "< 250 2.0.0 q\n");
    assert_int_equal(b->last_number, 10);
    assert_int_equal(dialogue_line_count(&b->d), 11);
}

/* A line that comes byte by byte stays one, wherever memory has to grow. */
static void a_line_in_bytes_is_one_line(void **state)
{
    struct bed *b = *state;
    char line[100];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (size_t from = 1; from < sizeof(line); from++) {
        add(b, DIALOGUE_HEARD, line + from);
        for (int i = 0; i < 15; i++) {
            add(b, DIALOGUE_HEARD, &"secret-or-so"[i % 12]);
        }
        add(b, DIALOGUE_HEARD, "\r\n");
        if (b->d.current != 0) {
            break; /* from here on the end of a line may be lost, but no line is two */
        }
        assert_int_equal(dialogue_line_count(&b->d), from);
        (void)read_all(b, &b->d);
        assert_int_equal(b->lines, from);
    }
    assert_int_not_equal(b->d.current, 0);
}

static void times_count_from_the_beginning(void **state)
{
    struct bed *b = *state;
    struct dialogue_cursor c;
    struct dialogue_line line;
    struct buf text = {.limit = 0};
    dialogue_append(&b->d, DIALOGUE_NOTE, SLICE("a"), b->now);
    dialogue_append(&b->d, DIALOGUE_NOTE, SLICE("b"), b->now + 90 * USEC_PER_SEC + 150);
    dialogue_begin_reading(&b->d, &c);
    assert_true(dialogue_next_line(&c, &line, &text));
    assert_int_equal(line.at, 0);
    assert_true(dialogue_next_line(&c, &line, &text));
    assert_in_range(line.at, 90 * USEC_PER_SEC, 90 * USEC_PER_SEC + 150);
    assert_false(dialogue_next_line(&c, &line, &text));
    assert_false(dialogue_next_line(&c, &line, &text));
    buf_fini(&text);
}

static void of_auth_only_the_mechanism_is_kept(void **state)
{
    struct bed *b = *state;
    dialogue_append_auth(&b->d, SLICE("AUTH PLAIN AHVzZXIAc2VjcmV0\r\n"), b->now);
    dialogue_append_auth(&b->d, SLICE("auth login\r\n"), b->now);
    dialogue_append_auth(&b->d, SLICE("c2VjcmV0\r\n"), b->now);
    dialogue_append_auth(&b->d, SLICE("AUTH"), b->now);
    dialogue_append_auth(&b->d, SLICE("AUTH PLAIN\r\nAHVzZXIAc2VjcmV0\r\n"), b->now);
    assert_string_equal(read_all(b, &b->d), "> AUTH PLAIN ***\n> auth login\n> ***\n> ***\n"
                                            "> AUTH PLAIN\n> ***\n");
}

static void a_secret_that_is_repeated_is_masked(void **state)
{
    struct bed *b = *state;
    add(b, DIALOGUE_HEARD, "535 no such login as c2Vj");
    add(b, DIALOGUE_HEARD, "cmV0 c2VjcmV0c2VjcmV0\r\n");
    dialogue_append_body(&b->d, 1, 2, b->now);
    dialogue_mask(&b->d, SLICE("c2VjcmV0"));
    dialogue_mask(&b->d, SLICE(""));
    assert_string_equal(read_all(b, &b->d), "< 535 no such login as ******** ****************\n"
                                            "> [2 bytes of message 0000000000000001]\n");
}

static void bytes_are_escaped_and_long_lines_cut(void **state)
{
    struct bed *b = *state;
    char line[600];
    add(b, DIALOGUE_HEARD, "220 \x1b[31m \xc3\xa4 a\\b\ttab\r\n");
    memset(line, 'x', sizeof(line));
    memcpy(line + sizeof(line) - 3, "\r\n", 3);
    add(b, DIALOGUE_HEARD, line);
    add(b, DIALOGUE_HEARD, "\r\n\n");
    const char *all = read_all(b, &b->d);
    const char *first = "< 220 \\x1b[31m \\xc3\\xa4 a\\\\b\\x09tab\n";
    assert_memory_equal(all, first, strlen(first));
    all += strlen(first);
    assert_int_equal(strchr(all, '\n') - all, 2 + DIALOGUE_LINE_MAX + 3);
    assert_memory_equal(strchr(all, '\n') - 4, "x...", 4);
    assert_string_equal(strchr(all, '\n'), "\n< \n< \n");
}

static void beginning_and_end_stay_and_the_gap_is_counted(void **state)
{
    struct bed *b = *state;
    char line[64];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(line, sizeof(line), "250 2.0.0 reply %d\r\n", i);
        add(b, i % 2 == 0 ? DIALOGUE_HEARD : DIALOGUE_SAID, line);
        assert_true(dialogue_bytes(&b->d) <= DIALOGUE_HEAD_BYTES + 2 * DIALOGUE_TAIL_BYTES);
        if (i % 500 == 0) {
            assert_int_equal(dialogue_line_count(&b->d), i + 1);
        }
    }
    const char *all = read_all(b, &b->d);
    assert_memory_equal(all, "< 250 2.0.0 reply 0\n> 250 2.0.0 reply 1\n", 40);
    assert_non_null(strstr(all, "> 250 2.0.0 reply 4999\n"));
    assert_non_null(strstr(all, " lines left out\n"));
    assert_int_equal(b->last_number, 4999); /* those left out are counted */
    assert_int_equal(dialogue_line_count(&b->d), 5000);
    assert_in_range(b->lines, 90, 200);
}

static void a_piece_larger_than_everything_keeps_its_ends(void **state)
{
    struct bed *b = *state;
    struct buf piece = {.limit = 0};
    for (int i = 0; i < 4000; i++) {
        buf_printf(&piece, "250 line %d\r\n", i);
    }
    dialogue_append(&b->d, DIALOGUE_HEARD, buf_slice(&piece), b->now);
    const char *all = read_all(b, &b->d);
    assert_memory_equal(all, "< 250 line 0\n", 13);
    assert_non_null(strstr(all, "\n< 250 line 3999\n"));
    assert_int_equal(b->last_number, 3999);
    /* again, when there is an end already */
    dialogue_append(&b->d, DIALOGUE_HEARD, buf_slice(&piece), b->now);
    (void)read_all(b, &b->d);
    assert_int_equal(b->last_number, 7999);
    /* without any line end */
    memset(piece.data, 'y', piece.len);
    dialogue_append(&b->d, DIALOGUE_SAID, buf_slice(&piece), b->now);
    dialogue_append(&b->d, DIALOGUE_SAID, SLICE("tail of it\r\nQUIT\r\n"), b->now);
    assert_non_null(strstr(read_all(b, &b->d), "> QUIT\n"));
    buf_fini(&piece);
}

static void without_budget_lines_are_left_out(void **state)
{
    struct bed *b = *state;
    size_t left = b->budget;
    add(b, DIALOGUE_HEARD, "220 hi\r\n");
    size_t used = left - b->budget;
    b->budget = 0;
    for (int i = 0; i < 100; i++) {
        add(b, DIALOGUE_HEARD, "250 2.0.0 twenty bytes\r\n");
    }
    assert_int_equal(dialogue_line_count(&b->d), 101);
    (void)read_all(b, &b->d);
    assert_int_equal(b->last_number + 1, 101 - b->d.left_out + 1); /* the gap comes last */
    b->budget = left - used;
    add(b, DIALOGUE_HEARD, "221 bye\r\n");
    assert_non_null(strstr(read_all(b, &b->d), " lines left out\n< 221 bye\n"));
}

static void a_shrunk_one_goes_on_and_a_copy_is_alike(void **state)
{
    struct bed *b = *state;
    struct dialogue copy;
    size_t other = BUDGET;
    for (int i = 0; i < 300; i++) {
        add(b, DIALOGUE_HEARD, "250 2.0.0 some reply\r\n");
        if (i % 7 == 0) {
            dialogue_shrink(&b->d);
            assert_int_equal(dialogue_bytes(&b->d),
                             b->d.parts[0].len + b->d.parts[1].len + b->d.parts[2].len);
        }
        assert_int_equal(dialogue_line_count(&b->d), i + 1);
    }
    assert_int_equal(dialogue_copy(&b->d, &copy, &other), 0);
    char *one = strdup(read_all(b, &b->d));
    assert_string_equal(read_all(b, &copy), one);
    free(one);
    dialogue_fini(&copy);
    assert_int_equal(other, BUDGET);
    other = 100;
    assert_true(dialogue_copy(&b->d, &copy, &other) < 0);
    assert_int_equal(other, 100);
}

static void it_tells_before_a_failure_is_forgotten(void **state)
{
    struct bed *b = *state;
    static const char line[] = "250 2.0.0 some reply\r\n";
    while (b->d.current == 0) {
        add(b, DIALOGUE_HEARD, line);
    }
    add(b, DIALOGUE_HEARD, "450 4.2.0 not now\r\n");
    dialogue_mark(&b->d);
    int told = 0;
    for (int i = 0; i < 300; i++) {
        bool forgets = dialogue_forgets_failure(&b->d, strlen(line));
        bool has = strstr(read_all(b, &b->d), "450 4.2.0") != NULL;
        told += forgets;
        add(b, DIALOGUE_HEARD, line);
        bool has_still = strstr(read_all(b, &b->d), "450 4.2.0") != NULL;
        assert_int_equal(forgets, has && !has_still);
    }
    assert_int_equal(told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_come_back_as_they_were, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_in_bytes_is_one_line, setup, teardown),
        cmocka_unit_test_setup_teardown(times_count_from_the_beginning, setup, teardown),
        cmocka_unit_test_setup_teardown(of_auth_only_the_mechanism_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_secret_that_is_repeated_is_masked, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_are_escaped_and_long_lines_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(beginning_and_end_stay_and_the_gap_is_counted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_piece_larger_than_everything_keeps_its_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_budget_lines_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shrunk_one_goes_on_and_a_copy_is_alike, setup, teardown),
        cmocka_unit_test_setup_teardown(it_tells_before_a_failure_is_forgotten, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
