#include "train/gradient.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/loss.h"
#include "iclab/status.h"
#include "model/sequence/sequence.h"

/* BF16_FACTOR: how many times as many sequences a micro-batch has if products take bfloat16. They are so fast that
 * converting a weight, and adding its gradient to that of other micro-batches, would take longer than multiplying. */
enum { MOST_PARTS = 64, BF16_FACTOR = 4 };

/* The tape and the gradient that a worker keeps between steps. */
typedef struct workplace {
    icl_tape *tape;
    icl_tensor gradient; /* [N], of the current sequences */
} workplace;

struct icl_differentiator {
    icl_backend *backend;
    const icl_model *model;
    icl_gradient_plan plan;
    icl_tape *tape;

    /* For micro-batches: */
    workplace *workplaces; /* [icl_backend_workers], and one more for all threads together */
    icl_tensor gradients;  /* [P, N], of the parts */
    icl_tensor losses;     /* [B], of the last batch that was differentiated */
    icl_tensor outputs;    /* [B, S, q], of the last batch that was predicted */
};

/* ---- The plan ---- */

static size_t count_parts(const icl_gradient_plan *plan, size_t batch) {
    size_t count = plan->at_once > 0 ? batch / plan->at_once : 0, even = 1;

    if (count > MOST_PARTS)
        count = MOST_PARTS;
    while (2 * even <= count)
        even *= 2;
    return plan->parts_are_even && count > 0 ? even : count;
}

/* Returns how many of the `left` sequences of a part are taken next. */
static size_t count_at_once(const icl_gradient_plan *plan, size_t left) {
    const size_t most = plan->parts_are_even ? 2 * plan->at_once : plan->at_once + 1;

    return left < most ? left : plan->at_once;
}

/* Returns how many sequences of a batch a tape holds at most. */
static size_t count_most(const icl_gradient_plan *plan, size_t batch) {
    const size_t parts = count_parts(plan, batch);

    return count_at_once(plan, (batch + parts - 1) / parts);
}

/* Returns whether a batch is divided; a single part would be the whole batch. */
static bool divides(const icl_gradient_plan *plan, size_t batch) {
    return count_parts(plan, batch) >= 2;
}

icl_gradient_plan icl_gradient_plan_choose(const icl_gradient_wish *wish) {
    const icl_capabilities *device = icl_backend_capabilities(wish->backend);
    const bool on_host = device->kind == ICL_DEVICE_HOST, in_bf16 = device->precision == ICL_PRECISION_BF16;
    icl_gradient_plan plan = {
        .way = ICL_GRADIENT_ON_TAPE,
        .sequences = wish->batch->size,
        .slices = wish->slices,
        .at_once = on_host && !wish->is_whole ? wish->model->sequences_at_once * (in_bf16 ? BF16_FACTOR : 1) : 0,
        .parts_are_even = in_bf16,
        .predicts_fused = icl_model_can(wish->model, ICL_MODEL_FUSED),
        .cuts_sequences = wish->cuts_sequences,
    };

    if (divides(&plan, plan.sequences)) {
        plan.way = ICL_GRADIENT_IN_MICROBATCHES;
        plan.most = count_most(&plan, plan.sequences);
    } else if (plan.predicts_fused && !wish->batch->weights.buffer) {
        plan.way = ICL_GRADIENT_FUSED;
    }
    plan.keeps_losses = plan.slices > 1 || plan.predicts_fused;
    return plan;
}

/* ---- Creation ---- */

icl_status icl_differentiator_create(icl_backend *backend, const icl_model *model, const icl_gradient_plan *plan,
                                     icl_differentiator **differentiator, icl_error *error) {
    icl_differentiator *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "gradients of batches", &created, error));
    created->backend = backend;
    created->model = model;
    created->plan = *plan;
    ICL_TRY(icl_tape_create(backend, &created->tape, error));
    if (plan->at_once > 0)
        ICL_TRY(icl_allocate(icl_backend_workers(backend) + 1, sizeof *created->workplaces, "tapes",
                             &created->workplaces, error));
    *differentiator = created;
    created = NULL;
done:
    icl_differentiator_destroy(&created);
    return status;
}

