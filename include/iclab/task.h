/*
 * Tasks: families of sequence problems, drawn on the device, or on the host for it.
 *
 * A batch is a pure function of (seed, stream, step): bit-identical on every backend and in any order.
 */
#ifndef ICLAB_TASK_H
#define ICLAB_TASK_H

#include <stdbool.h>

#include "iclab/random.h"
#include "iclab/recipe.h"
#include "iclab/shape.h"
#include "iclab/tensor.h"

ICL_C_BEGIN

/* A family of tasks with its sizes and distributions. */
typedef struct icl_task icl_task;

/* Which random numbers a batch is made from. Training, evaluation and the fitting of reference predictors use different
 * purposes, so they never share a sequence. */
typedef enum icl_task_purpose {
    ICL_FOR_TRAINING = 0,
    ICL_FOR_EVALUATION,
    ICL_FOR_FITTING,
} icl_task_purpose;

/* Distributions of sigma, the standard deviation of the label noise, which each sequence draws once. */
typedef enum icl_noise_kind { ICL_NOISE_FIXED = 0, ICL_NOISE_UNIFORM, ICL_NOISE_CHOICE } icl_noise_kind;

/* What reference predictors may know about a task of linear regression: its targets are <w, x> with a Gaussian w. Owned
 * by the task. */
typedef struct icl_task_prior {
    size_t dimension;                     /* d */
    size_t context;                       /* n */
    const double *weight_root;            /* [d][d], C with w = C g, g ~ N(0, I); NULL: identity */
    const double *covariance_root;        /* [d][d], R: x has mean 0 and covariance R R^T; NULL: identity */
    icl_noise_kind noise;                 /* the law of sigma */
    double noise_max;                     /* ICL_NOISE_UNIFORM: sigma ~ U[0, noise_max] */
    size_t noise_count;                   /* ICL_NOISE_FIXED (1) and ICL_NOISE_CHOICE: equally likely levels */
    double noise_levels[ICL_MAX_CHOICES]; /* the first noise_count of these */
    double mean_square_noise;             /* E[sigma^2] */
    /* Where the label of the input at position t stands, as last coordinate: at position t, so that only the last
     * position can be scored (icl_regression_shape); or at t + 1, so that every position can, each from the pairs
     * before it. */
    enum { ICL_LABELS_BESIDE = 0, ICL_LABELS_NEXT } labels;
} icl_task_prior;

/* The step of the first batch for evaluation of those that watch a training; no final table sees them. */
#define ICL_FIRST_WATCHED_STEP ((uint64_t)1 << 40)

/* The text of a task. Its windows for evaluation are finite in number and in order: sequence `i` of the
 * batch of step `s` is window s B + i, with B the size of the batch. */
typedef struct icl_task_text {
    const char *file;       /* task.file */
    uint64_t bytes;         /* of all files */
    uint64_t hash;          /* of these bytes (FNV-1a, 64 bits) */
    bool is_utf8;           /* whether they are valid UTF-8 */
    const char *evaluation; /* how the held-out bytes are cut, for people */
    uint64_t evaluated;     /* windows of the final table */
    uint64_t watched;       /* windows that watch a training */
    bool carries;           /* the final table's windows are one sequence: the state goes from one to the next */
} icl_task_text;

/* A tensor in addition to a batch's own, which reference predictors, probes and a model family's own ops find by its
 * name. */
typedef struct icl_side {
    const char *name;  /* it outlives the batch */
    icl_tensor tensor; /* a view */
} icl_side;

/* The largest number of side tensors of a batch. */
#define ICL_MAX_SIDES 6

/* Side tensors of in-context regression: the sequence's sigma, [B, 1, 1]. */
#define ICL_SIDE_NOISE "noise"

/* w, [B, d, 1]; for functions, the direction that they depend on, [B, k, 1] in a subspace; for quadratic targets W, [B,
 * d, d]; for autoregressions, except in batches for training, the partial autocorrelations, [B, K, 1]. */
#define ICL_SIDE_COEFFICIENTS "coefficients"

/* The sum of e_i e_i^T over e_i = (x_i, y_i), [B, d + 1, d + 1]; only with task.sampler = gram. */
#define ICL_SIDE_GRAM "gram"

