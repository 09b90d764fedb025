/*
 * The training loop. A step samples, predicts, differentiates and updates without waiting for the device; losses and
 * norms stay on the device until a chunk of steps is queued.
 */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/recipe_store.h"
#include "iclab/decode.h"
#include "iclab/status.h"
#include "train/settings.h"

/* ---- Muon ---- */

/*
 * Muon (K. Jordan and others 2024, kellerjordan.github.io/posts/muon): a matrix steps along its Nesterov momentum with
 * all singular values set to about 1.
 *
 * orthogonal(D): X = D / (|D| + 1e-7), the Frobenius norm, then five times X <- a X + (b A + c A A) X with A = X X^T
 * and (a, b, c) = (3.4445, -4.7750, 2.0315). A singular value s becomes a s + b s^3 + c s^5 each time: those from 0.003
 * to 1 end between 0.68 and 1.21, and smaller ones grow by a^5. X X^T is taken on the shorter side.
 *
 * The factor is 0.2 sqrt(max(m, n)) (Moonlight: Liu and others 2025, arXiv 2502.16982), not sqrt(max(1, m / n)): an
 * element's step then has a root mean square of 0.2, as Adam's have in practice, whatever the shape, so that one rate
 * and one decay serve matrices and all else.
 *
 * Matrices of one shape at equal distances in the flat vector, such as the same one of every layer, are a group, one
 * view [layers, m, n]. Groups of one shape are orthogonalised together, as a stack [matrices, m, n]. A stack costs
 * 5 (4 m n s + 2 s^3) flops for each matrix, s = min(m, n), in 28 ops, and a group 4 ops more.
 */

enum { ITERATIONS = 5 }; /* odd: orthogonalize ends in the other of its two vectors */

static const double coefficients[3] = {3.4445, -4.7750, 2.0315}, least_norm = 1e-7;

/* Matrices [rows, columns] at first, first + distance, … of the flat vector. */
typedef struct matrix_group {
    size_t count, rows, columns, first, distance;
} matrix_group;

/* Groups of one shape: `groups` of them from number `first` on, `count` matrices in all. */
typedef struct matrix_stack {
    size_t first, groups, count, rows, columns;
} matrix_stack;

struct icl_muon {
    icl_backend *backend;
    matrix_group *groups; /* those of one shape stand next to each other */
    size_t group_count;
    matrix_stack *stacks;
    size_t stack_count;
    icl_tensor parameters, moment; /* [N], before Adam's step */
    icl_tensor direction, next;    /* [most elements of a stack] */
    icl_tensor square, polynomial; /* [most elements of A in a stack] */
    icl_tensor norms;              /* [most matrices of a stack] */
    icl_tensor least_norm;         /* [1] */
    icl_tensor taken;              /* [1]: 1 where the step is taken, else 0 */
};

static bool is_like(const icl_parameter_info *a, const icl_parameter_info *b) {
    return b->is_hidden_matrix && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

/* Takes the matrices of one shape, the first of which is `start`, as far as their distances are equal. */
static matrix_group group_from(const icl_model *model, size_t start, bool *is_taken) {
    const icl_parameter_info *first = icl_model_parameter(model, start);
    matrix_group group = {1, first->shape[0], first->shape[1], first->offset, first->count};
    size_t distance = 0;

    is_taken[start] = true;
    for (size_t i = start + 1; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const char *name = strrchr(info->name, '.'), *first_name = strrchr(first->name, '.');
        if (is_taken[i] || !is_like(first, info) || !name || !first_name || strcmp(name, first_name) != 0)
            continue;
        if (group.count == 1)
            distance = info->offset - first->offset;
        if (info->offset != first->offset + group.count * distance)
            break;
        group.distance = distance;
        group.count++;
        is_taken[i] = true;
    }
    return group;
}

/* Lists the matrices that are not taken yet and have the shape of number `start`, as groups and as one stack. */
static void add_stack(const icl_model *model, size_t start, bool *is_taken, icl_muon *muon) {
    const icl_parameter_info *like = icl_model_parameter(model, start);
    matrix_stack stack = {.first = muon->group_count, .rows = like->shape[0], .columns = like->shape[1]};

    for (size_t i = start; i < icl_model_parameter_count(model); i++)
        if (!is_taken[i] && is_like(like, icl_model_parameter(model, i))) {
            const matrix_group group = group_from(model, i, is_taken);
            muon->groups[muon->group_count++] = group;
            stack.groups++;
            stack.count += group.count;
        }
    muon->stacks[muon->stack_count++] = stack;
}

static icl_status find_stacks(const icl_model *model, icl_muon *muon, icl_error *error) {
    const size_t count = icl_model_parameter_count(model);
    bool *is_taken = NULL;

    ICL_CHECK(icl_allocate(count, sizeof *muon->groups, "groups of matrices", &muon->groups, error));
    ICL_CHECK(icl_allocate(count, sizeof *muon->stacks, "stacks of matrices", &muon->stacks, error));
    ICL_CHECK(icl_allocate(count, sizeof *is_taken, "marks of matrices", &is_taken, error));
    for (size_t i = 0; i < count; i++)
        if (icl_model_parameter(model, i)->is_hidden_matrix && icl_model_parameter(model, i)->count > 0 && !is_taken[i])
            add_stack(model, i, is_taken, muon);
    icl_free(&is_taken);
    return ICL_OK;
}

static size_t shorter_side(const matrix_stack *stack) {
    return stack->rows < stack->columns ? stack->rows : stack->columns;
}

static size_t larger_of(size_t a, size_t b) {
    return a > b ? a : b;
}

static icl_status create_muon_tensors(const icl_model *model, icl_muon *muon, icl_error *error) {
    const size_t size = icl_model_size(model), one = 1;
    size_t elements = 1, squares = 1, matrices = 1;

    for (size_t i = 0; i < muon->stack_count; i++) {
        const matrix_stack *stack = &muon->stacks[i];
        elements = larger_of(elements, stack->count * stack->rows * stack->columns);
        squares = larger_of(squares, stack->count * shorter_side(stack) * shorter_side(stack));
        matrices = larger_of(matrices, stack->count);
    }
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &size, &muon->parameters, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &size, &muon->moment, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &elements, &muon->direction, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &elements, &muon->next, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &squares, &muon->square, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &squares, &muon->polynomial, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &matrices, &muon->norms, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &one, &muon->taken, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &one, &muon->least_norm, error));
    return icl_fill(muon->backend, muon->least_norm, least_norm, error);
}