void icl_differentiator_destroy(icl_differentiator **differentiator) {
    icl_differentiator *gone = *differentiator;

    if (!gone)
        return;
    icl_tape_destroy(&gone->tape);
    for (size_t i = 0; gone->workplaces && i <= icl_backend_workers(gone->backend); i++) {
        icl_tape_destroy(&gone->workplaces[i].tape);
        icl_tensor_release(&gone->workplaces[i].gradient);
    }
    icl_tensor_release(&gone->gradients);
    icl_tensor_release(&gone->losses);
    icl_tensor_release(&gone->outputs);
    icl_free(&gone->workplaces);
    icl_free(differentiator);
}

void icl_differentiator_reset(icl_differentiator *differentiator) {
    icl_tape_reset(differentiator->tape);
}

/* ---- By the model's own ops ---- */

/* [B, 1, 1] -> [B]. */
static icl_tensor first_axis(icl_tensor column) {
    column.rank = 1;
    return column;
}

/* Lists the tensors that a model's own ops read and write. */
static icl_model_tensors tensors_of(const icl_gradient_call *call) {
    icl_model_tensors with = call->with;

    with.tokens = call->batch->inputs;
    with.gram = icl_batch_side(call->batch, ICL_SIDE_GRAM);
    with.query = icl_batch_side(call->batch, ICL_SIDE_QUERY);
    with.targets = first_axis(call->batch->targets);
    return with;
}

static icl_status differentiate_fused(const icl_differentiator *d, const icl_gradient_call *call, icl_tensor *losses,
                                      icl_error *error) {
    const icl_model_tensors with = tensors_of(call);

    *losses = with.losses;
    return icl_model_gradient_fused(d->model, d->backend, call->depth, &with, error);
}

/* ---- On the tape ---- */

/* Returns the mean of the losses after each loop of the window. */
static icl_variable record_window(const icl_model *model, const icl_gradient_call *call, icl_tape *tape,
                                  icl_tensor gradient, const icl_batch *rows) {
    const size_t count = call->window.count;
    icl_variable *outputs = NULL, sum = {-1};
    icl_error error = {0};

    if (icl_allocate(count, sizeof *outputs, "outputs behind loops", &outputs, &error) != ICL_OK) {
        icl_tape_fail(tape, &error);
        return sum;
    }
    icl_model_record_loops(model, tape, call->with.parameters, gradient, rows->inputs, call->window, outputs);
    for (size_t i = 0; i < count; i++) {
        const icl_variable losses = icl_tape_loss(tape, rows->shape.loss, outputs[i], rows->targets, rows->weights);
        sum = i == 0 ? losses : icl_tape_binary(tape, ICL_ADD, sum, losses);
    }
    icl_free(&outputs);
    return icl_tape_scale(tape, 1 / (double)count, sum);
}

/* How far the layers of a model turn its residual stream: the sum over layers and loops of
 *     the mean over positions of 1 - cos(z, z'),   z before the layer and z' behind it. */
typedef struct stream_turns {
    icl_variable before, sum, outputs; /* tokens of length 1; [B, 1, 1]; [B, T, q], of all positions */
} stream_turns;

static icl_variable add_turn(void *user, const icl_sequence_pass *pass, size_t stage, icl_variable z) {
    const icl_normalize_params to_unit = {.kind = ICL_NORM_UNIT, .epsilon = 1e-12};
    const icl_variable unit = icl_tape_normalize(pass->tape, &to_unit, z, NULL, NULL);
    const double share = 1 / (double)pass->model->shape.positions;
    stream_turns *all = user;

    if (stage > 0) {
        const icl_variable products = icl_tape_binary(pass->tape, ICL_MULTIPLY, all->before, unit);
        const icl_variable cosine = icl_tape_reduce(pass->tape, ICL_SUM, 1U << 1 | 1U << 2, products);
        const icl_variable one = icl_tape_filled(pass->tape, 0, NULL, 1);
        const icl_variable turn =
            icl_tape_binary(pass->tape, ICL_SUBTRACT, one, icl_tape_scale(pass->tape, share, cosine));
        all->sum = stage == 1 ? turn : icl_tape_binary(pass->tape, ICL_ADD, all->sum, turn);
    }
    all->before = unit;
    return z;
}

static void keep_outputs(void *user, icl_variable outputs) {
    ((stream_turns *)user)->outputs = outputs;
}

