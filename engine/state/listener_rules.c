/* Owns the way from a listener's section to what its sessions need. Called when settings are made;
 * opens no socket. */
#include "engine/state/listener_rules.h"

#include "engine/config/config.h"
#include "engine/spool/spool_store.h"
#include "engine/state/users.h"
#include "net/tls.h"

#include <stdio.h>
#include <string.h>

static void smtp_config(const struct config *config, const struct config_listener *lc,
                        struct smtp_server_config *ret)
{
    smtp_server_config_defaults(ret);
    ret->hostname = config->hostname;
    ret->software = "sluice";
    ret->recipient_batch = SPOOL_BATCH_RECIPIENTS;
    ret->hop_limit = (uint32_t)config->hopcount_limit;
    if (lc != NULL) {
        ret->message_size_limit = lc->message_size_limit;
        ret->recipient_limit = (uint32_t)lc->smtpd_recipient_limit;
        ret->error_limit = (uint32_t)lc->smtpd_hard_error_limit;
        ret->junk_limit = (uint32_t)lc->smtpd_junk_command_limit;
        ret->command_line_limit = (uint32_t)lc->line_length_limit;
        ret->command_timeout = lc->smtpd_timeout;
        ret->offers_starttls = lc->tls_certificate != NULL;
        ret->offers_auth = lc->users != NULL;
        ret->offers_mt_priority = lc->mt_priority;
        ret->hides_client = lc->received_header == CONFIG_RECEIVED_ANONYMOUS;
    } else {
        ret->recipient_limit = 0;
    }
    /* Mail that is longer per line than RFC 5321 allows is accepted as it is, like Postfix. */
    ret->text_line_limit = 0;
}

int listener_rules_init(struct listener_rules *r, const struct config *config,
                        const struct config_listener *section,
                        char ret_text[static LISTENER_RULES_TEXT_MAX])
{
    int err = 0;
    *r = (struct listener_rules){.config = section};
    smtp_config(config, section, &r->smtp);
    if (section == NULL) {
        return 0;
    }
    (void)snprintf(ret_text, LISTENER_RULES_TEXT_MAX, "listener \"%.60s\": out of memory",
                   section->name);
    if (section->tls_certificate != NULL) {
        struct tls_error why = {"out of memory"};
        const struct tls_server_config tls = {.certificate_file = section->tls_certificate,
                                              .key_file = section->tls_key};
        err = tls_server_new(&tls, &r->tls, &why);
        if (err != 0) {
            (void)snprintf(ret_text, LISTENER_RULES_TEXT_MAX, "listener \"%.60s\": %.180s",
                           section->name, why.text);
        }
    }
    if (err == 0 && section->users != NULL) {
        err = users_load(section->users, &r->users, ret_text);
    }
    return err;
}

void listener_rules_fini(struct listener_rules *r)
{
    tls_server_free(r->tls);
    users_free(r->users);
    r->tls = NULL;
    r->users = NULL;
}
