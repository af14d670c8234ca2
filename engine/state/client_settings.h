/* The settings of the SMTP client core: for each transport one for each source that it may send from
 * at each level of TLS. Part of the settings: made with them, immutable, for any thread. */
#ifndef ENGINE_CLIENT_SETTINGS_H
#define ENGINE_CLIENT_SETTINGS_H

#include "base/attr.h"
#include "net/smtp_client.h"

#include <stdint.h>

struct config;
struct passwords;
struct policy;
struct source_table;

/* sources, passwords  of the same configuration; they outlive the result
 * ret        [config->transport_count], for client_settings_free
 * errors     -ENOMEM */
MUST_USE int client_settings_new(const struct config *c, const struct source_table *sources,
                                 const struct passwords *passwords,
                                 struct smtp_client_config ***ret);
/* config: the same as before; all may be NULL. */
void client_settings_free(const struct config *c, struct smtp_client_config **all);
/* Those of a session. place: of its source (source_table_place). Valid as long as all. */
const struct smtp_client_config *client_settings_of(struct smtp_client_config *const *all,
                                                    uint32_t transport, uint32_t place,
                                                    enum smtp_client_tls tls);

/* The same for a destination with this policy: those of all, or, where its provider or domain sets an
 * option of theirs, a copy with it in *room, which then must live as long as the session.
 *
 * policy  of the settings that have `all` */
const struct smtp_client_config *client_settings_by(struct smtp_client_config *const *all,
                                                    const struct policy *policy, uint32_t place,
                                                    enum smtp_client_tls tls,
                                                    struct smtp_client_config *room);

#endif
