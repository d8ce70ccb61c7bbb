/* The sizes at which a kernel changes its way: what fits a tile, when rows are short, where a chunk ends, from when a
 * library is worth its call.
 *
 * They stand in one table and not in each kernel's header, because tests read them as a whole: a case on each side of
 * every one of them is drawn from here (build/tests/unit/thresholds prints the table, for Python too). A row makes a
 * constant TD_<name>, so a size that a test does not see cannot be had. Two kernels that cut alike by chance have a row
 * each.
 *
 * T(name, value, unit, kernels, meaning): `unit` is what is counted; `kernels` are names as in the op table,
 * "pointwise" for all that is made from an expression. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_THRESHOLDS_H
#define TENSORD_DAEMON_KERNELS_CPU_THRESHOLDS_H

#define TD_WALKS_                                                                                                      \
    "pointwise copy full cat stack repeat flip roll constant_pad sum mean sum_squares prod amax amin max_dim min_dim argmax "      \
    "argmin var std any all logsumexp sum_to softmax log_softmax softmax_backward log_softmax_backward cumsum "      \
    "cumprod linear_scan"
#define TD_MOVES_ "pointwise copy full cat stack repeat flip roll constant_pad"
#define TD_FOLDS_ "sum mean sum_squares prod amax amin max_dim min_dim argmax argmin var std any all logsumexp sum_to"
#define TD_ORDERLESS_ "sum mean sum_squares prod amax amin any all sum_to"
#define TD_SOFTMAXES_ "softmax log_softmax softmax_backward log_softmax_backward"
#define TD_NORMS_ "layer_norm layer_norm_backward"
#define TD_BATCH_ "batch_norm batch_norm_backward"
#define TD_PRODUCTS_ "mm bmm addmm linear mv"
#define TD_CONVS_ "conv2d conv2d_backward"
#define TD_POOLS_BACK_ "max_pool2d_backward avg_pool2d_backward"
#define TD_POOLS_ "max_pool2d avg_pool2d avg_pool2d_backward"
#define TD_GRIDS_ "grid_sampler grid_sampler_backward"
#define TD_COPIES_ "scatter scatter_add scatter_fold index_put index_add select_scatter slice_scatter"
#define TD_FFTS_ "fft_c2c fft_r2c fft_c2r"
#define TD_RANDOM_ "rand randn randint bernoulli dropout dropout_backward exponential geometric cauchy log_normal poisson"
#define TD_ATTENTION_ "tiled_attention tiled_attention_backward"
#define TD_RECURRENT_                                                                                                  \
    "lstm_layer lstm_layer_backward gru_layer gru_layer_backward rnn_layer rnn_layer_backward"

#define TD_SCANS_ "cumsum cumprod linear_scan cummax cummin"

#define TD_MATRICES_                                                                                                   \
    "linalg_cholesky_ex linalg_lu_factor_ex linalg_solve_triangular linalg_inv_ex linalg_solve_ex linalg_det_lu "      \
    "linalg_slogdet_lu linalg_qr linalg_svd linalg_svdvals linalg_eigh linalg_eigvalsh linalg_eig linalg_eigvals "     \
    "linalg_lstsq_ex geqrf linalg_pinv linalg_ldl_factor_ex linalg_ldl_solve linalg_matrix_exp"

#define TD_THRESHOLDS(T)                                                                                               \
    /* every kernel */                                                                                                 \
    T(SMALL_SCRATCH, 24576, "bytes", "*", "scratch that a call run at once takes from the stack")                      \
    T(MOVE_NEAR, 2097152, "bytes", TD_MOVES_ " " TD_COPIES_, "read and written, up to which moving them is cheap")     \
    T(LINE_BYTES, 64, "bytes", TD_WALKS_, "of a cache line: rows that are turned or lie side by side together")        \
    T(LANES, 32, "elements", "layer_norm layer_norm_backward batch_norm batch_norm_backward", "running sums")          \
    /* the walk in tiles: tile.c, pointwise.c, move.c */                                                               \
    T(TILE_BYTES, 4096, "bytes", TD_WALKS_, "of one operand in one tile")                                              \
    T(TILE_SHORT, 64, "elements", TD_MOVES_, "rows shorter than this become one run in a tile")                                  \
    T(TURN_LEAST, 4, "rows", TD_WALKS_, "fewer are not turned")                                                        \
    T(REPEAT_FILL, 32, "columns", TD_WALKS_, "from which a repeated element is filled in row by row")                  \
    T(COPY_ALIASED, 2048, "bytes", TD_MOVES_ " index_select embedding", "of a row that is copied with care")               \
    T(CHUNK_LEAST, 8192, "elements", TD_MOVES_, "fewer are one chunk")                                                 \
    T(CHUNK_MOST, 262144, "elements", TD_MOVES_, "of a chunk, however fast the loop is")                               \
    T(CHUNK_NS, 100000, "ns", TD_MOVES_ " scatter scatter_add scatter_fold index_put index_add", "a chunk aims at")    \
    T(CHUNK_SHARES, 4, "rows", TD_MOVES_ " " TD_POOLS_ " scatter scatter_add scatter_fold", "chunks that a short call is cut into, ...")                                 \
    T(SHARE_NS, 10000, "ns", TD_MOVES_ " " TD_POOLS_ " scatter scatter_add scatter_fold", "... of which each takes so long at least")                                    \
    T(ASSEMBLE_BYTES, 262144, "bytes", "cat stack repeat flip roll constant_pad", "of the result that a chunk writes") \
    T(PAD_FILL_BYTES, 131072, "bytes", "constant_pad", "that a chunk fills")                                           \
    T(SEQUENCE_BLOCK, 256, "elements", "arange linspace", "worked out at once")                                        \
    T(CREATE_CHUNK, 65536, "elements", "arange linspace eye", "of a chunk")                                            \
    T(TRIANGLE_CHUNK, 65536, "elements", "tril triu", "of a chunk of whole rows")                                      \
    /* reductions: reduce.c, reduce_walk.c, vec/reduce.c */                                                            \
    T(FOLD_BLOCK, 1024, "elements", "var std logsumexp", "most of one row fold that keeps a copy")                         \
    T(REDUCE_BATCH, 1024, "rows", TD_FOLDS_, "most records at once")                                                   \
    T(REDUCE_RUN, 16384, "elements", TD_ORDERLESS_, "most that one call of a fold reads where they lie")               \
    T(REDUCE_SHORT, 64, "elements", TD_FOLDS_, "rows shorter than this are taken several at once")                     \
    T(REDUCE_PIECE, 131072, "elements", TD_FOLDS_, "twice as many are cut into pieces, in two phases")                 \
    T(REDUCE_PIECE_SLOW, 2048, "elements", "logsumexp", "the same of complex numbers")                                 \
    T(REDUCE_WIDTH_SLOW, 8, "columns", "logsumexp", "most columns of complex numbers at once")                         \
    T(REDUCE_COLUMNS, 8, "columns", TD_FOLDS_, "from which a kept dimension that is the fastest goes by columns")      \
    T(REDUCE_FEW, 16, "rows", TD_FOLDS_, "so few reduced go by columns when kept ones are many")                       \
    T(REDUCE_MANY, 64, "columns", TD_FOLDS_, "kept ones that are many")                                                \
    T(REDUCE_TURNED, 16, "rows", TD_FOLDS_, "most that are turned at once")                                            \
    T(REDUCE_QUAD, 4, "rows", "sum mean sum_to prod amax amin", "of floats together, down columns")                                      \
    T(REDUCE_CHUNK_ROWS, 8192, "rows", TD_FOLDS_, "most results of a chunk")                                           \
    T(REDUCE_CHUNK_BLOCKS, 64, "rows", TD_FOLDS_, "most blocks of columns of a chunk")                                 \
    /* along one dimension: softmax.c, softmax_cols.c, scan.c */                                                       \
    T(SOFTMAX_CHUNK, 65536, "elements", TD_SOFTMAXES_, "of a chunk of whole lines")                                    \
    T(SOFTMAX_GROUP_BYTES, 1048576, "bytes", TD_SOFTMAXES_, "of lines that lie side by side, read together")           \
    T(COLS_LEAST, 16, "columns", TD_SOFTMAXES_, "fewer go line by line")                                               \
    T(COLS_NARROW, 64, "columns", TD_SOFTMAXES_, "least of a strip that is cut to keep it one block")                  \
    T(COLS_MOST, 512, "columns", TD_SOFTMAXES_, "most of a strip")                                                     \
    T(COLS_BLOCK, 65536, "elements", TD_SOFTMAXES_, "more of a strip are several blocks, in three phases")             \
    T(COLS_IN_FLOAT, 16, "rows", TD_SOFTMAXES_, "whose sum is taken in float")                                         \
    T(SCAN_WIDTH, 256, "elements", TD_SCANS_ " logcumsumexp", "along the line, or lines side by side, at once")         \
    T(SCAN_LANES, 4, "rows", "cumsum cumprod", "lines that go along together")                                         \
    T(SCAN_TOGETHER, 16, "elements", "cummax cummin", "of a line looked at together")                                  \
    T(SCAN_CHUNK, 32768, "elements", TD_SCANS_, "of a chunk")                                                          \
    T(SCAN_CHUNK_LOG, 4096, "elements", "logcumsumexp", "of a chunk")                                                  \
    /* random numbers: random.c, dropout.c; TD_PHILOX_GROUPS groups of four words are a block */                       \
    T(PHILOX_GROUPS, 256, "rows", TD_RANDOM_ " randperm", "groups of four words at once")                              \
    T(RANDOM_CHUNK, 65536, "elements", TD_RANDOM_, "of a chunk")                                                       \
    /* products: gemm.c, gemm_packed.c, gemm_ref.c, matvec.c */                                                        \
    T(GEMM_REF_COLS, 64, "columns", TD_PRODUCTS_, "of a plain product at once")                                        \
    T(GEMM_PACK, 65536, "elements", TD_PRODUCTS_, "of a chunk that packs")                                             \
    T(GEMM_TILE_LEAST, 32, "rows", TD_PRODUCTS_, "of a tile, at least")                                                \
    T(GEMM_TILE_STEP, 16, "rows", TD_PRODUCTS_, "a tile is a multiple of these")                                       \
    T(GEMM_TILE_ROWS, 128, "rows", TD_PRODUCTS_, "most of a tile")                                                     \
    T(GEMM_TILE_NARROW, 256, "columns", TD_PRODUCTS_, "of a tile, at least")                                           \
    T(GEMM_TILE_HALF_COLS, 4096, "columns", TD_PRODUCTS_, "most of a tile of halves")                                  \
    T(GEMM_TILE_COLS, 1048576, "columns", TD_PRODUCTS_, "most of a tile")                                              \
    T(GEMM_TILE_NS, 60000, "ns", TD_PRODUCTS_, "work of a tile from which rows are cut")                               \
    T(GEMM_STRIP_NS, 1000000, "ns", TD_PRODUCTS_, "work of a tile from which columns are cut")                         \
    T(GEMM_GROUP_NS, 80000, "ns", "bmm", "small matrices of a chunk")                                                  \
    T(GEMM_DNNL, 1000000, "products", TD_PRODUCTS_ " " TD_CONVS_, "float32: above, oneDNN's")                          \
    T(GEMM_DNNL_FEW, 700000, "products", TD_PRODUCTS_ " " TD_CONVS_, "... and where rows are few")                     \
    T(GEMM_TURN_ROWS, 16, "rows", TD_PRODUCTS_, "fewer are few: oneDNN reads a transposed B as it lies")               \
    T(GEMM_TURN_COLS, 128, "columns", TD_PRODUCTS_, "of a transposed B, fewer are turned before oneDNN sees it")       \
    T(GEMM_TURN_STEP, 512, "elements", TD_PRODUCTS_, "from column to column, whose multiples are turned, too")         \
    T(GEMM_TURN_TILES, 4, "rows", TD_PRODUCTS_, "tiles from which any is")                                             \
    T(PACKED_SIDE, 96, "rows", TD_PRODUCTS_, "least rows and columns of a product by own tiles")                       \
    T(PACKED_DEPTH, 32, "columns", TD_PRODUCTS_, "least K of a product by own tiles")                                  \
    T(PACKED_LARGE, 200000000, "products", TD_PRODUCTS_, "from which a product goes by own tiles")                     \
    T(PACKED_WORK, 536870912, "bytes", TD_PRODUCTS_, "of packed operands, below which it does")                        \
    T(PACKED_K, 512, "columns", TD_PRODUCTS_, "of K in one pass over a block")                                         \
    T(PACKED_NS, 150000, "ns", TD_PRODUCTS_, "work of a chunk of own tiles")                                           \
    T(PACKED_ROWS, 48, "rows", TD_PRODUCTS_, "of a block, at least; a multiple of any tile")                           \
    T(PACKED_COLS, 64, "columns", TD_PRODUCTS_, "of a block, at least; a multiple of any tile")                        \
    T(PACKED_MOST, 360, "rows", TD_PRODUCTS_, "and columns of a block")                                                \
    T(PACKED_GROUP, 4194304, "bytes", TD_PRODUCTS_, "of A that all columns pass before the next")                      \
    T(PACKED_PANEL, 131072, "elements", TD_PRODUCTS_, "of a chunk that packs")                                         \
    T(PACKED_PANELS, 4, "rows", TD_PRODUCTS_, "least panels of B that a chunk packs")                                  \
    T(DOT_BLOCK, 65536, "elements", "dot", "of a chunk")                                                               \
    T(DOT_PART, 256, "elements", "dot", "halves converted at once")                                                    \
    /* convolution: conv.c, conv_im2col.c, conv_depthwise.c, conv_dnnl.c */                                            \
    T(CONV_DNNL_K, 64, "elements", TD_CONVS_, "of a patch, from which oneDNN's")                                       \
    T(CONV_DNNL_CHANNELS, 3, "elements", TD_CONVS_, "input channels of a group, from which oneDNN's")                  \
    T(CONV_DNNL_IMAGE, 2, "million products", TD_CONVS_, "of an image, from which oneDNN's")                           \
    T(CONV_DNNL_LAST, 20000, "products", "conv2d", "of an image whose channels lie last, from which oneDNN's")         \
    T(CONV_DNNL_LAST_MOST, 32, "million products", "conv2d", "of such an image, from which 1x1 and depthwise are cut")    \
    T(CONV_DNNL_CHUNK, 8, "million products", TD_CONVS_, "of the images of a chunk")                                   \
    T(CONV_DNNL_PART, 12, "million products", "conv2d", "of an image, from which output channels are cut")             \
    T(CONV_DNNL_PART_CHANNELS, 32, "elements", "conv2d", "a cut of output channels is a multiple of these")            \
    T(CONV_DNNL_FEW, 4, "rows", "conv2d", "fewer chunks cut output channels")                                          \
    T(CONV_DNNL_TILE, 60, "million products", "conv2d_backward", "of the images of a tile")                            \
    T(CONV_DNNL_TILE_ROOM, 131072, "elements", "conv2d_backward", "of these images and their gradients")               \
    T(CONV_DNNL_TILES, 32, "rows", "conv2d_backward", "most partial sums")                                             \
    T(CONV_DNNL_TILE_BYTES, 67108864, "bytes", "conv2d_backward", "of all partial sums")                               \
    T(CONV_DNNL_KEPT, 96, "rows", TD_CONVS_, "shapes whose primitives are kept")                                       \
    T(CONV_COLUMNS, 131072, "elements", TD_CONVS_, "of the columns of a block of positions")                           \
    T(CONV_BLOCK_LEAST, 128, "columns", TD_CONVS_, "positions of a block, at least")                                   \
    T(CONV_WEIGHTS, 65536, "elements", TD_CONVS_, "of a chunk that packs weights")                                     \
    T(CONV_BACK_CHUNK, 8000000, "products", "conv2d_backward", "of a chunk of channels")                               \
    T(CONV_BACK_IMAGES, 8, "rows", "conv2d_backward", "images (times groups) that leave channels whole; most tiles")   \
    T(CONV_SUM, 16384, "elements", "conv2d_backward", "of a chunk that adds partial sums of weights")                  \
    T(CONV_BIAS_PART, 1024, "elements", "conv2d_backward", "of a bias gradient at once")                               \
    T(DEPTHWISE_FUSED, 7, "columns", TD_CONVS_, "most taps of a row that are added in one pass")                       \
    T(DEPTHWISE_LANES, 16, "elements", "conv2d_backward", "running sums of a tap")                                     \
    T(DEPTHWISE_PADDED, 262144, "bytes", TD_CONVS_, "most of planes copied with zeros around them")                    \
    T(DEPTHWISE_LAST_TAPS, 1024, "taps", "conv2d", "most of a depthwise kernel over channels that lie last")           \
    T(DEPTHWISE_CHUNK, 1400000, "products", TD_CONVS_, "of a chunk of planes")                                         \
    T(DEPTHWISE_WEIGHTS_CHUNK, 700000, "products", "conv2d_backward", "of a chunk of channels")                        \
    /* pooling: pool.c, max_pool.c, avg_pool.c, adaptive_max.c */                                                                      \
    T(POOL_CHUNK, 100000, "elements", TD_POOLS_ " adaptive_max", "looked at by a chunk of whole planes")                               \
    T(POOL_SIDE, 16, "columns", "max_pool2d avg_pool2d", "windows side by side, inside the plane, taken together; half of wide ones")                  \
    T(POOL_SCAN, 8, "elements", "adaptive_max", "of a row of a window, from which most are passed over eight at a time")   \
    T(POOL_ROW_LEAST, 4, "columns", "max_pool2d avg_pool2d", "fewer are not")                                                     \
    T(POOL_ROW_KERNEL, 256, "columns", "avg_pool2d", "most of a window of those")                                      \
    T(POOL_BACK_CHUNK, 65536, "elements", TD_POOLS_BACK_, "of a chunk of whole planes, or of channels")                \
    T(POOL_LAST_CHANNELS, 16, "channels", TD_POOLS_BACK_, "of a chunk at least, where they lie last")                  \
    /* other sizes, places of a grid: resample.c, grid_sampler.c */                                                    \
    T(RESAMPLE_CHUNK, 65536, "elements", "resample resample_backward", "read or written by a chunk of whole rows")     \
    T(GRID_BLOCK, 256, "elements", TD_GRIDS_, "places that are looked at together")                                    \
    T(GRID_GROUP, 16, "elements", "grid_sampler_backward", "most channels of a chunk of the picture's gradient")       \
    T(GRID_PLANES, 262144, "elements", "grid_sampler_backward", "of halves in the channels of a chunk")                \
    /* normalisation and loss: layer_norm.c, batch_norm.c, nll.c */                                                    \
    T(NORM_BLOCK, 4096, "elements", TD_NORMS_ " " TD_BATCH_, "whose sums are taken in the dtype itself")               \
    T(NORM_FLUSH, 64, "rows", "layer_norm_backward", "whose sums of weight and bias are taken in the dtype itself")    \
    T(NORM_CHUNK, 65536, "elements", TD_NORMS_, "of a chunk of whole rows")                                            \
    T(NORM_PARTIALS, 64, "rows", "layer_norm_backward", "most partial sums of weight and bias")                        \
    T(NORM_COLUMNS, 1024, "columns", "layer_norm_backward", "of a chunk that adds partial sums")                       \
    T(BATCH_SEGMENT, 4096, "elements", TD_BATCH_, "of a channel at once")                                              \
    T(BATCH_PLACES, 4096, "rows", TD_BATCH_, "of images channels last, summed by a chunk")                             \
    T(BATCH_PARTS, 64, "rows", TD_BATCH_, "most of such chunks for some channels")                                     \
    T(BATCH_CHUNK, 65536, "elements", TD_BATCH_, "of a chunk of whole channels")                                       \
    T(NLL_BLOCK, 8192, "elements", "nll_loss", "targets of a chunk")                                                   \
    T(NLL_BACK_CHUNK, 65536, "elements", "nll_loss_backward", "of a chunk of whole rows")                              \
    /* small products, recurrent layers: product.c, recurrent.c, recurrent_back.c */                                     \
    T(PRODUCT_K, 256, "elements", TD_RECURRENT_ " " TD_ATTENTION_, "of K that a panel has")                                                \
    T(RECURRENT_FEW, 16, "rows", TD_RECURRENT_, "of a batch that two chunks share, and not four")                         \
    T(RECURRENT_ROWS, 32, "rows", TD_RECURRENT_, "of a batch, most of a chunk")                                           \
    T(RECURRENT_TILE, 252, "rows", TD_RECURRENT_, "of a sequence or of weights, most of a chunk")                         \
    T(RECURRENT_PRODUCTS, 4194304, "products", TD_RECURRENT_, "of such a chunk")                                          \
    T(RECURRENT_PACK, 65536, "elements", TD_RECURRENT_, "of weights that a chunk packs")                                  \
    /* attention: attention.c, attention_back.c */                                                                       \
    T(ATTENTION_ROWS, 64, "rows", TD_ATTENTION_, "queries of a tile")                                                    \
    T(ATTENTION_COLS, 128, "columns", TD_ATTENTION_, "keys of a tile")                                                   \
    T(ATTENTION_PARTS, 8, "rows", "tiled_attention_backward", "heads, of which fewer are cut into parts")                 \
    T(ATTENTION_SUM, 16384, "elements", "tiled_attention_backward", "of the gradient by query, of a chunk")               \
    /* steps of optimizers: optim.c */                                                                                 \
    T(STEP_CHUNK, 65536, "elements", "sgd_step adam_step", "of a chunk")                                               \
    T(STEP_PART, 1024, "elements", "sgd_step adam_step", "converted at once when strided or halves")                   \
    /* indices, masks: index_read.c, index_map.c, index_put.c, scatter.c, mask.c, slice_scatter.c, copy_first.c */     \
    T(INDEX_READ, 65536, "elements", "gather index", "of a chunk")                                                     \
    T(INDEX_BLOCK, 512, "elements", "gather index index_select index_put index_add scatter scatter_add", "loaded at once") \
    T(SELECT_BYTES, 262144, "bytes", "index_select embedding", "of a chunk, and 16 a slice")                           \
    T(INDEX_POSITIONS, 32768, "elements", "index index_put index_add", "indices that a chunk checks")                  \
    T(PUT_CHUNKS, 256, "rows", "index_put index_add scatter scatter_add scatter_fold", "most chunks")                  \
    T(PUT_PARTS, 64, "rows", "index_put index_add", "most parts of the target")                                        \
    T(SCATTER_CHECK, 32768, "elements", "scatter scatter_add scatter_fold", "indices that a chunk checks")             \
    T(SCATTER_ROW, 16, "elements", "scatter scatter_add", "of one index, from which they count as a row")               \
    T(SCATTER_PIECE, 32768, "elements", "scatter_add", "twice as many may be cut into pieces")                          \
    T(SCATTER_PIECES, 64, "rows", "scatter_add", "most pieces")                                                        \
    T(SCATTER_OWN, 65536, "bytes", "scatter_add", "most that the places of a piece take")                              \
    T(SCATTER_NEAR, 16384, "bytes", "scatter scatter_add scatter_fold", "of the result, copied and written at once")   \
    T(MASK_BLOCK, 65536, "elements", "nonzero masked_select masked_scatter", "of a chunk")                             \
    T(MASK_PART, 512, "elements", "nonzero masked_select", "whose places are written down at once")                    \
    T(MASK_ROW, 64, "elements", "nonzero", "of a row, from which parts do not go beyond it")                           \
    T(SLICE_CHUNK, 131072, "elements", "select_scatter slice_scatter", "of a chunk")                                   \
    T(COPY_BYTES, 524288, "bytes", TD_COPIES_, "of a chunk that copies what is worked on")                             \
    /* Fourier transforms: fft.c, fft_run.c, fft_roots.c */                                                            \
    T(FFT_PRIME, 61, "columns", TD_FFTS_, "largest prime factor of a pass of its own")                                 \
    T(FFT_EXACT, 8192, "columns", TD_FFTS_, "longest whose roots are computed one by one")                             \
    T(FFT_LONG, 8192, "columns", "fft_c2c", "from which a line may be cut in two phases")                              \
    T(FFT_SIDE, 32, "columns", "fft_c2c", "least length of the shorter of both")                                       \
    T(FFT_CHUNK, 32768, "elements", TD_FFTS_, "of a chunk of whole lines")                                             \
    T(FFT_KEPT, 32, "rows", TD_FFTS_, "lengths whose roots are kept")                                                  \
    T(FFT_KEPT_BYTES, 1048576, "bytes", TD_FFTS_, "most that a kept length takes; longer ones are made in the call")   \
    /* factorizations: lapack.c and what stands on it, matrix_exp.c */                                                 \
    T(MATRIX_CHUNK, 400000, "products", TD_MATRICES_, "of the matrices of a chunk")                                    \
    T(MATRIX_TILE, 16, "rows", TD_MATRICES_, "and columns that are turned at once")                                    \
    /* sorting: sort.c, sort_keys.c, topk.c */                                                                         \
    T(SORT_BLOCK, 32768, "elements", "sort topk kth", "twice as many are sorted in blocks and merged, in two phases")  \
    T(SORT_CHUNK, 8192, "elements", "sort topk kth", "of a chunk of whole rows")                                       \
    T(SORT_GROUP, 16, "rows", "sort topk kth", "that lie side by side and are turned together")                        \
    T(SORT_GROUP_BYTES, 1048576, "bytes", "sort topk kth", "most of such rows and their results")                      \
    T(SORT_RANKED, 32, "elements", "sort topk", "each put where the number of smaller ones says")                      \
    T(SORT_RADIX, 256, "elements", "sort topk", "from which they are sorted by bytes")                                 \
    T(TOPK_FEW, 16, "elements", "topk", "at most this part of a row is gathered without counting")                     \
    T(TOPK_CHUNKS, 256, "rows", "topk", "chunks of a long row at most, whatever its length")                           \
    T(TOPK_KEPT, 1024, "elements", "topk", "of a long row, most that are chosen among the best of each block")

enum {
#define TD_THRESHOLD_(name, value, unit, kernels, meaning) TD_##name = (value),
    TD_THRESHOLDS(TD_THRESHOLD_)
#undef TD_THRESHOLD_
};

#endif
