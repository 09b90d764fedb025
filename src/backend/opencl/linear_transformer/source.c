/*
 * Writes the steps of a linear transformer as statements of the kernel, with places, strides and extents as constants.
 * This is for GPUs, where an interpreter loses time with reading steps, with barriers that are not needed and with
 * loops of unknown length. They are the steps that the interpreter runs, in the same order, so the bits are the same.
 */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/linear_transformer/linear_transformer.h"

/* ---- Operands of steps ---- */

/* cl/linear_transformer/linear_steps.h as a table: what each step reads and writes, for the placement. */

typedef icl_linear_step step;

typedef struct list {
    icl_linear_operand *operands;
    size_t count;
} list;

static icl_linear_operand *put(list *to, cl_uint *place) {
    icl_linear_operand *operand = &to->operands[to->count++];
    *operand = (icl_linear_operand){.place = place};
    return operand;
}

static void read(list *to, cl_uint *place) {
    put(to, place)->is_read = true;
}

/* `count` elements of it. */
static icl_linear_operand *write(list *to, cl_uint *place, cl_uint count) {
    icl_linear_operand *operand = put(to, place);
    operand->written = count;
    return operand;
}

static void put_product(list *to, step *s) {
    const cl_uint from = s->mode & MODE_START;
    if (s->depth > 0) {
        read(to, &s->a);
        read(to, &s->b);
    }
    if (from == START_TWO_SIDED) {
        read(to, &s->start);
        to->operands[to->count - 1].may_be_far = true;
    } else if (from == START_OUTER) {
        read(to, &s->start);
        read(to, &s->extra);
    }
    icl_linear_operand *result = write(to, &s->to, s->rows * s->rows);
    result->is_read = from == START_SELF;
    result->may_be_far = true;
}

static void put_shared_product(list *to, step *s) {
    read(to, &s->b);
    icl_linear_operand *result = write(to, &s->to, s->rows * s->rows);
    result->is_read = (s->mode & MODE_START) == START_SELF;
    result->may_be_far = true;
    if (s->mode & MODE_TWICE)
        write(to, &s->extra, s->rows * s->rows)->may_be_far = true;
}

/* Lists the operands of an elementwise step, or of a product of a few rows. */
static void put_rows(list *to, step *s) {
    if (s->kind != STEP_BROADCAST && s->kind != STEP_LABEL && s->kind != STEP_TAKE)
        read(to, &s->a);
    if (s->kind == STEP_APPLY)
        read(to, &s->b);
    if ((s->kind == STEP_APPLY || s->kind == STEP_APPLY_SHARED || s->kind == STEP_PAIR) && s->mode & START_GIVEN)
        read(to, &s->start);
    write(to, &s->to, s->rows * s->columns);
}

size_t icl_linear_operands_of(step *s, icl_linear_operand operands[ICL_LINEAR_OPERANDS]) {
    list to = {operands, 0};

    switch (s->kind) {
    case STEP_MORE_ROWS:
        break;
    case STEP_SCALE:
        write(&to, &s->to, s->rows * s->columns)->is_read = true;
        break;
    case STEP_MULTIPLY:
        put_product(&to, s);
        break;
    case STEP_MULTIPLY_SHARED:
        put_shared_product(&to, s);
        break;
    case STEP_GRADIENT:
        read(&to, &s->a);
        read(&to, &s->b);
        break;
    case STEP_VALUE:
        read(&to, &s->a);
        read(&to, &s->b);
        read(&to, &s->start);
        break;
    case STEP_COLUMN_DOTS:
        read(&to, &s->a);
        read(&to, &s->b);
        write(&to, &s->to, s->columns);
        break;
    case STEP_ROW_SUMS:
        read(&to, &s->a);
        read(&to, &s->b);
        write(&to, &s->to, 2 * s->rows);
        break;
    case STEP_GRADIENT_ROW:
    case STEP_GRADIENT_PAIR:
    case STEP_GRADIENT_WEIGHTS:
        read(&to, &s->a);
        break;
    default:
        put_rows(&to, s);
        break;
    }
    return to.count;
}

