/* See placement.h. */
#include "backend/opencl/linear_transformer/placement.h"

#define GROWTH 64       /* floats of local memory more when too few were tried */
#define NEVER  SIZE_MAX /* is a value used again */

/* Where an object stands while the steps are gone through. */
typedef struct object {
    cl_uint begin, length; /* in the composer's, and the far memory */
    cl_uint at;            /* in near memory, where it is_near */
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

/* A write of all that anybody reads. */
static bool is_whole(const placer *p, const object *o, const icl_linear_operand *operand) {
    return operand->written > 0 && operand->written == o->length / p->pitch * p->size;
}

typedef enum use { UNUSED, NEEDED, OVERWRITTEN } use;

/* Whether a step needs what the object holds, or writes all of it anew. */
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

/* The first step from `from` on that needs the value. */
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
    size_t soonest; /* the next use of what must go; NEVER: nothing must */
    bool is_taken;  /* something here may not go, or not for nothing */
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

/* The place whose owners are needed last. Matrices stand at multiples of their length, from below, and groups of
 * vectors are stacked from above, so that these do not part the memory. */
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

/* Makes the object near. Where it is `optional`, others go only if that costs nothing and they
 * are needed after `next`. */
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

/* Matrices first, for which vectors make room and come back; and then results of products where there is room. */
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

/* Writes the places that the operands have into the step. */
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

/* Whether all steps found room. */
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

/* Members meet before what touches memory that others have written since they last met, or writes what others have
 * read. They do so where the sequence begins, and its loop over rows of tokens, and behind that. */
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
    /* Each operand of a step comes at most once, and sends no more away than came. */
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
