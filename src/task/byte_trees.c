/* A table of hashes finds the child of a node by the byte that it adds; a child is there only if its parent is. */
#include "task/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"

struct icl_tree_node {
    double odds; /* log P_e - log prod P_w; 0 at depth D */
    uint32_t counts[2];
    uint32_t parent;
    unsigned char byte;
};

enum { BITS = 8, ROOTS = 255, FIRST_ROOM = 1024 };

/* The nodes of a decision behind the present context, from the root on. */
typedef struct path {
    uint32_t nodes[ICL_MOST_ORDER + 1];
    size_t count;
} path;

static size_t slot_of(const icl_byte_trees *trees, uint32_t parent, unsigned char byte) {
    const uint64_t mixed = ((uint64_t)parent * ICL_BYTES + byte) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (trees->slots - 1);
}

/* Returns the slot that holds the child, or the free one where it belongs. */
static size_t find_slot(const icl_byte_trees *trees, uint32_t parent, unsigned char byte) {
    size_t slot = slot_of(trees, parent, byte);

    for (; trees->table[slot] != 0; slot = (slot + 1) & (trees->slots - 1)) {
        const icl_tree_node *node = &trees->nodes[trees->table[slot]];
        if (node->parent == parent && node->byte == byte)
            break;
    }
    return slot;
}

/* Gives nodes and table room for `room` contexts. */
static icl_status make_room(icl_byte_trees *trees, size_t room, icl_error *error) {
    icl_tree_node *nodes = NULL;
    uint32_t *table = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(room, sizeof *nodes, "trees of contexts", &nodes, error));
    ICL_TRY(icl_allocate(2 * room, sizeof *table, "trees of contexts", &table, error));
    if (trees->nodes)
        memcpy(nodes, trees->nodes, (trees->contexts + 1) * sizeof *nodes);
    icl_free(&trees->nodes);
    icl_free(&trees->table);
    trees->nodes = nodes;
    trees->table = table;
    trees->room = room;
    trees->slots = 2 * room;
    for (size_t i = ROOTS + 1; i <= trees->contexts; i++)
        table[find_slot(trees, nodes[i].parent, nodes[i].byte)] = (uint32_t)i;
    return ICL_OK;
done:
    icl_free(&nodes);
    icl_free(&table);
    return status;
}

static void destroy(icl_byte_trees **trees) {
    if (*trees) {
        icl_free(&(*trees)->nodes);
        icl_free(&(*trees)->table);
    }
    icl_free(trees);
}

static void clear(icl_byte_trees *trees) {
    memset(trees->table, 0, trees->slots * sizeof *trees->table);
    memset(trees->nodes, 0, (ROOTS + 1) * sizeof *trees->nodes);
    trees->contexts = ROOTS;
}

static icl_status create(size_t depth, size_t most, icl_byte_trees **trees, icl_error *error) {
    icl_status status = ICL_OK;
    icl_byte_trees *created = NULL;

    assert(depth <= ICL_MOST_ORDER && most > ROOTS);
    *trees = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "trees of contexts", &created, error));
    created->depth = depth;
    created->most = most;
    ICL_TRY(make_room(created, FIRST_ROOM, error));
    clear(created);
    *trees = created;
    created = NULL;
done:
    destroy(&created);
    return status;
}

/* ---- A decision ---- */

/* Returns the probability of `bit` if the node is a leaf. */
static double estimate(const icl_tree_node *node, unsigned bit) {
    return (node->counts[bit] + 0.5) / ((double)node->counts[0] + node->counts[1] + 1);
}

/* Returns the probability of a bit at the node of depth d, from that of its child. */
static double mix(const icl_byte_trees *trees, const icl_tree_node *node, size_t d, double of_leaf, double of_child) {
    if (d == trees->depth)
        return of_leaf;
    const double weight = 1 / (1 + exp(-node->odds));
    return weight * of_leaf + (1 - weight) * of_child;
}

/* Finds the nodes that are there of decision `bits`: the bits of the byte so far, behind a 1. */
static path find_path(const icl_byte_trees *trees, unsigned bits, const unsigned char *context, size_t length) {
    path found = {.nodes = {bits}, .count = 1};

    for (size_t d = 0; d < trees->depth && d < length; d++) {
        const uint32_t child = trees->table[find_slot(trees, found.nodes[d], context[length - 1 - d])];
        if (child == 0)
            break;
        found.nodes[found.count++] = child;
    }
    return found;
}

/* Adds the nodes that are missing, as far as there is room. */
static path make_path(icl_byte_trees *trees, unsigned bits, const unsigned char *context, size_t length) {
    path found = find_path(trees, bits, context, length);

    for (size_t d = found.count - 1; d < trees->depth && d < length && trees->contexts + 1 < trees->most; d++) {
        const unsigned char byte = context[length - 1 - d];
        const uint32_t parent = found.nodes[d], number = (uint32_t)++trees->contexts;
        trees->nodes[number] = (icl_tree_node){.parent = parent, .byte = byte};
        trees->table[find_slot(trees, parent, byte)] = number;
        found.nodes[found.count++] = number;
    }
    return found;
}

/* Takes in a bit, from the deepest node up. */
static void observe(icl_byte_trees *trees, const path *at, unsigned bit) {
    double below = 0.5;

    for (size_t d = at->count; d-- > 0;) {
        icl_tree_node *node = &trees->nodes[at->nodes[d]];
        const double of_leaf = estimate(node, bit), mixed = mix(trees, node, d, of_leaf, below);
        if (d < trees->depth)
            node->odds += log(of_leaf / below);
        node->counts[bit]++;
        below = mixed;
    }
}

/* ---- A byte ---- */

static icl_status add(icl_byte_trees *trees, const unsigned char *context, size_t length, unsigned char byte,
                      icl_error *error) {
    const size_t needed = trees->contexts + BITS * trees->depth + 1; /* if every context is new */
    unsigned bits = 1;

    if (needed >= trees->room && trees->room < trees->most)
        ICL_CHECK(make_room(trees, 2 * trees->room, error));
    for (int shift = BITS - 1; shift >= 0; shift--) {
        const unsigned bit = byte >> shift & 1;
        const path at = make_path(trees, bits, context, length);
        observe(trees, &at, bit);
        bits = 2 * bits + bit;
    }
    return ICL_OK;
}

/* Returns the probability that a decision is 1. */
static double predict_bit(const icl_byte_trees *trees, unsigned bits, const unsigned char *context, size_t length) {
    const path at = find_path(trees, bits, context, length);
    double p = 0.5;

    for (size_t d = at.count; d-- > 0;) {
        const icl_tree_node *node = &trees->nodes[at.nodes[d]];
        p = mix(trees, node, d, estimate(node, 1), p);
    }
    return p;
}

static void predict(const icl_byte_trees *trees, const unsigned char *context, size_t length, double p[ICL_BYTES]) {
    double reached[2 * ICL_BYTES]; /* the probability of the bits so far, behind a 1 */

    reached[1] = 1;
    for (unsigned bits = 1; bits <= ROOTS; bits++) {
        const double one = predict_bit(trees, bits, context, length);
        reached[2 * bits] = reached[bits] * (1 - one);
        reached[2 * bits + 1] = reached[bits] * one;
    }
    memcpy(p, reached + ICL_BYTES, ICL_BYTES * sizeof *p);
}

const icl_byte_trees_functions icl_trees = {
    .create = create, .destroy = destroy, .clear = clear, .add = add, .predict = predict};
