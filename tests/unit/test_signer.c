/* The thread that signs, between one that submits and those that get what it passes on: whose turn it is,
 * once a message, keys that go, no memory, a spool that is away, and the end. dkim_key_sign and
 * spool_reader_begin are wrapped (meson.build), so that they can fail. */
#include "base/clock.h"
#include "base/error.h"
#include "base/packed.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/sign_load.h"
#include "engine/post/signing.h"
#include "engine/signer/seal.h"
#include "engine/signer/signer.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/key_files.h"
#include "tests/unit/spool_fixture.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define KEYS "dkim \"s._domainkey.x.test\" {\n key = \"@/e\" }\n"

static struct bed {
    struct key_files files;
    struct settings with_keys, without;
    struct engine engine;
    struct sign_load load;
    struct post scheds[2], writer; /* this program's thread takes what comes there */
    struct post mine;
    struct outbox *to_signer;
    struct signer *signer;
} bed;

/* --- a key that fails, or is slow ------------------------------------------------------------------------- */

static _Atomic int failures; /* of the next signatures */
static _Atomic bool is_slow; /* a signature takes longer than messages are signed together */

int __real_dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES],
                         uint8_t *ret, size_t *ret_len);
int __wrap_dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES],
                         uint8_t *ret, size_t *ret_len);
int __wrap_dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES],
                         uint8_t *ret, size_t *ret_len)
{
    if (atomic_load_explicit(&failures, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&failures, 1, memory_order_relaxed);
        return -ENOMEM;
    }
    if (atomic_load_explicit(&is_slow, memory_order_relaxed)) {
        const usec_t end = clock_mono() + SEAL_TIME;
        while (clock_mono() <= end) {
            /* as a long key does */
        }
    }
    return __real_dkim_key_sign(k, hash, ret, ret_len);
}

/* --- a spool that is being opened again -------------------------------------------------------- */

static _Atomic int refusals; /* of the next passes of a reader */
static _Atomic int passes;   /* that readers have asked for */

int __real_spool_reader_begin(struct spool_reader *r);
int __wrap_spool_reader_begin(struct spool_reader *r);
int __wrap_spool_reader_begin(struct spool_reader *r)
{
    atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed);
    if (atomic_load_explicit(&refusals, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&refusals, 1, memory_order_relaxed);
        return ERR_AGAIN;
    }
    return __real_spool_reader_begin(r);
}

/* --- the bed ---------------------------------------------------------------------------------- */

static int bed_up(void **state)
{
    static struct mailbox *boxes[2];
    struct buf pem;
    if (setup(state) != 0) {
        return -1;
    }
    memset(&bed, 0, sizeof(bed));
    key_files_init(&bed.files);
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    key_files_put(&bed.files, "e", buf_slice(&pem), 0600);
    buf_fini(&pem);
    assert_int_equal(key_files_load(&bed.files, KEYS, NULL), 0);
    bed.with_keys.config = bed.without.config = bed.files.sample.config;
    bed.with_keys.keys = bed.files.ring;
    atomic_init(&bed.with_keys.references, 1);
    atomic_init(&bed.without.references, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(post_init(&bed.scheds[i], 64), 0);
        boxes[i] = &bed.scheds[i].box;
    }
    assert_int_equal(post_init(&bed.writer, 64), 0);
    bed.engine.store = store;
    bed.engine.sign_loads = &bed.load;
    bed.engine.sched_count = 2;
    bed.engine.boxes.scheds = boxes;
    bed.engine.boxes.writer = &bed.writer.box;
    rcu_publish(&bed.engine.settings, &bed.with_keys);
    assert_int_equal(post_open(&bed.mine, 1), 0);
    assert_int_equal(signer_new(&bed.engine, 0, &bed.signer), 0);
    bed.to_signer = post_write_to(&bed.mine, signer_box(bed.signer));
    return 0;
}

static int bed_down(void **state)
{
    signer_free(bed.signer);
    post_fini(&bed.mine);
    post_fini(&bed.writer);
    for (int i = 0; i < 2; i++) {
        post_fini(&bed.scheds[i]);
    }
    key_files_unload(&bed.files);
    key_files_fini(&bed.files);
    return teardown(state);
}