static void destroy_muon(icl_muon **muon) {
    icl_muon *gone = *muon;

    if (!gone)
        return;
    enum { TENSORS = 9 };
    icl_tensor *const tensors[TENSORS] = {&gone->parameters, &gone->moment,     &gone->direction,
                                          &gone->next,       &gone->square,     &gone->polynomial,
                                          &gone->norms,      &gone->least_norm, &gone->taken};
    for (size_t i = 0; i < TENSORS; i++)
        icl_tensor_release(tensors[i]);
    icl_free(&gone->groups);
    icl_free(&gone->stacks);
    icl_free(muon);
}

/* Creates the optimizer Muon for a model that marks at least one hidden matrix. The model must outlive it. */
static icl_status create_muon(icl_backend *backend, const icl_model *model, icl_muon **muon, icl_error *error) {
    icl_muon *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "muon", &created, error));
    created->backend = backend;
    ICL_TRY(find_stacks(model, created, error));
    ICL_TRY(create_muon_tensors(model, created, error));
    *muon = created;
    created = NULL;
done:
    destroy_muon(&created);
    return status;
}

/* Returns a view [count, rows, columns] of elements behind each other, from the beginning of a vector. */
static icl_tensor stacked(icl_tensor vector, size_t count, size_t rows, size_t columns) {
    icl_tensor view = vector;

    view.rank = 3;
    view.shape[0] = count, view.shape[1] = rows, view.shape[2] = columns;
    view.stride[0] = rows * columns, view.stride[1] = columns, view.stride[2] = 1;
    return view;
}

/* Returns a group's matrices in a flat vector. */
static icl_tensor matrices_of(icl_tensor vector, const matrix_group *group) {
    icl_tensor view = stacked(vector, group->count, group->rows, group->columns);

    view.offset += group->first;
    view.stride[0] = group->distance;
    return view;
}

/* X <- X / (|X| + 1e-7) for each matrix. */
static icl_status divide_by_norms(const icl_muon *muon, icl_tensor matrices, icl_error *error) {
    const icl_tensor norms = stacked(muon->norms, matrices.shape[0], 1, 1);

    ICL_CHECK(icl_reduce(muon->backend, ICL_NORM, 6, norms, matrices, error));
    ICL_CHECK(icl_scale_add(muon->backend, norms, 1, norms, 1, muon->least_norm, error));
    return icl_binary(muon->backend, ICL_DIVIDE, matrices, matrices, norms, error);
}

/* Orthogonalises matrices in muon->direction into muon->next, and overwrites the former. */
static icl_status orthogonalize(const icl_muon *muon, const matrix_stack *stack, icl_error *error) {
    const size_t count = stack->count, side = shorter_side(stack);
    icl_backend *backend = muon->backend;
    const icl_tensor square = stacked(muon->square, count, side, side);
    const icl_tensor polynomial = stacked(muon->polynomial, count, side, side);
    icl_tensor now = stacked(muon->direction, count, stack->rows, stack->columns);
    icl_tensor next = stacked(muon->next, count, stack->rows, stack->columns);

    ICL_CHECK(divide_by_norms(muon, now, error));
    if (stack->rows > stack->columns) {
        now = icl_tensor_swap_axes(now, 1, 2);
        next = icl_tensor_swap_axes(next, 1, 2);
    }
    for (int i = 0; i < ITERATIONS; i++) {
        const icl_tensor last = now;
        ICL_CHECK(icl_matmul(backend, square, 1, now, icl_tensor_swap_axes(now, 1, 2), 0, error));
        ICL_CHECK(icl_copy(backend, polynomial, square, error));
        ICL_CHECK(icl_matmul(backend, polynomial, coefficients[2], square, square, coefficients[1], error));
        ICL_CHECK(icl_copy(backend, next, now, error));
        ICL_CHECK(icl_matmul(backend, next, 1, polynomial, now, coefficients[0], error));
        now = next;
        next = last;
    }
    return ICL_OK;
}

/* Writes the directions of a group. */
static icl_status direct_group(const icl_muon *muon, const matrix_group *group, const icl_adam_params *adam,
                               icl_tensor direction, icl_tensor moment, icl_error *error) {
    return icl_scale_add(muon->backend, direction, 1 + adam->beta1, matrices_of(moment, group), -adam->beta1,
                         matrices_of(muon->moment, group), error);
}

