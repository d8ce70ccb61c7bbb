/* The numbers of CUDA's kernels: two for each functor of a pointwise op (flat, walk), then those that are written.
 *
 * TD_CUDA_WRITTEN is the list of the latter: the image (a compilation, images.h) that each is in, its name, its
 * arguments. Device files define a kernel for each. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_KERNELS_H
#define TENSORD_DAEMON_KERNELS_CUDA_KERNELS_H

#include "daemon/kernels/cuda/args.h"
#include "daemon/kernels/cuda/args_attention.h"
#include "daemon/kernels/cuda/args_conv.h"
#include "daemon/kernels/cuda/args_index.h"
#include "daemon/kernels/cuda/args_nets.h"
#include "daemon/kernels/cuda/args_places.h"
#include "daemon/kernels/cuda/args_scan.h"
#include "daemon/kernels/cuda/product.h"
#include "daemon/kernels/cuda_pointwise.h" /* generated: TD_CUDA_POINTWISE */

/* Images behind the shards of pointwise kernels: moving, folding, products (where arithmetic is fused), networks; what
 * lies at indices or is drawn; convolutions; scans; several indices; attention. */
enum {
    TD_CUDA_IMAGE_MOVE = TD_CUDA_SHARDS,
    TD_CUDA_IMAGE_REDUCE,
    TD_CUDA_IMAGE_GEMM,
    TD_CUDA_IMAGE_NETS,
    TD_CUDA_IMAGE_PLACES,
    TD_CUDA_IMAGE_CONV,
    TD_CUDA_IMAGE_SCAN,
    TD_CUDA_IMAGE_INDEX,
    TD_CUDA_IMAGE_ATTENTION,
    TD_CUDA_IMAGES
};

#define TD_CUDA_FOLDS(X)                                                                                               \
    X(sum_f32)                                                                                                         \
    X(sum_f64)                                                                                                         \
    X(sum_i64)                                                                                                         \
    X(squares_f32)                                                                                                     \
    X(squares_f64)                                                                                                     \
    X(prod_f32) X(prod_f64) X(prod_i64) X(best_f32) X(best_f64) X(best_i64) X(best_u64) X(least_f32) X(least_f64)      \
        X(least_i64) X(least_u64) X(var_f32) X(var_f64) X(lse_f32) X(lse_f64) X(any_u8) X(all_u8)
