/* From sections to who behaves how: profiles, one section laid over another, and mistakes that only
 * show when sections are seen together. Called once by main. */
#include "bench/sink/behaviour_file.h"

#include "base/error.h"
#include "base/slice.h"
#include "bench/sink/behaviour_section.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOMAIN_MAX_BYTES 255
#define CHAIN_MAX        10 /* profiles that use profiles */

struct loader {
    struct behaviour_sections sections;
    const struct behaviour_reader *reader;
};

/* Names of profiles are names of files. */
static bool is_profile_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strlen(name) < NAME_MAX - 5 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               strlen(name);
}

static struct behaviour_place use_place(const struct behaviour_section *s)
{
    return (struct behaviour_place){s->place.source, s->use_line};
}

/* The profile that a section uses, from the files read so far or from the folder; NULL when it was
 * complained about. */
static struct behaviour_section *find_profile(struct loader *l, const struct behaviour_section *s)
{
    char path[PATH_MAX];
    struct behaviour_section *profile = behaviour_sections_profile(&l->sections, s->use);
    const char *folder = l->reader->profiles_dir;
    if (profile != NULL) {
        return profile;
    }
    if (!is_profile_name(s->use) || folder == NULL) {
        behaviour_complain(&l->sections, use_place(s), "use",
                           "there is no profile \"%.80s\" in this file; write one of those that "
                           "sluice-sink --profiles lists, or profile \"NAME\" { ... }",
                           s->use);
        return NULL;
    }
    (void)snprintf(path, sizeof(path), "%s/%s.conf", folder, s->use);
    int err = behaviour_sections_read(&l->sections, path, NULL);
    profile = behaviour_sections_profile(&l->sections, s->use);
    if (err == -ENOENT) {
        behaviour_complain(&l->sections, use_place(s), "use",
                           "there is no profile \"%.80s\", neither in this file nor in %.200s; "
                           "write one of those that sluice-sink --profiles lists",
                           s->use, folder);
    } else if (profile == NULL) {
        behaviour_complain(&l->sections, use_place(s), "use",
                           "%.300s holds no profile \"%.80s\" (%s); write profile \"NAME\" { ... } "
                           "there",
                           path, s->use, err == 0 ? "no such section" : err_str(err));
    }
    return profile;
}

/* The section, the profile that it uses, the one that this uses... returns: how many */
static size_t collect_chain(struct loader *l, struct behaviour_section *s,
                            struct behaviour_section *ret_chain[CHAIN_MAX])
{
    size_t count = 0;
    while (s != NULL) {
        for (size_t i = 0; i < count; i++) {
            if (ret_chain[i] == s || count == CHAIN_MAX) {
                behaviour_complain(&l->sections, use_place(ret_chain[count - 1]), "use",
                                   "profiles use each other in a circle, or more than %d deep; "
                                   "remove one of their uses",
                                   CHAIN_MAX);
                return count;
            }
        }
        ret_chain[count++] = s;
        s = s->use != NULL ? find_profile(l, s) : NULL;
    }
    return count;
}

/* What a section says with the profiles below it, over what `into` says already. */
static int lay(struct loader *l, struct behaviour_section *s, struct behaviour *into)
{
    struct behaviour_section *chain[CHAIN_MAX];
    int err = 0;
    for (size_t i = collect_chain(l, s, chain); i > 0 && err == 0; i--) {
        err = behaviour_overlay(into, &chain[i - 1]->own);
    }
    return err;
}

static int add_destination(struct loader *l, struct behaviour_section *s, struct behaviour_file *f)
{
    struct behaviour_destination *d = &f->destinations[f->destination_count];
    if (endpoint_range_read(s->title, &d->range) != 0) {
        behaviour_complain(&l->sections, s->place, "destination",
                           "\"%.60s\" is no listening address; write ADDRESS, FIRST-LAST or one "
                           "of them with :PORT, such as 127.0.1.1-127.0.1.10",
                           s->title);
    }
    d->line = s->place.line;
    d->title = strdup(s->title);
    f->destination_count++;
    behaviour_init(&d->behaviour);
    int err = d->title == NULL ? -ENOMEM : behaviour_overlay(&d->behaviour, &f->common);
    return err == 0 ? lay(l, s, &d->behaviour) : err;
}