static icl_status step_group(const icl_muon *muon, const matrix_group *group, const icl_adam_params *adam,
                             icl_tensor direction, icl_tensor orthogonal, icl_tensor parameters, icl_error *error) {
    const double scale = 0.2 * sqrt((double)larger_of(group->rows, group->columns));
    const icl_tensor before = matrices_of(muon->parameters, group);
    icl_backend *backend = muon->backend;

    ICL_CHECK(icl_scale_add(backend, direction, scale, orthogonal, adam->weight_decay, before, error));
    ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, direction, direction, muon->taken, error));
    return icl_scale_add(backend, matrices_of(parameters, group), 1, before, -adam->learning_rate, direction, error);
}

static icl_status step_stack(const icl_muon *muon, const matrix_stack *stack, const icl_adam_params *adam,
                             icl_tensor parameters, icl_tensor moment, icl_error *error) {
    const icl_tensor direction = stacked(muon->direction, stack->count, stack->rows, stack->columns);
    const icl_tensor orthogonal = stacked(muon->next, stack->count, stack->rows, stack->columns);
    const matrix_group *groups = muon->groups + stack->first;

    for (size_t i = 0, at = 0; i < stack->groups; at += groups[i++].count)
        ICL_CHECK(
            direct_group(muon, &groups[i], adam, icl_tensor_slice(direction, 0, at, groups[i].count), moment, error));
    ICL_CHECK(orthogonalize(muon, stack, error));
    for (size_t i = 0, at = 0; i < stack->groups; at += groups[i++].count)
        ICL_CHECK(step_group(muon, &groups[i], adam, icl_tensor_slice(direction, 0, at, groups[i].count),
                             icl_tensor_slice(orthogonal, 0, at, groups[i].count), parameters, error));
    return ICL_OK;
}

/* Keeps the parameters [N] and the first moment [N] as they are before Adam's step. */
static icl_status keep_before_muon(icl_muon *muon, icl_tensor parameters, icl_tensor moment, icl_error *error) {
    ICL_CHECK(icl_copy(muon->backend, muon->parameters, parameters, error));
    return icl_copy(muon->backend, muon->moment, moment, error);
}

/*
 * Replaces what Adam's step with `adam` did to the matrices W [m, n] since keep_before_muon. With M' and M its first
 * moment before and after, b its decay and g the clipped gradient, M = b M' + (1 - b) g:
 *     D = b M + (1 - b) g = (1 + b) M - b M'                                     Nesterov's momentum
 *     W = W - rate (decay W + 0.2 sqrt(max(m, n)) orthogonal(D))
 * Where `norm` [1], the gradient's, is infinite or NaN, W stays.
 */
static icl_status step_by_muon(icl_muon *muon, const icl_adam_params *adam, icl_tensor norm, icl_tensor parameters,
                               icl_tensor moment, icl_error *error) {
    /* 0 if the norm is finite, else NaN, which equals nothing. */
    ICL_CHECK(icl_binary(muon->backend, ICL_SUBTRACT, muon->taken, norm, norm, error));
    ICL_CHECK(icl_binary(muon->backend, ICL_EQUAL, muon->taken, muon->taken, muon->taken, error));
    for (size_t i = 0; i < muon->stack_count; i++)
        ICL_CHECK(step_stack(muon, &muon->stacks[i], adam, parameters, moment, error));
    return ICL_OK;
}

/* ---- Creation: what is trained ---- */

/* Returns ICL_ERROR_INPUT if a key of the section is not at its default and the program's family does not read it. */
static icl_status check_own(const icl_recipe *recipe, const icl_recipe_own *family, icl_error *error) {
    for (size_t i = 0; i < recipe->key_count; i++) {
        const icl_recipe_key *key = &recipe->keys[i];
        if (strcmp(key->section, family->section) == 0 && !recipe->values[i].is_default &&
            !icl_recipe_lists(family->keys, key))
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s: %s.%s = %s: the program's own %s %s does not read it: expected %s, its default",
                            recipe->values[i].origin, key->section, key->name, recipe->values[i].text, family->section,
                            family->family, key->default_value[0] ? key->default_value : "nothing");
    }
    return ICL_OK;
}

/* Creates task and model, which must agree on a shape. */
static icl_status create_parts(icl_training_problem *problem, icl_error *error) {
    const icl_recipe *recipe = problem->recipe;
    const icl_trainer_parts *parts = &problem->parts;

    if (parts->task)
        ICL_CHECK(check_own(recipe, &(icl_recipe_own){"task", parts->task->name, parts->task->keys}, error));
    ICL_CHECK(parts->task ? icl_task_create_with(parts->task, recipe, &problem->task, error)
                          : icl_task_create(recipe, &problem->task, error));
    const icl_task_shape shape = *icl_task_get_shape(problem->task);
    return parts->model ? icl_model_create_with(parts->model, recipe, shape, &problem->model, error)
                        : icl_model_create(recipe, shape, &problem->model, error);
}

/* Creates the mask that keeps marked parameters from decaying. Without marks or without decay there is none: the bits
 * are the same, and no mask is read. */
