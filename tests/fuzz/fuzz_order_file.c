/* orders.json out of arbitrary bytes: it is refused with a text that fits, or what was read obeys
 * the limits, and is read back as the same when it is written. */
#include "engine/order/order_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/sluice-fuzz.XXXXXX";

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static const char *path_of_file(void)
{
    static char path[sizeof(folder) + sizeof(ORDER_FILE_NAME)];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, ORDER_FILE_NAME); /* it fits */
    return path;
}

static void clean_up(void)
{
    (void)unlink(path_of_file()); /* only tidiness */
    (void)rmdir(folder);
}

static void make_folder(void)
{
    static bool is_made;
    if (!is_made) {
        require(mkdtemp(folder) != NULL && atexit(clean_up) == 0);
        is_made = true;
    }
}

static void put(const uint8_t *data, size_t size)
{
    int fd = open(path_of_file(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)close(fd); /* a file of its own */
}

static void check_orders(const struct order_file *f)
{
    require(f->count <= ORDER_COUNT_MAX && f->next_id >= 1);
    for (size_t i = 0; i < f->count; i++) {
        const struct order *o = &f->orders[i];
        require(o->id < f->next_id && (i == 0 ? o->id > 0 : o->id > f->orders[i - 1].id));
        require(o->kind > ORDER_NONE && o->kind < ORDER_KIND_COUNT && o->until > o->created);
        require(o->reason != NULL && strlen(o->reason) <= ORDER_REASON_MAX);
        require(o->by != NULL && strlen(o->by) <= ORDER_BY_MAX);
    }
}

static void check_again(const struct order_file *f)
{
    const struct order *orders[ORDER_COUNT_MAX];
    struct order_file again = {.count = 0};
    char text[ORDER_FILE_TEXT_MAX];
    for (size_t i = 0; i < f->count; i++) {
        orders[i] = &f->orders[i];
    }
    require(order_file_write(folder, f->next_id, f->is_reviewed, orders, f->count) == 0);
    require(order_file_read(folder, &again, text) == 0);
    require(again.count == f->count && again.next_id == f->next_id &&
            again.is_reviewed == f->is_reviewed);
    for (size_t i = 0; i < f->count; i++) {
        require(again.orders[i].id == f->orders[i].id &&
                again.orders[i].until == f->orders[i].until &&
                again.orders[i].is_once == f->orders[i].is_once &&
                selector_eq(&again.orders[i].selector, &f->orders[i].selector) &&
                strcmp(again.orders[i].reason, f->orders[i].reason) == 0);
    }
    order_file_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct order_file f = {.count = 0};
    char text[ORDER_FILE_TEXT_MAX] = "";
    make_folder();
    put(data, size);
    if (order_file_read(folder, &f, text) != 0) {
        require(f.count == 0 && text[0] != '\0' && memchr(text, '\0', sizeof(text)) != NULL);
        return 0;
    }
    check_orders(&f);
    check_again(&f);
    order_file_fini(&f);
    return 0;
}
