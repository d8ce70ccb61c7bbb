/* Small products: K in blocks of TD_PRODUCT_K, columns in panels, with a rest between. See product.h. */
#include "daemon/kernels/cpu/products/product.h"
#include "daemon/kernels/cpu/loop.h"

static const td_product_fns *fns(bool wide)
{
    return wide ? &td_isa_now->product->f64 : &td_isa_now->product->f32;
}

static int64_t size_of(bool wide)
{
    return wide ? 8 : 4;
}

int64_t td_product_cols(bool wide)
{
    return fns(wide)->cols;
}

size_t td_product_room(bool wide)
{
    return (size_t)(TD_PRODUCT_K * fns(wide)->cols * size_of(wide));
}

int64_t td_product_packed(bool wide, int64_t n, int64_t k)
{
    return td_cut(n, fns(wide)->cols) * fns(wide)->cols * k;
}

/* A panel lies as blocks of K, one behind the other. */
void td_product_pack(const td_product *p, int64_t b, int64_t e, void *to)
{
    const td_product_fns *f = fns(p->wide);
    for (; b < e; b++) {
        int64_t j = b * f->cols;
        char *panel = (char *)to + j * p->k * size_of(p->wide);
        f->pack(td_min64(f->cols, p->n - j), p->k, &p->b, p->turned, j, 0, panel);
    }
}

static void zero(const td_product *p)
{
    for (int64_t i = 0; i < p->m; i++)
        memset((char *)p->c + i * p->ldc * size_of(p->wide), 0, (size_t)(p->n * size_of(p->wide)));
}

/* Lines of A that lie side by side, turned so that each is one run. */
static td_operand_lines turned(const td_product *p, int64_t p0, int64_t depth)
{
    int64_t size = size_of(p->wide);
    const char *from = (const char *)p->a.at + (p->a.first * p->a.inner + p0 * p->a.step) * size;
    td_isa_now->transpose(p->turn, depth * size, from, p->a.step * size, (int)p->m, depth, (int)size);
    return td_even_lines(p->turn, depth, 1);
}

bool td_product_run(td_kcall *k, const td_product *p)
{
    const td_product_fns *f = fns(p->wide);
    int64_t size = size_of(p->wide), done = 0;
    if (p->k == 0 && !p->add) zero(p);
    for (int64_t p0 = 0; p0 < p->k; p0 += TD_PRODUCT_K) {
        int64_t depth = td_min64(TD_PRODUCT_K, p->k - p0);
        td_operand_lines a = p->turn ? turned(p, p0, depth) : p->a;
        for (int64_t j = 0; j < p->n; j += f->cols) {
            int64_t width = td_min64(f->cols, p->n - j);
            const char *panel = p->room;
            if (p->packed) panel = (const char *)p->packed + (j * p->k + p0 * f->cols) * size;
            else f->pack(width, depth, &p->b, p->turned, j, p0, p->room);
            f->block(p->m, width, depth, &a, p->turn ? 0 : p0, panel, (char *)p->c + j * size, p->ldc, p->add || p0);
            if (td_kernel_rest_after(k, &done, p->m * depth / 4)) return true;
        }
    }
    return false;
}