static icl_status create_decays(icl_backend *backend, icl_training_problem *problem, icl_error *error) {
    const icl_model *model = problem->model;
    const icl_update_params *update = &problem->settings.update;
    const size_t size = icl_model_size(model), count = icl_model_parameter_count(model);
    bool is_marked = false;

    for (size_t i = 0; i < count; i++)
        is_marked = is_marked || icl_model_parameter(model, i)->without_decay;
    if (!is_marked || update->kind != ICL_UPDATE_ADAM || update->adam.weight_decay == 0)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 1, &size, &problem->decays, error));
    ICL_CHECK(icl_fill(backend, problem->decays, 1, error));
    for (size_t i = 0; i < count; i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (info->without_decay)
            ICL_CHECK(icl_fill(backend, icl_tensor_slice(problem->decays, 0, info->offset, info->count), 0, error));
    }
    return ICL_OK;
}

/* ---- Creation: where it stands ---- */

static icl_status create_batch(icl_trainer *trainer, icl_error *error) {
    const icl_training_settings *settings = &trainer->problem.settings;
    icl_trainer_state *state = &trainer->state;
    const size_t before = icl_backend_get_statistics(trainer->backend).bytes_live;
    icl_error why = {0};
    const icl_status status = icl_batch_create(trainer->problem.task, trainer->backend, ICL_FOR_TRAINING,
                                               settings->batch / settings->slices, &state->batch, &why);

    state->batch_bytes = icl_backend_get_statistics(trainer->backend).bytes_live - before;
    state->batch_number = ICL_NO_BATCH;
    if (status == ICL_ERROR_MEMORY)
        return icl_fail(error, status, "train.batch: %s; expected fewer sequences, or more train.slices", why.message);
    if (status != ICL_OK && error)
        *error = why;
    return status;
}

/* Batches are drawn ahead if the host draws and another device computes: a host device has its threads for both. */
static icl_status create_ahead(icl_trainer *trainer, icl_error *error) {
    icl_ahead *ahead = &trainer->state.ahead;

    ahead->problem = &trainer->problem;
    if (!ahead->problem->task->family->draw || icl_backend_capabilities(trainer->backend)->kind == ICL_DEVICE_HOST)
        return ICL_OK;
    ICL_CHECK(icl_host_batch_create(&trainer->state.batch, &ahead->host, error));
    return icl_threads_create(2, &ahead->team, error);
}

static icl_status create_zeros(icl_backend *backend, size_t size, icl_tensor *tensor, icl_error *error) {
    ICL_CHECK(icl_tensor_create(backend, 1, &size, tensor, error));
    return icl_fill(backend, *tensor, 0.0, error);
}

static icl_status create_tensors(icl_trainer *trainer, icl_error *error) {
    const icl_gradient_plan *plan = &trainer->problem.plan;
    icl_backend *backend = trainer->backend;
    icl_trainer_state *state = &trainer->state;
    const size_t size = icl_model_size(trainer->problem.model), batch = trainer->problem.settings.batch;

    ICL_CHECK(icl_tensor_create(backend, 1, &size, &state->parameters, error));
    ICL_CHECK(icl_tensor_create(backend, 1, &size, &state->gradient, error));
    for (int i = 0; i < 2; i++)
        ICL_CHECK(create_zeros(backend, size, &state->moments[i], error));
    if (trainer->problem.settings.average > 0)
        ICL_CHECK(create_zeros(backend, size, &state->average, error));
    if (plan->keeps_losses)
        ICL_CHECK(icl_tensor_create(backend, 1, &batch, &state->sequence_losses, error));
    if (plan->cuts_sequences) {
        ICL_CHECK(icl_tensor_create(backend, 1, &batch, &state->sequence_norms, error));
        ICL_CHECK(create_zeros(backend, 1, &state->threshold, error));
    }
    ICL_CHECK(create_zeros(backend, ICL_HISTORY_LENGTH, &state->history, error));
    ICL_CHECK(create_zeros(backend, 1, &state->square_sum, error));
    return icl_allocate(size, sizeof *state->values, "values of parameters", &state->values, error);
}

static icl_status write_initial_parameters(icl_trainer *trainer, icl_error *error) {
    const icl_model *model = trainer->problem.model;
    const icl_training_settings *settings = &trainer->problem.settings;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "initial parameters", &values, error));
    icl_model_initialize(model, settings->seed, values);
    if (settings->growth.steps_per_layer > 0)
        for (size_t layer = 1; layer + 1 < settings->growth.layers; layer++)
            icl_model_initialize_inserted(model, layer, settings->seed, values);
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
done:
    icl_free(&values);
    return status;
}

/* ---- Creation ---- */

/* Decides how gradients are computed; nothing else does. */
static icl_status choose_plan(icl_trainer *trainer, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    const icl_batch *batch = &trainer->state.batch;
    const icl_gradient_wish wish = {
        .model = problem->model,
        .backend = trainer->backend,
        .batch = batch,
        .slices = problem->settings.slices,
        .cuts_sequences = problem->settings.update.fraction > 0,
    };

    if (wish.cuts_sequences && batch->weights.buffer)
        return icl_recipe_reject(problem->recipe, ICL_TRAIN_KEY(sequence_clip), error,
                                 "0: losses with weights are differentiated on the tape, which has no gradients of "
                                 "single sequences");
    if (!batch->inputs.buffer && !icl_model_can(problem->model, ICL_MODEL_READS_GRAM))
        return icl_recipe_reject(problem->recipe, "task", "sampler", error,
                                 "tokens: a model composed of small ops (model.space = composed, or any but "
                                 "model.family = linear) cannot do without them");
    trainer->problem.plan = icl_gradient_plan_choose(&wish);
    return ICL_OK;
}

