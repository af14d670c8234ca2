/* Key files and a ring made of a configuration text, for tests about which key signs what. */
#ifndef TESTS_UNIT_KEY_FILES_H
#define TESTS_UNIT_KEY_FILES_H

#include "engine/key/key_ring.h"
#include "tests/unit/config_sample.h"

struct key_files {
    char folder[64]; /* "/tmp/..." */
    struct sample sample;
    struct key_ring *ring;
};

void key_files_init(struct key_files *f);
void key_files_fini(struct key_files *f);
/* Write a file of that name into the folder. */
void key_files_put(const struct key_files *f, const char *name, struct slice bytes, unsigned mode);
/* Load the text, in which every "@" stands for the folder, and its keys. What was loaded before is
 * `before` and stays the caller's. returns what key_ring_load says */
int key_files_load(struct key_files *f, const char *text, const struct key_ring *before);
/* Let go of what key_files_load made. */
void key_files_unload(struct key_files *f);

#endif
