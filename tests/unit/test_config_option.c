/* The table against the parameters of the queue manager and the SMTP client that it promises:
 * name, default, smallest and largest value, written down here a second time on purpose. */
#include "engine/config/config_foreign.h"
#include "engine/config/config_option.h"
#include "tests/unit/config_sample.h"

struct promise {
    const char *name;
    bool is_transport;
    const char *initial;
    int64_t min, max; /* max 0: not promised */
};

static const struct promise promises[] = {
    {"initial_destination_concurrency", true, "5", 1, 0},
    {"destination_concurrency_limit", true, "20", 0, 0},
    {"destination_concurrency_positive_feedback", true, "1", 1, 0},
    {"destination_concurrency_negative_feedback", true, "1", 1, 0},
    {"destination_concurrency_failed_cohort_limit", true, "1", 0, 0},
    {"destination_concurrency_feedback_debug", false, "no", 0, 0},
    {"destination_recipient_limit", true, "50", 0, 0},
    {"destination_rate_delay", true, "0s", 0, 0},
    {"transport_rate_delay", true, "0s", 0, 0},
    {"delivery_slot_cost", true, "5", 0, 0},
    {"delivery_slot_loan", true, "3", 0, 0},
    {"delivery_slot_discount", true, "50", 0, 100},
    {"minimum_delivery_slots", true, "3", 0, 0},
    {"recipient_limit", true, "20000", 0, 0},
    {"extra_recipient_limit", true, "1000", 0, 0},
    {"recipient_refill_limit", true, "100", 1, 0},
    {"recipient_refill_delay", true, "5s", 1, 0},
    {"message_active_limit", false, "20000", 1, 0},
    {"message_recipient_limit", false, "20000", 1, 0},
    {"message_recipient_minimum", false, "10", 1, 0},
    {"class_floor", false, "10", 0, 50},
    {"queue_run_delay", false, "300s", 1, 0},
    {"minimal_backoff_time", false, "300s", 1, 0},
    {"maximal_backoff_time", false, "4000s", 1, 0},
    {"maximal_queue_lifetime", false, "5d", 0, 8640000},
    {"bounce_queue_lifetime", false, "5d", 0, 8640000},
    {"delay_warning_time", false, "0h", 0, 0},
    {"confirm_delay_cleared", false, "no", 0, 0},
    {"process_limit", true, "100", 1, 65535},
    {"max_message_concurrency", true, "0", 0, 65535},
    {"scale_max_concurrency", true, "0", 0, 65535},
    {"pipeline_depth", true, "16", 1, 1000},
    {"smtp_tcp_port", true, "25", 1, 65535},
    {"concurrency_feedback_rule", true, "readme", 0, 0},
    {"hold", true, "no", 0, 0},
    {"smtp_connect_timeout", true, "30s", 0, 0},
    {"smtp_helo_timeout", true, "300s", 1, 0},
    {"smtp_starttls_timeout", true, "300s", 1, 0},
    {"smtp_mail_timeout", true, "300s", 1, 0},
    {"smtp_rcpt_timeout", true, "300s", 1, 0},
    {"smtp_data_init_timeout", true, "120s", 1, 0},
    {"smtp_data_xfer_timeout", true, "180s", 1, 0},
    {"smtp_data_done_timeout", true, "600s", 1, 0},
    {"smtp_rset_timeout", true, "20s", 1, 0},
    {"smtp_quit_timeout", true, "300s", 1, 0},
    {"smtp_mx_address_limit", true, "5", 0, 0},
    {"smtp_mx_session_limit", true, "2", 0, 0},
    {"smtp_skip_5xx_greeting", true, "yes", 0, 0},
    {"smtp_always_send_ehlo", true, "yes", 0, 0},
    {"smtp_connection_cache_time_limit", true, "2s", 0, 0},
    {"smtp_connection_reuse_time_limit", true, "300s", 1, 0},
    {"smtp_connection_reuse_count_limit", true, "0", 0, 0},
    {"smtp_tls_security_level", true, "may", 0, 0},
    {"allow_loopback", false, "no", 0, 0},
    {"shutdown_timeout", false, "5s", 0, 0},
    {"map_size", false, "1T", 1, 0},
    {"spool_reserve", false, "256M", 0, 0},
    {"intake_memory", false, "64M", 1, 0},
    {"hopcount_limit", false, "50", 1, 0},
    {"bounce_size_limit", false, "50000", 0, 0},
};

static void table_keeps_its_promises(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(promises) / sizeof(promises[0]); i++) {
        const struct promise *p = &promises[i];
        const struct config_option *o = config_option_find(CONFIG_SECTION_GLOBAL, p->name);
        assert_non_null(o);
        assert_int_equal(o->section == CONFIG_SECTION_TRANSPORT, p->is_transport);
        assert_string_equal(o->initial, p->initial);
        assert_true(p->min == 0 ? o->min == 0 : o->min >= p->min);
        assert_true(p->max == 0 || o->max == p->max);
    }
}