#define TD_CUDA_FOLD(NAME, X)                                                                                          \
    X(TD_CUDA_IMAGE_REDUCE, fold_##NAME, td_ca_reduce) X(TD_CUDA_IMAGE_REDUCE, merge_##NAME, td_ca_reduce)

#define TD_CUDA_SCAN(NAME, X)                                                                                          \
    X(TD_CUDA_IMAGE_SCAN, scan_down_##NAME, td_ca_scan)                                                                \
    X(TD_CUDA_IMAGE_SCAN, scan_fold_##NAME, td_ca_scan)                                                                \
    X(TD_CUDA_IMAGE_SCAN, scan_parts_##NAME, td_ca_scan)                                                               \
    X(TD_CUDA_IMAGE_SCAN, scan_along_##NAME, td_ca_scan)

#define TD_CUDA_WRITTEN(X)                                                                                             \
    X(TD_CUDA_IMAGE_MOVE, copy_1, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, copy_2, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, copy_4, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, copy_8, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, copy_16, td_ca_copy)                                                                         \
    X(TD_CUDA_IMAGE_MOVE, turn_1, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, turn_2, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, turn_4, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, turn_8, td_ca_copy)                                                                          \
    X(TD_CUDA_IMAGE_MOVE, turn_16, td_ca_copy)                                                                         \
    X(TD_CUDA_IMAGE_MOVE, cast_f32, td_ca_copy)                                                                        \
    X(TD_CUDA_IMAGE_MOVE, cast_f64, td_ca_copy)                                                                        \
    X(TD_CUDA_IMAGE_MOVE, cast_i64, td_ca_copy)                                                                        \
    X(TD_CUDA_IMAGE_MOVE, cast_u64, td_ca_copy)                                                                        \
    X(TD_CUDA_IMAGE_MOVE, cast_complex, td_ca_copy)                                                                    \
    X(TD_CUDA_IMAGE_MOVE, sequence, td_ca_sequence)                                                                    \
    X(TD_CUDA_IMAGE_MOVE, eye, td_ca_sequence)                                                                         \
    X(TD_CUDA_IMAGE_GEMM, gemm_f32, td_ca_gemm)                                                                        \
    X(TD_CUDA_IMAGE_GEMM, gemm_f64, td_ca_gemm)                                                                        \
    X(TD_CUDA_IMAGE_GEMM, gemm_i64, td_ca_gemm)                                                                        \
    X(TD_CUDA_IMAGE_GEMM, gemm_large_f32, td_ca_gemm)                                                                  \
    X(TD_CUDA_IMAGE_GEMM, gemm_sum_f32, td_ca_gemm)                                                                    \
    X(TD_CUDA_IMAGE_GEMM, gemm_sum_f64, td_ca_gemm)                                                                    \
    X(TD_CUDA_IMAGE_GEMM, gemm_sum_i64, td_ca_gemm)                                                                    \
    X(TD_CUDA_IMAGE_NETS, lines_f32, td_ca_lines)                                                                      \
    X(TD_CUDA_IMAGE_NETS, lines_f64, td_ca_lines)                                                                      \
    X(TD_CUDA_IMAGE_NETS, layer_f32, td_ca_layer)                                                                      \
    X(TD_CUDA_IMAGE_NETS, layer_f64, td_ca_layer)                                                                      \
    X(TD_CUDA_IMAGE_NETS, layer_back_f32, td_ca_layer)                                                                 \
    X(TD_CUDA_IMAGE_NETS, layer_back_f64, td_ca_layer)                                                                 \
    X(TD_CUDA_IMAGE_NETS, layer_parts_f32, td_ca_layer)                                                                \
    X(TD_CUDA_IMAGE_NETS, layer_parts_f64, td_ca_layer)                                                                \
    X(TD_CUDA_IMAGE_NETS, layer_sums, td_ca_layer)                                                                     \
    X(TD_CUDA_IMAGE_NETS, batch_parts_f32, td_ca_batch)                                                                \
    X(TD_CUDA_IMAGE_NETS, batch_parts_f64, td_ca_batch)                                                                \
    X(TD_CUDA_IMAGE_NETS, batch_settle, td_ca_batch)                                                                   \
    X(TD_CUDA_IMAGE_NETS, batch_settle_back, td_ca_batch)                                                              \
    X(TD_CUDA_IMAGE_NETS, batch_apply_f32, td_ca_batch)                                                                \
    X(TD_CUDA_IMAGE_NETS, batch_apply_f64, td_ca_batch)                                                                \
    X(TD_CUDA_IMAGE_NETS, nll, td_ca_nll)                                                                              \
    X(TD_CUDA_IMAGE_NETS, nll_sum, td_ca_nll)                                                                          \
    X(TD_CUDA_IMAGE_NETS, nll_back, td_ca_nll)                                                                         \
    X(TD_CUDA_IMAGE_NETS, adam_count, td_ca_step)                                                                      \
    X(TD_CUDA_IMAGE_NETS, sgd_f32, td_ca_step)                                                                         \
    X(TD_CUDA_IMAGE_NETS, sgd_f64, td_ca_step)                                                                         \
    X(TD_CUDA_IMAGE_NETS, adam_f32, td_ca_step)                                                                        \
    X(TD_CUDA_IMAGE_NETS, adam_f64, td_ca_step)                                                                        \
    X(TD_CUDA_IMAGE_PLACES, pick, td_ca_pick)                                                                          \
    X(TD_CUDA_IMAGE_PLACES, parts, td_ca_parts)                                                                        \
    X(TD_CUDA_IMAGE_PLACES, slice, td_ca_slice)                                                                        \
    X(TD_CUDA_IMAGE_PLACES, add_check, td_ca_add)                                                                      \
    X(TD_CUDA_IMAGE_PLACES, add_f32, td_ca_add)                                                                        \
    X(TD_CUDA_IMAGE_PLACES, add_f64, td_ca_add)                                                                        \
    X(TD_CUDA_IMAGE_PLACES, add_i64, td_ca_add)                                                                        \
    X(TD_CUDA_IMAGE_PLACES, random_f32, td_ca_random)                                                                  \
    X(TD_CUDA_IMAGE_PLACES, random_f64, td_ca_random)                                                                  \
    X(TD_CUDA_IMAGE_PLACES, put, td_ca_add)                                                                            \
    X(TD_CUDA_IMAGE_PLACES, triangle, td_ca_triangle)                                                                  \
    X(TD_CUDA_IMAGE_PLACES, randint, td_ca_random)                                                                     \
    X(TD_CUDA_IMAGE_PLACES, randperm, td_ca_random)                                                                    \
    X(TD_CUDA_IMAGE_PLACES, bernoulli, td_ca_random)                                                                   \
    X(TD_CUDA_IMAGE_PLACES, drop_f32, td_ca_random)                                                                    \
    X(TD_CUDA_IMAGE_PLACES, drop_f64, td_ca_random)                                                                    \
    X(TD_CUDA_IMAGE_CONV, conv_f32, td_ca_conv)                                                                        \
    X(TD_CUDA_IMAGE_CONV, conv_x_f32, td_ca_conv)                                                                      \
    X(TD_CUDA_IMAGE_CONV, conv_k_f32, td_ca_conv)                                                                      \
    X(TD_CUDA_IMAGE_CONV, conv_b_f32, td_ca_conv)                                                                      \
    X(TD_CUDA_IMAGE_CONV, max_pool_f32, td_ca_pool)                                                                    \
    X(TD_CUDA_IMAGE_CONV, max_pool_back_f32, td_ca_pool)                                                               \
    X(TD_CUDA_IMAGE_CONV, avg_pool_f32, td_ca_pool)                                                                    \
    X(TD_CUDA_IMAGE_CONV, avg_pool_back_f32, td_ca_pool)                                                               \
    X(TD_CUDA_IMAGE_CONV, conv_f64, td_ca_conv)                                                                        \
    X(TD_CUDA_IMAGE_CONV, conv_x_f64, td_ca_conv)                                                                      \
    X(TD_CUDA_IMAGE_CONV, conv_k_f64, td_ca_conv)                                                                      \
    X(TD_CUDA_IMAGE_CONV, conv_b_f64, td_ca_conv)                                                                      \
    X(TD_CUDA_IMAGE_CONV, max_pool_f64, td_ca_pool)                                                                    \
    X(TD_CUDA_IMAGE_CONV, max_pool_back_f64, td_ca_pool)                                                               \
    X(TD_CUDA_IMAGE_CONV, avg_pool_f64, td_ca_pool)                                                                    \
    X(TD_CUDA_IMAGE_CONV, avg_pool_back_f64, td_ca_pool)                                                               \
    TD_CUDA_SCAN(sum_f64, X)                                                                                           \
    TD_CUDA_SCAN(sum_i64, X)                                                                                           \
    TD_CUDA_SCAN(product_f64, X)                                                                                       \
    TD_CUDA_SCAN(product_i64, X)                                                                                       \
    X(TD_CUDA_IMAGE_INDEX, index_read, td_ca_index)                                                                    \
    X(TD_CUDA_IMAGE_INDEX, index_check, td_ca_index)                                                                   \
    X(TD_CUDA_IMAGE_INDEX, index_set, td_ca_index)                                                                     \
    X(TD_CUDA_IMAGE_INDEX, index_add_f32, td_ca_index)                                                                 \
    X(TD_CUDA_IMAGE_INDEX, index_add_f64, td_ca_index)                                                                 \
    X(TD_CUDA_IMAGE_INDEX, index_add_i64, td_ca_index)                                                                 \
    X(TD_CUDA_IMAGE_ATTENTION, attend_f32, td_ca_attention)                                                            \
    X(TD_CUDA_IMAGE_ATTENTION, attend_f64, td_ca_attention)                                                            \
    X(TD_CUDA_IMAGE_ATTENTION, attend_dq_f32, td_ca_attention)                                                         \
    X(TD_CUDA_IMAGE_ATTENTION, attend_dq_f64, td_ca_attention)                                                         \
    X(TD_CUDA_IMAGE_ATTENTION, attend_dk_f32, td_ca_attention)                                                         \
    X(TD_CUDA_IMAGE_ATTENTION, attend_dk_f64, td_ca_attention)                                                         \
    X(TD_CUDA_IMAGE_ATTENTION, attend_dv_f32, td_ca_attention)                                                         \
    X(TD_CUDA_IMAGE_ATTENTION, attend_dv_f64, td_ca_attention)

enum td_cuda_kernel_number {
#define TD_CUDA_PAIR(shard, name) TD_CK_flat_##name, TD_CK_walk_##name,
    TD_CUDA_POINTWISE(TD_CUDA_PAIR)
#undef TD_CUDA_PAIR
#define TD_CUDA_ONE(image, name, args) TD_CK_##name,
        TD_CUDA_WRITTEN(TD_CUDA_ONE)
#define TD_CUDA_TWO(name) TD_CUDA_FOLD(name, TD_CUDA_ONE)
            TD_CUDA_FOLDS(TD_CUDA_TWO)
#undef TD_CUDA_TWO
#undef TD_CUDA_ONE
                TD_CK_COUNT,
    TD_CK_product = TD_CK_COUNT /* no kernel: a product that a library computes (product.h) */
};

#endif
