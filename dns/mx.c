/* The rules of the address list: which MX names count, where the list is cut, in which order the
 * rest is tried.
 * Called by the resolver when all answers of a destination are in; pure.
 * Must not allocate or draw randomness from anywhere but the caller's generator. */
#include "dns/mx.h"

#include <assert.h>
#include <string.h>

static_assert(DNS_ADDRESSES_MAX >= MX_TARGETS_MAX, "an answer has all that may be tried");

/* source   splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t random_next(struct mx_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15U;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

uint32_t mx_random_below(struct mx_random *random, uint32_t bound)
{
    /* Multiply-shift of 32 random bits: the bias is below bound / 2^32. */
    return (uint32_t)((random_next(random) >> 32) * bound >> 32);
}

/* Names that a public MX record cannot mean: they would be looked up in vain, or find this machine.
 * All-digit last labels are IP addresses written as names. */
static bool can_be_mail_host(struct slice name)
{
    size_t dot = name.len;

    while (dot > 0 && name.data[dot - 1] != '.') {
        dot--;
    }
    if (dot == 0 || dot == name.len) {
        return false;
    }
    struct slice last = slice_from(name, dot);
    bool is_number = true;
    for (size_t i = 0; i < last.len; i++) {
        is_number = is_number && last.data[i] >= '0' && last.data[i] <= '9';
    }
    return !is_number && !slice_eq(last, SLICE("localhost"));
}

enum mx_verdict mx_select(const struct dns_rrset *answer, struct mx_random *random,
                          struct mx_host ret_hosts[static MX_HOSTS_MAX], uint32_t *ret_count,
                          uint16_t *ret_best)
{
    struct mx_host hosts[DNS_RECORDS_MAX];
    uint32_t count = 0;
    bool only_root = true;

    assert(answer->status == DNS_FOUND && answer->count > 0);
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct dns_mx *mx = &answer->mx[i];
        only_root = only_root && mx->is_valid && mx->name.len == 0;
        if (!mx->is_valid || !can_be_mail_host(mx->name)) {
            continue;
        }
        /* Insert at a random position among its equals, which are the last ones so far. */
        uint32_t equals = 0;
        while (equals < count && hosts[count - 1 - equals].preference == mx->preference) {
            equals++;
        }
        uint32_t at = count - mx_random_below(random, equals + 1);
        hosts[count++] = hosts[at];
        hosts[at] = (struct mx_host){.name = mx->name, .preference = mx->preference};
    }
    if (only_root) {
        return MX_NULL;
    }
    if (count == 0) {
        return MX_NO_HOST;
    }
    *ret_count = count < MX_HOSTS_MAX ? count : MX_HOSTS_MAX;
    memcpy(ret_hosts, hosts, *ret_count * sizeof(hosts[0]));
    *ret_best = answer->mx[0].preference;
    return MX_OK;
}

/* The rrset has them by preference and alphabet; one name may be there with several. */
size_t mx_names(const struct dns_rrset *answer, char ret[static MX_NAMES_MAX],
                uint32_t *ret_best_len)
{
    const struct dns_mx *first = NULL;
    size_t len = 0;

    *ret_best_len = 0;
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct dns_mx *mx = &answer->mx[i];
        bool is_known = false;
        for (uint32_t k = 0; k < i && !is_known; k++) {
            is_known = slice_eq(answer->mx[k].name, mx->name);
        }
        if (!mx->is_valid || is_known || !can_be_mail_host(mx->name)) {
            continue;
        }
        if (len + 1 + mx->name.len > MX_NAMES_MAX) {
            return 0;
        }
        if (first == NULL) {
            first = mx;
        } else {
            ret[len++] = ',';
        }
        memcpy(ret + len, mx->name.data, mx->name.len);
        len += mx->name.len;
        if (mx->preference == first->preference) {
            *ret_best_len = (uint32_t)len;
        }
    }
    return len;
}

/* Whether the address is this machine's own, or can only lead back to it. */
static bool is_self(const struct mx_policy *policy, const struct ip *ip)
{
    enum ip_scope scope = ip_scope(ip);
    bool is_allowed = scope == IP_LOOPBACK && policy->allow_loopback;

    for (uint32_t i = 0; i < policy->own_count; i++) {
        const struct mx_own *own = &policy->own[i];
        bool is_port = policy->port == own->port || (policy->port == MX_SMTP_PORT && !is_allowed);
        if (is_port && ip_eq(&own->ip, ip)) {
            return true;
        }
    }
    return policy->has_scope_check &&
           (scope == IP_UNSPECIFIED || (scope == IP_LOOPBACK && !is_allowed));
}

/* Whether the address is none that a mail host may have, this machine's own ones apart. */
static bool is_refused(const struct mx_policy *policy, const struct ip *ip)
{
    enum ip_scope scope = ip_scope(ip);

    return policy->has_scope_check && (scope == IP_LINK_LOCAL || scope == IP_UNUSABLE);
}