/* A message in memory, or in the spool; its number says it. The test has the one reference. */
static struct message *message_new_of(uint64_t id, uint32_t flags, bool is_in_spool)
{
    static const char text[] = "From: a@x.test\r\n\r\nhello\r\n";
    const struct spool_envelope e = {.id = id,
                                     .size_bytes = sizeof(text) - 1,
                                     .recipient_count = 1,
                                     .flags = flags,
                                     .sender = SLICE("a@x.test")};
    struct message *m = message_new_whole(&e, slice_make("\0\1b", 3));
    assert_non_null(m);
    if (is_in_spool) {
        struct spool_txn *t = begin();
        (void)put(t, id, slice_of(text));
        assert_int_equal(spool_commit(t), 0);
    } else {
        struct buf body;
        buf_init(&body, 0);
        buf_append_str(&body, text);
        message_keep_body(m, &body);
    }
    return m;
}

/* The signer gets a reference, as the scheduler does behind it. */
static void submit(struct message *m, uint16_t transport)
{
    struct submission *one = calloc(1, sizeof(*one) + sizeof(one->recipients[0]));
    assert_non_null(one);
    message_get(m);
    one->message = m;
    one->transport = transport;
    one->count = 1;
    letter_put_sign(bed.to_signer, one);
}

/* The test's thread is the owner of its posts. */
static void flush(void)
{
    post_assert_owner(&bed.mine);
    (void)post_flush(&bed.mine);
}

static void start(void)
{
    flush();
    assert_int_equal(signer_start(bed.signer), 0);
}

/* The next letter that comes to a post. */
static struct letter wait_for(struct post *p)
{
    struct letter letter;
    post_assert_owner(p);
    while (!post_take(p, &letter)) {
        post_nap(p, USEC_NEVER);
    }
    return letter;
}

/* The id of the message that comes next to a scheduler; the submission is done with. */
static uint64_t take_submitted(unsigned sched)
{
    struct letter letter = wait_for(&bed.scheds[sched]);
    struct submission *one = letter_take_submit(&letter);
    uint64_t id = one->message->envelope.id;
    message_put(one->message);
    free(one);
    return id;
}

static uint64_t seals_of(enum seal_result result)
{
    return atomic_load_explicit(&bed.engine.seals[result], memory_order_relaxed);
}

/* --- whose turn it is ------------------------------------------------------------------------- */

static void urgent_mail_goes_first_and_the_oldest_at_each_fourth_place(void **state)
{
    (void)state;
    static const uint32_t flags[] = {SPOOL_FLAG_BULK,   SPOOL_FLAG_BULK,   0,
                                     SPOOL_FLAG_URGENT, SPOOL_FLAG_URGENT, SPOOL_FLAG_URGENT,
                                     SPOOL_FLAG_URGENT};
    static const uint64_t order[] = {4, 5, 6, 1, 7, 3, 2};
    enum { COUNT = sizeof(order) / sizeof(order[0]) };
    struct message *messages[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        messages[i] = message_new_of(i + 1, flags[i], false);
        submit(messages[i], 0);
    }
    start();
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(take_submitted(0), order[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(messages[i]->signing->is_done);
        message_put(messages[i]);
    }
    assert_int_equal(seals_of(SEAL_SIGNED), COUNT);
    signer_stop(bed.signer);
}

/* Messages 1, 2, ..., in memory and in the spool in turn. */
static void submit_some(struct message **messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        messages[i] = message_new_of(i + 1, 0, i % 2 == 1);
        submit(messages[i], 0);
    }
}

/* More than a pass and a batch have room for; transports share the schedulers. */
static void each_message_is_signed_once_and_goes_to_its_scheduler(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    struct message *messages[COUNT];
    submit_some(messages, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        submit(messages[i], 3);
    }
    start();
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(take_submitted(0), i + 1);
        assert_int_equal(take_submitted(1), i + 1);
        struct slice fields = signing_fields(messages[i]->signing);
        assert_non_null(memmem(fields.data, fields.len, "d=x.test;", 9));
        message_put(messages[i]);
    }
    assert_int_equal(seals_of(SEAL_SIGNED), COUNT);
    assert_int_equal(atomic_load_explicit(&bed.engine.signatures, memory_order_relaxed), COUNT);
    signer_stop(bed.signer);
}

