/* A loader: fills batches of digits straight in shared memory and puts them on a queue.
 *
 *     work queue: tickets  ->  loader  ->  batch queue: pixels, labels, row numbers
 *
 * Which batch to make says a ticket from the work queue; whichever loader is free takes it, so a loader that dies
 * leaves its share to the others. No byte of a batch travels through a socket: the memory that is written here is the
 * memory that the daemon computes on. */
#include "quickstart.h"

/* Write batch `ticket` into a lease and put it on the queue. */
static void make_batch(td_client *c, const struct dataset *d, const struct options *o, int ticket, td_queue *batches)
{
    static int *order, epoch = -1;
    if (!order && !(order = malloc(sizeof *order * (size_t)d->train))) fail("out of memory");
    if (ticket / batch_count(d) != epoch) dataset_order(d, o->seed, epoch = ticket / batch_count(d), order);

    int first = ticket % batch_count(d) * BATCH, count = d->train - first < BATCH ? d->train - first : BATCH;
    size_t area = (size_t)d->width * d->height, pixels = area * sizeof(float) * BATCH, labels = BATCH * sizeof(int64_t);
    td_lease *lease = td_lease_new(c, pixels + 2 * labels);
    char *at = td_lease_data(lease);
    check("a lease of shared memory", at != NULL);
    for (int i = 0; i < count; i++) {
        int row = order[first + i];
        dataset_row(d, row, (float *)at + i * area);
        ((int64_t *)(at + pixels))[i] = d->labels[row];
        ((int64_t *)(at + pixels + labels))[i] = row;
        /* For --kill-loader: stop in the middle of this batch, so that the driver can kill us there. */
        if (ticket >= o->stop_at && o->stop_at >= 0 && i == count / 2) raise(SIGSTOP);
    }
    td_array *x = td_put(lease, 0, TD_FLOAT32, td_dims(count, (int64_t)area));
    td_array *y = td_put(lease, pixels, TD_INT64, td_dims(count));
    td_array *rows = td_put(lease, pixels + labels, TD_INT64, td_dims(count));
    int rc = td_queue_put(batches, td_arrays(x, y, rows), &ticket, sizeof ticket, -1);
    if (rc == TD_E_CLOSED) exit(0); /* the trainer has all it wants */
    check("putting a batch", rc == 0);
    td_release(x);
    td_release(y);
    td_release(rows);
    td_lease_free(lease);
}

int main(int argc, char **argv)
{
    struct options o = read_options(argc, argv);
    struct dataset d;
    if (!dataset_load(&d, o.csv, o.mnist)) return 1;
    td_client *c = td_connect(NULL);
    td_queue *work = td_queue_open(c, "quickstart/work", 0, TD_CONSUMER);
    td_queue *batches = td_queue_open(c, "quickstart/batches", 0, TD_PRODUCER);
    check("connecting", batches != NULL && td_sync(c) == 0);
    if (o.joined >= 0) close(o.joined); /* the driver waits for this before it kills another loader */

    td_queue_item item;
    long made = 0;
    while (td_queue_get(work, &item, -1) == 0) { /* until the trainer closes the queue */
        int ticket;
        memcpy(&ticket, item.note, sizeof ticket);
        td_queue_item_clear(&item);
        make_batch(c, &d, &o, ticket, batches);
        made++;
    }
    check("waiting for work", td_last_error()->code == TD_E_CLOSED);
    report_shared(c, made * BATCH * (long)(d.width * d.height * sizeof(float) + 2 * sizeof(int64_t)));
    td_queue_close(batches, false);
    td_queue_close(work, false);
    td_disconnect(c);
    dataset_free(&d);
    return 0;
}