bool icl_trainer_has_objective(const icl_trainer *trainer) {
    const icl_training_problem *problem = &trainer->problem;

    return !problem->parts.task && !problem->parts.model && problem->plan.way == ICL_GRADIENT_FUSED &&
           icl_model_can(problem->model, ICL_MODEL_READS_GRAM);
}

/* Checks what the recipe says about the end (polish) and the beginning (starts) of the training. */
static icl_status check_stages(const icl_trainer *trainer, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    const icl_training_settings *settings = &problem->settings;

    if (settings->polish == ICL_POLISH_ON && !icl_trainer_has_objective(trainer))
        return icl_recipe_reject(problem->recipe, ICL_TRAIN_KEY(polish), error,
                                 "auto or off: only models of model.family = linear that are not composed of small "
                                 "ops are polished");
    if (settings->average > 0 && (settings->polish == ICL_POLISH_ON || settings->starts > 1))
        return icl_recipe_reject(problem->recipe, ICL_TRAIN_KEY(average), error,
                                 "0 beside train.polish = on or several train.starts, which take the parameters");
    if (settings->starts <= 1)
        return ICL_OK;
    if (settings->begins_with_one)
        return icl_recipe_reject(problem->recipe, ICL_TRAIN_KEY(starts), error,
                                 "0 or 1 beside train.init, which says where to start, or train.growth, where layers "
                                 "come one by one");
    if (problem->parts.task || problem->parts.model)
        return icl_recipe_reject(problem->recipe, ICL_TRAIN_KEY(starts), error,
                                 "0 or 1 for a program's own task or model");
    return ICL_OK;
}

static icl_status create_problem(const icl_trainer_parts *parts, const icl_recipe *recipe,
                                 icl_training_problem *problem, icl_error *error) {
    problem->parts = parts ? *parts : (icl_trainer_parts){0};
    ICL_CHECK(icl_recipe_clone(recipe, &problem->recipe, error));
    ICL_CHECK(create_parts(problem, error));
    return icl_training_settings_read(problem->recipe, problem->model, &problem->settings, error);
}

/* Creates what the steps need; the batch, from which the plan follows, must exist. */
static icl_status create_rest(icl_trainer *trainer, icl_error *error) {
    icl_training_problem *problem = &trainer->problem;

    ICL_CHECK(choose_plan(trainer, error));
    ICL_CHECK(check_stages(trainer, error));
    ICL_CHECK(create_tensors(trainer, error));
    ICL_CHECK(create_decays(trainer->backend, problem, error));
    if (problem->settings.orthogonalizes)
        ICL_CHECK(create_muon(trainer->backend, problem->model, &trainer->state.muon, error));
    ICL_CHECK(
        icl_differentiator_create(trainer->backend, problem->model, &problem->plan, &trainer->differentiator, error));
    if (problem->plan.slices > 1)
        ICL_CHECK(icl_trainer_create_slices(trainer, error));
    ICL_CHECK(create_ahead(trainer, error));
    return write_initial_parameters(trainer, error);
}

icl_status icl_trainer_create_with(icl_backend *backend, const icl_trainer_parts *parts, const icl_recipe *recipe,
                                   icl_trainer **trainer, icl_error *error) {
    icl_trainer *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "trainer", &created, error));
    created->backend = backend;
    ICL_TRY(create_problem(parts, recipe, &created->problem, error));
    ICL_TRY(create_batch(created, error));
    ICL_TRY(create_rest(created, error));
    *trainer = created;
    created = NULL;
done:
    icl_trainer_destroy(&created);
    return status;
}

icl_status icl_trainer_create(icl_backend *backend, const icl_recipe *recipe, icl_trainer **trainer, icl_error *error) {
    return icl_trainer_create_with(backend, NULL, recipe, trainer, error);
}

static void release_problem(icl_training_problem *problem) {
    icl_tensor_release(&problem->decays);
    icl_model_destroy(&problem->model);
    icl_task_destroy(&problem->task);
    icl_recipe_destroy(&problem->recipe);
}

static void release_state(icl_trainer_state *state) {
    icl_threads_destroy(&state->ahead.team);
    icl_host_batch_destroy(&state->ahead.host);
    icl_batch_release(&state->batch);
    icl_tensor_release(&state->parameters);
    icl_tensor_release(&state->moments[0]);
    icl_tensor_release(&state->moments[1]);
    icl_tensor_release(&state->threshold);
    icl_tensor_release(&state->average);
    icl_tensor_release(&state->gradient);
    icl_tensor_release(&state->sequence_losses);
    icl_tensor_release(&state->sequence_norms);
    icl_tensor_release(&state->history);
    icl_tensor_release(&state->square_sum);
    destroy_muon(&state->muon);
    icl_free(&state->values);
    icl_free(&state->losses);
}

void icl_trainer_destroy(icl_trainer **trainer) {
    icl_trainer *gone = *trainer;

    if (!gone)
        return;
    icl_differentiator_destroy(&gone->differentiator);
    release_state(&gone->state);
    release_problem(&gone->problem);
    icl_free(&gone->sharing.records);
    icl_free(&gone->sharing.combined);
    icl_free(trainer);
}

/* ---- One step ---- */

double icl_trainer_rate_at(const icl_trainer *trainer, uint64_t step) {
    const icl_growth_stage stage = icl_training_stage_at(&trainer->problem.settings, step);
    return icl_schedule_rate(&stage.schedule, step - stage.first_step);
}

