/* Compiler attributes that carry contracts, and the thread roles that clang's -Wthread-safety
 * checks: who owns a post (post.h) has a role, and may call what asks for it. A lock can be a role
 * too, that is taken and left. Fields cannot ask: in C clang has no name for a field's neighbour. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#include <stddef.h>
#include <stdint.h>

#define MUST_USE               __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NONNULL_RET            __attribute__((returns_nonnull))
#define CACHE_LINE             64

#if defined(__clang__)
#define THREAD_ROLE         __attribute__((capability("role")))
#define ON_ROLE(role)       __attribute__((requires_capability(role)))
#define ROLE_ASSERTED(role) __attribute__((assert_capability(role)))
#define ROLE_TAKEN(role)    __attribute__((acquire_capability(role)))
#define ROLE_LEFT(role)     __attribute__((release_capability(role)))
#define ROLE_UNCHECKED      __attribute__((no_thread_safety_analysis))
#else
#define THREAD_ROLE
#define ON_ROLE(role)
#define ROLE_ASSERTED(role)
#define ROLE_TAKEN(role)
#define ROLE_LEFT(role)
#define ROLE_UNCHECKED
#endif

/* Through an integer, so that a read-only walk may name a const type without a warning. */
#define container_of(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

#endif
