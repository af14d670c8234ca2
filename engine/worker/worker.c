/* Owns the spool reader of a worker's pass and the list of what is ready. Called on that worker's
 * thread by its connections and by its loop. */
#include "engine/worker/worker.h"

#include "engine/spool/spool_store.h"

struct mailbox *worker_box(struct worker *w)
{
    return &w->post.box;
}

struct spool_reader *worker_reader(struct worker *w)
{
    post_assert_owner(&w->post);
    if (!w->reader_is_open) {
        w->reader_is_open = spool_reader_begin(w->reader) == 0;
        w->lacks_reader = !w->reader_is_open;
    }
    return w->reader_is_open ? w->reader : NULL;
}

void worker_end_reader(struct worker *w)
{
    post_assert_owner(&w->post);
    if (w->reader_is_open) {
        spool_reader_end(w->reader);
        w->reader_is_open = false;
    }
}

void worker_run_again(struct worker *w, struct worker_ready *r)
{
    post_assert_owner(&w->post);
    if (!list_is_linked(&r->link)) {
        list_push_back(&w->ready, &r->link);
    }
}

void worker_run_ready(struct worker *w)
{
    struct list batch;
    list_init(&batch);
    while (!list_is_empty(&w->ready)) {
        struct list *first = w->ready.next;
        list_remove(first);
        list_push_back(&batch, first);
    }
    while (!list_is_empty(&batch)) {
        struct worker_ready *r = list_first(&batch, struct worker_ready, link);
        list_remove(&r->link);
        r->run(r);
    }
}
