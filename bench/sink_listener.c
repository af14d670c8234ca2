/* Who is connected to which listening address; shared by all workers. Called when a connection
 * begins and ends. */
#include "bench/sink_worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct sink_client *find_client(struct sink_listener *l, const uint8_t address[16])
{
    for (size_t i = 0; i < l->client_count; i++) {
        if (memcmp(l->clients[i].address, address, sizeof(l->clients[i].address)) == 0) {
            return &l->clients[i];
        }
    }
    if (l->client_count == l->client_capacity) {
        size_t capacity = l->client_capacity == 0 ? 4 : l->client_capacity * 2;
        struct sink_client *clients = realloc(l->clients, capacity * sizeof(*clients));
        if (clients == NULL) {
            abort(); /* a limit that is not kept falsifies the measurement */
        }
        l->clients = clients;
        l->client_capacity = capacity;
    }
    struct sink_client *client = &l->clients[l->client_count++];
    memcpy(client->address, address, sizeof(client->address));
    client->connections = 0;
    return client;
}

bool sink_listener_enter(struct sink_listener *l, const uint8_t address[16], uint32_t limit)
{
    pthread_mutex_lock(&l->lock);
    struct sink_client *client = find_client(l, address);
    bool is_allowed = limit == 0 || client->connections < limit;
    if (is_allowed) {
        client->connections++;
        l->open++;
        if (l->open > l->max_open) {
            l->max_open = l->open;
        }
    } else if (client->connections == 0) {
        l->client_count--; /* it was added at the end just now */
    }
    pthread_mutex_unlock(&l->lock);
    return is_allowed;
}

void sink_listener_leave(struct sink_listener *l, const uint8_t address[16])
{
    pthread_mutex_lock(&l->lock);
    struct sink_client *client = find_client(l, address);
    assert(client->connections > 0);
    l->open--;
    if (--client->connections == 0) {
        *client = l->clients[--l->client_count];
    }
    pthread_mutex_unlock(&l->lock);
}
