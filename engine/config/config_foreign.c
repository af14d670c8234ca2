/* Owns the table of foreign names. Read when an option is not known; must not know the parser.
 * Names that are ours as well, in any section, need no row: whoever writes them has found the
 * option. */
#include "engine/config/config_foreign.h"

#include <ctype.h>
#include <stdbool.h>

const struct config_foreign config_foreign_names[] = {
    /* clang-format off */
    {"max-smtp-out", "PowerMTA", "destination_concurrency_limit"},
    {"source-ip-max-smtp-out", "PowerMTA", "process_limit"},
    {"total-max-smtp-out", "PowerMTA", "process_limit"},
    {"total-max-smtp-in", "PowerMTA", "smtpd_connection_limit in a listener"},
    {"max-msg-per-connection", "PowerMTA", "smtp_connection_reuse_count_limit"},
    {"max-msg-rate", "PowerMTA", "max_message_rate, such as 100/m"},
    {"max-connect-rate", "PowerMTA", "max_connection_rate, such as 100/m"},
    {"max-rcpt-rate", "PowerMTA", "max_recipient_rate, such as 100/m"},
    {"max-rcpt-per-message", "PowerMTA", "destination_recipient_limit"},
    {"connection-idle-timeout", "PowerMTA", "smtp_connection_cache_time_limit"},
    {"retry-after", "PowerMTA", "minimal_backoff_time and maximal_backoff_time"},
    {"retry-recipients-after", "PowerMTA", "minimal_backoff_time and maximal_backoff_time"},
    {"bounce-after", "PowerMTA", "maximal_queue_lifetime"},
    {"bounce-upon-5xx-greeting", "PowerMTA", "smtp_skip_5xx_greeting"},
    {"connect-timeout", "PowerMTA", "smtp_connect_timeout"},
    {"smtp-greeting-timeout", "PowerMTA", "smtp_helo_timeout"},
    {"data-send-timeout", "PowerMTA", "smtp_data_xfer_timeout"},
    {"smtp-data-termination-timeout", "PowerMTA", "smtp_data_done_timeout"},
    {"smtp-listener", "PowerMTA", "a section listener"},
    {"smtp-source-host", "PowerMTA", "address and helo_name in a section source"},
    {"virtual-mta", "PowerMTA", "a section source, and a section pool that names it"},
    {"virtual-mta-pool", "PowerMTA", "a section pool"},
    {"http-mgmt-port", "PowerMTA", "a section http"},
    {"http-access", "PowerMTA", "tokens_file in a section http"},
    {"acct-file", "PowerMTA", "a section csv"},
    {"record-fields", "PowerMTA", "columns in a section csv"},
    {"smtp-hosts", "PowerMTA", "nexthop in a section route"},
    {"smtp-user", "PowerMTA", "users in a listener"},
    {"always-allow-relaying", "PowerMTA", "relay_from in a listener"},
    {"host-name", "PowerMTA", "hostname"},
    {"max-message-size", "PowerMTA", "message_size_limit in a listener"},
    {"require-starttls", "PowerMTA", "smtp_tls_security_level = encrypt"},
    {"use-starttls", "PowerMTA", "smtp_tls_security_level = may"},
    {"use-dane", "PowerMTA", "smtp_tls_security_level = dane"},
    {"dns-server", "PowerMTA", "servers in section dns"},
    {"max_deliveries_per_connection", "KumoMTA", "smtp_connection_reuse_count_limit"},
    {"max_recipients_per_batch", "KumoMTA", "destination_recipient_limit"},
    {"consecutive_connection_failures_before_delay", "KumoMTA", "destination_concurrency_failed_cohort_limit"},
    {"banner_timeout", "KumoMTA", "smtp_helo_timeout"},
    {"ehlo_timeout", "KumoMTA", "smtp_helo_timeout"},
    {"mail_from_timeout", "KumoMTA", "smtp_mail_timeout"},
    {"rcpt_to_timeout", "KumoMTA", "smtp_rcpt_timeout"},
    {"data_timeout", "KumoMTA", "smtp_data_init_timeout"},
    {"data_dot_timeout", "KumoMTA", "smtp_data_done_timeout"},
    {"starttls_timeout", "KumoMTA", "smtp_starttls_timeout"},
    {"rset_timeout", "KumoMTA", "smtp_rset_timeout"},
    {"idle_timeout", "KumoMTA", "smtp_connection_cache_time_limit"},
    {"enable_tls", "KumoMTA", "smtp_tls_security_level"},
    {"enable_mta_sts", "KumoMTA", "smtp_tls_security_level = mta-sts"},
    {"enable_dane", "KumoMTA", "smtp_tls_security_level = dane"},
    {"enable_pipelining", "KumoMTA", "pipeline_depth"},
    {"smtp_port", "KumoMTA", "smtp_tcp_port"},
    {"ip_lookup_strategy", "KumoMTA", "inet_protocols"},
    {"ehlo_domain", "KumoMTA", "helo_name in a source, or smtp_helo_name in a transport"},
    {"smtp_auth_plain_username", "KumoMTA", "smtp_auth_user"},
    {"smtp_auth_plain_password", "KumoMTA", "smtp_auth_password_file"},
    {"max_age", "KumoMTA", "maximal_queue_lifetime"},
    {"retry_interval", "KumoMTA", "minimal_backoff_time"},
    {"max_retry_interval", "KumoMTA", "maximal_backoff_time"},
    {"egress_pool", "KumoMTA", "source_pool in a transport"},
    {"egress_source", "KumoMTA", "a section source"},
    {"source_address", "KumoMTA", "address or address6 in a section source"},
    {"ha_proxy_server", "KumoMTA", "haproxy in a section source"},
    {"socks5_proxy_server", "KumoMTA", "socks5 in a section source"},
    {"relay_hosts", "KumoMTA", "relay_from in a listener"},
    {"routing_domain", "KumoMTA", "nexthop in a section route"},
    {"start_esmtp_listener", "KumoMTA", "a section listener"},
    {"start_http_listener", "KumoMTA", "a section http"},
    {"define_spool", "KumoMTA", "section spool"},
    {"remote_max_parallel", "Exim", "destination_concurrency_limit"},
    {"max_parallel", "Exim", "process_limit"},
    {"connection_max_messages", "Exim", "smtp_connection_reuse_count_limit"},
    {"max_rcpt", "Exim", "destination_recipient_limit"},
    {"primary_hostname", "Exim", "hostname"},
    {"helo_data", "Exim", "smtp_helo_name"},
    {"interface", "Exim", "address in a section source"},
    {"local_interfaces", "Exim", "a section listener for each"},
    {"daemon_smtp_ports", "Exim", "a section listener for each"},
    {"smtp_accept_max", "Exim", "smtpd_connection_limit in a listener"},
    {"smtp_accept_max_per_host", "Exim", "smtpd_client_connection_count_limit in a listener"},
    {"recipients_max", "Exim", "smtpd_recipient_limit in a listener"},
    {"smtp_receive_timeout", "Exim", "smtpd_timeout in a listener"},
    {"relay_from_hosts", "Exim", "relay_from in a listener"},
    {"hosts_require_tls", "Exim", "smtp_tls_security_level = encrypt"},
    {"hosts_require_dane", "Exim", "smtp_tls_security_level = dane"},
    {"hosts_try_dane", "Exim", "smtp_tls_security_level = dane"},
    {"command_timeout", "Exim", "smtp_mail_timeout, smtp_rcpt_timeout and their like"},
    {"final_timeout", "Exim", "smtp_data_done_timeout"},
    {"queue_run_max", "Exim", "process_limit"},
    {"route_list", "Exim", "nexthop in a section route"},
    {"received_headers_max", "Exim", "hopcount_limit"},
    {"delay_warning", "Exim", "delay_warning_time"},
    {"timeout_frozen_after", "Exim", "bounce_queue_lifetime"},
    {"spool_directory", "Exim", "path in section spool"},
    {"check_spool_space", "Exim", "spool_reserve"},
    {"tls_verify_certificates", "Exim", "smtp_tls_CAfile"},
    {"exim_user", "Exim", "user"},
    {"listen", "OpenSMTPD", "a section listener"},
    {"action", "OpenSMTPD", "a section transport"},
    {"match", "OpenSMTPD", "a section route"},
    {"bounce", "OpenSMTPD", "delay_warning_time"},
    {"pki", "OpenSMTPD", "tls_certificate and tls_key in a listener"},
    {"max-conn-per-host", "OpenSMTPD", "host_concurrency_limit"},
    {"max-conn-per-domain", "OpenSMTPD", "destination_concurrency_limit"},
    {"max-mails-per-session", "OpenSMTPD", "smtp_connection_reuse_count_limit"},
    {"ttl", "OpenSMTPD", "maximal_queue_lifetime"},
    {"helo-src", "OpenSMTPD", "helo_name in a section source"},
    {"mynetworks", "Postfix", "relay_from in a listener"},
    {"myhostname", "Postfix", "hostname"},
    {"relayhost", "Postfix", "nexthop in a section route for \"*\""},
    {"inet_interfaces", "Postfix", "a section listener for each"},
    {"queue_directory", "Postfix", "path in section spool"},
    {"queue_minfree", "Postfix", "spool_reserve"},
    {"mail_owner", "Postfix", "user"},
    {"transport_maps", "Postfix", "a section route for each pattern"},
    {"smtp_bind_address", "Postfix", "address in a section source"},
    {"smtp_bind_address6", "Postfix", "address6 in a section source"},
    {"smtp_sasl_password_maps", "Postfix", "smtp_auth_user and smtp_auth_password_file"},
    {"smtp_sasl_auth_enable", "Postfix", "smtp_auth_user and smtp_auth_password_file"},
    {"smtpd_tls_cert_file", "Postfix", "tls_certificate in a listener"},
    {"smtpd_tls_key_file", "Postfix", "tls_key in a listener"},
    {"smtpd_tls_security_level", "Postfix", "require_tls in a listener"},
    {"smtp_use_tls", "Postfix", "smtp_tls_security_level = may"},
    {"smtp_enforce_tls", "Postfix", "smtp_tls_security_level = encrypt"},
    {"smtp_tls_policy_maps", "Postfix", "smtp_tls_security_level in a section route"},
    {"smtp_destination_concurrency_limit", "Postfix", "destination_concurrency_limit"},
    {"smtp_destination_rate_delay", "Postfix", "destination_rate_delay"},
    {"smtp_destination_recipient_limit", "Postfix", "destination_recipient_limit"},
    {"smtp_line_length_limit", "Postfix", "line_length_limit in a listener"},
    {"maxproc", "Postfix", "process_limit"},
    {"notify_classes", "Postfix", "notices in a listener or tenant"},
    {"maillog_file", "Postfix", "path in section event_log"},
    /* clang-format on */
};

const size_t config_foreign_count = sizeof(config_foreign_names) / sizeof(config_foreign_names[0]);

static int plain(char byte)
{
    return byte == '-' ? '_' : tolower((unsigned char)byte);
}

static bool is_same_name(const char *a, const char *b)
{
    for (; *a != '\0' && plain(*a) == plain(*b); a++, b++) {
    }
    return *a == '\0' && *b == '\0';
}

const struct config_foreign *config_foreign_find(const char *name)
{
    name += name[0] == '<'; /* PowerMTA writes sections as tags */
    for (size_t i = 0; i < config_foreign_count; i++) {
        if (is_same_name(config_foreign_names[i].name, name)) {
            return &config_foreign_names[i];
        }
    }
    return NULL;
}
