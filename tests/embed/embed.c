/* A program that embeds the engine: starts it with a configuration file, submits mail, hears what
 * became of each recipient, asks how much is queued, and stops.
 *
 * usage: embed CONFIG SENDER RECIPIENT...
 *
 * Build it against an installed libsluice:  cc embed.c $(pkg-config --cflags --libs sluice) */
#include <pthread.h>
#include <sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting; /* recipients without a final event; under lock */
    int failed;  /* likewise, those that were not delivered */
};

static void on_log(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

/* On a thread of the engine: say what happened, and never wait. */
static int on_event(void *ctx, const struct sluice_event *e)
{
    struct program *p = ctx;
    int is_delivered = strcmp(e->type, "Delivery") == 0;
    int is_lost = strcmp(e->type, "Bounce") == 0 || strcmp(e->type, "Expiration") == 0 ||
                  strcmp(e->type, "AdminBounce") == 0 || strcmp(e->type, "AdminDrop") == 0;
    printf("%s %s <%s> %d %s %s\n", e->type, e->id, e->recipient, e->code, e->status, e->text);
    pthread_mutex_lock(&p->lock);
    if (strcmp(e->tenant, "embed") == 0 && (is_delivered || is_lost)) {
        p->waiting--;
        p->failed += is_lost;
        pthread_cond_signal(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return 0;
}

static int send_all(struct sluice *s, const char *sender, char **recipients, int count)
{
    static const char content[] = "Subject: hello\n"
                                  "\n"
                                  "This program has a mail engine inside.\n";
    for (int i = 0; i < count; i++) {
        const char *const to[] = {recipients[i]};
        const struct sluice_message message = {
            .sender = sender,
            .recipients = to,
            .recipient_count = 1,
            .content = content,
            .content_bytes = sizeof(content) - 1,
            .tenant = "embed",
        };
        char id[SLUICE_ID_BYTES], text[300];
        int result = sluice_send(s, &message, id, text, sizeof(text));
        if (result != SLUICE_OK) {
            fprintf(stderr, "%s was not accepted: %s\n", recipients[i], text);
            return result;
        }
        printf("accepted %s for %s\n", id, recipients[i]);
    }
    return SLUICE_OK;
}

static void show_counts(struct sluice *s)
{
    char *body = NULL;
    int status = sluice_call(s, "GET", "/v1/counts?by=tenant,state", NULL, &body);
    printf("counts: %d %s", status, body == NULL ? "\n" : body);
    free(body);
}

int main(int argc, char **argv)
{
    struct program p = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const struct sluice_settings settings = {
        .config_path = argc > 3 ? argv[1] : "", .log = on_log, .event = on_event, .ctx = &p};
    struct sluice *s = NULL;
    char text[300];
    if (argc < 4) {
        fprintf(stderr, "usage: %s CONFIG SENDER RECIPIENT...\n", argv[0]);
        return 64;
    }
    if (sluice_start(&settings, &s, text, sizeof(text)) != SLUICE_OK) {
        fprintf(stderr, "the engine does not start: %s\n", text);
        return 69;
    }
    p.waiting = argc - 3;
    int result = send_all(s, argv[2], argv + 3, argc - 3);
    pthread_mutex_lock(&p.lock);
    while (result == SLUICE_OK && p.waiting > 0) {
        pthread_cond_wait(&p.changed, &p.lock);
    }
    int failed = p.failed;
    pthread_mutex_unlock(&p.lock);
    show_counts(s);
    sluice_stop(s);
    printf("%d delivered, %d failed\n", argc - 3 - failed, failed);
    return result == SLUICE_OK ? 0 : 75;
}
