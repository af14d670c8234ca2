#include "base/error.h"
#include "base/rcu.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_names.h"
#include "engine/heard/return_token.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY RETURN_KEY_DAY

static char spool[] = "/tmp/sluice-book-XXXXXX";
static char text[RETURN_BOOK_TEXT_MAX];

static struct return_book *open_book(int64_t now, bool is_wanted)
{
    struct return_book *b = return_book_new();
    assert_non_null(b);
    if (is_wanted) {
        assert_int_equal(return_book_want(b, now, text), 0);
    }
    assert_int_equal(return_book_open(b, spool, now, text), 0);
    return b;
}

static size_t write_address(const struct return_book *b, int64_t created,
                            char ret[static RETURN_ADDRESS_MAX])
{
    const struct return_subject subject = {.message = 7,
                                           .begun = created,
                                           .recipient = 2,
                                           .tenant = SLICE("acme"),
                                           .campaign = SLICE("spring"),
                                           .address = SLICE("jane@example.net")};
    return return_book_address(b, SLICE("bounces@b.example.com"), &subject, ret);
}

static void a_book_over_restarts_and_rotations(void **state)
{
    char first[RETURN_ADDRESS_MAX], again[RETURN_ADDRESS_MAX];
    struct return_token token;
    struct slice tenant, campaign;
    struct stat st;

    struct return_book *b = open_book(DAY, false);
    assert_null(return_book_keys(b)); /* nobody wants it: nothing is there, and nothing was made */
    assert_int_equal(write_address(b, DAY, first), 0);
    return_book_free(b);

    b = open_book(DAY, true);
    return_names_note(return_book_names(b), SLICE("acme"), SLICE("spring"));
    assert_int_equal(return_names_keep(return_book_names(b)), 0);
    size_t len = write_address(b, 2 * DAY, first);
    assert_int_equal(len, strlen("bounces+@b.example.com") + RETURN_TOKEN_LEN);
    assert_memory_equal(first, "bounces+", 8);
    assert_memory_equal(first + len - 14, "@b.example.com", 14);

    /* A retry after the rotation has the same address; a new message has another key. */
    assert_int_equal(return_book_rotate(b, 40 * DAY, false), 0);
    assert_int_equal(return_book_keys(b)->count, 2);
    assert_int_equal(write_address(b, 2 * DAY, again), len);
    assert_memory_equal(first, again, len);
    assert_int_equal(write_address(b, 41 * DAY, again), len);
    assert_memory_not_equal(first, again, len);
    return_book_free(b);

    /* The next start knows both, whether anybody wants return addresses by then or not. */
    b = open_book(41 * DAY, false);
    assert_int_equal(return_book_keys(b)->count, 2);
    /* A reload makes none, whose thread may not read under RCU: who rotates does. */
    assert_int_equal(return_book_want(b, 80 * DAY, text), 0);
    assert_int_equal(return_book_keys(b)->count, 2);
    struct slice text_of = slice_make(first + 8, RETURN_TOKEN_LEN);
    assert_int_equal(return_token_read(text_of, return_book_keys(b), 219 * DAY, &token), 0);
    assert_int_equal(token.message, 7);
    assert_int_equal(token.recipient, 2);
    assert_true(return_names_get(return_book_names(b), token.campaign, &tenant, &campaign));
    assert_true(slice_eq(tenant, SLICE("acme")) && slice_eq(campaign, SLICE("spring")));
    assert_true(return_names_get(return_book_names(b), token.tenant, &tenant, &campaign));
    assert_true(slice_eq(tenant, SLICE("acme")) && campaign.len == 0);
    assert_int_equal(return_token_read(text_of, return_book_keys(b), 220 * DAY, &token),
                     ERR_SYNTAX);
    return_book_free(b);

    char path[100];
    (void)snprintf(path, sizeof(path), "%s/heard/keys", spool);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)snprintf(path, sizeof(path), "%s/heard", spool);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);

    /* Without the names the numbers of tokens under way would be given to others. */
    (void)snprintf(path, sizeof(path), "%s/heard/names", spool);
    assert_int_equal(unlink(path), 0);
    b = return_book_new();
    assert_int_equal(return_book_open(b, spool, DAY, text), ERR_MISSING);
    assert_non_null(strstr(text, "/heard/names is gone"));
    return_book_free(b);

    (void)snprintf(path, sizeof(path), "%s/heard/keys", spool);
    FILE *file = fopen(path, "w");
    (void)fputs("1 2 3\n", file);
    (void)fclose(file);
    b = return_book_new();
    assert_int_equal(return_book_open(b, spool, DAY, text), ERR_SYNTAX);
    assert_non_null(strstr(text, "/heard/keys"));
    return_book_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_book_over_restarts_and_rotations)};
    char command[100];
    if (mkdtemp(spool) == NULL) {
        return 1;
    }
    rcu_start();
    rcu_join();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    (void)snprintf(command, sizeof(command), "rm -r %s", spool);
    return failed + (system(command) != 0);
}