/* Hosts of one preference: [first, end). */
struct group {
    const struct mx_host *hosts;
    uint32_t first, end;
};

static bool group_has_self(const struct mx_policy *policy, struct group group)
{
    for (uint32_t h = group.first; h < group.end; h++) {
        for (int list = 0; list < 2; list++) {
            for (uint32_t i = 0; i < group.hosts[h].ip_counts[list]; i++) {
                if (is_self(policy, &group.hosts[h].ips[list][i])) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Append the group's addresses of one family (0: both) in random order. Beyond the room they are
 * sampled: each subset and order is equally likely (Knuth's algorithm R over an inside-out
 * shuffle). Returns how many were written. */
static uint32_t group_collect(const struct mx_policy *policy, struct group group, uint8_t family,
                              struct mx_random *random, struct mx_target *targets, uint32_t room)
{
    uint32_t seen = 0;

    for (uint32_t h = group.first; h < group.end; h++) {
        const struct mx_host *host = &group.hosts[h];
        for (uint32_t i = 0; i < host->ip_counts[0] + host->ip_counts[1]; i++) {
            const struct ip *ip =
                i < host->ip_counts[0] ? &host->ips[0][i] : &host->ips[1][i - host->ip_counts[0]];
            if ((family != 0 && ip->family != family) || is_refused(policy, ip)) {
                continue;
            }
            uint32_t at = mx_random_below(random, ++seen);
            if (seen <= room) {
                targets[seen - 1] = targets[at];
            }
            if (at < room) {
                targets[at] = (struct mx_target){*ip, host->preference, (uint16_t)h};
            }
        }
    }
    return seen < room ? seen : room;
}

static uint32_t group_append(const struct mx_policy *policy, struct group group,
                             struct mx_random *random, struct mx_target *targets, uint32_t count)
{
    if (policy->family == MX_FAMILY_ANY) {
        return count +
               group_collect(policy, group, 0, random, targets + count, MX_TARGETS_MAX - count);
    }
    uint8_t first = policy->family == MX_FAMILY_IPV4 ? 4 : 6;
    uint8_t second = first == 4 ? 6 : 4;
    count += group_collect(policy, group, first, random, targets + count, MX_TARGETS_MAX - count);
    count += group_collect(policy, group, second, random, targets + count, MX_TARGETS_MAX - count);
    return count;
}

/* Keep `limit` addresses such that a family with many does not crowd out the other; the order
 * stays.
 *
 * source   Postfix smtp_balance_inet_protocols */
static uint32_t balance(struct mx_target *targets, uint32_t count, uint32_t limit)
{
    uint32_t v6 = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        v6 += targets[i].ip.family == 6;
    }
    uint32_t v4 = count - v6;
    if (limit == 0 || count <= limit || v4 == 0 || v6 == 0) {
        return count;
    }
    uint32_t keep_v6;
    if (v6 <= limit / 2) {
        keep_v6 = v6;
    } else if (v4 <= limit / 2) {
        keep_v6 = limit - v4;
    } else {
        keep_v6 = limit / 2 + (targets[0].ip.family == 6 ? limit % 2 : 0);
    }
    uint32_t keep_v4 = limit - keep_v6;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *keep = targets[i].ip.family == 6 ? &keep_v6 : &keep_v4;
        if (*keep > 0) {
            (*keep)--;
            targets[kept++] = targets[i];
        }
    }
    return kept;
}

/* Why nothing is left. */
static enum mx_verdict verdict_of_nothing(const struct mx_host *hosts, uint32_t host_count)
{
    bool has_address = false;

    for (uint32_t h = 0; h < host_count; h++) {
        if (hosts[h].has_soft_failure) {
            return MX_SOFT;
        }
        has_address = has_address || hosts[h].ip_counts[0] + hosts[h].ip_counts[1] > 0;
    }
    return has_address ? MX_LOOP : MX_NO_HOST;
}

enum mx_verdict mx_order(const struct mx_policy *policy, const struct mx_hosts *hosts,
                         struct mx_random *random,
                         struct mx_target ret_targets[static MX_TARGETS_MAX], uint32_t *ret_count)
{
    uint32_t count = 0;

    for (uint32_t first = 0; first < hosts->count;) {
        struct group group = {hosts->list, first, first + 1};
        uint16_t preference = hosts->list[first].preference;
        while (group.end < hosts->count && hosts->list[group.end].preference == preference) {
            group.end++;
        }
        if (group_has_self(policy, group)) {
            if (count == 0) {
                return preference == hosts->best ? MX_LOOP : MX_NO_PRIMARY;
            }
            break;
        }
        count = group_append(policy, group, random, ret_targets, count);
        first = group.end;
    }
    if (count == 0) {
        return verdict_of_nothing(hosts->list, hosts->count);
    }
    *ret_count = balance(ret_targets, count, policy->balance_limit);
    return MX_OK;
}