/* ---- Placement ---- */

/*
 * Chooses which of a linear transformer's objects are in local memory while a step runs.
 *
 * A team's objects (matrices, groups of vectors) take many times the local memory that lets a GPU hold enough teams. So
 * every object has its place in the team's scratch memory, which is "far", and the steps work on copies that are
 * "near". What is near is chosen as a compiler chooses registers: the steps are known, so the object whose next use is
 * the furthest gives way, and it is written back only if it was changed and is used again. Only the results of products
 * may be written to far memory directly.
 */

#define GROWTH 64       /* floats of local memory that are added if too few were tried */
#define NEVER  SIZE_MAX /* the value is not used again */

/* Where an object is at the current step. */
typedef struct object {
    cl_uint begin, length; /* in the composer's memory, and in far memory */
    cl_uint at;            /* in near memory, if is_near */
    bool is_near, is_changed, has_value, is_pinned;
} object;

typedef struct placer {
    const icl_linear_steps *in;
    cl_uint size, pitch, capacity;
    object *objects;
    size_t now; /* the step */
    icl_linear_placement *out;
} placer;

/* ---- What the steps use ---- */

static object *object_at(const placer *p, cl_uint place) {
    size_t low = 0, high = p->in->object_count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (p->objects[middle].begin <= place)
            low = middle;
        else
            high = middle;
    }
    return &p->objects[low];
}

static bool is_matrix(const placer *p, const object *o) {
    return o->length == p->size * p->pitch;
}

/* Returns whether the operand overwrites everything in the object that is ever read. */
static bool is_whole(const placer *p, const object *o, const icl_linear_operand *operand) {
    return operand->written > 0 && operand->written == o->length / p->pitch * p->size;
}

typedef enum use { UNUSED, NEEDED, OVERWRITTEN } use;

/* Returns whether a step needs what the object holds, or overwrites all of it. */
static use use_of(const placer *p, size_t at, const object *o) {
    step s = p->in->steps[at];
    icl_linear_operand operands[ICL_LINEAR_OPERANDS];
    const size_t count = icl_linear_operands_of(&s, operands);
    use found = UNUSED;

    for (size_t i = 0; i < count; i++)
        if (object_at(p, *operands[i].place) == o) {
            if (operands[i].is_read || !is_whole(p, o, &operands[i]))
                return NEEDED;
            found = OVERWRITTEN;
        }
    return found;
}

/* Returns the first step from `from` on that needs the object's value, or NEVER. */
static size_t next_use(const placer *p, size_t from, const object *o) {
    for (size_t at = from; at < p->in->count; at++) {
        const use found = use_of(p, at, o);
        if (found != UNUSED)
            return found == NEEDED ? at : NEVER;
    }
    return NEVER;
}

/* ---- Moving ---- */

static icl_linear_placed *emit(placer *p, icl_linear_placed_kind kind) {
    icl_linear_placed *placed = &p->out->placed[p->out->count++];
    *placed = (icl_linear_placed){.kind = kind};
    return placed;
}

static void note_access(icl_linear_placed *placed, const object *o, bool is_far, bool is_write) {
    placed->accesses[placed->access_count++] =
        (icl_linear_access){is_far, is_write, is_far ? o->begin : o->at, o->length};
}

static void move(placer *p, icl_linear_placed_kind kind, const object *o) {
    icl_linear_placed *placed = emit(p, kind);
    placed->near = o->at;
    placed->far = o->begin;
    placed->length = o->length;
    note_access(placed, o, false, kind == ICL_PLACED_FETCH);
    note_access(placed, o, true, kind == ICL_PLACED_KEEP);
}

static void send_away(placer *p, object *o) {
    if (o->is_changed && o->has_value && next_use(p, p->now, o) != NEVER)
        move(p, ICL_PLACED_KEEP, o);
    o->is_near = o->is_changed = false;
}

