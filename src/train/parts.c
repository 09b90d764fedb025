#include "train/parts.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/model_family.h"
#include "iclab/status.h"
#include "train/loops.h"

enum { MOST_PARTS = 64 };

/* What a worker keeps from step to step. */
typedef struct workplace {
    icl_tape *tape;
    icl_tensor gradient; /* [N], of the sequences at hand */
} workplace;

struct icl_parts {
    icl_backend *backend;
    size_t at_once;
    workplace *workplaces; /* [icl_backend_workers] */
    icl_tensor gradients;  /* [P, N], and */
    icl_tensor losses;     /* [B], of the last batch that was differentiated */
    icl_tensor outputs;    /* [B, S, q], of the last one that was predicted */
};

static size_t count_of(const icl_parts *parts, size_t batch) {
    const size_t count = batch / parts->at_once;
    return count < MOST_PARTS ? count : MOST_PARTS;
}

bool icl_parts_divide(const icl_parts *parts, size_t batch) {
    return parts && count_of(parts, batch) >= 2;
}

double icl_parts_gradient_bytes(const icl_parts *parts, size_t batch, size_t size) {
    const size_t gradients = count_of(parts, batch) + icl_backend_workers(parts->backend);

    return (double)(gradients * icl_backend_capabilities(parts->backend)->element_size) * (double)size;
}

icl_status icl_parts_create(icl_backend *backend, const icl_model *model, icl_parts **parts, icl_error *error) {
    icl_parts *made = NULL;
    icl_status status = ICL_OK;

    if (model->sequences_at_once == 0 || icl_backend_capabilities(backend)->kind != ICL_DEVICE_HOST)
        return ICL_OK;
    ICL_TRY(icl_allocate(1, sizeof *made, "parts of a batch", &made, error));
    made->backend = backend;
    made->at_once = model->sequences_at_once;
    ICL_TRY(icl_allocate(icl_backend_workers(backend), sizeof *made->workplaces, "tapes", &made->workplaces, error));
    *parts = made;
    made = NULL;
done:
    icl_parts_destroy(&made);
    return status;
}

void icl_parts_destroy(icl_parts **parts) {
    icl_parts *gone = *parts;

    if (!gone)
        return;
    for (size_t i = 0; gone->workplaces && i < icl_backend_workers(gone->backend); i++) {
        icl_tape_destroy(&gone->workplaces[i].tape);
        icl_tensor_release(&gone->workplaces[i].gradient);
    }
    icl_tensor_release(&gone->gradients);
    icl_tensor_release(&gone->losses);
    icl_tensor_release(&gone->outputs);
    icl_free(&gone->workplaces);
    icl_free(parts);
}