/* Moves the average of the parameters after steps 1 … t, with weights 2^(-(t - i) / h) for those after step i, h =
 * train.average: a <- a + c (w - a), c = (1 - 2^(-1/h)) / (1 - 2^(-t/h)). Numbers that are drawn anew for each step are
 * no average. */
static icl_status average_parameters(const icl_trainer *trainer, icl_error *error) {
    static const double log_2 = 0.69314718055994530942;
    const icl_trainer_state *state = &trainer->state;
    const double rate = log_2 / trainer->problem.settings.average, count = (double)(state->step + 1);
    const double share = expm1(-rate) / expm1(-rate * count);
    const icl_model *model = trainer->problem.model;
    icl_backend *backend = trainer->backend;

    ICL_CHECK(icl_scale_add(backend, state->average, 1 - share, state->average, share, state->parameters, error));
    if (model->redrawn == 0)
        return ICL_OK;
    const icl_parameter_info *info = &model->parameters[model->redrawn - 1];
    return icl_copy(backend, icl_tensor_slice(state->average, 0, info->offset, info->count),
                    icl_tensor_slice(state->parameters, 0, info->offset, info->count), error);
}

/* Writes loss and norm to measures, and updates the parameters and the threshold. */
static icl_status update_parameters(icl_trainer *trainer, icl_tensor measures, icl_tensor losses, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    icl_trainer_state *state = &trainer->state;
    const uint64_t step_of_stage = state->step - icl_training_stage_at(&problem->settings, state->step).first_step;
    icl_update_params params = problem->settings.update;

    if (step_of_stage == 0 && state->step > 0)
        for (int i = 0; i < 2; i++)
            ICL_CHECK(icl_fill(trainer->backend, state->moments[i], 0.0, error));
    state->learning_rate = icl_trainer_rate_at(trainer, state->step);
    params.adam.learning_rate = params.sgd.learning_rate = state->learning_rate;
    params.adam.step = step_of_stage + 1;
    if (state->muon)
        ICL_CHECK(keep_before_muon(state->muon, state->parameters, state->moments[0], error));
    ICL_CHECK(icl_update_step(trainer->backend, &params, state->parameters, state->moments, measures, state->threshold,
                              state->gradient, losses, state->sequence_norms, problem->decays, error));
    if (state->muon)
        ICL_CHECK(step_by_muon(state->muon, &params.adam, icl_tensor_slice(measures, 0, ICL_HISTORY_NORM, 1),
                               state->parameters, state->moments[0], error));
    return state->average.buffer ? average_parameters(trainer, error) : ICL_OK;
}

