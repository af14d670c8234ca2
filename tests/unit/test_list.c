#include "base/list.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

struct item {
    int value;
    struct list link;
};

static int as_number(const struct list *head)
{
    int number = 0;
    list_foreach(item, head, struct item, link)
    {
        number = number * 10 + item->value;
    }
    return number;
}

static void keeps_order(void **state)
{
    struct list head;
    list_init(&head);
    assert_true(list_is_empty(&head));
    assert_int_equal(as_number(&head), 0);
    struct item items[6];
    for (int i = 0; i < 6; i++) {
        items[i].value = i;
        list_init(&items[i].link);
        assert_false(list_is_linked(&items[i].link));
    }
    list_push_back(&head, &items[2].link);
    list_push_back(&head, &items[4].link);
    list_push_front(&head, &items[1].link);
    list_insert_before(&items[4].link, &items[3].link);
    list_insert_after(&items[4].link, &items[5].link);
    assert_int_equal(as_number(&head), 12345);
    assert_int_equal(list_first(&head, struct item, link)->value, 1);
    assert_int_equal(list_last(&head, struct item, link)->value, 5);
    assert_int_equal(list_next(&items[3], struct item, link)->value, 4);
    assert_true(list_is_linked(&items[3].link));
    list_remove(&items[3].link);
    assert_false(list_is_linked(&items[3].link));
    list_remove(&items[3].link); /* an unlinked node may be removed again */
    list_remove(&items[1].link);
    list_remove(&items[5].link);
    assert_int_equal(as_number(&head), 24);
    assert_false(list_is_empty(&head));
}

static void the_current_item_may_go(void **state)
{
    struct list head;
    list_init(&head);
    for (int i = 1; i <= 9; i++) {
        struct item *item = malloc(sizeof(*item));
        assert_non_null(item);
        item->value = i;
        list_push_back(&head, &item->link);
    }
    list_foreach_safe(item, &head, struct item, link)
    {
        if (item->value % 2 == 0) {
            list_remove(&item->link);
            free(item);
        }
    }
    assert_int_equal(as_number(&head), 13579);
    list_foreach_safe(item, &head, struct item, link)
    {
        list_remove(&item->link);
        free(item);
    }
    assert_true(list_is_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order),
        cmocka_unit_test(the_current_item_may_go),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
