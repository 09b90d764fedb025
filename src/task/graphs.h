/* Weighted graphs (graphs.c): their settings, and what reference predictors share with the task. */
#ifndef ICLAB_TASK_GRAPHS_H
#define ICLAB_TASK_GRAPHS_H

#include "iclab/random.h"
#include "iclab/reference_predictor.h"
#include "task/task.h"

/* task.answer. */
typedef enum icl_graph_answer { ICL_GRAPH_ELECTRIC = 0, ICL_GRAPH_RESISTIVE, ICL_GRAPH_HEAT } icl_graph_answer;

/* task->state. */
typedef struct icl_graphs {
    size_t nodes, edges, demands;  /* n, m, k */
    size_t skips[ICL_MAX_CHOICES]; /* equally likely; without any graphs are complete */
    size_t skip_count;
    icl_graph_answer answer;
    bool is_centred; /* the demands on a graph sum to 0 */
} icl_graphs;

/* Does something to one graph of `count`, whose inputs [n][m + k] and outputs [n][k] are given. work holds the doubles
 * that were asked for. */
typedef void icl_graphs_body(const icl_task *task, const void *settings, const float *inputs, double *work,
                             double *outputs);

/* Does it to all, on all threads. outputs [count][n][k]. */
icl_status icl_graphs_for_each(const icl_task *task, icl_graphs_body *body, const void *settings, size_t work,
                               size_t count, const float *inputs, double *outputs, icl_error *error);

/* Draws graphs 0 … count - 1 of the key: inputs [count][n][m + k]. */
icl_status icl_graphs_draw(const icl_task *task, icl_random_key key, size_t count, float *inputs, icl_error *error);

/* L = B B^T [n][n] of the inputs of one graph. */
void icl_graphs_laplacian(const icl_task *task, const float *inputs, double *laplacian);

/* The target of one graph, from its inputs; NaN where LAPACK finds no eigenvectors. An icl_graphs_body that takes
 * icl_graphs_answer_work(n) doubles and no settings. */
icl_graphs_body icl_graphs_answer;
size_t icl_graphs_answer_work(size_t nodes);

/* values [n][k] times the factor that makes the sum of their squares n; zeros stay. */
void icl_graphs_normalize(const icl_task *task, double *values);

/* zero, polynomial:K and exact (graphs_predictors.c), ended by a row without a name. */
const icl_reference_predictor *icl_graphs_references(const icl_task *task);

#endif
