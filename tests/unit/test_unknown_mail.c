#include "base/error.h"
#include "engine/inbound/unknown_mail.h"
#include "engine/post/hearing.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char spool[] = "/tmp/sluice-unknown-XXXXXX";
static struct unknown_mail_file files[UNKNOWN_MAIL_MAX];
static size_t count;

static void list(void)
{
    assert_int_equal(unknown_mail_list(spool, files, &count), 0);
}

static void path_of(uint64_t id, char ret[static 128])
{
    (void)snprintf(ret, 128, "%s/heard/unknown/%016llx.eml", spool, (unsigned long long)id);
}

/* A file as an earlier run left it; holes cost no disk. */
static void leave(uint64_t id, off_t bytes)
{
    char path[128];
    path_of(id, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    (void)close(fd);
}

static void keep(struct unknown_mail *u, uint64_t id)
{
    struct hearing *h = hearing_new();
    assert_non_null(h);
    h->id = id;
    buf_append_str(&h->content, "hello");
    assert_int_equal(unknown_mail_keep(u, h), 0);
    hearing_free(h);
}

static int begin(void **state)
{
    list();
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(unknown_mail_remove(spool, files[i].id), 0);
    }
    (void)state;
    return 0;
}

static void one_is_kept_read_and_removed(void **state)
{
    struct unknown_mail *u;
    struct buf text;
    (void)state;
    buf_init(&text, 0);
    assert_int_equal(unknown_mail_new(spool, &u), 0);
    keep(u, 7);
    keep(u, 9);
    list();
    assert_int_equal(count, 2);
    assert_int_equal(files[0].id, 9);
    assert_int_equal(files[1].bytes, 5);
    assert_int_equal(unknown_mail_read(spool, 7, 4, &text), 0);
    assert_true(slice_eq(buf_slice(&text), SLICE("hell")));
    assert_int_equal(unknown_mail_read(spool, 8, 4, &text), ERR_MISSING);
    assert_int_equal(unknown_mail_remove(spool, 8), ERR_MISSING);
    assert_int_equal(unknown_mail_remove(spool, 7), 0);
    list();
    assert_int_equal(count, 1);
    buf_fini(&text);
    unknown_mail_free(u);
}

static void the_oldest_go_for_want_of_room(void **state)
{
    struct unknown_mail *u;
    (void)state;
    for (uint64_t id = 1; id <= UNKNOWN_MAIL_MAX; id++) {
        leave(id, 1);
    }
    assert_int_equal(unknown_mail_new(spool, &u), 0);
    keep(u, 5000);
    list();
    assert_int_equal(count, UNKNOWN_MAIL_MAX);
    assert_int_equal(files[0].id, 5000);
    assert_int_equal(files[count - 1].id, 2);
    unknown_mail_free(u);
}

/* What people removed is room: nothing else goes for it. */
static void what_was_removed_is_room(void **state)
{
    struct unknown_mail *u;
    (void)state;
    for (uint64_t id = 1; id <= 4; id++) {
        leave(id, UNKNOWN_MAIL_BYTES / 4);
    }
    assert_int_equal(unknown_mail_new(spool, &u), 0);
    assert_int_equal(unknown_mail_remove(spool, 3), 0);
    keep(u, 10);
    list();
    assert_int_equal(count, 4);
    assert_int_equal(files[3].id, 1);
    unknown_mail_free(u);
    leave(3, UNKNOWN_MAIL_BYTES / 4);
    assert_int_equal(unknown_mail_new(spool, &u), 0);
    list();
    assert_int_equal(count, 4);
    assert_int_equal(files[3].id, 2);
    unknown_mail_free(u);
}

/* A file stands in the way of the rename: what was written does not stay, neither now nor from a run
 * that was killed. */
static void no_drafts_stay(void **state)
{
    struct unknown_mail *u;
    char path[128], draft[140];
    (void)state;
    path_of(3, path);
    (void)snprintf(draft, sizeof(draft), "%s.new", path);
    int fd = open(draft, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(unknown_mail_new(spool, &u), 0);
    assert_int_not_equal(access(draft, F_OK), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    struct hearing *h = hearing_new();
    assert_non_null(h);
    h->id = 3;
    assert_true(unknown_mail_keep(u, h) < 0);
    hearing_free(h);
    assert_int_equal(rmdir(path), 0);
    assert_int_not_equal(access(draft, F_OK), 0);
    unknown_mail_free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_is_kept_read_and_removed, begin),
        cmocka_unit_test_setup(the_oldest_go_for_want_of_room, begin),
        cmocka_unit_test_setup(what_was_removed_is_room, begin),
        cmocka_unit_test_setup(no_drafts_stay, begin),
    };
    char path[128];
    if (mkdtemp(spool) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/heard", spool);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/heard/unknown", spool);
    (void)mkdir(path, 0700);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)begin(NULL);
    (void)rmdir(path);
    (void)snprintf(path, sizeof(path), "%s/heard", spool);
    (void)rmdir(path);
    (void)rmdir(spool);
    return failed;
}