/* What was taken to be signed and is not, as time was over, keeps its place. */
static void slow_keys_sign_in_the_same_order(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    struct message *messages[COUNT];
    submit_some(messages, COUNT);
    atomic_store_explicit(&is_slow, true, memory_order_relaxed);
    start();
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(take_submitted(0), i + 1);
        assert_true(signing_fields(messages[i]->signing).len > 0);
        message_put(messages[i]);
    }
    atomic_store_explicit(&is_slow, false, memory_order_relaxed);
    assert_int_equal(seals_of(SEAL_SIGNED), COUNT);
    assert_int_equal(atomic_load_explicit(&bed.engine.signatures, memory_order_relaxed), COUNT);
    signer_stop(bed.signer);
}

/* Messages that leave memory for others are signed again when they come again, and count once. */
static void what_comes_again_is_counted_once(void **state)
{
    (void)state;
    struct message *m = message_new_of(1, 0, false), *again = message_new_of(1, 0, false),
                   *other = message_new_of(2, 0, false);
    start();
    submit(m, 0);
    flush();
    assert_int_equal(take_submitted(0), 1);
    assert_int_equal(m->signing->result, SEAL_SIGNED);
    atomic_store_explicit(&bed.engine.seals_again[SEAL_SIGNED], 1, memory_order_relaxed);
    submit(again, 0);
    submit(other, 0);
    flush();
    assert_int_equal(take_submitted(0), 1);
    assert_int_equal(take_submitted(0), 2);
    assert_true(signing_fields(again->signing).len > 0);
    assert_int_equal(seals_of(SEAL_SIGNED), 2);
    assert_int_equal(
        atomic_load_explicit(&bed.engine.seals_again[SEAL_SIGNED], memory_order_relaxed), 0);
    assert_int_equal(atomic_load_explicit(&bed.engine.signatures, memory_order_relaxed), 3);
    message_put(m);
    message_put(again);
    message_put(other);
    signer_stop(bed.signer);
    atomic_store_explicit(&bed.engine.signatures, 0, memory_order_relaxed);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static void what_is_passed_on_without_keys_stays_unsigned(void **state)
{
    (void)state;
    struct message *m = message_new_of(1, 0, false), *other = message_new_of(2, 0, false);
    submit(m, 0); /* keys are there */
    rcu_publish(&bed.engine.settings, &bed.without);
    start();
    assert_int_equal(take_submitted(0), 1);
    assert_int_equal(signing_fields(m->signing).len, 0);
    assert_true(slice_eq(signing_event(m->signing), SLICE(",\"dkim\":\"no_key\"")));
    rcu_publish(&bed.engine.settings, &bed.with_keys);
    submit(m, 0);
    submit(other, 0);
    flush();
    assert_int_equal(take_submitted(0), 1);
    assert_int_equal(take_submitted(0), 2);
    assert_int_equal(signing_fields(m->signing).len, 0);
    assert_true(signing_fields(other->signing).len > 0);
    assert_true(slice_eq(signing_event(other->signing),
                         SLICE(",\"dkim\":\"signed\",\"dkim_keys\":[\"s._domainkey.x.test\"]")));
    assert_true(
        slice_eq(signing_note(other->signing), SLICE("DKIM: signed, by s._domainkey.x.test")));
    assert_int_equal(seals_of(SEAL_NO_KEY), 1);
    assert_int_equal(seals_of(SEAL_SIGNED), 1);
    message_put(m);
    message_put(other);
    signer_stop(bed.signer);
    assert_int_equal(atomic_load_explicit(&bed.with_keys.references, memory_order_relaxed), 1);
    assert_int_equal(atomic_load_explicit(&bed.without.references, memory_order_relaxed), 1);
}

/* Its recipients have no result, so they are tried again; the next one is signed. */
static void without_memory_a_message_has_no_result(void **state)
{
    (void)state;
    struct message *m = message_new_of(1, 0, false), *other = message_new_of(2, 0, false);
    uint32_t count = 0;
    unsigned shares = 0;
    submit(m, 0);
    submit(other, 0);
    atomic_store_explicit(&failures, 1, memory_order_relaxed);
    start();
    assert_int_equal(take_submitted(0), 2);
    struct letter letter = wait_for(&bed.writer);
    assert_ptr_equal(letter_take_no_result(&letter, &count, &shares), m);
    assert_int_equal(count, 1);
    assert_int_equal(shares, RESULT_WAS_LOADED);
    assert_false(m->signing->is_done);
    assert_int_equal(seals_of(SEAL_FAILED), 1);
    assert_int_equal(seals_of(SEAL_SIGNED), 1);
    signer_stop(bed.signer);
    message_put(m);
    message_put(other);
}

/* Content that is not there is for the delivery to find: it goes on, unsigned. */
static void content_that_cannot_be_read_does_not_hold_it_up(void **state)
{
    (void)state;
    const struct spool_envelope e = {.id = 7, .recipient_count = 1, .sender = SLICE("a@x.test")};
    struct message *m = message_new_whole(&e, slice_make("\0\1b", 3));
    assert_non_null(m);
    submit(m, 0);
    start();
    assert_int_equal(take_submitted(0), 7);
    assert_int_equal(seals_of(SEAL_UNREADABLE), 1);
    signer_stop(bed.signer);
    message_put(m);
}

/* Nothing has happened to the message meanwhile: it keeps its turn, has no result, and is signed once. The
 * spool is asked again after a pause, and not all the time. */
static void a_spool_that_is_away_is_asked_again_after_a_pause(void **state)
{
    (void)state;
    struct message *m = message_new_of(1, 0, true), *other = message_new_of(2, 0, false);
    struct letter letter;
    submit(m, 0);
    submit(other, 0);
    atomic_store_explicit(&refusals, 3, memory_order_relaxed);
    atomic_store_explicit(&passes, 0, memory_order_relaxed);
    const usec_t begin = clock_mono();
    start();
    assert_int_equal(take_submitted(0), 1);
    assert_true(clock_mono() - begin >= 3 * 20 * USEC_PER_MSEC);
    assert_int_equal(take_submitted(0), 2);
    assert_int_equal(atomic_load_explicit(&passes, memory_order_relaxed), 4);
    assert_true(signing_fields(m->signing).len > 0 && signing_fields(other->signing).len > 0);
    assert_int_equal(seals_of(SEAL_SIGNED), 2);
    assert_int_equal(seals_of(SEAL_FAILED), 0);
    post_assert_owner(&bed.writer);
    assert_false(post_take(&bed.writer, &letter));
    signer_stop(bed.signer);
    message_put(m);
    message_put(other);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Letters that nobody took are freed with the signer, with their references; under a sanitizer a leak
 * or a reference too few fails. */
static void what_waits_at_the_end_is_dropped(void **state)
{
    (void)state;
    struct message *m = message_new_of(1, 0, false);
    start();
    signer_stop(bed.signer);
    for (int i = 0; i < 3; i++) {
        submit(m, 0);
    }
    flush();
    signer_free(bed.signer);
    bed.signer = NULL;
    assert_int_equal(atomic_load_explicit(&m->references, memory_order_relaxed), 1);
    message_put(m);
    assert_int_equal(seals_of(SEAL_SIGNED), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(urgent_mail_goes_first_and_the_oldest_at_each_fourth_place,
                                        bed_up, bed_down),
        cmocka_unit_test_setup_teardown(each_message_is_signed_once_and_goes_to_its_scheduler,
                                        bed_up, bed_down),
        cmocka_unit_test_setup_teardown(slow_keys_sign_in_the_same_order, bed_up, bed_down),
        cmocka_unit_test_setup_teardown(what_comes_again_is_counted_once, bed_up, bed_down),
        cmocka_unit_test_setup_teardown(what_is_passed_on_without_keys_stays_unsigned, bed_up,
                                        bed_down),
        cmocka_unit_test_setup_teardown(without_memory_a_message_has_no_result, bed_up, bed_down),
        cmocka_unit_test_setup_teardown(content_that_cannot_be_read_does_not_hold_it_up, bed_up,
                                        bed_down),
        cmocka_unit_test_setup_teardown(a_spool_that_is_away_is_asked_again_after_a_pause, bed_up,
                                        bed_down),
        cmocka_unit_test_setup_teardown(what_waits_at_the_end_is_dropped, bed_up, bed_down),
    };
    rcu_start();
    rcu_join();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_stop();
    return failed;
}
