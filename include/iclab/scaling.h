/*
 * How training scales over ranks: the time and the cost of a step on N of them, from a step that was measured.
 *
 * A step is what src/train/slices.c does. Of S slices of a batch each rank differentiates ceil(S / N); every rank
 * gathers the records of all S, adds them, and makes the same update. So a rank's step has a part that is divided among
 * the ranks and a part that each of them repeats, both measured on one process that stands for rank 0, and the gather,
 * which is modelled: with the latency L of a message, the bandwidth W of a rank, and G bytes of records in all,
 *
 *     gather = m L + G (N - 1) / (N W),   m = ceil(log2 N) messages one after the other, N - 1 from 512 KiB on,
 *
 * as implementations of MPI do it: by doubling distances, and around a ring where there is much to send (Thakur,
 * Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in MPICH").
 */
#ifndef ICLAB_SCALING_H
#define ICLAB_SCALING_H

#include "iclab/bench.h"
#include "iclab/ranks.h"
#include "iclab/text.h"

ICL_C_BEGIN

/* What lies between ranks. */
typedef struct icl_network {
    double latency;   /* seconds a message */
    double bandwidth; /* bytes a second of each rank */
} icl_network;

/* One rank's step, as measured without a network. */
typedef struct icl_scaling_step {
    size_t ranks;    /* that share the step */
    size_t slices;   /* train.slices of the recipe, or where it has fewer than ranks the next divisor of train.batch */
    double divided;  /* seconds for the slices of rank 0, which has the most of them */
    double repeated; /* seconds for what every rank does: adding all slices' gradients, the update; 0 with one slice */
    double gathered; /* bytes of the records of all slices, which every rank holds */
} icl_scaling_step;

/* What takes most of a step. */
typedef enum icl_scaling_limit {
    ICL_LIMIT_COMPUTE = 0, /* the slices, which more ranks would divide */
    ICL_LIMIT_REPEATED,    /* what every rank repeats */
    ICL_LIMIT_LATENCY,
    ICL_LIMIT_BANDWIDTH,
} icl_scaling_limit;

/* "compute", "repeated work", "latency", "bandwidth". */
ICL_API const char *icl_scaling_limit_name(icl_scaling_limit limit);

/* What a prediction is for. */
typedef struct icl_scaling_params {
    icl_network network; /* between the ranks */
    double single;       /* seconds of a step on one rank, by which others are judged */
    double steps;        /* of the training */
    /* Where all ranks share one machine: its cores, and the threads of a rank. Ranks that have more threads than there
     * are cores take turns. cores = 0: each rank has a machine of its own. */
    size_t cores;
    size_t threads; /* of a rank, beside cores */
} icl_scaling_params;

/* A step on so many ranks. */
typedef struct icl_scaling_row {
    size_t ranks;                                 /* that share the step */
    size_t slices;                                /* of its batch, over all ranks */
    double divided, repeated, latency, bandwidth; /* seconds of each part; the last two are of the gather */
    double step;                                  /* seconds in all */
    double speed_up, efficiency;                  /* single / step, and that over ranks */
    double hours, rank_hours;                     /* of all steps */
    double gathered;                              /* bytes */
    icl_scaling_limit limit;                      /* what takes most of the step */
} icl_scaling_row;

/* The step and its cost on measured->ranks ranks: the parts that were measured and, by the network, their gather. */
ICL_API icl_scaling_row icl_scaling_predict(const icl_scaling_step *measured, const icl_scaling_params *params);

/* Adds to the text, in sentences: what limits which numbers of ranks, the most that keep half of their efficiency, and
 * where a step is shortest. Rows are in order of their ranks, at least one. */
ICL_API icl_status icl_scaling_verdict(const icl_scaling_row *rows, size_t count, icl_text *text, icl_error *error);

/* Measures rank 0 of so many, on params->device with params->recipe, for params->seconds. ICL_ERROR_INPUT where the
 * batch has fewer sequences than there are ranks, or the records of all slices do not fit into half of the device's
 * memory. */
ICL_API icl_status icl_scaling_measure(const icl_bench_params *params, size_t ranks, icl_scaling_step *step,
                                       icl_error *error);

/* Times gathers between the ranks there are, at least two; collective. */
ICL_API icl_status icl_network_measure(const icl_ranks *ranks, icl_network *network, icl_error *error);

ICL_C_END

#endif
