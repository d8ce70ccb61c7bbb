/* The only file that differs between the versions of oneDNN: see dnnl_desc.h. */
#include "daemon/kernels/cpu/conv/dnnl_desc.h"
#include <stdlib.h>

#if DNNL_VERSION_MAJOR < 3

td_dnnl_md td_dnnl_md_new(const td_dnnl_api *api, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    td_dnnl_md md = malloc(sizeof *md);
    if (md && api->dnnl_memory_desc_init_by_tag(md, ndims, dims, dnnl_f32, tag) == dnnl_success) return md;
    free(md);
    return NULL;
}

td_dnnl_md td_dnnl_md_strided(const td_dnnl_api *api, int ndims, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    td_dnnl_md md = malloc(sizeof *md);
    if (md && api->dnnl_memory_desc_init_by_strides(md, ndims, dims, dnnl_f32, strides) == dnnl_success) return md;
    free(md);
    return NULL;
}

td_dnnl_md td_dnnl_md_copy(const td_dnnl_api *api, td_dnnl_const_md from)
{
    (void)api;
    td_dnnl_md md = from ? malloc(sizeof *md) : NULL;
    if (md) *md = *from;
    return md;
}

void td_dnnl_md_free(const td_dnnl_api *api, td_dnnl_md md)
{
    (void)api;
    free(md);
}

dnnl_primitive_desc_t td_dnnl_conv_desc(const td_dnnl_api *api, td_dnnl_kind kind, td_dnnl_const_md x,
                                        td_dnnl_const_md w, td_dnnl_const_md bias, td_dnnl_const_md y,
                                        const td_dnnl_window *v, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t made = NULL;
    dnnl_status_t s;
    if (kind == TD_DNNL_FORWARD)
        s = api->dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct, x, w,
                                                            bias, y, v->strides, v->dilations, v->padding_left,
                                                            v->padding_right);
    else if (kind == TD_DNNL_DATA)
        s = api->dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, x, w, y, v->strides,
                                                                  v->dilations, v->padding_left, v->padding_right);
    else
        s = api->dnnl_dilated_convolution_backward_weights_desc_init(
            &op, dnnl_convolution_direct, x, w, NULL, y, v->strides, v->dilations, v->padding_left, v->padding_right);
    if (s == dnnl_success) s = api->dnnl_primitive_desc_create(&made, &op, attr, api->engine, hint);
    return s == dnnl_success ? made : NULL;
}

#else

td_dnnl_md td_dnnl_md_new(const td_dnnl_api *api, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    td_dnnl_md md = NULL;
    return api->dnnl_memory_desc_create_with_tag(&md, ndims, dims, dnnl_f32, tag) == dnnl_success ? md : NULL;
}

td_dnnl_md td_dnnl_md_strided(const td_dnnl_api *api, int ndims, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    td_dnnl_md md = NULL;
    return api->dnnl_memory_desc_create_with_strides(&md, ndims, dims, dnnl_f32, strides) == dnnl_success ? md : NULL;
}

td_dnnl_md td_dnnl_md_copy(const td_dnnl_api *api, td_dnnl_const_md from)
{
    td_dnnl_md md = NULL;
    return from && api->dnnl_memory_desc_clone(&md, from) == dnnl_success ? md : NULL;
}

void td_dnnl_md_free(const td_dnnl_api *api, td_dnnl_md md)
{
    if (md) api->dnnl_memory_desc_destroy(md);
}

dnnl_primitive_desc_t td_dnnl_conv_desc(const td_dnnl_api *api, td_dnnl_kind kind, td_dnnl_const_md x,
                                        td_dnnl_const_md w, td_dnnl_const_md bias, td_dnnl_const_md y,
                                        const td_dnnl_window *v, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t made = NULL;
    dnnl_status_t s;
    if (kind == TD_DNNL_FORWARD)
        s = api->dnnl_convolution_forward_primitive_desc_create(&made, api->engine, dnnl_forward_training,
                                                                dnnl_convolution_direct, x, w, bias, y, v->strides,
                                                                v->dilations, v->padding_left, v->padding_right, attr);
    else if (kind == TD_DNNL_DATA)
        s = api->dnnl_convolution_backward_data_primitive_desc_create(&made, api->engine, dnnl_convolution_direct, x, w,
                                                                      y, v->strides, v->dilations, v->padding_left,
                                                                      v->padding_right, hint, attr);
    else
        s = api->dnnl_convolution_backward_weights_primitive_desc_create(&made, api->engine, dnnl_convolution_direct, x,
                                                                         w, NULL, y, v->strides, v->dilations,
                                                                         v->padding_left, v->padding_right, hint, attr);
    return s == dnnl_success ? made : NULL;
}

#endif
