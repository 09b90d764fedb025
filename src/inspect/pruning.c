/*
 * What the parts of a linear transformer's layers do to its predictions and its loss. Each part (a term is one of the
 * four blocks of a layer's change, probe/linear_layers.h) is taken away alone, and the loss is compared sequence by
 * sequence: the standard error counts only in what the two models do not share.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "inspect/inspecting.h"
#include "numeric/parallel.h"

/* ---- Prunings ---- */

static icl_linear_ablation pruning_of(size_t index, size_t depth) {
    static const unsigned terms[ICL_PRUNE_PER_MODEL] = {0, 1U << ICL_TERM_XY | 1U << ICL_TERM_YY,
                                                        1U << ICL_TERM_XX | 1U << ICL_TERM_XY | 1U << ICL_TERM_YY};
    const size_t layer = index / ICL_PRUNE_PER_LAYER, place = index % ICL_PRUNE_PER_LAYER;

    if (layer >= depth)
        return (icl_linear_ablation){ICL_EVERY_LAYER, terms[index - depth * ICL_PRUNE_PER_LAYER], true};
    if (place == ICL_PRUNE_BEYOND_SCALARS)
        return (icl_linear_ablation){layer, 0, true};
    return (icl_linear_ablation){layer, place == ICL_PRUNE_LAYER ? ICL_EVERY_TERM : 1U << place, false};
}

/* What a thread has to itself. */
typedef struct worker {
    icl_linear_layers *layers;
    double *weights; /* [depth][d] */
} worker;

typedef struct measuring {
    icl_inspecting *run;
    icl_inspect_sample *sample;
    size_t depth, prunings, threads;
    worker *workers;     /* [threads] */
    double *predictions; /* [prunings][count] */
    double *whole;       /* [count] */
    double *changes;     /* [count][depth][ICL_LINEAR_TERMS] */
    double *values;      /* [count] */
    icl_inspect_effects *into;
} measuring;

static void measure_sequence(const measuring *m, size_t sequence, size_t thread) {
    const size_t d = m->run->d, count = m->sample->count, last = (m->depth - 1) * d;
    const float *tokens = icl_inspect_tokens(m->run, m->sample, sequence);
    const float *query = icl_inspect_query(m->run, m->sample, sequence);
    icl_linear_layers *layers = m->workers[thread].layers;
    double *weights = m->workers[thread].weights;

    icl_linear_layers_changes(layers, tokens, m->changes + sequence * m->depth * ICL_LINEAR_TERMS);
    icl_linear_layers_weights(layers, tokens, NULL, weights);
    m->whole[sequence] = icl_inspect_product(weights + last, query, d);
    for (size_t i = 0; i < d; i++)
        m->sample->weights[sequence * d + i] = weights[last + i];
    for (size_t i = 0; i < m->prunings; i++) {
        const icl_linear_ablation pruning = pruning_of(i, m->depth);
        icl_linear_layers_weights(layers, tokens, &pruning, weights);
        m->predictions[i * count + sequence] = icl_inspect_product(weights + last, query, d);
    }
}

static double square(double value) {
    return value * value;
}

static void summarize_whole(measuring *m) {
    const icl_inspect_sample *sample = m->sample;
    icl_inspect_effect loss; /* above no error at all */
    double size = 0, residual = 0;

    for (size_t i = 0; i < sample->count; i++) {
        m->values[i] = square(m->whole[i] - (double)sample->targets[i]);
        size += square(m->whole[i]);
        residual += square(m->whole[i] - sample->predictions[i]);
    }
    icl_inspect_judge_differences(m->values, sample->count, &loss);
    memcpy(m->into->losses, loss.costs, sizeof loss.costs);
    m->into->size = sqrt(size / (double)sample->count);
    m->into->residual = sqrt(residual / (double)sample->count);
}

