/* The trainer: takes batches that the loaders made and trains a small network by eager operations in the daemon.
 *
 * It hands out one ticket for each batch and keeps a ledger: batches are used in the order of their tickets, each once.
 * It watches the queue: when a loader dies, it is told at once, and hands out the missing tickets again; a batch that
 * comes twice is dropped. So every sample is seen exactly once an epoch, and the result is the same to the last bit
 * whichever loader made which batch. */
#include "quickstart.h"

#define AHEAD 8 /* tickets that are out at a time */

struct parameter {
    td_array *value, *m, *v, *step; /* the value, and Adam's state */
};

/* ---- the ledger ---- */

struct ledger {
    td_queue *work, *batches;
    td_queue_item item[AHEAD]; /* batches that came before their turn, at [ticket % AHEAD] */
    bool here[AHEAD];
    int issued, used, total;
};

static void hand_out(struct ledger *l, int ticket)
{
    check("handing out a ticket", td_queue_put(l->work, td_arrays(), &ticket, sizeof ticket, -1) == 0);
}

/* A loader died, and one of the tickets that are missing was in its hand. Which one nobody knows: all go out again. */
static void hand_out_again(struct ledger *l)
{
    int missing = 0;
    say("%s", td_last_error()->message);
    td_clear_error();
    for (int t = l->used; t < l->issued; t++) {
        if (l->here[t % AHEAD]) continue;
        hand_out(l, t);
        missing++;
    }
    say("%d batches are missing, from batch %d on: their tickets are handed out again", missing, l->used);
}

/* Take in one batch, or the news that a loader died. */
static void take_in(struct ledger *l)
{
    td_queue_item item;
    int ticket, code = td_queue_get(l->batches, &item, -1);
    if (code == TD_E_DIED) {
        hand_out_again(l);
        return;
    }
    check("waiting for a batch", code == 0);
    memcpy(&ticket, item.note, sizeof ticket);
    if (ticket < l->used || ticket >= l->issued || l->here[ticket % AHEAD]) {
        td_queue_item_clear(&item); /* it came twice */
        return;
    }
    l->item[ticket % AHEAD] = item;
    l->here[ticket % AHEAD] = true;
}

/* The next batch in order; the caller clears it. */
static td_queue_item next_batch(struct ledger *l)
{
    while (l->issued < l->total && l->issued < l->used + AHEAD) hand_out(l, l->issued++);
    while (!l->here[l->used % AHEAD]) take_in(l);
    l->here[l->used % AHEAD] = false;
    return l->item[l->used++ % AHEAD];
}

/* Count the rows of a batch, looking at them where the loader wrote them. */
static void count_rows(td_array *rows, int *seen)
{
    const int64_t *row = td_data(rows);
    check("looking at the row numbers", row != NULL);
    for (int64_t i = 0; i < td_numel(rows); i++) seen[row[i]]++;
}

/* ---- the network ---- */

static void make_layer(td_client *c, struct parameter *p, int in, int out)
{
    td_scope s;
    td_scope_begin(&s);
    bool was = td_set_service(true); /* memory that outlives us, and that everybody may read */
    p[0].value = td_keep(td_mul(td_randn(c, td_dims(out, in), TD_FLOAT32), sqrt(2.0 / in)));
    p[1].value = td_keep(td_full(c, td_dims(out), 0, TD_FLOAT32));
    td_set_service(was);
    for (int i = 0; i < 2; i++) {
        p[i].m = td_keep(td_zeros_like(p[i].value));
        p[i].v = td_keep(td_zeros_like(p[i].value));
        p[i].step = td_keep(td_full(c, td_dims(), 0, TD_FLOAT32));
        check("making the parameters", td_set_requires_grad(p[i].value, true) == 0);
    }
    td_scope_end(&s);
}

static void free_parameters(struct parameter *p, int count)
{
    for (int i = 0; i < count; i++) {
        td_release(p[i].value);
        td_release(p[i].m);
        td_release(p[i].v);
        td_release(p[i].step);
    }
}