/* Returns the losses and, added to them, the penalty of the turns. */
static icl_variable record_with_turns(const icl_model *model, const icl_gradient_call *call, icl_tape *tape,
                                      icl_tensor gradient, const icl_batch *rows) {
    stream_turns all = {{-1}, {-1}, {-1}};
    const icl_sequence_watch watch = {.stage = add_turn, .outputs = keep_outputs, .user = &all};
    const icl_task_shape *shape = &rows->shape;
    icl_error error = {0};

    if (icl_sequence_watch_run(model, tape, call->with.parameters, gradient, rows->inputs, &watch, &error) != ICL_OK) {
        icl_tape_fail(tape, &error);
        return (icl_variable){-1};
    }
    const icl_variable outputs = icl_tape_slice(tape, all.outputs, 1, shape->first_scored, shape->scored);
    const icl_variable losses = icl_tape_loss(tape, shape->loss, outputs, rows->targets, rows->weights);
    return icl_tape_scale_add(tape, 1, losses, call->turn_penalty, all.sum);
}

/* Resets the tape and records the losses [B, 1, 1] of the sequences `rows`, which begin with number `first` of the
 * call's. gradient is as in icl_model_record. The tape keeps failures. */
static icl_variable record_losses(const icl_model *model, const icl_gradient_call *call, icl_tape *tape,
                                  icl_tensor gradient, const icl_batch *rows, size_t first) {
    icl_dropout_numbers dropout = call->dropout;

    dropout.first_sequence += first;
    icl_tape_reset(tape);
    icl_tape_set_dropout(tape, dropout);
    if (call->window.count > 0)
        return record_window(model, call, tape, gradient, rows);
    if (call->turn_penalty > 0)
        return record_with_turns(model, call, tape, gradient, rows);
    const icl_variable outputs =
        icl_model_record(model, tape, call->with.parameters, gradient, rows->inputs, call->depth);
    return icl_tape_loss(tape, rows->shape.loss, outputs, rows->targets, rows->weights);
}

static icl_status differentiate_on_tape(const icl_differentiator *d, const icl_gradient_call *call, icl_tensor *losses,
                                        icl_error *error) {
    const icl_variable each = record_losses(d->model, call, d->tape, call->with.gradient, call->batch, 0);

    ICL_CHECK(icl_tape_backward(d->tape, each, error));
    *losses = first_axis(icl_tape_value(d->tape, each));
    return ICL_OK;
}

static icl_status record_outputs(const icl_model *model, const icl_gradient_call *call, icl_tape *tape,
                                 const icl_batch *rows, icl_tensor *outputs, icl_error *error) {
    icl_tape_reset(tape);
    const icl_variable made =
        icl_model_record(model, tape, call->with.parameters, (icl_tensor){0}, rows->inputs, call->depth);
    ICL_CHECK(icl_tape_status(tape, error));
    *outputs = icl_tape_value(tape, made);
    return ICL_OK;
}

/* ---- Micro-batches ---- */

typedef struct work {
    icl_differentiator *differentiator;
    const icl_gradient_call *call;
    size_t parts; /* P */
} work;

/* A walk through the sequences of a part, which takes at_once of them at a time. */
typedef struct walk {
    size_t begin, end;   /* of the part */
    size_t first, count; /* the current sequences */
} walk;

static walk walk_begin(const work *w, size_t part) {
    const size_t batch = w->call->batch->size;
    return (walk){.begin = batch * part / w->parts, .end = batch * (part + 1) / w->parts};
}

static bool walk_on(const work *w, walk *at) {
    at->first = at->count == 0 ? at->begin : at->first + at->count;
    at->count = count_at_once(&w->differentiator->plan, at->end - at->first);
    return at->count > 0;
}

static icl_tensor slice_rows(icl_tensor tensor, size_t first, size_t count) {
    return tensor.buffer ? icl_tensor_slice(tensor, 0, first, count) : tensor;
}

/* Returns `count` sequences of a batch, without side tensors, which models on the tape do not read. */
static icl_batch batch_at(const icl_batch *batch, size_t first, size_t count) {
    return (icl_batch){.shape = batch->shape,
                       .size = count,
                       .inputs = slice_rows(batch->inputs, first, count),
                       .targets = slice_rows(batch->targets, first, count),
                       .weights = slice_rows(batch->weights, first, count)};
}