static void summarize_pruning(measuring *m, size_t index) {
    const size_t count = m->sample->count;
    const double *predictions = m->predictions + index * count;
    double moved = 0;

    for (size_t i = 0; i < count; i++) {
        const double target = (double)m->sample->targets[i];
        m->values[i] = square(predictions[i] - target) - square(m->whole[i] - target);
        moved += square(predictions[i] - m->whole[i]);
    }
    m->into->of[index].moved = m->into->size > 0 ? sqrt(moved / (double)count) / m->into->size : 0;
    icl_inspect_judge_differences(m->values, count, &m->into->of[index]);
}

static void summarize_changes(measuring *m) {
    const size_t stride = m->depth * ICL_LINEAR_TERMS;

    for (size_t place = 0; place < stride; place++) {
        for (size_t i = 0; i < m->sample->count; i++)
            m->values[i] = m->changes[i * stride + place];
        m->into->typical[place] = icl_median(m->values, m->sample->count);
    }
}

static icl_status allocate(measuring *m, icl_error *error) {
    const icl_inspecting *run = m->run;
    const size_t count = m->sample->count, stride = m->depth * ICL_LINEAR_TERMS;

    ICL_CHECK(icl_allocate(icl_parallel_threads(), sizeof *m->workers, "threads", &m->workers, error));
    m->threads = icl_parallel_threads();
    for (size_t i = 0; i < m->threads; i++) {
        worker *w = &m->workers[i];
        ICL_CHECK(icl_linear_layers_create(run->model, run->d, run->n, run->values, &w->layers, error));
        ICL_CHECK(icl_allocate(m->depth, run->d * sizeof(double), "weights", &w->weights, error));
    }
    ICL_CHECK(icl_allocate(count, run->d * sizeof(double), "implied weights", &m->sample->weights, error));
    ICL_CHECK(
        icl_allocate(count, m->prunings * sizeof(double), "predictions of pruned models", &m->predictions, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "predictions", &m->whole, error));
    ICL_CHECK(icl_allocate(count, stride * sizeof(double), "changes", &m->changes, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "losses", &m->values, error));
    ICL_CHECK(icl_allocate(m->prunings, sizeof *m->into->of, "effects", &m->into->of, error));
    return icl_allocate(stride, sizeof(double), "typical changes", &m->into->typical, error);
}

static void release(measuring *m) {
    for (size_t i = 0; i < m->threads; i++) {
        icl_linear_layers_destroy(&m->workers[i].layers);
        icl_free(&m->workers[i].weights);
    }
    icl_free(&m->workers);
    icl_free(&m->predictions);
    icl_free(&m->whole);
    icl_free(&m->changes);
    icl_free(&m->values);
}

/* As many sequences at a time as keep the answer to Ctrl-C within a second or so. */
enum { PIECE = 256 };

typedef struct piece {
    const measuring *m;
    size_t first;
} piece;

static void measure_one(void *context, size_t index, size_t thread) {
    const piece *p = context;
    measure_sequence(p->m, p->first + index, thread);
}

icl_status icl_inspect_prune(icl_inspecting *run, icl_inspect_sample *sample, icl_inspect_effects *effects,
                             icl_error *error) {
    const size_t depth = icl_model_layers(run->model);
    measuring m = {.run = run,
                   .sample = sample,
                   .depth = depth,
                   .prunings = depth * ICL_PRUNE_PER_LAYER + ICL_PRUNE_PER_MODEL,
                   .into = effects};
    icl_status status = ICL_OK;

    *effects = (icl_inspect_effects){.depth = depth};
    ICL_TRY(allocate(&m, error));
    for (size_t first = 0; first < sample->count; first += PIECE) {
        const size_t left = sample->count - first;
        piece p = {&m, first};
        ICL_TRY(icl_inspect_poll(run, error));
        icl_inspect_progress(run, "pruning", (double)first / (double)sample->count);
        icl_parallel_for(left < PIECE ? left : PIECE, m.threads, measure_one, &p);
    }
    summarize_whole(&m);
    for (size_t i = 0; i < m.prunings; i++)
        summarize_pruning(&m, i);
    summarize_changes(&m);
done:
    release(&m);
    return status;
}

void icl_inspect_effects_release(icl_inspect_effects *effects) {
    icl_free(&effects->of);
    icl_free(&effects->typical);
}