/* A place that an object may take, and what that costs. */
typedef struct spot {
    cl_uint at;
    size_t soonest; /* the earliest next use of the objects that must go; NEVER: none must */
    bool is_taken;  /* an object here may not go, or only at a cost */
} spot;

static spot look_at(const placer *p, cl_uint at, cl_uint length, bool is_optional) {
    spot found = {.at = at, .soonest = NEVER, .is_taken = length > p->capacity || at > p->capacity - length};

    for (size_t i = 0; i < p->in->object_count && !found.is_taken; i++) {
        const object *o = &p->objects[i];
        if (!o->is_near || at >= o->at + o->length || o->at >= at + length)
            continue;
        const size_t next = next_use(p, p->now, o);
        found.is_taken = o->is_pinned || (is_optional && o->is_changed);
        found.soonest = next < found.soonest ? next : found.soonest;
    }
    return found;
}

static void choose(spot *best, spot other) {
    if (!other.is_taken && (best->is_taken || other.soonest > best->soonest))
        *best = other;
}

/* Finds the place whose objects are needed last. Matrices are placed at multiples of their length, from below, and
 * groups of vectors are stacked from above, so that these do not split the memory. */
static spot find_spot(const placer *p, const object *wanted, bool is_optional) {
    const cl_uint length = wanted->length;
    spot best = {.is_taken = true};

    if (is_matrix(p, wanted)) {
        for (cl_uint at = 0; at + length <= p->capacity; at += length)
            choose(&best, look_at(p, at, length, is_optional));
        return best;
    }
    choose(&best, look_at(p, p->capacity - length, length, is_optional));
    for (size_t i = 0; i < p->in->object_count; i++) {
        const object *o = &p->objects[i];
        if (!o->is_near)
            continue;
        if (o->at >= length)
            choose(&best, look_at(p, o->at - length, length, is_optional));
        if (o->at + o->length >= length)
            choose(&best, look_at(p, o->at + o->length - length, length, is_optional));
    }
    return best;
}

/* Makes the object near. If it is `optional`, others go only if that costs nothing and they are needed after `next`. */
static bool bring(placer *p, object *o, bool is_optional, size_t next) {
    const spot found = find_spot(p, o, is_optional);

    if (found.is_taken || (is_optional && found.soonest != NEVER && found.soonest <= next))
        return false;
    for (size_t i = 0; i < p->in->object_count; i++) {
        object *other = &p->objects[i];
        if (other->is_near && found.at < other->at + other->length && other->at < found.at + o->length)
            send_away(p, other);
    }
    o->at = found.at;
    o->is_near = true;
    o->is_changed = false;
    if (o->at + o->length > p->out->near_length)
        p->out->near_length = o->at + o->length;
    return true;
}

/* ---- Steps ---- */

/* Brings those operands that must be near, either matrices or all others. */
static bool bring_all(placer *p, const icl_linear_operand *operands, size_t count, bool matrices) {
    for (size_t i = 0; i < count; i++) {
        object *o = object_at(p, *operands[i].place);
        o->is_pinned = o->is_pinned || (is_matrix(p, o) == matrices && !operands[i].may_be_far);
    }
    for (size_t i = 0; i < count; i++) {
        object *o = object_at(p, *operands[i].place);
        if (operands[i].may_be_far || o->is_near || is_matrix(p, o) != matrices)
            continue;
        if (!bring(p, o, false, 0))
            return false;
        if (o->has_value && use_of(p, p->now, o) == NEEDED)
            move(p, ICL_PLACED_FETCH, o);
    }
    return true;
}

/* Brings matrices first, for which vectors make room and come back, and at last results of products if there is
 * room. */
static bool bring_operands(placer *p, const icl_linear_operand *operands, size_t count) {
    if (!bring_all(p, operands, count, true) || !bring_all(p, operands, count, false))
        return false;
    for (size_t i = 0; i < count; i++)
        object_at(p, *operands[i].place)->is_pinned = true;
    for (size_t i = 0; i < count; i++) {
        object *o = object_at(p, *operands[i].place);
        if (operands[i].may_be_far && !o->is_near && use_of(p, p->now, o) == OVERWRITTEN)
            bring(p, o, true, next_use(p, p->now + 1, o));
    }
    return true;
}

