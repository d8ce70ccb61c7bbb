/* Reads the UCI digits (a gzipped table of numbers) or MNIST (IDX files), see quickstart_data.h. */
#include "quickstart_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define UCI_ROWS 1797
#define UCI_TRAIN 1500

uint64_t random_next(uint64_t *state) /* splitmix64, S. Vigna, public domain */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void shuffle(int *order, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(random_next(&seed) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* gzopen reads plain files too. */
static gzFile open_file(const char *path)
{
    gzFile f = gzopen(path, "rb");
    if (!f) fprintf(stderr, "quickstart: cannot open %s: %s\n", path, errno ? strerror(errno) : "out of memory");
    return f;
}

/* The writers of the UCI digits come one after another in the file: rows are mixed before they are split. */
static bool load_uci(struct dataset *d, const char *path)
{
    char line[512];
    int place[UCI_ROWS], row = 0;
    gzFile f = open_file(path);
    if (!f) return false;
    d->width = d->height = 8;
    d->max = 16;
    d->rows = UCI_ROWS;
    d->train = UCI_TRAIN;
    d->pixels = malloc(UCI_ROWS * 64);
    d->labels = malloc(UCI_ROWS);
    shuffle(place, UCI_ROWS, 1);
    while (d->pixels && d->labels && row < UCI_ROWS && gzgets(f, line, sizeof line)) {
        char *at = line;
        for (int i = 0; i < 64; i++, at += *at == ',')
            d->pixels[place[row] * 64 + i] = (unsigned char)strtol(at, &at, 10);
        d->labels[place[row++]] = (unsigned char)(strtol(at, NULL, 10) % 10);
    }
    gzclose(f);
    if (row != UCI_ROWS) fprintf(stderr, "quickstart: %s ends after %d of %d rows\n", path, row, UCI_ROWS);
    return row == UCI_ROWS;
}

/* Collections name the files with or without "mnist-" before and ".gz" behind. */
static gzFile open_mnist(const char *dir, const char *name)
{
    static const char *const form[] = {"%s/%s.gz", "%s/%s", "%s/mnist-%s.gz", "%s/mnist-%s"};
    char path[4096];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, form[i], dir, name);
        if (access(path, R_OK) == 0) break;
    }
    return open_file(path);
}

/* The head of an IDX file: the sizes of its `dims` dimensions of bytes. */
static bool read_head(gzFile f, int dims, int *sizes)
{
    unsigned char head[16];
    int want = 4 + 4 * dims;
    if (gzread(f, head, (unsigned)want) != want || head[2] != 8 || head[3] != dims) return false;
    for (int i = 0; i < dims; i++)
        sizes[i] = head[4 * i + 4] << 24 | head[4 * i + 5] << 16 | head[4 * i + 6] << 8 | head[4 * i + 7];
    return true;
}

/* Append the rows of two open files to the dataset. */
static bool append_mnist(struct dataset *d, gzFile images, gzFile labels)
{
    int size[3], count[1], area = 28 * 28;
    if (!read_head(images, 3, size) || !read_head(labels, 1, count)) return false;
    int n = size[0];
    if (n <= 0 || n > 100000 || count[0] != n || size[1] != 28 || size[2] != 28) return false;
    unsigned char *more = realloc(d->pixels, ((size_t)d->rows + (size_t)n) * area);
    if (!more) return false;
    d->pixels = more;
    if (!(more = realloc(d->labels, (size_t)d->rows + (size_t)n))) return false;
    d->labels = more;
    if (gzread(images, d->pixels + (size_t)d->rows * area, (unsigned)(n * area)) != n * area) return false;
    if (gzread(labels, d->labels + d->rows, (unsigned)n) != n) return false;
    d->rows += n;
    return true;
}

static bool load_mnist(struct dataset *d, const char *dir)
{
    bool ok = true;
    d->width = d->height = 28;
    d->max = 255;
    for (int test = 0; test < 2 && ok; test++) {
        gzFile images = open_mnist(dir, test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte");
        gzFile labels = images ? open_mnist(dir, test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte") : NULL;
        ok = images && labels && append_mnist(d, images, labels);
        if (images && labels && !ok) fprintf(stderr, "quickstart: the files in %s are not MNIST's\n", dir);
        if (images) gzclose(images);
        if (labels) gzclose(labels);
        if (!test) d->train = d->rows;
    }
    return ok;
}

bool dataset_load(struct dataset *d, const char *csv, const char *mnist)
{
    memset(d, 0, sizeof *d);
    bool ok = mnist ? load_mnist(d, mnist) : load_uci(d, csv);
    if (!ok) {
        dataset_free(d);
        return false;
    }
    for (int i = 0; i < d->rows; i++)
        if (d->labels[i] > 9) d->labels[i] = 0;
    d->mean = d->max * (mnist ? 0.1307f : 0.3053f); /* of the training rows */
    d->scale = 1 / (d->max * (mnist ? 0.3081f : 0.3760f));
    return true;
}

void dataset_free(struct dataset *d)
{
    free(d->pixels);
    free(d->labels);
    memset(d, 0, sizeof *d);
}

void dataset_order(const struct dataset *d, uint64_t seed, int epoch, int *order)
{
    shuffle(order, d->train, seed * 1000003 + (uint64_t)epoch);
}

void dataset_row(const struct dataset *d, int row, float *out)
{
    int area = d->width * d->height;
    for (int i = 0; i < area; i++) out[i] = ((float)d->pixels[(size_t)row * area + i] - d->mean) * d->scale;
}

/* How dark a cell of the picture is, 0..5: the mean of step x step pixels. */
static int shade_at(const struct dataset *d, int row, int x, int y, int step)
{
    int sum = 0;
    for (int i = 0; i < step * step; i++)
        sum += d->pixels[((size_t)row * d->height + y + i / step) * d->width + x + i % step];
    return (sum * 5 + d->max * step * step / 2) / (d->max * step * step);
}

void dataset_show(const struct dataset *d, int count, const int *rows, const char *const *text)
{
    static const char *const shades[] = {"  ", "..", "::", "++", "##", "@@"}; /* two characters are about a square */
    int step = d->width > 16 ? 2 : 1;
    for (int y = 0; y < d->height; y += step, printf("\n"))
        for (int k = 0; k < count; k++, printf("   "))
            for (int x = 0; x < d->width; x += step) printf("%s", shades[shade_at(d, rows[k], x, y, step)]);
    for (int k = 0; k < count; k++) printf("%-*s   ", 2 * d->width / step, text[k]);
    printf("\n");
}