/* Writes the parameters that the model draws anew for each step. */
static icl_status redraw(const icl_training_problem *problem, const icl_trainer_state *state, icl_error *error) {
    const icl_model *model = problem->model;
    float *values = NULL;
    icl_status status = ICL_OK;

    if (model->redrawn == 0)
        return ICL_OK;
    const icl_parameter_info *info = &model->parameters[model->redrawn - 1];
    ICL_TRY(icl_allocate(info->count, sizeof *values, "redrawn numbers", &values, error));
    model->family->redraw(model, problem->settings.seed, state->step, values);
    ICL_TRY(icl_tensor_write(icl_tensor_slice(state->parameters, 0, info->offset, info->count), values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status train_step(icl_trainer *trainer, size_t slot, icl_error *error) {
    icl_sharing *sharing = &trainer->sharing;
    const icl_tensor measures =
        icl_tensor_slice(trainer->state.history, 0, slot * ICL_HISTORY_MEASURES, ICL_HISTORY_MEASURES);
    const icl_tensor dropped = icl_tensor_slice(measures, 0, ICL_HISTORY_DROPPED, 1);
    icl_tensor losses;

    ICL_CHECK(icl_sharing_keep_failure(sharing, redraw(&trainer->problem, &trainer->state, error), error));
    ICL_CHECK(icl_trainer_differentiate(trainer, dropped, &losses, error));
    ICL_CHECK(icl_sharing_keep_failure(sharing, update_parameters(trainer, measures, losses, error), error));
    trainer->state.step++;
    return ICL_OK;
}

/* ---- What the steps of a chunk left on the device: losses, norms, mishaps ---- */

/* Checks the parameters on the host, where `values` keeps them. */
static icl_status check_parameters(icl_trainer_state *state, bool *are_finite, icl_error *error) {
    const size_t size = state->parameters.shape[0];

    *are_finite = true;
    ICL_CHECK(icl_tensor_read_double(state->parameters, state->values, error));
    for (size_t i = 0; i < size; i++)
        *are_finite = *are_finite && isfinite(state->values[i]);
    return ICL_OK;
}

/* Checks them by their sum of squares on the device: reading millions of them takes longer than a step of a GPU. The
 * sum of finite ones may overflow, so that the host looks at all of them where it is not finite. */
static icl_status check_on_device(icl_trainer *trainer, bool *are_finite, icl_error *error) {
    icl_trainer_state *state = &trainer->state;
    double sum = 0;

    ICL_CHECK(icl_reduce(trainer->backend, ICL_SUM_OF_SQUARES, 1, state->square_sum, state->parameters, error));
    ICL_CHECK(icl_tensor_read_double(state->square_sum, &sum, error));
    *are_finite = isfinite(sum);
    return *are_finite ? ICL_OK : check_parameters(state, are_finite, error);
}

/* Adds the measures of one step to the state. */
static void take_step(icl_trainer_state *state, const double *measures) {
    const double loss = measures[ICL_HISTORY_LOSS], norm = measures[ICL_HISTORY_NORM];
    icl_mishaps *mishaps = &state->mishaps;
    const bool skipped = !isfinite(norm);

    state->losses[state->loss_count] = (float)loss;
    state->norms[state->loss_count++] = (float)norm;
    if (isfinite(loss)) {
        state->loss += loss;
        state->finite_losses++;
    }
    if (!skipped && norm > state->gradient_norm)
        state->gradient_norm = norm;
    mishaps->skipped_in_a_row = skipped ? mishaps->skipped_in_a_row + 1 : 0;
    mishaps->skipped_steps += skipped;
    mishaps->dropped_sequences += (uint64_t)measures[ICL_HISTORY_DROPPED];
}

static icl_status diverge(icl_trainer_state *state, uint64_t step, const double *measures, const char *what,
                          icl_error *error) {
    state->diverged = true;
    state->step = step;
    return icl_fail(error, ICL_ERROR_DIVERGED,
                    "training diverged at step %llu: %s; loss %g, gradient norm %g; expected finite numbers "
                    "(a lower train.learning_rate or a tighter train.clip may help)",
                    (unsigned long long)step, what, measures[ICL_HISTORY_LOSS], measures[ICL_HISTORY_NORM]);
}

static bool has_other_ranks(const icl_trainer *trainer) {
    return trainer->sharing.ranks && trainer->sharing.ranks->count > 1;
}

static icl_status read_chunk(icl_trainer *trainer, double history[ICL_HISTORY_LENGTH], bool *are_finite,
                             icl_error *error) {
    ICL_CHECK(icl_tensor_read_double(trainer->state.history, history, error));
    return has_other_ranks(trainer) ? check_parameters(&trainer->state, are_finite, error)
                                    : check_on_device(trainer, are_finite, error);
}

icl_status icl_trainer_collect(icl_trainer *trainer, uint64_t first_step, size_t count, icl_error *error) {
    icl_trainer_state *state = &trainer->state;
    const icl_ranks *ranks = trainer->sharing.ranks;
    double history[ICL_HISTORY_LENGTH] = {0};
    const double *measures = history, *last = history + (count - 1) * ICL_HISTORY_MEASURES;
    bool are_finite = true;
    icl_status status = icl_sharing_take_failure(&trainer->sharing, error);

    if (status == ICL_OK)
        status = read_chunk(trainer, history, &are_finite, error);
    ICL_CHECK(icl_ranks_agree(ranks, status, error));
    if (has_other_ranks(trainer))
        ICL_CHECK(icl_ranks_check_same(ranks, icl_hash(state->values, state->parameters.shape[0] * sizeof(double)),
                                       "the parameters of the ranks", error));
    for (size_t i = 0; i < count; i++, measures += ICL_HISTORY_MEASURES) {
        take_step(state, measures);
        if (state->mishaps.skipped_in_a_row >= ICL_TRAIN_CHUNK)
            return diverge(state, first_step + i, measures, "the last 50 steps were skipped", error);
    }
    if (!are_finite)
        return diverge(state, first_step + count - 1, last, "the parameters are not finite", error);
    return ICL_OK;
}

/* ---- Runs ---- */

static icl_status reserve_losses(icl_trainer_state *state, size_t count, icl_error *error) {
    state->loss_count = 0;
    if (count <= state->loss_capacity)
        return ICL_OK;
    icl_free(&state->losses);
    state->norms = NULL;
    state->loss_capacity = 0;
    ICL_CHECK(icl_allocate(count, 2 * sizeof *state->losses, "losses", &state->losses, error));
    state->loss_capacity = count;
    state->norms = state->losses + count;
    return ICL_OK;
}

icl_status icl_trainer_run(icl_trainer *trainer, size_t steps, icl_error *error) {
    icl_trainer_state *state = &trainer->state;
    const uint64_t total = trainer->problem.settings.steps;
    const uint64_t left = total > state->step ? total - state->step : 0;
    icl_status status = ICL_OK;

    if (state->diverged)
        return icl_fail(error, ICL_ERROR_DIVERGED, "training diverged at step %llu; expected a restored trainer",
                        (unsigned long long)state->step);
    if (steps > left)
        steps = (size_t)left;
    state->loss = state->gradient_norm = 0.0;
    state->finite_losses = 0;
    ICL_TRY(reserve_losses(state, steps, error));
    while (state->loss_count < steps) {
        const uint64_t first_step = state->step + 1;
        const size_t rest = steps - state->loss_count;
        const size_t count = rest < ICL_TRAIN_CHUNK ? rest : ICL_TRAIN_CHUNK;
        for (size_t i = 0; i < count; i++)
            ICL_TRY(train_step(trainer, i, error));
        ICL_TRY(icl_trainer_collect(trainer, first_step, count, error));
    }
done:
    if (state->loss_count > 0)
        state->loss /= (double)state->finite_losses; /* NaN if none is finite */
    return status;
}

/* ---- Progress ---- */

icl_train_progress icl_trainer_progress(const icl_trainer *trainer) {
    const icl_trainer_state *state = &trainer->state;

    return (icl_train_progress){
        .step = state->step,
        .total_steps = trainer->problem.settings.steps,
        .loss = state->loss,
        .gradient_norm = state->gradient_norm,
        .learning_rate = state->learning_rate,
        .skipped_steps = state->mishaps.skipped_steps,
        .dropped_sequences = state->mishaps.dropped_sequences,
        .start = state->start,
    };
}

const float *icl_trainer_losses(const icl_trainer *trainer, size_t *count) {
    *count = trainer->state.loss_count;
    return trainer->state.losses;
}

const float *icl_trainer_gradient_norms(const icl_trainer *trainer, size_t *count) {
    *count = trainer->state.loss_count;
    return trainer->state.norms;
}

icl_basins_seen icl_trainer_basins(const icl_trainer *trainer) {
    return trainer->state.seen;
}

icl_polish_result icl_trainer_polished(const icl_trainer *trainer) {
    return trainer->state.polished;
}

const icl_model *icl_trainer_model(const icl_trainer *trainer) {
    return trainer->problem.model;
}

const icl_task *icl_trainer_task(const icl_trainer *trainer) {
    return trainer->problem.task;
}

icl_trainer_parts icl_trainer_get_parts(const icl_trainer *trainer) {
    return trainer->problem.parts;
}

/* ---- Parameters ---- */

icl_status icl_trainer_get_parameters(icl_trainer *trainer, float *values, icl_error *error) {
    return icl_tensor_read(icl_trainer_evaluated(trainer), values, error);
}

icl_status icl_trainer_set_parameters(icl_trainer *trainer, const float *values, icl_error *error) {
    ICL_CHECK(icl_tensor_write(trainer->state.parameters, values, error));
    return trainer->state.average.buffer ? icl_tensor_write(trainer->state.average, values, error) : ICL_OK;
}

icl_tensor icl_trainer_evaluated(const icl_trainer *trainer) {
    const icl_trainer_state *state = &trainer->state;
    return state->average.buffer ? state->average : state->parameters;
}

icl_status icl_trainer_round_parameters(icl_trainer *trainer, icl_error *error) {
    const icl_tensor parameters = icl_trainer_evaluated(trainer);
    icl_status status = ICL_OK;
    float *values = NULL;

    ICL_TRY(icl_allocate(icl_model_size(trainer->problem.model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_tensor_read(parameters, values, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
done:
    icl_free(&values);
    return status;
}

/* ---- Predictions ---- */

/* Returns ICL_ERROR_INPUT if the model cannot read the batch, or if its shape is not the task's. The message begins
 * with `call`. */
static icl_status check_batch(const icl_training_problem *problem, const icl_batch *batch, const char *call,
                              icl_error *error) {
    const bool is_readable = batch->inputs.buffer ? batch->inputs.rank > 0 && batch->inputs.shape[0] == batch->size
                                                  : icl_model_can(problem->model, ICL_MODEL_READS_GRAM);
    const icl_task_shape *expected = icl_task_get_shape(problem->task);
    char text[ICL_TASK_SHAPE_TEXT], expected_text[ICL_TASK_SHAPE_TEXT];

    if (is_readable && icl_task_shape_equal(&batch->shape, expected))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "%s: a batch of %zu %s inputs, of %s, expected the trainer's own: %s", call,
                    batch->size, batch->inputs.buffer ? "with" : "without", icl_task_shape_text(&batch->shape, text),
                    icl_task_shape_text(expected, expected_text));
}

icl_status icl_trainer_predict(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error) {
    icl_gradient_call call = icl_trainer_call(trainer, batch);

    ICL_CHECK(check_batch(&trainer->problem, batch, "icl_trainer_predict", error));
    call.with.parameters = icl_trainer_evaluated(trainer);
    return icl_predict_batch(trainer->differentiator, &call, outputs, error);
}

/* Returns position t of a batch [B, T, …] as a view [B, …]. */
static icl_tensor at_position(icl_tensor tensor, size_t t) {
    icl_tensor view = icl_tensor_slice(tensor, 1, t, 1);

    view.rank = tensor.rank - 1;
    for (int axis = 1; axis < view.rank; axis++) {
        view.shape[axis] = tensor.shape[axis + 1];
        view.stride[axis] = tensor.stride[axis + 1];
    }
    return view;
}

icl_status icl_trainer_decode_on(icl_trainer *trainer, const icl_batch *batch, icl_decoder **decoder, float *outputs,
                                 icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    const icl_task_shape *shape = icl_task_get_shape(problem->task);
    icl_backend *backend = trainer->backend;
    icl_tensor answers = {0}, unscored = {0};
    icl_status status = ICL_OK;

    ICL_TRY(check_batch(problem, batch, "icl_trainer_decode", error));
    if (!*decoder)
        ICL_TRY(
            icl_decoder_create(problem->model, backend, icl_trainer_evaluated(trainer), batch->size, decoder, error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){batch->size, shape->scored, shape->outputs}, &answers, error));
    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){batch->size, shape->outputs}, &unscored, error));
    for (size_t t = 0; t < shape->first_scored + shape->scored; t++)
        ICL_TRY(icl_decoder_step(*decoder, at_position(batch->inputs, t),
                                 t < shape->first_scored ? unscored : at_position(answers, t - shape->first_scored),
                                 error));
    ICL_TRY(icl_tensor_read(answers, outputs, error));
done:
    icl_tensor_release(&answers);
    icl_tensor_release(&unscored);
    return status;
}

/* Predicts position by position, as a program would while a sequence grows. */
icl_status icl_trainer_decode(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error) {
    icl_decoder *decoder = NULL;
    const icl_status status = icl_trainer_decode_on(trainer, batch, &decoder, outputs, error);

    icl_decoder_destroy(&decoder);
    return status;
}