/* Writes the places of the operands into the step. */
static void write_places(placer *p, icl_linear_placed *placed, const icl_linear_operand *operands, size_t count) {
    const step *s = &placed->step;
    for (size_t i = 0; i < count; i++) {
        object *o = object_at(p, *operands[i].place);
        if (operands[i].written > 0) {
            o->has_value = true;
            o->is_changed = o->is_near;
        }
        note_access(placed, o, !o->is_near, operands[i].written > 0);
        if (o->is_near)
            *operands[i].place += o->at - o->begin;
        else if (operands[i].place == &s->to)
            placed->is_to_far = true;
        else
            placed->is_second_far = true;
    }
}

static bool place_step(placer *p) {
    icl_linear_operand operands[ICL_LINEAR_OPERANDS];
    step original = p->in->steps[p->now];
    const size_t count = icl_linear_operands_of(&original, operands);

    if (!bring_operands(p, operands, count))
        return false;
    icl_linear_placed *placed = emit(p, ICL_PLACED_STEP);
    placed->step = p->in->steps[p->now];
    write_places(p, placed, operands, icl_linear_operands_of(&placed->step, operands));
    for (size_t i = 0; i < p->in->object_count; i++) {
        object *o = &p->objects[i];
        o->is_pinned = false;
        if (o->has_value && next_use(p, p->now + 1, o) == NEVER)
            o->has_value = o->is_near = o->is_changed = false;
    }
    return true;
}

/* Returns whether all steps found room. */
static bool place_steps(placer *p) {
    p->out->count = p->out->near_length = 0;
    for (size_t i = 0; i < p->in->object_count; i++)
        p->objects[i] = (object){.begin = p->in->objects[i], .length = p->in->objects[i + 1] - p->in->objects[i]};
    for (p->now = 0; p->now < p->in->count; p->now++)
        if (!place_step(p))
            return false;
    return true;
}

/* ---- Meetings ---- */

static bool collide(const icl_linear_placed *one, const icl_linear_placed *other) {
    for (size_t i = 0; i < one->access_count; i++)
        for (size_t k = 0; k < other->access_count; k++) {
            const icl_linear_access *a = &one->accesses[i], *b = &other->accesses[k];
            if ((a->is_write || b->is_write) && a->is_far == b->is_far && a->at < b->at + b->length &&
                b->at < a->at + a->length)
                return true;
        }
    return false;
}

static bool ends_loop(const icl_linear_placed *placed) {
    return placed->kind == ICL_PLACED_STEP && placed->step.kind == STEP_MORE_ROWS;
}

/* Chooses where members of a team meet: before they touch memory that others have written since the last meeting, or
 * write memory that others have read, and also at the beginning of the sequence and around its loop over rows of
 * tokens. */
static void choose_meetings(icl_linear_placement *placement) {
    icl_linear_placed *placed = placement->placed;
    for (size_t i = 0, last = 0; i < placement->count; i++) {
        placed[i].meets = i == 0 || ends_loop(&placed[i - 1]);
        for (size_t before = last; before < i && !placed[i].meets; before++)
            placed[i].meets = collide(&placed[before], &placed[i]);
        if (placed[i].meets)
            last = i;
    }
}

