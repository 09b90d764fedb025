/*
 * The ops: everything a model, a task or a training loop computes on a backend.
 *
 * Conventions. The output comes first. Operands are views of the same backend with any strides; the strides of
 * outputs nest (icl_tensor), so that no element is written twice, and outputs may not overlap an input, except that
 * elementwise ops and copies may write exactly onto an input of the same view. Inputs broadcast against the output:
 * shapes align at the last axis, missing and 1-extents repeat. Calls return as soon as the work is queued;
 * icl_tensor_read and icl_backend_sync wait. A shape with no elements is valid and does nothing (a sum over nothing
 * is 0).
 * ICL_ERROR_INPUT with a message naming the op and the shapes when operands do not fit together.
 * Arithmetic is float, double on "ref", except the ops marked "strict", which are float and rounded identically
 * everywhere.
 */
#ifndef ICLAB_OPS_H
#define ICLAB_OPS_H

#include "iclab/kinds.h"
#include "iclab/random.h"
#include "iclab/tensor.h"

ICL_C_BEGIN

/* ---- Filling and copying ---- */

/* Sets every element of out to the value, rounded to an element. */
ICL_API icl_status icl_fill(icl_backend *backend, icl_tensor out, double value, icl_error *error);

/* out = in. */
ICL_API icl_status icl_copy(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error);

/* Strict. Fills out with random numbers (random.h). */
ICL_API icl_status icl_random_fill(icl_backend *backend, const icl_random_params *params, icl_tensor out,
                                   icl_error *error);

/*
 * Strict. Makes spherical distributions from normal ones: for rows along the last axis, out = r x / ||x||, so that rows
 * x of independent normals become directions that are uniform on the sphere, times a radius. r = 1 if normals and table
 * are absent (zeroed icl_tensors). Otherwise each row has a normal z, and r = 2^L(z): table [ICL_CHI_PIECES,
 * ICL_CHI_TERMS] holds L as a piecewise polynomial. in as out, rank 1 to 4; normals [..., 1], its leading axes as
 * out's. out may be the same view as in. A row of zeros stays zero; the others need 2^-120 < ||x||^2 < 2^120.
 * |r x / ||x|| - out| <= gamma(d / 2 + 10) |out|, besides the rounding of L.
 *
 * Every product and every sum rounds once:
 *     s = (x_0 x_0) + x_1 x_1 + …, from left to right; h = s / 2
 *     y = the float with the bits 0x5f375a86 - (bits of s >> 1) (Lomont 2003), then three times y = y (1.5 - (h y) y)
 *     z cut to [-6.99, 6.99] (and -6.99 where it is no number), L(z) as gram_sample evaluates its table, cut to
 *     [-62, 62] likewise
 *     k = (int)(L + 62.5) - 62, f = L - k, r = 2^k (c_0 + f (c_1 + f (… + f c_7))), c_j = ln(2)^j / j! as floats
 *     out_i = x_i (y r), or x_i y without a radius
 */
ICL_API icl_status icl_spherical(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor normals,
                                 icl_tensor table, icl_error *error);

/*
 * Strict. Draws from gamma distributions with scale 1: element k of out, in row-major order, is
 * icl_random_gamma_value(key, first_index + k, its shape). shapes broadcasts against out and may be its very view. The
 * gamma draws of a row divided by their sum have the Dirichlet distribution; icl_cumulative_sum and icl_categorical
 * draw symbols by them without dividing.
 */
ICL_API icl_status icl_random_gamma(icl_backend *backend, const icl_draw_params *params, icl_tensor out,
                                    icl_tensor shapes, icl_error *error);

/* Strict. Sums along the last axis: out_i = ((in_0 + in_1) + ...) + in_i as floats, each sum rounded once. out and in
 * [..., n] of one shape of rank 1 to 4; out may be in's very view. NaN and infinities reach all elements behind. */
ICL_API icl_status icl_cumulative_sum(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error);

/* The least sum of weights that icl_categorical takes, 2^-100. */
#define ICL_LEAST_WEIGHT 7.888609052210118e-31

/* The most symbols that icl_categorical draws from: floats hold whole numbers up to this. */
#define ICL_MOST_CATEGORIES ((size_t)1 << 24)