static void table_is_well_formed(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        assert_true(o->initial != NULL || o->initial_doc != NULL);
        assert_non_null(o->doc);
        assert_ptr_equal(config_option_find(o->section, o->name), o);
        assert_true((o->type == CONFIG_TYPE_CHOICE) == (o->choices != NULL));
        assert_true(strchr("shd", o->unit) != NULL || o->unit == 0);
    }
}

/* Each row is found, is no name of ours, and says to write something that there is. */
static void foreign_names_lead_to_ours(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_foreign_count; i++) {
        const struct config_foreign *f = &config_foreign_names[i];
        bool is_ours = false;
        char words[200];
        assert_ptr_equal(config_foreign_find(f->name), f);
        assert_true(strlen(f->ours) < sizeof(words));
        memcpy(words, f->ours, strlen(f->ours) + 1);
        for (int s = CONFIG_SECTION_GLOBAL; s < CONFIG_SECTION_COUNT; s++) {
            assert_null(config_option_find((enum config_section)s, f->name));
        }
        assert_int_equal(config_section_find(f->name), CONFIG_SECTION_COUNT);
        for (char *word = strtok(words, " ,"); word != NULL; word = strtok(NULL, " ,")) {
            for (int s = CONFIG_SECTION_GLOBAL; s < CONFIG_SECTION_COUNT; s++) {
                is_ours = is_ours || config_option_find((enum config_section)s, word) != NULL;
            }
            is_ours = is_ours || config_section_find(word) != CONFIG_SECTION_COUNT;
        }
        if (!is_ours) {
            fail_msg("%s: \"%s\" names nothing of ours", f->name, f->ours);
        }
    }
    assert_null(config_foreign_find("max-smtp"));
    assert_null(config_foreign_find(""));
}

static void defaults_arrive(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "transport t {} route \"*\" { transport = t }");
    const struct sched_config *q = &s.config->transports[0].sched;
    const struct config_smtp *m = &s.config->transports[0].smtp;
    assert_int_equal(q->initial_destination_concurrency, 5);
    assert_int_equal(q->destination_concurrency_limit, 20);
    assert_int_equal(q->recipient_refill_delay, 5 * USEC_PER_SEC);
    assert_int_equal(q->minimal_backoff_time, 300 * USEC_PER_SEC);
    assert_int_equal(q->message_recipient_limit, 20000);
    assert_int_equal(q->message_recipient_minimum, 10);
    assert_int_equal(q->concurrency_feedback_rule, SCHED_RULE_README);
    assert_int_equal(q->destination_concurrency_positive_feedback.kind, SCHED_FEEDBACK_CONSTANT);
    assert_true(q->destination_concurrency_negative_feedback.base == 1.0);
    assert_int_equal(q->connection_idle_limit, 2 * USEC_PER_SEC);
    assert_true(q->must_resolve);
    assert_int_equal(m->smtp_data_done_timeout, 600 * USEC_PER_SEC);
    assert_int_equal(m->smtp_tls_security_level, CONFIG_TLS_MAY);
    assert_string_equal(m->smtp_helo_name, s.config->hostname);
    assert_int_equal(s.config->maximal_queue_lifetime, 5 * 86400 * USEC_PER_SEC);
    assert_int_equal(s.config->spool.map_size, 1LL << 40);
    assert_int_equal(s.config->spool.reserve, 256 << 20);
    assert_string_equal(s.config->control_path, "/var/spool/sluice/control");
    assert_true(s.config->workers > 0 && s.config->scheduler_threads > 0);
    config_free(s.config);
}

static void nearest_names(void **state)
{
    (void)state;
    assert_string_equal(config_option_nearest(CONFIG_SECTION_GLOBAL, "wrokers"), "workers");
    assert_string_equal(config_option_nearest(CONFIG_SECTION_GLOBAL, "listner"), "listener");
    assert_string_equal(config_option_nearest(CONFIG_SECTION_GLOBAL, "qmgr_message_active_limit"),
                        "message_active_limit");
    assert_string_equal(
        config_option_nearest(CONFIG_SECTION_TRANSPORT, "default_destination_recipient_limit"),
        "destination_recipient_limit");
    assert_string_equal(config_option_nearest(CONFIG_SECTION_GLOBAL, "myhostname"), "hostname");
    assert_null(config_option_nearest(CONFIG_SECTION_GLOBAL, "quite_something_else"));
    assert_null(config_option_nearest(CONFIG_SECTION_GLOBAL, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_keeps_its_promises),
        cmocka_unit_test(table_is_well_formed),
        cmocka_unit_test(foreign_names_lead_to_ours),
        cmocka_unit_test(defaults_arrive),
        cmocka_unit_test(nearest_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
