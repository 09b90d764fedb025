/* A tree of strings: the children of a string are those that are one byte longer. A table of hashes finds a child by
 * its parent and its byte; the children of a string are a list, so that a prediction visits those that were seen. */
#include "task/ngrams.h"

#include <string.h>

#include "core/allocate.h"

/* A string, by its last byte and the string without it. Number 0, the empty string, is nobody's child: as a child it
 * means none. */
struct icl_string_node {
    uint32_t parent, count, first_child, next;
    unsigned char byte;
};

enum { FIRST_ROOM = 1024 };

static size_t slot_of(const icl_ngrams *ngrams, uint32_t parent, unsigned char byte) {
    const uint64_t mixed = ((uint64_t)parent * ICL_BYTES + byte) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (ngrams->slots - 1);
}

/* Returns the slot that holds the child, or the free one where it belongs. */
static size_t find_slot(const icl_ngrams *ngrams, uint32_t parent, unsigned char byte) {
    size_t slot = slot_of(ngrams, parent, byte);

    for (; ngrams->table[slot] != 0; slot = (slot + 1) & (ngrams->slots - 1)) {
        const icl_string_node *node = &ngrams->nodes[ngrams->table[slot]];
        if (node->parent == parent && node->byte == byte)
            break;
    }
    return slot;
}

/* Gives nodes and table room for `room` strings. */
static icl_status make_room(icl_ngrams *ngrams, size_t room, icl_error *error) {
    icl_string_node *nodes = NULL;
    uint32_t *table = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(room, sizeof *nodes, "counts of n-grams", &nodes, error));
    ICL_TRY(icl_allocate(2 * room, sizeof *table, "counts of n-grams", &table, error));
    if (ngrams->nodes)
        memcpy(nodes, ngrams->nodes, (ngrams->strings + 1) * sizeof *nodes);
    icl_free(&ngrams->nodes);
    icl_free(&ngrams->table);
    ngrams->nodes = nodes;
    ngrams->table = table;
    ngrams->room = room;
    ngrams->slots = 2 * room;
    for (size_t i = 1; i <= ngrams->strings; i++)
        table[find_slot(ngrams, nodes[i].parent, nodes[i].byte)] = (uint32_t)i;
    return ICL_OK;
done:
    icl_free(&nodes);
    icl_free(&table);
    return status;
}

icl_status icl_ngrams_create(size_t order, size_t most, icl_ngrams **ngrams, icl_error *error) {
    icl_status status = ICL_OK;
    icl_ngrams *created = NULL;

    *ngrams = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "counts of n-grams", &created, error));
    created->order = order;
    created->most = most;
    ICL_TRY(make_room(created, FIRST_ROOM, error));
    icl_ngrams_clear(created);
    *ngrams = created;
    created = NULL;
done:
    icl_ngrams_destroy(&created);
    return status;
}

void icl_ngrams_destroy(icl_ngrams **ngrams) {
    if (*ngrams) {
        icl_free(&(*ngrams)->nodes);
        icl_free(&(*ngrams)->table);
    }
    icl_free(ngrams);
}

void icl_ngrams_clear(icl_ngrams *ngrams) {
    memset(ngrams->table, 0, ngrams->slots * sizeof *ngrams->table);
    ngrams->nodes[0] = (icl_string_node){0};
    ngrams->contexts[0] = 0;
    ngrams->strings = 0;
    ngrams->active = 1;
    ngrams->counted = 0;
    ngrams->is_full = false;
}

/* Counts a child, and returns its number. There is room for it. */
static uint32_t count_child(icl_ngrams *ngrams, uint32_t parent, unsigned char byte) {
    const size_t slot = find_slot(ngrams, parent, byte);

    if (ngrams->table[slot] == 0) {
        const uint32_t number = (uint32_t)++ngrams->strings;
        ngrams->nodes[number] =
            (icl_string_node){.parent = parent, .next = ngrams->nodes[parent].first_child, .byte = byte};
        ngrams->nodes[parent].first_child = ngrams->table[slot] = number;
    }
    ngrams->nodes[ngrams->table[slot]].count++;
    return ngrams->table[slot];
}

icl_status icl_ngrams_add(icl_ngrams *ngrams, unsigned char byte, icl_error *error) {
    const size_t needed = ngrams->strings + ngrams->order + 1; /* if every string is new */
    uint32_t strings[ICL_MOST_ORDER + 1];

    ngrams->is_full = ngrams->is_full || needed > ngrams->most || ngrams->counted == UINT32_MAX;
    if (ngrams->is_full)
        return ICL_OK;
    if (needed >= ngrams->room)
        ICL_CHECK(make_room(ngrams, 2 * ngrams->room, error));
    for (size_t k = 0; k < ngrams->active; k++)
        strings[k] = count_child(ngrams, ngrams->contexts[k], byte);
    if (ngrams->active <= ngrams->order)
        ngrams->active++;
    memcpy(ngrams->contexts + 1, strings, (ngrams->active - 1) * sizeof *strings);
    ngrams->counted++;
    return ICL_OK;
}

/* Replaces p by the interpolation of what followed the string with it. */
static void interpolate(const icl_ngrams *ngrams, uint32_t string, double p[ICL_BYTES]) {
    const icl_string_node *nodes = ngrams->nodes;
    double sum = 0, different = 0;

    for (uint32_t child = nodes[string].first_child; child != 0; child = nodes[child].next) {
        sum += nodes[child].count;
        different++;
    }
    if (sum == 0)
        return;
    for (size_t s = 0; s < ICL_BYTES; s++)
        p[s] *= different / (sum + different);
    for (uint32_t child = nodes[string].first_child; child != 0; child = nodes[child].next)
        p[nodes[child].byte] += nodes[child].count / (sum + different);
}

/* Finds the string of `length` bytes, or returns false. */
static bool find_string(const icl_ngrams *ngrams, const unsigned char *bytes, size_t length, uint32_t *string) {
    *string = 0;
    for (size_t i = 0; i < length; i++)
        if ((*string = ngrams->table[find_slot(ngrams, *string, bytes[i])]) == 0)
            return false;
    return true;
}

void icl_ngrams_predict(const icl_ngrams *ngrams, const unsigned char *context, size_t length, size_t order,
                        double p[ICL_BYTES]) {
    uint32_t string;

    for (size_t s = 0; s < ICL_BYTES; s++)
        p[s] = 1.0 / ICL_BYTES;
    for (size_t k = 0; k <= order && k <= length; k++)
        if (find_string(ngrams, context + length - k, k, &string))
            interpolate(ngrams, string, p);
}