/* Makes *tensor a tensor of this shape, unless it already is one. */
static icl_status reserve(icl_backend *backend, icl_tensor *tensor, int rank, const size_t *shape, icl_error *error) {
    if (tensor->buffer && tensor->rank == rank && memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return ICL_OK;
    icl_tensor_release(tensor);
    return icl_tensor_create(backend, rank, shape, tensor, error);
}

static icl_status prepare(workplace *place, icl_backend *worker, icl_error *error) {
    return place->tape ? ICL_OK : icl_tape_create(worker, &place->tape, error);
}

/* Adds the gradient of the current sequences, weighted by their share of the batch, to that of the part; the first
 * sequences overwrite it. */
static icl_status add_sequences(const work *w, icl_backend *worker, const workplace *place, const walk *at,
                                icl_tensor gradient, icl_error *error) {
    const icl_differentiator *d = w->differentiator;
    const icl_batch rows = batch_at(w->call->batch, at->first, at->count);
    const double share = (double)at->count / (double)w->call->batch->size;
    const bool is_first = at->first == at->begin;
    const icl_variable each =
        record_losses(d->model, w->call, place->tape, is_first ? gradient : place->gradient, &rows, at->first);

    ICL_CHECK(icl_tape_backward(place->tape, icl_tape_scale(place->tape, share, each), error));
    const icl_tensor losses = icl_tensor_reshape(icl_tape_value(place->tape, each), 1, &at->count);
    ICL_CHECK(icl_copy(worker, slice_rows(d->losses, at->first, at->count), losses, error));
    return is_first ? ICL_OK : icl_binary(worker, ICL_ADD, gradient, gradient, place->gradient, error);
}

static icl_status differentiate_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    const work *w = context;
    const size_t size = w->differentiator->gradients.shape[1];
    const icl_tensor gradient = icl_tensor_reshape(slice_rows(w->differentiator->gradients, part, 1), 1, &size);
    workplace *place = &w->differentiator->workplaces[number];
    walk at = walk_begin(w, part);

    ICL_CHECK(prepare(place, worker, error));
    ICL_CHECK(reserve(worker, &place->gradient, 1, &size, error));
    while (walk_on(w, &at))
        ICL_CHECK(add_sequences(w, worker, place, &at, gradient, error));
    return ICL_OK;
}

/* Hands the parts out to the threads; if that left some idle, all threads do each part together. */
static icl_status do_parts(icl_differentiator *d, icl_backend_part *task, work *w, icl_error *error) {
    const size_t workers = icl_backend_workers(d->backend);

    if (!d->plan.parts_are_even || w->parts % workers == 0)
        return icl_backend_share(d->backend, w->parts, task, w, error);
    for (size_t part = 0; part < w->parts; part++)
        ICL_CHECK(task(w, d->backend, workers, part, error));
    return ICL_OK;
}

static icl_status differentiate_in_parts(icl_differentiator *d, const icl_gradient_call *call, icl_tensor *losses,
                                         icl_error *error) {
    const size_t batch = call->batch->size, parts = count_parts(&d->plan, batch), size = icl_model_size(d->model);
    work w = {d, call, parts};

    ICL_CHECK(reserve(d->backend, &d->gradients, 2, (size_t[]){parts, size}, error));
    ICL_CHECK(reserve(d->backend, &d->losses, 1, &batch, error));
    ICL_CHECK(do_parts(d, differentiate_part, &w, error));
    *losses = d->losses;
    return icl_reduce(d->backend, ICL_SUM, 1, icl_tensor_reshape(call->with.gradient, 2, (size_t[]){1, size}),
                      d->gradients, error);
}

static icl_status predict_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    const work *w = context;
    icl_differentiator *d = w->differentiator;
    workplace *place = &d->workplaces[number];
    walk at = walk_begin(w, part);
    icl_tensor outputs;

    ICL_CHECK(prepare(place, worker, error));
    while (walk_on(w, &at)) {
        const icl_batch rows = batch_at(w->call->batch, at.first, at.count);
        ICL_CHECK(record_outputs(d->model, w->call, place->tape, &rows, &outputs, error));
        ICL_CHECK(icl_copy(worker, slice_rows(d->outputs, at.first, at.count), outputs, error));
    }
    return ICL_OK;
}

double icl_differentiator_gradient_bytes(const icl_differentiator *differentiator) {
    const icl_gradient_plan *plan = &differentiator->plan;
    const size_t gradients = count_parts(plan, plan->sequences) + icl_backend_workers(differentiator->backend);

    return (double)(gradients * icl_backend_capabilities(differentiator->backend)->element_size) *
           (double)icl_model_size(differentiator->model);
}