/*
 * Strict. Turns uniform numbers into symbols: with u of in, in [0, 1), and the row c of sums, the cumulative sums of k
 * weights that are 0 or at least 2^-126, out is the first i with c_i > u c_(k - 1), the product rounded once: symbol i
 * has the probability (c_i - c_(i - 1)) / c_(k - 1), to 2^-24, and a symbol of weight 0 is never drawn. out and in
 * [..., n], sums [..., k]; the leading axes of sums broadcast, k is at most ICL_MOST_CATEGORIES, and out may be in's
 * very view. u comes from icl_random_fill, as ICL_UNIFORM from 0 to 1. NaN where u is not in [0, 1), and in rows whose
 * last sum is not from ICL_LEAST_WEIGHT to the largest float. Where sums fall or are NaN, out is some symbol, the same
 * everywhere.
 */
ICL_API icl_status icl_categorical(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor sums,
                                   icl_error *error);

/* The end of the numbers that icl_random_distinct draws from: floats hold whole numbers up to this. */
#define ICL_MOST_DISTINCT ((uint32_t)1 << 24)

/*
 * Strict. Draws different whole numbers for each row along the last axis of out [..., n], n <= count: draw j is number
 * floor(w (count - j) / 2^32), from 0, of those that are left, by a partial Fisher-Yates shuffle: after draw j the
 * number that stood in place j of the list stands where the drawn one was. All selections are equally likely, to
 * count / 2^32. Rows are counted in row-major order. Rows of one number are independent draws. least + count is at most
 * ICL_MOST_DISTINCT. Devices compare n^2 / 2 pairs for each row.
 */
ICL_API icl_status icl_random_distinct(icl_backend *backend, const icl_distinct_params *params, icl_tensor out,
                                       icl_error *error);

/* ---- Elements by number ---- */

/* Takes elements of rows along the last axis by number: out_j = in_(places_j); NaN where places_j is no whole number
 * from 0 to k - 1. out and places [..., n], in [..., k]; the leading axes of in broadcast. k is at most 2^24. */
ICL_API icl_status icl_take(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor places, icl_error *error);

/* Puts elements into rows along the last axis by number: out_(places_j) = values_j, for j from 0 on, so that the last
 * of several counts; nothing where places_j is no whole number from 0 to k - 1. Other elements stay. out [..., k],
 * places [..., n]; values broadcast against places. k is at most 2^24. */
ICL_API icl_status icl_put(icl_backend *backend, icl_tensor out, icl_tensor values, icl_tensor places,
                           icl_error *error);

/* ---- Elementwise ---- */

/* Returns the name of a kind (kinds.h), such as "square_root"; static storage. */
ICL_API const char *icl_unary_name(icl_unary_kind kind);
ICL_API const char *icl_binary_name(icl_binary_kind kind);

/* out = kind(in). */
ICL_API icl_status icl_unary(icl_backend *backend, icl_unary_kind kind, icl_tensor out, icl_tensor in,
                             icl_error *error);

/* out = kind(a, b). */
ICL_API icl_status icl_binary(icl_backend *backend, icl_binary_kind kind, icl_tensor out, icl_tensor a, icl_tensor b,
                              icl_error *error);

/* Computes out = alpha * a + beta * b: two products and a sum, each rounded once. b may be absent (a zeroed
 * icl_tensor): out = alpha * a. */
ICL_API icl_status icl_scale_add(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, double beta,
                                 icl_tensor b, icl_error *error);

/* ---- Reductions ---- */

/* Returns the name of a kind (kinds.h), such as "sum_of_squares"; static storage. */
ICL_API const char *icl_reduce_name(icl_reduce_kind kind);

/* Reduces the axes whose bits are set in `axes` (bit 0 = axis 0). out has the input's rank, with extent 1 on each
 * reduced axis. Sums run in a fixed tree: at most 32 terms in sequence, then pairs, so that each term passes through at
 * most 32 + ceil(log2 n) additions: |error| <= gamma(32 + ceil(log2 n)) * sum |x|. */
ICL_API icl_status icl_reduce(icl_backend *backend, icl_reduce_kind kind, unsigned axes, icl_tensor out, icl_tensor in,
                              icl_error *error);

/* ---- Matrix products ---- */

