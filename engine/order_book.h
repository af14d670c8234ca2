#ifndef ENGINE_ORDER_BOOK_H
#define ENGINE_ORDER_BOOK_H
#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include <stdbool.h>
#include <stdint.h>
struct order_book;
enum order_kind { ORDER_NONE, ORDER_SUSPEND, ORDER_BOUNCE, ORDER_DROP };
struct order_facts { struct slice tenant, campaign, domain, destination, transport, sources; };
struct order_verdict { enum order_kind kind; uint64_t id; usec_t until; const char *reason; };
static inline bool order_book_is_empty(const struct order_book *b) { return true; }
static inline void order_book_judge(const struct order_book *b, const struct order_facts *f, usec_t now, struct order_verdict *ret) { (void)f; (void)now; ret->kind = ORDER_NONE; ret->reason = ""; }
static inline bool order_book_may_concern(const struct order_book *b, const struct order_facts *f) { (void)f; return false; }
static inline struct slice order_book_sources(const struct order_book *b, size_t transport) { (void)transport; return SLICE(""); }
#endif
