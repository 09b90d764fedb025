/*
 * Programs of steps: those that the interpreter reads, written to the device once, and those that
 * are compiled as straight lines.
 *
 * A straight-line program takes seconds to compile, and the interpreter gives the same bits. So a key's first launches
 * go to the interpreter, and who trains gets the other from then on.
 */
#include <string.h>

#include "backend/opencl/linear_transformer/programs.h"
#include "backend/opencl/linear_transformer/source.h"
#include "backend/opencl/queue.h"

#define MOST_PROGRAMS 32

static void release(icl_opencl *opencl, icl_linear_program *program) {
    icl_pool_give(opencl, program->block);
    icl_text_release(&program->text);
    icl_free(&program);
}

void icl_linear_programs_forget(icl_opencl *opencl) {
    while (opencl->linear->programs) {
        icl_linear_program *program = opencl->linear->programs;
        opencl->linear->programs = program->next;
        release(opencl, program);
    }
}

/* Forgets the program that was made first, where there are many. */
static void make_room(icl_opencl *opencl) {
    size_t count = 0;
    for (icl_linear_program **p = &opencl->linear->programs; *p; p = &(*p)->next)
        if (++count == MOST_PROGRAMS) {
            release(opencl, *p);
            *p = NULL;
            return;
        }
}

/* Composes the steps and writes them to the device. */
static icl_status write_steps(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    icl_status status = ICL_OK;
    icl_linear_steps composed = {0};

    ICL_TRY(icl_linear_compose(&program->key, &composed, error));
    const size_t bytes = composed.count * STEP_WORDS * sizeof(cl_uint) + sizeof program->given;
    ICL_TRY(icl_pool_take(opencl, bytes, &program->block, error));
    icl_pool_keep(opencl, program->block);
    program->steps = composed.count;
    ICL_TRY(icl_queue_write(opencl, program->block->memory, 0, bytes, composed.steps, error));
done:
    if (status != ICL_OK) {
        icl_pool_give(opencl, program->block);
        program->block = NULL;
    }
    icl_linear_steps_clear(&composed);
    return status;
}

static icl_status count_anew(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    program->given = 0;
    return icl_queue_write(opencl, program->block->memory, program->steps * STEP_WORDS * sizeof(cl_uint),
                           sizeof program->given, &program->given, error);
}

icl_status icl_linear_find_program(icl_opencl *opencl, const icl_linear_key *key, icl_linear_program **found,
                                   icl_error *error) {
    icl_linear_program *made = NULL;

    for (icl_linear_program *p = opencl->linear->programs; p; p = p->next)
        if (memcmp(&p->key, key, sizeof *key) == 0) {
            *found = p;
            return ICL_OK;
        }
    ICL_CHECK(icl_allocate(1, sizeof *made, "linear transformer's steps", &made, error));
    made->key = *key;
    make_room(opencl);
    made->next = opencl->linear->programs;
    opencl->linear->programs = *found = made;
    return ICL_OK;
}

icl_status icl_linear_prepare_steps(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    if (!program->block)
        ICL_CHECK(write_steps(opencl, program, error));
    if (program->is_lost)
        ICL_CHECK(count_anew(opencl, program, error));
    return ICL_OK;
}

/* ---- Straight lines ---- */

static bool is_due(const icl_opencl *opencl, icl_linear_program *program) {
    if (program->is_refused)
        return false;
    /* Relaxed arithmetic may give other bits: a run keeps to one of the two. */
    const size_t before = opencl->fast_math ? SIZE_MAX : program->launches++;
    return icl_opencl_choose(opencl, ICL_CHOICE_LINEAR, before) == ICL_LINEAR_STRAIGHT;
}

icl_specialization icl_linear_straight_special(const icl_opencl *opencl, const icl_linear_program *program) {
    return (icl_specialization){.options = icl_linear_register_option(&program->key, opencl->programs->register_option),
                                .definitions = program->text.bytes};
}

icl_status icl_linear_prepare_straight(icl_opencl *opencl, icl_linear_program *program, const icl_linear_cut *cut,
                                       bool *is_ready, icl_error *error) {
    icl_error why = {0};
    icl_compiled compiled;

    *is_ready = false;
    if (!is_due(opencl, program))
        return ICL_OK;
    if (!program->text.bytes)
        ICL_CHECK(icl_linear_source(cut, opencl->backend->capabilities.local_memory, &program->text, error));
    program->is_refused = !program->text.bytes;
    if (program->is_refused)
        return ICL_OK;
    const icl_specialization special = icl_linear_straight_special(opencl, program);
    if (icl_opencl_variant(opencl, ICL_KERNEL_linear_transformer, &special, &compiled, &why) != ICL_OK) {
        icl_log_write(&opencl->backend->log, ICL_LOG_WARNING,
                      "linear transformer: the interpreter serves instead of a straight-line program: %s", why.message);
        program->is_refused = true;
        return ICL_OK;
    }
    *is_ready = true;
    return ICL_OK;
}
