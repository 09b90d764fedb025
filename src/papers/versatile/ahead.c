/*
 * Training the models of a column of table 1 side by side, each on one core. One training on all cores leaves a fifth
 * of two cores idle: its steps take a few milliseconds, and each has parts that are not shared out.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/host_spec.h"
#include "numeric/parallel.h"
#include "papers/versatile/versatile.h"

/* A chain is one seed of one kind, from the shallowest cell to the deepest, because models grow from
 * shallower ones of their seed. */
typedef struct ahead {
    icl_reproducing *run;
    icl_reproduce_params params; /* of the chains */
    size_t noise, layers, seeds;
    char spec[ICL_NAME_CAPACITY]; /* of one core */
    pthread_mutex_t mutex;
    /* Whose progress the caller sees: that of the chain that spoke last, if it still runs. */
    const struct chain *shown;
    icl_status status; /* the first failure's */
    icl_error error;
} ahead;

typedef struct chain {
    ahead *all;
} chain;

/* The caller hears one chain at a time. */
static void say(void *user, const char *text) {
    const chain *self = user;
    const icl_reproduce_params *caller = self->all->run->params;
    pthread_mutex_lock(&self->all->mutex);
    self->all->shown = self;
    caller->say(caller->user, text);
    pthread_mutex_unlock(&self->all->mutex);
}

static void show_progress(void *user, const icl_session_progress *progress) {
    const chain *self = user;
    const icl_reproduce_params *caller = self->all->run->params;
    pthread_mutex_lock(&self->all->mutex);
    if (self->all->shown == self)
        caller->progress(caller->user, progress);
    pthread_mutex_unlock(&self->all->mutex);
}

static icl_status train_cell(icl_reproducing *run, const icl_versatile_cell *cell, size_t number, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_recipe *recipe = NULL;
    const icl_status status = icl_versatile_train_seed(run, cell, number, &trainer, &recipe, error);

    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status == ICL_ERROR_DIVERGED ? ICL_OK : status; /* whoever asks for it is told */
}

static icl_status train_chain(ahead *all, icl_versatile_parameterization parameterization, size_t number,
                              icl_error *error) {
    icl_reproduce_params params = all->params;
    icl_reproducing run = *all->run;
    chain self = {all};
    char name[ICL_VERSATILE_NAME];
    icl_status status = ICL_OK;

    run.params = &params;
    params.user = &self;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = all->spec}, &params.backend, error));
    for (size_t l = 1; l <= all->layers; l++) {
        const icl_versatile_cell cell = {l, parameterization, all->noise};
        icl_versatile_name(&cell, name);
        if (icl_reproduce_wants(&run, name) && number < icl_versatile_most_seeds(&cell))
            ICL_TRY(train_cell(&run, &cell, number, error));
    }
done:
    pthread_mutex_lock(&all->mutex);
    if (all->shown == &self)
        all->shown = NULL;
    pthread_mutex_unlock(&all->mutex);
    icl_backend_close(&params.backend);
    return status;
}

/* The longest chains come first: full ones. */
static void train_at(void *context, size_t index, size_t thread) {
    ahead *all = context;
    const icl_versatile_parameterization parameterization =
        (icl_versatile_parameterization)(ICL_VERSATILE_PARAMETERIZATIONS - 1 - index / all->seeds);
    icl_error error = {0};
    icl_status status;
    (void)thread;

    pthread_mutex_lock(&all->mutex);
    status = all->status;
    pthread_mutex_unlock(&all->mutex);
    if (status != ICL_OK)
        return;
    status = train_chain(all, parameterization, index % all->seeds, &error);
    pthread_mutex_lock(&all->mutex);
    if (status != ICL_OK && all->status == ICL_OK) {
        all->status = status;
        all->error = error;
    }
    pthread_mutex_unlock(&all->mutex);
}

icl_status icl_versatile_train_ahead(icl_reproducing *run, size_t noise, size_t layers, size_t seeds,
                                     icl_error *error) {
    const icl_capabilities *device = icl_backend_capabilities(run->params->backend);
    ahead all = {.run = run, .params = *run->params, .noise = noise, .layers = layers, .seeds = seeds};
    icl_status status = ICL_OK;

    if (device->kind != ICL_DEVICE_HOST || device->compute_units < 2)
        return ICL_OK;
    if (pthread_mutex_init(&all.mutex, NULL) != 0)
        return icl_fail(error, ICL_ERROR_MEMORY, "no mutex");
    icl_host_spec_take_threads(device->spec, 1, all.spec, sizeof all.spec);
    all.params.backend = NULL;
    all.params.progress = run->params->progress ? show_progress : NULL;
    all.params.say = run->params->say ? say : NULL;
    icl_parallel_for(ICL_VERSATILE_PARAMETERIZATIONS * seeds, device->compute_units, train_at, &all);
    pthread_mutex_destroy(&all.mutex);
    status = all.status;
    if (status != ICL_OK && error)
        *error = all.error;
    return status;
}