/* out = alpha * a b + beta * out over the last two axes: out [..., m, n], a [..., m, k], b [..., k, n]; leading axes
 * broadcast. Rank 2 to 4. Transposes are views (icl_tensor_swap_axes). beta = 0 never reads out. k = 0 gives
 * beta * out. Error <= gamma(k + 3) * |alpha| |a| |b| + gamma(3) |beta out|. */
ICL_API icl_status icl_matmul(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, icl_tensor b,
                              double beta, icl_error *error);

/* Strict. Computes out = a b with float elements on every backend, each summed from left to right, every product and
 * every sum rounded once: (((a0 b0) + a1 b1) + a2 b2) …. For task generators, whose data must have the same bits
 * everywhere. */
ICL_API icl_status icl_matmul_strict(icl_backend *backend, icl_tensor out, icl_tensor a, icl_tensor b,
                                     icl_error *error);

/* ---- Attention ---- */

/* How scores become weights. */
typedef enum icl_attention_kind {
    ICL_ATTENTION_LINEAR = 0, /* out_i = scale * sum_j (q_i . k_j) v_j */
    ICL_ATTENTION_SOFTMAX,    /* out_i = sum_j softmax_j(scale * q_i . k_j) v_j */
} icl_attention_kind;

/* Which keys j a query i sees. */
typedef enum icl_attention_mask {
    ICL_MASK_NONE = 0,
    ICL_MASK_QUERY_EXCLUDED, /* the last key is the query token and is never attended to */
    ICL_MASK_CAUSAL,         /* j <= i + (keys - queries): the last query sees every key */
} icl_attention_mask;

/* Zero is a valid value for kind and mask. A window needs softmax and ICL_MASK_CAUSAL: query i sees the keys j with i +
 * (keys - queries) - window < j <= i + (keys - queries). */
typedef struct icl_attention_params {
    icl_attention_kind kind; /* linear or softmax */
    icl_attention_mask mask; /* which keys count */
    double scale;            /* factor of the scores q . k */
    size_t window;           /* keys that a query sees at most, the last ones of its mask; 0: all of them */
} icl_attention_params;

/* q [batch, queries, d], k [batch, keys, d], v [batch, keys, e], out [batch, queries, e]. batch may broadcast. With
 * heads: q [batch, heads, queries, d], k [batch, groups, keys, d], v [batch, groups, keys, e], out [batch, heads,
 * queries, e]; groups divides heads, and head h reads group h / (heads / groups). Strides are free, so heads may be
 * views of [batch, queries, heads, d] with two axes swapped; a last axis without gaps is fastest. log_sum_exp,
 * shaped as out with a last extent of 1, receives log sum_j exp(score_ij) for the backward pass of softmax
 * (-infinity if every key is masked); absent or ignored for linear. A query with no key to attend to yields 0.
 * Linear attention costs O((queries + keys) d e), not O(queries keys), for every mask. Softmax attention costs
 * queries keys (d + e) multiply-adds, and queries keys (3 d + 2 e) to (4 d + 3 e) backward, by the device and the
 * batch, about half of it where a causal mask hides half of the pairs, and with a window queries (window + a block)
 * instead of queries keys. No pass stores a matrix of queries x keys, but on a device whose choice (iclab devices
 * --gemm) is products, which stores such matrices of at most 2^26 numbers, and takes them for no window. */
ICL_API icl_status icl_attention_forward(icl_backend *backend, const icl_attention_params *params, icl_tensor out,
                                         icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v,
                                         icl_error *error);

/* Computes the gradients of the above: d_q, d_k, d_v (overwritten, shaped as q, k, v) from d_out. out and
 * log_sum_exp are what the forward pass wrote (softmax; absent for linear). d_k and d_v are sums over the heads that
 * read the group, in a fixed order. Inputs that broadcast are not supported here. */
ICL_API icl_status icl_attention_backward(icl_backend *backend, const icl_attention_params *params, icl_tensor d_q,
                                          icl_tensor d_k, icl_tensor d_v, icl_tensor d_out, icl_tensor out,
                                          icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v,
                                          icl_error *error);

/* ---- Optimizer steps, in place ---- */

