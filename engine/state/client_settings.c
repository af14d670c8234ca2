/* Owns what the SMTP client core is told of each transport. Called when settings are made and
 * freed, and by each outbound session at its start. */
#include "engine/state/client_settings.h"

#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/state/password.h"
#include "engine/state/source_table.h"

#include <errno.h>
#include <stdlib.h>

enum {
    TLS_LEVELS = SMTP_CLIENT_TLS_ENCRYPT + 1, /* settings a source */
    UNACKED_PER_DELIVERY = 256,               /* bytes: RSET, MAIL and a few RCPT */
};

/* What providers and domains may say otherwise than the transport. ret: has the defaults' rest */
static void set_options(const struct config_transport *t, struct smtp_client_config *ret)
{
    const struct config_smtp *s = &t->smtp;
    struct smtp_client_config defaults;
    smtp_client_config_defaults(&defaults);
    ret->always_send_ehlo = s->smtp_always_send_ehlo;
    ret->skip_5xx_greeting = s->smtp_skip_5xx_greeting;
    ret->helo_timeout = s->smtp_helo_timeout;
    ret->starttls_timeout = s->smtp_starttls_timeout;
    ret->mail_timeout = s->smtp_mail_timeout;
    ret->rcpt_timeout = s->smtp_rcpt_timeout;
    ret->data_init_timeout = s->smtp_data_init_timeout;
    ret->data_xfer_timeout = s->smtp_data_xfer_timeout;
    ret->data_done_timeout = s->smtp_data_done_timeout;
    ret->rset_timeout = s->smtp_rset_timeout;
    ret->quit_timeout = s->smtp_quit_timeout;
    ret->pipeline_depth = (uint16_t)t->sched.pipeline_depth;
    /* The shell reads while it writes, so no number of unanswered commands can block both sides
     * (RFC 2920 3.1); the bound only must not be narrower than the depth. */
    ret->unacked_max =
        defaults.unacked_max + (uint32_t)t->sched.pipeline_depth * UNACKED_PER_DELIVERY;
}

static void client_config(const struct config_transport *t, const char *ehlo_name,
                          struct slice password, enum smtp_client_tls tls,
                          struct smtp_client_config *ret)
{
    const struct config_smtp *s = &t->smtp;
    smtp_client_config_defaults(ret);
    if (s->smtp_auth_user != NULL) {
        ret->auth_user = slice_of(s->smtp_auth_user);
        ret->auth_password = password;
        ret->auth_requires_tls = s->smtp_auth_requires_tls;
    }
    ret->ehlo_name = slice_of(ehlo_name);
    ret->tls = tls;
    set_options(t, ret);
}

int client_settings_new(const struct config *c, const struct source_table *sources,
                        const struct passwords *passwords, struct smtp_client_config ***ret)
{
    struct smtp_client_config **all = calloc(c->transport_count + 1, sizeof(*all));
    if (all == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->transport_count; i++) {
        const struct config_transport *t = &c->transports[i];
        const struct transport_sources *from = &sources->transports[i];
        all[i] = calloc(TLS_LEVELS * from->count, sizeof(*all[i]));
        if (all[i] == NULL) {
            client_settings_free(c, all);
            return -ENOMEM;
        }
        for (size_t place = 0; place < from->count; place++) {
            const struct config_egress_source *source = from->sections[place];
            const char *name = source == NULL ? NULL : source->helo_name;
            name = name == NULL ? t->smtp.smtp_helo_name : name;
            for (size_t tls = 0; tls < TLS_LEVELS; tls++) {
                client_config(t, name, passwords->transports[i], (enum smtp_client_tls)tls,
                              &all[i][TLS_LEVELS * place + tls]);
            }
        }
    }
    *ret = all;
    return 0;
}

void client_settings_free(const struct config *c, struct smtp_client_config **all)
{
    for (size_t i = 0; all != NULL && i < c->transport_count; i++) {
        free(all[i]);
    }
    free(all);
}

const struct smtp_client_config *client_settings_of(struct smtp_client_config *const *all,
                                                    uint32_t transport, uint32_t place,
                                                    enum smtp_client_tls tls)
{
    return &all[transport][(size_t)place * TLS_LEVELS + tls];
}

const struct smtp_client_config *client_settings_by(struct smtp_client_config *const *all,
                                                    const struct policy *policy, uint32_t place,
                                                    enum smtp_client_tls tls,
                                                    struct smtp_client_config *room)
{
    const struct smtp_client_config *shared =
        client_settings_of(all, policy->transport, place, tls);
    if (!policy->has_client_options) {
        return shared;
    }
    *room = *shared;
    set_options(&policy->options, room);
    return room;
}
