/* Runs a fuzzer's function over its kept corpus, without libFuzzer: so that every build repeats what fuzzing once
 * found.
 *
 *     replay_NAME CORPUS.hex       an input a line, in hexadecimal (see corpus.py)
 *
 * Each input (it counts as one check) is also cut short at every eighth of its length and has single bits changed,
 * always the same ones. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A copy of exactly this size, so that a sanitizer sees the first byte too many. */
static void try(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void replay(uint8_t *data, size_t size)
{
    for (int i = 0; i <= 8; i++) try(data, size * (size_t)i / 8);
    for (size_t i = 0, at = 0; i < 16 && size; i++, at += 7 + size / 16) {
        data[at % size] ^= (uint8_t)(1u << i % 8);
        try(data, size);
        data[at % size] ^= (uint8_t)(1u << i % 8);
    }
}

static size_t from_hex(const char *line, uint8_t *data)
{
    size_t n = 0;
    for (unsigned v; sscanf(line + 2 * n, "%2x", &v) == 1; n++) data[n] = (uint8_t)v;
    return n;
}

int main(int argc, char **argv)
{
    static char line[1 << 17];
    static uint8_t data[1 << 16];
    unsigned inputs = 0;
    if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    for (; f && fgets(line, sizeof line, f); inputs++) replay(data, from_hex(line, data));
    if (f) fclose(f);
    printf("suite %s: %u passed, %d failed, 0 skipped\n", strrchr(argv[0], '/') + 1, inputs, !inputs);
    return !inputs;
}
