/* Functions that all open backends share: names, statistics, closing, and dividing a computation among workers. */
#include "iclab/backend.h"

#include "backend/contract.h"
#include "core/allocate.h"
#include "iclab/status.h"

const char *icl_gemm_name(icl_gemm gemm) {
    static const char *const names[] = {"auto", "clblast", "native"};
    return (unsigned)gemm < sizeof names / sizeof *names ? names[gemm] : "unknown";
}

const char *icl_precision_name(icl_precision precision) {
    static const char *const names[] = {"full", "bf16"};
    return (unsigned)precision < sizeof names / sizeof *names ? names[precision] : "unknown";
}

const char *icl_device_kind_name(icl_device_kind kind) {
    static const char *const names[] = {"host", "cpu", "gpu", "accelerator"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

const icl_capabilities *icl_backend_capabilities(const icl_backend *backend) {
    return &backend->capabilities;
}

icl_status icl_backend_sync(icl_backend *backend, icl_error *error) {
    return backend->functions->sync(backend, error);
}

void icl_backend_stop_on(icl_backend *backend, const volatile sig_atomic_t *stop) {
    backend->stop = stop;
}

icl_status icl_backend_choices(const icl_backend *backend, char **words, icl_error *error) {
    icl_text text = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_append(&text, "", 0, error));
    if (backend->functions->choices)
        ICL_TRY(backend->functions->choices->write(backend, &text, error));
    *words = text.bytes;
    return ICL_OK;
done:
    icl_text_release(&text);
    return status;
}

icl_status icl_backend_take_choices(icl_backend *backend, const char *words, icl_error *error) {
    if (backend->functions->choices)
        return backend->functions->choices->take(backend, words, error);
    if (words && *words)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: choices \"%.64s\": expected none on this device",
                        backend->capabilities.spec, words);
    return ICL_OK;
}

size_t icl_backend_workers(const icl_backend *backend) {
    return backend->functions->open_worker ? backend->capabilities.compute_units : 1;
}

void icl_backend_forget_peak(icl_backend *backend) {
    backend->statistics.bytes_peak = backend->statistics.bytes_live;
}

icl_status icl_backend_trim(icl_backend *backend, icl_error *error) {
    for (size_t i = 0; backend->workers && i < icl_backend_workers(backend); i++)
        if (backend->workers[i])
            ICL_CHECK(icl_backend_trim(backend->workers[i], error));
    return backend->functions->trim ? backend->functions->trim(backend, error) : ICL_OK;
}

icl_backend_statistics icl_backend_get_statistics(const icl_backend *backend) {
    icl_backend_statistics sum = backend->statistics;

    for (size_t i = 0; backend->workers && i < icl_backend_workers(backend); i++)
        if (backend->workers[i]) {
            const icl_backend_statistics *own = &backend->workers[i]->statistics;
            sum.ops += own->ops;
            sum.fallbacks += own->fallbacks;
            sum.allocations += own->allocations;
            sum.pool_hits += own->pool_hits;
            sum.bytes_live += own->bytes_live;
            sum.bytes_reserved += own->bytes_reserved;
        }
    return sum;
}

icl_status icl_backend_time_ops(icl_backend *backend, icl_error *error) {
    if (!backend->times)
        ICL_CHECK(icl_allocate(1, sizeof *backend->times, "times of ops", &backend->times, error));
    for (size_t i = 0; backend->workers && i < icl_backend_workers(backend); i++)
        if (backend->workers[i])
            ICL_CHECK(icl_backend_time_ops(backend->workers[i], error));
    return ICL_OK;
}

icl_op_times icl_backend_op_times(const icl_backend *backend) {
    icl_op_times sum = backend->times ? *backend->times : (icl_op_times){0};

    for (size_t i = 0; backend->workers && i < icl_backend_workers(backend); i++) {
        const icl_op_times own = backend->workers[i] ? icl_backend_op_times(backend->workers[i]) : (icl_op_times){0};
        for (size_t op = 0; op <= ICL_OP_COUNT; op++) {
            sum.of[op].calls += own.of[op].calls;
            sum.of[op].seconds += own.of[op].seconds;
        }
    }
    return sum;
}

static void close_workers(icl_backend *backend) {
    for (size_t i = 0; backend->workers && i < icl_backend_workers(backend); i++)
        icl_backend_close(&backend->workers[i]);
    icl_free(&backend->workers);
}

void icl_backend_close(icl_backend **backend) {
    if (*backend) {
        close_workers(*backend);
        icl_backend_close(&(*backend)->host);
        icl_free(&(*backend)->times);
        (*backend)->functions->close(*backend);
        icl_free(backend);
    }
}

/* ---- Workers ---- */

/*
 * Parts of a computation run on several backends, each with one thread.
 *
 * An op on all threads ends with a wait for the last of them, and its operands pass through every core's cache. A model
 * that is small but deep calls hundreds of ops in a step, each on a few sequences. If one thread does all ops of its
 * own sequences, it keeps them in its cache and waits for no other thread.
 */

/* The first failed part among those that one worker ran. */
typedef struct failure {
    icl_status status;
    size_t part;
    icl_error error;
} failure;

typedef struct sharing {
    icl_backend *backend;
    icl_backend_part *task;
    void *context;
    failure *failures; /* [workers] */
} sharing;

static void do_parts(void *context, size_t first, size_t last, size_t thread) {
    const sharing *s = context;
    failure *own = &s->failures[thread];
    icl_backend *worker = s->backend->workers ? s->backend->workers[thread] : s->backend;

    for (size_t part = first; part < last; part++) {
        icl_error error = {0};
        const icl_status status = s->task(s->context, worker, thread, part, &error);
        if (status != ICL_OK && (own->status == ICL_OK || part < own->part))
            *own = (failure){status, part, error};
    }
}

static icl_status open_workers(icl_backend *backend, icl_error *error) {
    const size_t count = icl_backend_workers(backend);

    if (!backend->workers)
        ICL_CHECK(icl_allocate(count, sizeof(icl_backend *), "workers of a backend", &backend->workers, error));
    for (size_t i = 0; i < count; i++) {
        if (backend->workers[i])
            continue;
        ICL_CHECK(backend->functions->open_worker(backend, i, error));
        backend->workers[i]->parent = backend;
        if (backend->times)
            ICL_CHECK(icl_backend_time_ops(backend->workers[i], error));
    }
    return ICL_OK;
}

icl_status icl_backend_share(icl_backend *backend, size_t count, icl_backend_part *task, void *context,
                             icl_error *error) {
    const size_t workers = icl_backend_workers(backend);
    sharing shared = {backend, task, context, NULL};
    const failure *first = NULL;
    icl_status status = ICL_OK;

    if (count == 0)
        return ICL_OK;
    if (backend->functions->open_worker)
        ICL_TRY(open_workers(backend, error));
    ICL_TRY(icl_allocate(workers, sizeof *shared.failures, "failures of parts", &shared.failures, error));
    if (backend->functions->share)
        backend->functions->share(backend, count, do_parts, &shared);
    else
        do_parts(&shared, 0, count, 0);
    for (size_t i = 0; i < workers; i++)
        if (shared.failures[i].status != ICL_OK && (!first || shared.failures[i].part < first->part))
            first = &shared.failures[i];
    if (first) {
        status = first->status;
        if (error)
            *error = first->error;
    }
done:
    icl_free(&shared.failures);
    return status;
}