static int add_domain(struct loader *l, struct behaviour_section *s, struct behaviour_file *f)
{
    struct behaviour_domain *d = &f->domains[f->domain_count];
    size_t len = strlen(s->title);
    if (len == 0 || len > DOMAIN_MAX_BYTES || strpbrk(s->title, "@<>* \t") != NULL) {
        behaviour_complain(&l->sections, s->place, "domain",
                           "\"%.60s\" is no domain; write what stands behind the @ of recipients, "
                           "such as d1.test",
                           s->title);
    }
    d->name = strdup(s->title);
    f->domain_count++;
    behaviour_init(&d->behaviour);
    if (d->name == NULL) {
        return -ENOMEM;
    }
    slice_lower(slice_of(d->name), d->name);
    return lay(l, s, &d->behaviour);
}

/* A client's entry is a complete behaviour, so that a connection has to ask one entry only. */
static int add_client(struct loader *l, struct behaviour_section *s, struct behaviour_file *f)
{
    struct behaviour_client *c = &f->clients[f->client_count];
    if (endpoint_range_read(s->title, &c->range) != 0 || c->range.port != 0) {
        behaviour_complain(&l->sections, s->place, "client",
                           "\"%.60s\" is no address of a client; write ADDRESS or FIRST-LAST, such "
                           "as 127.0.0.2",
                           s->title);
    }
    c->behaviours = calloc(f->destination_count + 1, sizeof(*c->behaviours));
    f->client_count++;
    int err = c->behaviours == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i <= f->destination_count && err == 0; i++) {
        struct behaviour *b = &c->behaviours[i];
        behaviour_init(b);
        err = behaviour_overlay(b, i < f->destination_count ? &f->destinations[i].behaviour
                                                            : &f->common);
        err = err == 0 ? lay(l, s, b) : err;
    }
    return err;
}

/* The command line, then the default section. */
static int fill_common(struct loader *l, const struct behaviour *base, struct behaviour_file *f)
{
    const struct behaviour_section *first = NULL;
    behaviour_init(&f->common);
    int err = behaviour_overlay(&f->common, base);
    for (size_t i = 0; i < l->sections.count && err == 0; i++) {
        struct behaviour_section *s = l->sections.items[i];
        if (s->kind != BEHAVIOUR_DEFAULT) {
            continue;
        }
        if (first != NULL) {
            behaviour_complain(&l->sections, s->place, "default",
                               "the section was already in line %u; keep one of them",
                               first->place.line);
        }
        first = s;
        err = lay(l, s, &f->common);
    }
    return err;
}

static int fill_behaviours(struct loader *l, const struct behaviour *base, struct behaviour_file *f)
{
    size_t count = l->sections.count; /* profiles may join them below */
    f->destinations = calloc(count + 1, sizeof(*f->destinations));
    f->domains = calloc(count + 1, sizeof(*f->domains));
    f->clients = calloc(count + 1, sizeof(*f->clients));
    if (f->destinations == NULL || f->domains == NULL || f->clients == NULL) {
        return -ENOMEM;
    }
    int err = fill_common(l, base, f);
    for (size_t i = 0; i < count && err == 0; i++) {
        struct behaviour_section *s = l->sections.items[i];
        if (s->kind == BEHAVIOUR_DESTINATION) {
            err = add_destination(l, s, f);
        } else if (s->kind == BEHAVIOUR_DOMAIN) {
            err = add_domain(l, s, f);
        } else if (s->kind == BEHAVIOUR_PROFILE) {
            struct behaviour_section *chain[CHAIN_MAX];
            (void)collect_chain(l, s, chain); /* mistakes also of a profile that nobody uses */
        }
    }
    for (size_t i = 0; i < count && err == 0; i++) { /* once all destinations are known */
        if (l->sections.items[i]->kind == BEHAVIOUR_CLIENT) {
            err = add_client(l, l->sections.items[i], f);
        }
    }
    return err;
}

