/* Runs a fuzzer's function over its kept corpus, without libFuzzer: so that every build repeats what fuzzing once
 * found.
 *
 *     replay_NAME DIRECTORY...
 *
 * Each input (it counts as one check) is also cut short at every eighth of its length and has single bytes changed, always the same ones. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned inputs;

/* A copy of exactly this size, so that a sanitizer sees the first byte too many. */
static void try(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void replay(const char *path)
{
    static uint8_t data[1 << 16];
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(data, 1, sizeof data, f) : 0;
    if (!f) return;
    fclose(f);
    inputs++;
    try(data, size);
    for (int i = 1; i < 8; i++) try(data, size * (size_t)i / 8);
    for (size_t i = 0, at = 0; i < 16 && size; i++, at += 7 + size / 16) {
        uint8_t kept = data[at % size];
        data[at % size] ^= (uint8_t)(1u << i % 8);
        try(data, size);
        data[at % size] = kept;
    }
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
    try((const uint8_t *)"", 0);
    inputs++;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        for (struct dirent *entry; d && (entry = readdir(d));) {
            char path[4096];
            if ((size_t)snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name) < sizeof path &&
                entry->d_name[0] != '.')
                replay(path);
        }
        if (d) closedir(d);
        else fprintf(stderr, "there is no corpus %s\n", argv[i]);
    }
    const char *name = strrchr(argv[0], '/');
    printf("suite %s: %u passed, 0 failed, 0 skipped\n", name ? name + 1 : argv[0], inputs);
    return 0;
}
