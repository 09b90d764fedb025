/* Where the operands of a linear transformer's steps are placed, and before which steps the members of a team meet (a
 * barrier). Checked element by element: since the last meeting nobody may read what another member wrote, or write what
 * another read or wrote; and there are no other meetings. The source compiled from the steps loops over rows of tokens
 * if there are any. No device is needed. */
#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "backend/opencl/linear_transformer/program.h"
#include "core/allocate.h"
#include "tap.h"

/* For each element of a memory, the meeting after which it was last read and written; 0: never. */
typedef struct memory {
    size_t *read, *written;
    size_t length;
} memory;

static icl_status make_memory(memory *m, size_t length, icl_error *error) {
    m->length = length;
    ICL_CHECK(icl_allocate(length, sizeof *m->read, "elements", &m->read, error));
    return icl_allocate(length, sizeof *m->written, "elements", &m->written, error);
}

static void clear_memory(memory *m) {
    icl_free(&m->read);
    icl_free(&m->written);
}

/* Returns whether an access has to wait: because an element was written since meeting `now`, or, for a write, was read
 * since. Sets *within to false if the access is beyond the memory. */
static bool waits(const memory *m, const icl_linear_access *access, size_t now, bool *within) {
    *within = *within && access->at + access->length <= m->length;
    for (size_t i = access->at; *within && i < access->at + access->length; i++)
        if (m->written[i] == now || (access->is_write && m->read[i] == now))
            return true;
    return false;
}

static void touch(memory *m, const icl_linear_access *access, size_t now) {
    for (size_t i = access->at; i < access->at + access->length; i++)
        *(access->is_write ? &m->written[i] : &m->read[i]) = now;
}

static void check_meetings(tap_run *tap, const icl_linear_placement *placement, memory memories[2], const char *what) {
    size_t meetings = 0, moves = 0, wrong = 0;
    bool within = true;

    for (size_t i = 0; i < placement->count && within; i++) {
        const icl_linear_placed *placed = &placement->placed[i], *before = i > 0 ? &placed[-1] : NULL;
        bool meets = !before || (before->kind == ICL_PLACED_STEP && before->step.kind == STEP_MORE_ROWS);
        for (size_t k = 0; k < placed->access_count; k++)
            meets = waits(&memories[placed->accesses[k].is_far], &placed->accesses[k], meetings, &within) || meets;
        meetings += meets;
        wrong += placed->meets != meets;
        moves += placed->kind != ICL_PLACED_STEP;
        for (size_t k = 0; k < placed->access_count && within; k++)
            touch(&memories[placed->accesses[k].is_far], &placed->accesses[k], meetings);
    }
    tap_ok(tap, within && wrong == 0 && meetings > 1,
           "%s: %zu steps and moves, %zu of them moves, %zu meetings; %zu too many or too few%s", what,
           placement->count, moves, meetings, wrong, within ? "" : "; beyond its memory");
}

static void check(tap_run *tap, const icl_linear_transformer_params *params, size_t size, size_t rows, cl_uint wanted,
                  const char *what) {
    const icl_linear_job job = {.params = params,
                                .size = size,
                                .rows = rows,
                                .batch = 64,
                                .train = true,
                                .is_contiguous = true,
                                .is_straight = true,
                                .lanes = 1,
                                .wave = 32,
                                .local_memory = (size_t)64 << 10,
                                .max_allocation = (size_t)1 << 30};
    memory memories[2] = {{0}};
    icl_linear_placement placement = {0};
    icl_linear_cut cut = {0};
    icl_text source = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_cut_of(&job, &cut, &error));
    ICL_TRY(icl_linear_source(&cut, job.local_memory, &source, &error));
    tap_ok(tap, source.bytes && (strstr(source.bytes, " FOR_MORE_ROWS {") != NULL) == (rows > 0), "%s in a loop, in %s",
           rows > 0 ? "tokens" : "nothing", what);
    ICL_TRY(icl_linear_place(&cut.key, wanted, 16384, &placement, &error));
    ICL_TRY(make_memory(&memories[0], placement.near_length, &error));
    ICL_TRY(make_memory(&memories[1], placement.far_length, &error));
    check_meetings(tap, &placement, memories, what);
done:
    tap_status(tap, status, &error, what);
    clear_memory(&memories[0]);
    clear_memory(&memories[1]);
    icl_text_release(&source);
    icl_linear_placement_clear(&placement);
}

int main(void) {
    tap_run tap = {0};
    const icl_linear_transformer_params four = {.layers = 4, .depth = 4, .heads = 1, .factor = 1};
    const icl_linear_transformer_params heads = {.layers = 2, .depth = 2, .heads = 2, .factor = 1};

    check(&tap, &four, 6, 0, 8192, "four layers, all near");
    check(&tap, &four, 6, 0, 64, "four layers, little room");
    check(&tap, &heads, 11, 0, 64, "two heads");
    check(&tap, &four, 6, 21, 64, "tokens");
    return tap_done(&tap);
}