/* Makes it a tensor of this shape, unless it is one. */
static icl_status reserve(icl_backend *backend, icl_tensor *tensor, int rank, const size_t *shape, icl_error *error) {
    if (tensor->buffer && tensor->rank == rank && memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return ICL_OK;
    icl_tensor_release(tensor);
    return icl_tensor_create(backend, rank, shape, tensor, error);
}

/* ---- One part ---- */

typedef struct work {
    icl_parts *parts;
    const icl_differentiation *what;
    size_t count; /* P */
} work;

static icl_tensor rows(icl_tensor tensor, size_t first, size_t count) {
    return tensor.buffer ? icl_tensor_slice(tensor, 0, first, count) : tensor;
}

/* The sequences of a part, as many at a time as the family asks for. */
typedef struct walk {
    size_t begin, end;   /* of the part */
    size_t first, count; /* those at hand */
} walk;

static walk walk_begin(const work *w, size_t part) {
    const size_t batch = w->what->batch->size;
    return (walk){.begin = batch * part / w->count, .end = batch * (part + 1) / w->count};
}

static bool walk_on(const work *w, walk *at) {
    const size_t at_once = w->parts->at_once;

    at->first = at->count == 0 ? at->begin : at->first + at->count;
    at->count = at->end - at->first < at_once ? at->end - at->first : at_once;
    return at->count > 0;
}

static icl_status prepare(workplace *place, icl_backend *worker, icl_error *error) {
    return place->tape ? ICL_OK : icl_tape_create(worker, &place->tape, error);
}

/* ---- Gradients ---- */

/* Adds the gradient of the sequences at hand, with their share of the batch, to that of the part, or begins it. */
static icl_status add_sequences(const work *w, icl_backend *worker, const workplace *place, const walk *at,
                                icl_tensor gradient, icl_error *error) {
    const icl_batch *batch = w->what->batch;
    const double share = (double)at->count / (double)batch->size;
    const bool is_first = at->first == at->begin;
    const icl_variable each = icl_record_losses(
        w->what, place->tape, is_first ? gradient : place->gradient, rows(batch->inputs, at->first, at->count),
        rows(batch->targets, at->first, at->count), rows(batch->weights, at->first, at->count));

    ICL_CHECK(icl_tape_backward(place->tape, icl_tape_scale(place->tape, share, each), error));
    const icl_tensor losses = icl_tensor_reshape(icl_tape_value(place->tape, each), 1, &at->count);
    ICL_CHECK(icl_copy(worker, rows(w->parts->losses, at->first, at->count), losses, error));
    return is_first ? ICL_OK : icl_binary(worker, ICL_ADD, gradient, gradient, place->gradient, error);
}

static icl_status differentiate_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    const work *w = context;
    const size_t size = w->parts->gradients.shape[1];
    const icl_tensor gradient = icl_tensor_reshape(rows(w->parts->gradients, part, 1), 1, &size);
    workplace *place = &w->parts->workplaces[number];
    walk at = walk_begin(w, part);

    ICL_CHECK(prepare(place, worker, error));
    ICL_CHECK(reserve(worker, &place->gradient, 1, &size, error));
    while (walk_on(w, &at))
        ICL_CHECK(add_sequences(w, worker, place, &at, gradient, error));
    return ICL_OK;
}

icl_status icl_parts_differentiate(icl_parts *parts, const icl_differentiation *what, icl_tensor *losses,
                                   icl_error *error) {
    const size_t batch = what->batch->size, count = count_of(parts, batch), size = icl_model_size(what->model);
    work w = {parts, what, count};

    ICL_CHECK(reserve(parts->backend, &parts->gradients, 2, (size_t[]){count, size}, error));
    ICL_CHECK(reserve(parts->backend, &parts->losses, 1, &batch, error));
    ICL_CHECK(icl_backend_share(parts->backend, count, differentiate_part, &w, error));
    *losses = parts->losses;
    return icl_reduce(parts->backend, ICL_SUM, 1, icl_tensor_reshape(what->with.gradient, 2, (size_t[]){1, size}),
                      parts->gradients, error);
}

/* ---- Predictions ---- */

static icl_status predict_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    const work *w = context;
    const icl_differentiation *what = w->what;
    workplace *place = &w->parts->workplaces[number];
    walk at = walk_begin(w, part);

    ICL_CHECK(prepare(place, worker, error));
    while (walk_on(w, &at)) {
        icl_tape_reset(place->tape);
        const icl_variable outputs = icl_model_record(what->model, place->tape, what->with.parameters, (icl_tensor){0},
                                                      rows(what->batch->inputs, at.first, at.count), what->depth);
        ICL_CHECK(icl_tape_status(place->tape, error));
        ICL_CHECK(
            icl_copy(worker, rows(w->parts->outputs, at.first, at.count), icl_tape_value(place->tape, outputs), error));
    }
    return ICL_OK;
}

icl_status icl_parts_predict(icl_parts *parts, const icl_differentiation *what, icl_tensor *outputs, icl_error *error) {
    const icl_task_shape *shape = &what->batch->shape;
    const size_t batch = what->batch->size;
    work w = {parts, what, count_of(parts, batch)};

    ICL_CHECK(reserve(parts->backend, &parts->outputs, 3, (size_t[]){batch, shape->scored, shape->outputs}, error));
    ICL_CHECK(icl_backend_share(parts->backend, w.count, predict_part, &w, error));
    *outputs = parts->outputs;
    return ICL_OK;
}