/* One step: forward, backward, Adam. The loss is added to `sum`. */
static void train(struct parameter *p, td_array *x, td_array *y, td_array *sum)
{
    td_scope s;
    td_scope_begin(&s);
    td_array *h = td_relu(td_linear(x, p[0].value, p[1].value));
    h = td_relu(td_linear(h, p[2].value, p[3].value));
    td_array *loss = td_cross_entropy(td_linear(h, p[4].value, p[5].value), y);
    td_array *value[6], *grad[6];
    for (int i = 0; i < 6; i++) value[i] = p[i].value;
    check("backward", td_backward(loss) == 0);

    bool was = td_set_grad_enabled(false);
    td_add_(sum, loss);
    check("gradients", td_grads(td_arrays_of(6, value), grad) == 0);
    for (int i = 0; i < 6; i++) td_adam_step(p[i].value, grad[i], p[i].m, p[i].v, p[i].step, 1e-3);
    td_zero_grad(td_arrays_of(6, value));
    td_set_grad_enabled(was);
    td_scope_end(&s);
}

/* On a terminal a bar that is drawn over itself, elsewhere one line an epoch. */
static void show_progress(const struct options *o, int epoch, int batch, int batches, double loss, double rate)
{
    static char bar[] = "##############################";
    bool terminal = isatty(STDOUT_FILENO);
    if (!terminal && batch < batches) return;
    if (terminal) printf("\r[%-30s] ", bar + 30 - 30 * batch / batches);
    printf("epoch %*d/%d  loss %.4f  %.0f batches/s", o->epochs > 9 ? 2 : 1, epoch + 1, o->epochs, loss, rate);
    if (!terminal || batch == batches) printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct options o = read_options(argc, argv);
    struct dataset d;
    if (!dataset_load(&d, o.csv, o.mnist)) return 1;
    td_client *c = td_connect(NULL);
    struct ledger l = {.total = o.epochs * batch_count(&d)};
    l.work = td_queue_open(c, "quickstart/work", 2 * AHEAD, TD_PRODUCER);
    l.batches = td_queue_open(c, "quickstart/batches", AHEAD, TD_CONSUMER | TD_WATCH);
    int *seen = calloc((size_t)d.train, sizeof *seen);
    check("connecting", l.batches && seen && td_seed(c, o.seed) == 0);

    struct parameter p[6];
    make_layer(c, p, d.width * d.height, 128);
    make_layer(c, p + 2, 128, 64);
    make_layer(c, p + 4, 64, 10);

    double began = now(), loss = 0;
    for (int epoch = 0; epoch < o.epochs; epoch++) {
        td_array *sum = td_full(c, td_dims(), 0, TD_FLOAT32);
        memset(seen, 0, sizeof *seen * (size_t)d.train);
        for (int b = 1; b <= batch_count(&d); b++) {
            td_queue_item item = next_batch(&l);
            count_rows(item.at[2], seen);
            train(p, item.at[0], item.at[1], sum);
            td_queue_item_clear(&item);
            if (b % 50 == 0 || b == batch_count(&d)) loss = td_item_f64(sum) / b;
            show_progress(&o, epoch, b, batch_count(&d), loss, l.used / (now() - began));
        }
        check("training", td_last_error()->code == 0 && isfinite(loss));
        for (int i = 0; i < d.train; i++)
            if (seen[i] != 1) fail("epoch %d saw row %d %d times", epoch + 1, i, seen[i]);
        td_release(sum);
    }
    double seconds = now() - began;
    say("every one of the %d samples was seen exactly once in each of %d epochs", d.train, o.epochs);

    static const char *const name[] = {"digits/w1", "digits/b1", "digits/w2", "digits/b2", "digits/w3", "digits/b3"};
    for (int i = 0; i < 6; i++) check("publishing", td_publish(p[i].value, name[i], TD_REPLACE) == 0);
    report(c, "seconds %.3f", seconds);
    report(c, "batches %d", l.total);
    free_parameters(p, 6);        /* what was published stays */
    td_queue_close(l.work, true); /* the loaders see it and go */
    td_queue_close(l.batches, true);
    td_disconnect(c);
    free(seen);
    dataset_free(&d);
    return 0;
}