icl_status icl_linear_place(const icl_linear_key *key, cl_uint wanted, cl_uint most, icl_linear_placement *placement,
                            icl_error *error) {
    icl_status status = ICL_OK;
    icl_linear_steps composed = {0};
    placer p = {.in = &composed, .size = key->size, .pitch = key->pitch, .out = placement};

    *placement = (icl_linear_placement){0};
    ICL_TRY(icl_linear_compose(key, &composed, error));
    ICL_TRY(icl_allocate(composed.object_count, sizeof *p.objects, "objects", &p.objects, error));
    /* Each operand of a step is brought at most once, and bringing it sends no more objects away than came before. */
    ICL_TRY(icl_allocate(composed.count * (1 + 2 * ICL_LINEAR_OPERANDS), sizeof *placement->placed, "placed steps",
                         &placement->placed, error));
    placement->far_length = composed.objects[composed.object_count];
    for (p.capacity = wanted; p.capacity <= most; p.capacity += GROWTH)
        if (place_steps(&p))
            break;
    if (p.capacity > most)
        icl_linear_placement_clear(placement);
    else
        choose_meetings(placement);
done:
    if (status != ICL_OK)
        icl_linear_placement_clear(placement);
    icl_linear_steps_clear(&composed);
    icl_free(&p.objects);
    return status;
}

void icl_linear_placement_clear(icl_linear_placement *placement) {
    icl_free(&placement->placed);
    *placement = (icl_linear_placement){0};
}

/* ---- Source text ---- */

#define NEAR_BYTES  ((size_t)4 << 10)  /* local memory: half of the waves of a GPU, at 64 KiB for 16 groups */
#define MOST_BYTES  ((size_t)32 << 10) /* limit, for two matrices and their vectors that need more */
#define OWN_FLOATS  1                  /* the part of it that the kernel itself uses */
#define MOST_PLACED 320                /* with so many steps a compiler takes seconds */

/* The macro that runs each step; products add the memories of their result and of their second matrix. */
static const char *const runners[] = {
    [STEP_TAKE] = "RUN_TAKE",
    [STEP_SCALE] = "RUN_ELEMENTWISE",
    [STEP_MULTIPLY] = "RUN_MULTIPLY(multiply_",
    [STEP_MULTIPLY_SHARED] = "RUN_MULTIPLY_SHARED(multiply_shared_",
    [STEP_GRADIENT] = "RUN_GRADIENT",
    [STEP_APPLY] = "RUN_APPLY",
    [STEP_APPLY_SHARED] = "RUN_APPLY_SHARED",
    [STEP_COPY] = "RUN_ELEMENTWISE",
    [STEP_SLOPE] = "RUN_ELEMENTWISE",
    [STEP_BROADCAST] = "RUN_ELEMENTWISE",
    [STEP_PAIR] = "RUN_ELEMENTWISE",
    [STEP_LABEL] = "RUN_ELEMENTWISE",
    [STEP_WEIGH] = "RUN_WEIGH",
    [STEP_VALUE] = "RUN_VALUE",
    [STEP_COLUMN_DOTS] = "RUN_COLUMN_DOTS",
    [STEP_ROW_SUMS] = "RUN_ROW_SUMS",
    [STEP_GRADIENT_ROW] = "RUN_GRADIENT_ROW",
    [STEP_GRADIENT_PAIR] = "RUN_GRADIENT_PAIR",
    [STEP_GRADIENT_WEIGHTS] = "RUN_GRADIENT_WEIGHTS",
};

/* Returns whether a word of a step is a place among parameters or in far memory: those are hidden from compilers, see
 * STEP. */
static bool is_far(const icl_linear_placed *placed, size_t word) {
    const step *s = &placed->step;

    switch (s->kind) {
    case STEP_MULTIPLY:
        return (word == WORD_TO && placed->is_to_far) || (word == WORD_START && placed->is_second_far);
    case STEP_MULTIPLY_SHARED:
        return word == WORD_A || (word == WORD_TO && placed->is_to_far) ||
               (word == WORD_EXTRA && placed->is_second_far);
    case STEP_BROADCAST:
        return word == WORD_A;
    case STEP_APPLY_SHARED:
    case STEP_PAIR:
    case STEP_LABEL:
    case STEP_WEIGH:
    case STEP_GRADIENT_WEIGHTS:
        return word == WORD_B;
    default:
        return false;
    }
}

