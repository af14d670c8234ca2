/* Owns nothing: the defaults of a resolver. Called where one is made. */
#include "dns/dns_config.h"

void dns_config_defaults(struct dns_config *ret)
{
    *ret = (struct dns_config){
        .query_timeout = 5 * USEC_PER_SEC,
        .query_tries = 3,
        .deadline = 60 * USEC_PER_SEC,
        .query_limit = 1000,
        .families = DNS_FAMILIES_ALL,
        .prefer = MX_FAMILY_ANY,
        .address_limit = 5,
    };
}