/* (x_t, 0), [B, d + 1]; present together with gram. */
#define ICL_SIDE_QUERY "query"

/* Side tensors of dynamical systems, not for training: (W G), [B, n_h, n_h + n_u], of h <- W h + G u; W without u. */
#define ICL_SIDE_TRANSITION "transition"
/* C, [B, n_s, n_h], of s = C h, if a linear map shows the state. */
#define ICL_SIDE_OBSERVATION "observation"

/* A side tensor of text, in batches for evaluation: the place of the first byte of each window in the files, [B, 2], as
 * place / 2^20 without its fraction and the rest. */
#define ICL_SIDE_PLACE "place"
/* Side tensor of Markov chains, except in batches for training: the probabilities that the chain of the sequence gives
 * the symbols at each scored position, [B, S, V]. */
#define ICL_SIDE_SOURCE "source"

/*
 * One batch of B sequences on a backend, with the sizes of icl_task_shape. In-context regression has inputs (x_i, y_i),
 * the last the query (x_t, 0), and as target the noiseless <w, x_t>, or f(x_t); with task.sampler = gram a batch for
 * training has no inputs but the side tensors gram and query, all that a linear transformer sees of them. The batch
 * owns inputs and scratch; targets, weights and side tensors may be strided views. Only icl_task_sample may write to a
 * batch; callers with their own sequences to predict from may write into its inputs.
 */
typedef struct icl_batch {
    icl_task_shape shape;          /* shape of each sequence */
    size_t size;                   /* B */
    icl_tensor inputs;             /* [B, T, p], or symbols [B, T]; or absent */
    icl_tensor targets;            /* [B, S, c], at the scored positions */
    icl_tensor weights;            /* [B, S, 1], weights of their losses; absent: all are 1 */
    icl_side sides[ICL_MAX_SIDES]; /* found by icl_batch_side */
    size_t side_count;             /* number of sides in use */
    icl_tensor scratch[8];         /* what the task keeps between calls; private */
} icl_batch;

/* Returns the side tensor of this name; absent (a NULL buffer) if the batch has none. */
ICL_API icl_tensor icl_batch_side(const icl_batch *batch, const char *name);

/* Reads the [task] section. ICL_ERROR_INPUT names the key, its value and what was expected. */
ICL_API icl_status icl_task_create(const icl_recipe *recipe, icl_task **task, icl_error *error);
ICL_API void icl_task_destroy(icl_task **task);

/* Returns the task's shape: T, p or V, q, S and the loss. */
ICL_API const icl_task_shape *icl_task_get_shape(const icl_task *task);

/* Returns the number of sequences of a piece, for a stage that works through many sequences: at most `most`, and few
 * enough that inputs and outputs each hold at most 2^24 numbers, 64 MiB; at least 1. A function of the shape: every
 * device has the same. */
ICL_API size_t icl_task_piece(const icl_task *task, size_t most);

/* Return d = p - 1 and n = T - 1 of in-context regression. */
ICL_API size_t icl_task_dimension(const icl_task *task);
ICL_API size_t icl_task_context(const icl_task *task);

/* Returns the prior of a task of linear regression, to which the reference predictors of baseline.h apply; NULL for
 * every other task. */
ICL_API const icl_task_prior *icl_task_get_prior(const icl_task *task);

/* Returns what is known of the text of a task of task.family = text, the task's; NULL for every other task. */
ICL_API const icl_task_text *icl_task_get_text(const icl_task *task);

/* Reads the shape of a task on text from its recipe, without its file: for a model that was trained on it.
 * ICL_ERROR_INPUT for another task.family. */
ICL_API icl_status icl_task_read_text_shape(const icl_recipe *recipe, icl_task_shape *shape, icl_error *error);

/* Allocates the tensors of a batch of `size` sequences; icl_task_sample fills it, any number of times. The purpose
 * decides what it holds: with task.sampler = gram a batch for training holds Gram matrices; every other batch holds
 * inputs. ICL_ERROR_INPUT if the tensors that the family made do not have the task's shape. */
ICL_API icl_status icl_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                    icl_batch *batch, icl_error *error);
ICL_API void icl_batch_release(icl_batch *batch);
ICL_API icl_status icl_task_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                                   uint64_t step, icl_batch *batch, icl_error *error);

ICL_C_END

#endif
