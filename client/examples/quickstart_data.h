/* The digits that the quickstart learns: read from a file, split into rows to train on and rows to test on.
 *
 * Every process of the example reads the file for itself and comes to the same split and the same order of rows,
 * because both follow from the seed alone. Nothing here knows tensord. */
#ifndef QUICKSTART_DATA_H
#define QUICKSTART_DATA_H

#include <stdbool.h>
#include <stdint.h>

struct dataset {
    unsigned char *pixels; /* rows x width x height, 0..max */
    unsigned char *labels; /* 0..9 */
    int rows, width, height, max;
    int train;         /* the first `train` rows are for training, the rest for the test */
    float mean, scale; /* a pixel p goes into the network as (p - mean) * scale */
};

/* `mnist` is the directory of MNIST's four IDX files (plain or .gz), or NULL: then `csv` is the file of UCI digits.
 * False when it cannot be read, after saying why on stderr. */
bool dataset_load(struct dataset *d, const char *csv, const char *mnist);
void dataset_free(struct dataset *d);

/* Fill order[0..d->train) with the order of training rows in this epoch. */
void dataset_order(const struct dataset *d, uint64_t seed, int epoch, int *order);
/* One row as the network sees it: width x height floats. */
void dataset_row(const struct dataset *d, int row, float *out);
/* Print some rows side by side as pictures, with a line of text under each. */
void dataset_show(const struct dataset *d, int count, const int *rows, const char *const *text);

/* A small generator of random numbers: the next one. */
uint64_t random_next(uint64_t *state);

#endif
