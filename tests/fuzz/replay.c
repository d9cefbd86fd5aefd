/* Passes files, and all files in directories, to a fuzz target: replays a corpus, or a crash,
 * without libFuzzer. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static unsigned replayed;

static void replay_file(const char *path, size_t bytes)
{
    uint8_t *data = malloc(bytes + !bytes); /* its exact size, for ASan */
    FILE *file = fopen(path, "rb");
    if (!data || !file || fread(data, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    replayed++;
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *inside;
        if (entries[i]->d_name[0] != '.' &&
            asprintf(&inside, "%s/%s", path, entries[i]->d_name) > 0) {
            replay(inside);
            free(inside);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%u inputs\n", replayed);
    return replayed > 0 ? 0 : 1; /* a missing corpus is a failure */
}