static icl_status print_step(icl_text *text, const icl_linear_placed *placed, icl_error *error) {
    const step *s = &placed->step;
    cl_uint words[STEP_WORDS];
    icl_status status = ICL_OK;

    if (s->kind == STEP_MORE_ROWS) {
        ICL_TRY(icl_text_print(text, error, "MORE_ROWS(%uu) }", s->rows));
        goto done;
    }
    memcpy(words, s, sizeof words);
    for (size_t word = 0; word < STEP_WORDS; word++)
        ICL_TRY(icl_text_print(text, error, is_far(placed, word) ? "%s FAR(%uu)" : "%s %u", word > 0 ? "," : "STEP",
                               words[word]));
    ICL_TRY(icl_text_print(text, error, " RUN_STEP(%s", runners[s->kind]));
    if (s->kind == STEP_MULTIPLY || s->kind == STEP_MULTIPLY_SHARED)
        ICL_TRY(icl_text_print(text, error, "%s_%s, %s, %s)", placed->is_to_far ? "far" : "near",
                               placed->is_second_far ? "far" : "near", placed->is_to_far ? "far" : "state",
                               placed->is_second_far ? "far" : "state"));
    ICL_TRY(icl_text_print(text, error, ")"));
done:
    return status;
}

static icl_status print_placed(icl_text *text, const icl_linear_placed *placed, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(text, error, " \\\n    %s", placed->meets ? "MEET; " : ""));
    if (placed->kind == ICL_PLACED_FETCH)
        status = icl_text_print(text, error, "FETCH_FAR(%u, %u, %uu)", placed->near, placed->far, placed->length);
    else if (placed->kind == ICL_PLACED_KEEP)
        status = icl_text_print(text, error, "KEEP_FAR(%u, %u, %uu)", placed->far, placed->near, placed->length);
    else
        status = print_step(text, placed, error);
done:
    return status;
}

static bool loops(const icl_linear_placement *placement) {
    for (size_t i = 0; i < placement->count; i++)
        if (placement->placed[i].step.kind == STEP_MORE_ROWS) /* a move has none: its kind is 0 */
            return true;
    return false;
}

icl_status icl_linear_source(const icl_linear_cut *cut, size_t local_memory, icl_text *text, icl_error *error) {
    const size_t most = local_memory < MOST_BYTES ? local_memory : MOST_BYTES;
    icl_linear_placement placement = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_place(&cut->key, NEAR_BYTES / sizeof(cl_float) - OWN_FLOATS,
                             (cl_uint)(most / sizeof(cl_float)) - OWN_FLOATS, &placement, error));
    if (placement.count == 0 || placement.count > MOST_PLACED)
        goto done;
    const size_t near = placement.near_length > cut->team ? placement.near_length : cut->team;
    ICL_TRY(icl_text_print(text, error,
                           "#define TEAM_SIZE %zu\n#define ROWS %zu\n#define COLUMNS %zu\n"
                           "#define IN_LOCAL 1\n#define NEAR_FLOATS %zu\n#define STRAIGHT_STEPS",
                           cut->team, cut->rows, cut->columns, near));
    if (loops(&placement))
        ICL_TRY(icl_text_print(text, error, " FOR_MORE_ROWS {"));
    for (size_t i = 0; i < placement.count; i++)
        ICL_TRY(print_placed(text, &placement.placed[i], error));
    ICL_TRY(icl_text_print(text, error, "\n"));
done:
    icl_linear_placement_clear(&placement);
    return status;
}

void icl_linear_interpreter_definitions(const icl_linear_cut *cut, char definitions[ICL_LINEAR_DEFINITIONS]) {
    snprintf(definitions, ICL_LINEAR_DEFINITIONS,
             "#define TEAM_SIZE %zu\n#define ROWS %zu\n#define COLUMNS %zu\n#define IN_LOCAL %d\n", cut->team,
             cut->rows, cut->columns, cut->is_local);
}

const char *icl_linear_register_option(const icl_linear_key *key, const char *option) {
    return key->copy == ICL_COPY_DIAGONAL ? NULL : option;
}
