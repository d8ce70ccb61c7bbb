/* A classifier: opens what the trainer published, by name, and recognises the digits of the test.
 *
 * It never saw the training. The weights are the trainer's own memory, mapped read-only: nothing is loaded or copied,
 * and twenty of these processes would share one set of weights. Forward runs in the daemon. */
#include "quickstart.h"

static const char *const name[] = {"digits/w1", "digits/b1", "digits/w2", "digits/b2", "digits/w3", "digits/b3"};

/* The rows first, first + step, ... of the test as one tensor; how many. */
static int load_rows(td_client *c, const struct dataset *d, int first, int step, td_array **x)
{
    int area = d->width * d->height, count = (d->rows - first + step - 1) / step;
    td_lease *lease = td_lease_new(c, sizeof(float) * (size_t)(count * area));
    float *at = td_lease_data(lease);
    check("a lease of shared memory", at != NULL);
    for (int i = 0; i < count; i++) dataset_row(d, first + i * step, at + (size_t)i * area);
    *x = td_put(lease, 0, TD_FLOAT32, td_dims(count, area));
    td_lease_free(lease);
    return count;
}

int main(int argc, char **argv)
{
    struct options o = read_options(argc, argv);
    struct dataset d;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* two of us print pictures at once: in one piece each */
    if (!dataset_load(&d, o.csv, o.mnist)) return 1;
    td_client *c = td_connect(NULL);
    td_array *p[6], *x;
    td_scope scope;
    td_scope_begin(&scope);
    long shared = 0;
    for (int i = 0; i < 6; i++) {
        p[i] = td_open(c, name[i], 0);
        check(name[i], td_data(p[i]) != NULL); /* mapped: these are the trained weights themselves */
        shared += td_nbytes(p[i]);
    }
    td_set_inference(true);
    int first = d.train + o.part, count = load_rows(c, &d, first, o.parts, &x);
    td_array *h = td_relu(td_linear(x, p[0], p[1]));
    h = td_relu(td_linear(h, p[2], p[3]));
    td_array *best = td_argmax(td_linear(h, p[4], p[5]), 1);
    const int64_t *digit = td_data(best); /* waits for the answer, and looks at it where it is */
    check("recognising", digit != NULL);

    int right = 0, rows[4], shown = 0;
    char text[4][32];
    const char *texts[4];
    for (int i = 0; i < count; i++) {
        int row = first + i * o.parts, label = d.labels[row];
        right += digit[i] == label;
        if (shown == 4 || i % (count / 4) != 0) continue;
        snprintf(text[shown], sizeof *text, digit[i] == label ? "%d" : "%d (it is a %d)", (int)digit[i], label);
        texts[shown] = text[shown];
        rows[shown++] = row;
    }
    dataset_show(&d, shown, rows, texts);
    say("%d of %d recognised, with weights of %ld bytes mapped from the trainer", right, count, shared);
    report(c, "right %d", right);
    report(c, "tested %d", count);
    report_shared(c, shared + td_nbytes(x) + td_nbytes(best));
    td_scope_end(&scope);
    td_disconnect(c);
    dataset_free(&d);
    return 0;
}
