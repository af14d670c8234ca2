/* Runs every file of the folders given through a fuzz target, so that corpora are normal tests. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_BYTES_MAX ((size_t)1 << 20)

/* returns false when the file cannot be read */
static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(FILE_BYTES_MAX);
    if (file == NULL || data == NULL) {
        perror(path);
        free(data);
        return 0;
    }
    size_t size = fread(data, 1, FILE_BYTES_MAX, file);
    (void)fclose(file); /* only read */
    /* an exact copy, so that a read beyond the end is seen */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact != NULL) {
        for (size_t i = 0; i < size; i++) {
            exact[i] = data[i];
        }
        (void)LLVMFuzzerTestOneInput(exact, size); /* always 0 */
    }
    free(exact);
    free(data);
    return exact != NULL;
}

static int run_folder(const char *folder, unsigned *count)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        return 0;
    }
    int ok = 1;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        ok = run_file(path) && ok;
        (*count)++;
    }
    (void)closedir(dir); /* only read */
    return ok;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int ok = argc > 1;
    for (int i = 1; i < argc; i++) {
        ok = run_folder(argv[i], &count) && ok;
    }
    printf("%u inputs\n", count);
    return ok && count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
