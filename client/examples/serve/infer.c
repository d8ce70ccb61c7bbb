/* Call a published model from C.
 *
 *     infer NAME SIZE...       # of a model with one input of floats: zeros of these sizes go in
 *
 * The call is one message each way. The outputs lie in memory that this process maps; nothing is copied. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tensord.h>

enum { MOST_OUTPUTS = 16, MOST_SIZES = 8 };

static int failed(void)
{
    fprintf(stderr, "infer: %s\n", td_last_error()->message);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 2 + MOST_SIZES) return fprintf(stderr, "usage: infer NAME SIZE...\n"), 2;
    td_client *c = td_connect(NULL);
    td_model *model = c ? td_model_open(c, argv[1], 0, 1000) : NULL;
    if (!model) return failed();
    int64_t shape[MOST_SIZES];
    for (int k = 2; k < argc; k++) shape[k - 2] = strtoll(argv[k], NULL, 10);
    td_array *x = td_zeros(c, ((td_ints){argc - 2, shape}), TD_FLOAT32), *out[MOST_OUTPUTS];
    int n = td_model_outputs(model);
    if (!x || n > MOST_OUTPUTS || td_infer(model, td_arrays(x), n, out, 1000)) return failed();
    for (int k = 0; k < n; k++) {
        const float *y = td_data(out[k]);
        printf("output %d: %" PRId64 " numbers, the first is %g\n", k + 1, td_numel(out[k]), y[0]);
        td_release(out[k]);
    }
    td_release(x);
    td_model_free(model);
    td_disconnect(c);
    return 0;
}
