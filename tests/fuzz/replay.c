/* Runs every file of the folders named on the command line through a fuzz target, as a plain test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUT_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    uint8_t *data = malloc(INPUT_MAX);
    FILE *file = fopen(path, "rb");

    if (file == NULL || data == NULL) {
        perror(path);
        free(data);
        if (file != NULL) {
            (void)fclose(file); /* read only */
        }
        return 1;
    }
    size_t size = fread(data, 1, INPUT_MAX, file);
    (void)fclose(file);                       /* read only */
    (void)LLVMFuzzerTestOneInput(data, size); /* it aborts when it fails */
    free(data);
    return 0;
}

static int replay_folder(const char *folder, int *count)
{
    char path[4096];
    struct dirent *entry;
    int failed = 0;
    DIR *dir = opendir(folder);

    if (dir == NULL) {
        perror(folder);
        return 1;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            failed |= replay_file(path);
            (*count)++;
        }
    }
    (void)closedir(dir); /* read only */
    return failed;
}

int main(int argc, char **argv)
{
    int count = 0;
    int failed = argc < 2;

    for (int i = 1; i < argc; i++) {
        failed |= replay_folder(argv[i], &count);
    }
    printf("%d inputs replayed\n", count);
    return failed || count == 0;
}
