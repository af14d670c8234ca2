/* A folder below /tmp that is removed with all that is in it. */
#include "tests/unit/key_files.h"

#include "tests/unit/dkim_keys.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void key_files_init(struct key_files *f)
{
    *f = (struct key_files){.folder = "/tmp/sluice-keys-XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
}

void key_files_fini(struct key_files *f)
{
    DIR *folder = opendir(f->folder);
    assert_non_null(folder);
    for (struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        (void)unlinkat(dirfd(folder), e->d_name, 0); /* not "." and ".." */
    }
    (void)closedir(folder);
    assert_int_equal(rmdir(f->folder), 0);
}

void key_files_put(const struct key_files *f, const char *name, struct slice bytes, unsigned mode)
{
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/%s", f->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

int key_files_load(struct key_files *f, const char *text, const struct key_ring *before)
{
    struct buf whole;
    buf_init(&whole, 0);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '@') {
            buf_append_str(&whole, f->folder);
        } else {
            buf_append_char(&whole, *at);
        }
    }
    buf_append_char(&whole, '\0');
    assert_false(whole.failed);
    sample_load(&f->sample, whole.data);
    buf_fini(&whole);
    if (f->sample.err != 0) {
        print_error("%s", f->sample.said);
    }
    assert_int_equal(f->sample.err, 0);
    f->sample.said[0] = '\0';
    f->sample.errors = f->sample.warnings = 0;
    const struct config_sink sink = {.complain = sample_complain, .ctx = &f->sample};
    return key_ring_load(f->sample.config, before, &sink, &f->ring);
}

void key_files_unload(struct key_files *f)
{
    key_ring_free(f->ring);
    config_free(f->sample.config);
    f->ring = NULL;
    f->sample.config = NULL;
}