/*
 * Constants of one step of Adam (Kingma and Ba 2015, Algorithm 1): m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 * parameters -= learning_rate * (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + epsilon).
 * The constants b, 1 - b and 1 - b^step are computed in double and rounded once.
 */
typedef struct icl_adam_params {
    double learning_rate; /* rate of this step */
    double beta1;         /* decay of the first moment */
    double beta2;         /* decay of the second moment */
    double epsilon;       /* added to the root of the second moment */
    double weight_decay;  /* decoupled (AdamW): parameters *= 1 - learning_rate * weight_decay, first */
    uint64_t step;        /* counts from 1, for the bias correction */
} icl_adam_params;

/* Constants of one step of stochastic gradient descent: velocity = momentum * velocity + g;
 * parameters -= learning_rate * velocity. */
typedef struct icl_sgd_params {
    double learning_rate; /* rate of this step */
    double momentum;      /* share of the last step that is kept */
} icl_sgd_params;

/* ---- Clipping by sequence ---- */

/* Constants of icl_track_threshold: the first threshold over the mean norm, its rate, and the largest excess that moves
 * it. */
#define ICL_THRESHOLD_FIRST 5.0
#define ICL_THRESHOLD_RATE  0.1
#define ICL_THRESHOLD_LEAP  5.0

/* Tracks the quantile that a share `fraction` of the norms exceeds, 0 < fraction <= 1. threshold [1], read and
 * written, times exp(ICL_THRESHOLD_RATE * min(share / fraction - 1, ICL_THRESHOLD_LEAP)), where share is the number
 * of finite norms above it divided by the number of all. A threshold that is not above 0 has no value yet and
 * becomes ICL_THRESHOLD_FIRST times the mean of the finite norms, if there are any. dropped [1] receives the number
 * of norms [B] that are infinite or NaN. The mean is summed as norm / count in 64 interleaved sums, then pairs, and
 * cannot overflow: relative error < gamma(ceil(B / 64) + 13). */
ICL_API icl_status icl_track_threshold(icl_backend *backend, double fraction, icl_tensor threshold, icl_tensor dropped,
                                       icl_tensor norms, icl_error *error);

/* ---- The end of a training step ---- */

/* Which optimizer takes the step. */
typedef enum icl_update_kind { ICL_UPDATE_ADAM = 0, ICL_UPDATE_SGD, ICL_UPDATE_COUNT } icl_update_kind;

/* The end of a training step: icl_update_step. */
typedef struct icl_update_params {
    icl_update_kind kind; /* selects which of the next two applies */
    icl_adam_params adam; /* for ICL_UPDATE_ADAM */
    icl_sgd_params sgd;   /* for ICL_UPDATE_SGD */
    double clip;          /* largest norm of the gradient; 0: no limit */
    double fraction;      /* fraction of norms above the threshold, if there is one */
} icl_update_params;

/*
 * Does the whole end of a step in one launch (GPUs: in two for a long gradient), for any loss. With the gradient [N]
 * of a batch and the losses [B] of its sequences:
 *     writes measures [3] = (mean of the losses, norm of the gradient, number of norms that are infinite or NaN)
 *     the step of Adam or of gradient descent along gradient * min(1, clip / norm); none where the norm is infinite
 *     or NaN
 *     threshold [1], where present, as icl_track_threshold has it for norms [B]
 * states: first and second moment, or the velocity, and then nothing. norms is present where threshold is. decays [N],
 * where present: Adam's weight decay passes over the parameters whose element is 0; absent: none. The norm is
 * taken of the gradient times 2^-32, so that no square overflows a float below 1e28 (and elements below 2^-31 may count
 * as 0), the sums in 64 interleaved sums, then pairs (GPUs: a long gradient by blocks first, whose length depends on N
 * alone): errors below gamma(ceil(B / 64) + 8) times the mean of |losses|, and relative errors below
 * gamma(ceil(N / 64) / 2 + 11) of the norm.
 */
ICL_API icl_status icl_update_step(icl_backend *backend, const icl_update_params *params, icl_tensor parameters,
                                   const icl_tensor states[2], icl_tensor measures, icl_tensor threshold,
                                   icl_tensor gradient, icl_tensor losses, icl_tensor norms, icl_tensor decays,
                                   icl_error *error);

ICL_C_END

#endif
