/* Where a window and connections bind together, whose turn it is at the window claims the slot. */
#include "tests/unit/site_bed.h"

#define EACH    120 /* messages of each tenant, to each destination */
#define TENANTS 6
#define WEIGHT  10 /* of the first one, and LESS that of the second one; the others have 1 */
#define LESS    4

static void send_as(struct shell *h, uint32_t tenant, const char *name)
{
    h->flow = (struct sched_flow_key){SCHED_NORMAL, tenant, 0};
    for (int i = 0; i < EACH; i++) {
        shell_send(h, name);
    }
}

/* As many connections as the windows of two destinations. Tenants 0 and 1 wait at one of them alone, tenant 2 there
 * and elsewhere, the others elsewhere; those that went end in the order of a fixed sequence. */
static void a_full_window_goes_by_weight_though_slots_are_lacking(void **state)
{
    static struct shell h;
    static const char *const names[TENANTS] = {"aa", "aa", "bb", "cc", "dd", "bb"};
    unsigned of_tenant[TENANTS] = {0}, flights[4], count = 0, seen = 0, ended = 1;
    shell_init(&h);
    h.config.must_resolve = false;
    h.config.process_limit = 4;
    shell_open(&h);
    for (uint32_t i = 0; i < TENANTS; i++) {
        send_as(&h, i, names[i]);
    }
    sched_tenant_weight(h.sched, 0, WEIGHT, h.now);
    sched_tenant_weight(h.sched, 1, LESS, h.now);
    h.flow.tenant = 2;
    shell_send(&h, "aa");
    (void)shell_run(&h);
    while (of_tenant[0] + of_tenant[1] < EACH) {
        for (; seen < h.delivered; seen++) {
            assert_in_range(count, 0, 3);
            flights[count++] = seen;
        }
        ended = ended * 69069 + 1;
        unsigned *which = &flights[(ended >> 16) % count], number = *which;
        *which = flights[--count];
        uint64_t tenant = (h.deliveries[number].message_id - 1) / EACH;
        if (tenant < TENANTS) {
            of_tenant[tenant]++;
        }
        shell_report(&h, number, SCHED_POSITIVE, false);
        (void)shell_run(&h);
    }
    /* Of 120: 86 and 34. By slots alone they were 73 and 47. */
    assert_in_range(of_tenant[0], EACH * WEIGHT / (WEIGHT + LESS) - 6,
                    EACH * WEIGHT / (WEIGHT + LESS) + 6);
    shell_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_window_goes_by_weight_though_slots_are_lacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
