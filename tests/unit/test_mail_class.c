#include "base/mail_class.h"
#include "tests/unit/unit.h"

static void words(void **state)
{
    (void)state;
    for (unsigned class = 0; class < MAIL_CLASS_COUNT; class ++) {
        struct slice text = slice_of(mail_class_text((enum mail_class) class));
        assert_int_equal(mail_class_find(text), class);
    }
    assert_int_equal(mail_class_find(SLICE("Urgent")), MAIL_URGENT);
    assert_int_equal(mail_class_find(SLICE("BULK")), MAIL_BULK);
    assert_int_equal(mail_class_find(SLICE("")), MAIL_CLASS_COUNT);
    assert_int_equal(mail_class_find(SLICE("urgen")), MAIL_CLASS_COUNT);
    assert_int_equal(mail_class_find(SLICE("urgent ")), MAIL_CLASS_COUNT);
}

/* Never raised, whatever is allowed. */
static void lowered(void **state)
{
    (void)state;
    const unsigned urgent = mail_class_bit(MAIL_URGENT), normal = mail_class_bit(MAIL_NORMAL);
    const unsigned bulk = mail_class_bit(MAIL_BULK);
    static const struct {
        enum mail_class wanted, got[8]; /* by the set */
    } rows[] = {
        {MAIL_URGENT,
         {MAIL_BULK, MAIL_URGENT, MAIL_NORMAL, MAIL_URGENT, MAIL_BULK, MAIL_URGENT, MAIL_NORMAL,
          MAIL_URGENT}},
        {MAIL_NORMAL,
         {MAIL_BULK, MAIL_BULK, MAIL_NORMAL, MAIL_NORMAL, MAIL_BULK, MAIL_BULK, MAIL_NORMAL,
          MAIL_NORMAL}},
        {MAIL_BULK,
         {MAIL_BULK, MAIL_BULK, MAIL_BULK, MAIL_BULK, MAIL_BULK, MAIL_BULK, MAIL_BULK, MAIL_BULK}},
    };
    assert_int_equal(urgent | normal | bulk, 7);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (unsigned set = 0; set < 8; set++) {
            assert_int_equal(mail_class_lower(rows[i].wanted, set), rows[i].got[set]);
        }
    }
}

static void priorities(void **state)
{
    (void)state;
    for (int priority = -9; priority <= 9; priority++) {
        enum mail_class class = mail_class_of_priority(priority);
        enum mail_class low = priority < 0 ? MAIL_BULK : MAIL_NORMAL;
        assert_int_equal(class, priority >= 3 ? MAIL_URGENT : low);
        assert_int_equal(mail_class_of_priority(mail_class_priority(class)), class);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(lowered),
        cmocka_unit_test(priorities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