static int load_behaviours(const char *name, const char *text, const struct behaviour *base,
                           const struct behaviour_reader *reader, struct behaviour_file *ret)
{
    struct loader l = {.reader = reader};
    struct behaviour_file f = {0};
    int err = name != NULL ? behaviour_sections_read(&l.sections, name, text) : 0;
    if (err != 0 && l.sections.source_count == 0) {
        char line[PATH_MAX + 200];
        (void)snprintf(line, sizeof(line), "%s: %s; name a text file that can be read", name,
                       err == ERR_SYNTAX ? "it has a NUL byte" : err_str(err));
        reader->complain(reader->ctx, line);
        behaviour_sections_fini(&l.sections);
        return ERR_SYNTAX;
    }
    if (err == 0) {
        err = fill_behaviours(&l, base, &f);
    }
    if (behaviour_sections_tell(&l.sections, reader->complain, reader->ctx) && err == 0) {
        err = ERR_SYNTAX;
    }
    behaviour_sections_fini(&l.sections);
    if (err != 0) {
        behaviour_file_fini(&f);
        return err;
    }
    *ret = f;
    return 0;
}

int behaviour_file_read(const char *path, const struct behaviour *base,
                        const struct behaviour_reader *reader, struct behaviour_file *ret)
{
    return load_behaviours(path, NULL, base, reader, ret);
}

int behaviour_file_read_text(const char *text, const char *name, const struct behaviour *base,
                             const struct behaviour_reader *reader, struct behaviour_file *ret)
{
    return load_behaviours(name, text, base, reader, ret);
}

void behaviour_file_fini(struct behaviour_file *f)
{
    for (size_t i = 0; i < f->destination_count; i++) {
        behaviour_fini(&f->destinations[i].behaviour);
        free(f->destinations[i].title);
    }
    for (size_t i = 0; i < f->domain_count; i++) {
        behaviour_fini(&f->domains[i].behaviour);
        free(f->domains[i].name);
    }
    for (size_t i = 0; i < f->client_count; i++) {
        for (size_t k = 0; f->clients[i].behaviours != NULL && k <= f->destination_count; k++) {
            behaviour_fini(&f->clients[i].behaviours[k]);
        }
        free(f->clients[i].behaviours);
    }
    behaviour_fini(&f->common);
    free(f->clients);
    free(f->destinations);
    free(f->domains);
    *f = (struct behaviour_file){0};
}

const struct behaviour *behaviour_file_of(const struct behaviour_file *f,
                                          const struct sockaddr_storage *address,
                                          size_t *ret_destination)
{
    for (size_t i = f->destination_count; i > 0; i--) {
        const struct behaviour_destination *d = &f->destinations[i - 1];
        if (endpoint_range_has(&d->range, address)) {
            *ret_destination = i - 1;
            return &d->behaviour;
        }
    }
    *ret_destination = f->destination_count;
    return &f->common;
}

const struct behaviour *behaviour_file_towards(const struct behaviour_file *f, size_t destination,
                                               const struct sockaddr_storage *client)
{
    for (size_t i = f->client_count; i > 0; i--) {
        const struct behaviour_client *c = &f->clients[i - 1];
        if (endpoint_range_has(&c->range, client)) {
            return &c->behaviours[destination];
        }
    }
    return destination < f->destination_count ? &f->destinations[destination].behaviour
                                              : &f->common;
}

static int is_conf(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".conf") == 0;
}

int behaviour_file_list(const struct behaviour_reader *reader,
                        void (*tell)(const char *name, const char *description))
{
    struct loader l = {.reader = reader};
    struct dirent **entries = NULL;
    char path[PATH_MAX];
    int err = 0;
    int count = scandir(reader->profiles_dir, &entries, is_conf, alphasort);
    if (count < 0) {
        return -errno;
    }
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", reader->profiles_dir, entries[i]->d_name);
        int failure = behaviour_sections_read(&l.sections, path, NULL);
        err = err == 0 ? failure : err;
        free(entries[i]);
    }
    free(entries);
    for (size_t i = 0; i < l.sections.count; i++) {
        const struct behaviour_section *s = l.sections.items[i];
        if (s->kind == BEHAVIOUR_PROFILE) {
            tell(s->title, s->description != NULL ? s->description : "");
        }
    }
    if (behaviour_sections_tell(&l.sections, reader->complain, reader->ctx) && err == 0) {
        err = ERR_SYNTAX;
    }
    behaviour_sections_fini(&l.sections);
    return err;
}