/* ---- Gradients ---- */

icl_status icl_differentiate(icl_differentiator *differentiator, const icl_gradient_call *call, icl_tensor *losses,
                             icl_error *error) {
    switch (differentiator->plan.way) {
    case ICL_GRADIENT_FUSED:
        return differentiate_fused(differentiator, call, losses, error);
    case ICL_GRADIENT_IN_MICROBATCHES:
        return differentiate_in_parts(differentiator, call, losses, error);
    case ICL_GRADIENT_ON_TAPE:
        break;
    }
    return differentiate_on_tape(differentiator, call, losses, error);
}

/* ---- Predictions ---- */

static icl_status predict_fused(const icl_differentiator *d, const icl_gradient_call *call, float *outputs,
                                icl_error *error) {
    icl_model_tensors with = tensors_of(call);
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(d->backend, 1, &call->batch->size, &with.predictions, error));
    ICL_TRY(icl_model_predict_fused(d->model, d->backend, call->depth, &with, error));
    ICL_TRY(icl_tensor_read(with.predictions, outputs, error));
done:
    icl_tensor_release(&with.predictions);
    return status;
}

static icl_status predict_in_parts(icl_differentiator *d, const icl_gradient_call *call, float *outputs,
                                   icl_error *error) {
    const icl_task_shape *shape = &call->batch->shape;
    const size_t batch = call->batch->size;
    work w = {d, call, count_parts(&d->plan, batch)};

    ICL_CHECK(reserve(d->backend, &d->outputs, 3, (size_t[]){batch, shape->scored, shape->outputs}, error));
    ICL_CHECK(do_parts(d, predict_part, &w, error));
    return icl_tensor_read(d->outputs, outputs, error);
}

/* Predicts `count` sequences from `first` on; *bytes is what the tape then holds. */
static icl_status predict_rows(icl_differentiator *d, const icl_gradient_call *call, size_t first, size_t count,
                               float *outputs, size_t *bytes, icl_error *error) {
    const icl_batch rows = batch_at(call->batch, first, count);
    const size_t before = icl_backend_get_statistics(d->backend).bytes_live;
    icl_tensor made;
    icl_status status = ICL_OK;

    ICL_TRY(record_outputs(d->model, call, d->tape, &rows, &made, error));
    *bytes = icl_backend_get_statistics(d->backend).bytes_live - before;
    ICL_TRY(icl_tensor_read(made, outputs + first * rows.shape.scored * rows.shape.outputs, error));
done:
    icl_tape_reset(d->tape);
    return status;
}

/* Predicts piece by piece, because evaluations have more sequences than a step, and a tape keeps every value. A few
 * sequences show how many bytes one takes; then as many at a time follow as the allowed bytes hold, or half as many
 * whenever memory runs out. */
static icl_status predict_on_tape(icl_differentiator *d, const icl_gradient_call *call, float *outputs,
                                  icl_error *error) {
    enum { FEW = 64 };
    const size_t allowed = (size_t)1 << 28, batch = call->batch->size; /* allowed: bytes */
    size_t at_once = batch < FEW ? batch : FEW, first = 0, bytes = 0;

    while (first < batch) {
        const size_t left = batch - first, count = left < at_once ? left : at_once;
        const icl_status status = predict_rows(d, call, first, count, outputs, &bytes, error);
        if (status == ICL_ERROR_MEMORY && count > 1) {
            at_once = (count + 1) / 2;
            continue;
        }
        ICL_CHECK(status);
        if (first == 0 && count == FEW && bytes < allowed)
            at_once = (size_t)((double)allowed / (double)(bytes + 1) * FEW);
        first += count;
    }
    return ICL_OK;
}

icl_status icl_predict_batch(icl_differentiator *differentiator, const icl_gradient_call *call, float *outputs,
                             icl_error *error) {
    const icl_gradient_plan *plan = &differentiator->plan;
    icl_status status = ICL_OK;

    if (plan->predicts_fused)
        status = predict_fused(differentiator, call, outputs, error);
    else if (divides(plan, call->batch->size))
        status = predict_in_parts(differentiator, call, outputs, error);
    else
        return predict_on_tape(differentiator, call, outputs, error);
    icl_differentiator_reset(differentiator);
    return status;
}
