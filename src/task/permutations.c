#include "task/permutations.h"

#include <assert.h>
#include <string.h>

static bool is_permutation(const unsigned char *images, size_t points) {
    unsigned seen = 0;
    for (size_t i = 0; i < points; i++)
        seen |= 1u << images[i];
    return seen == (1u << points) - 1;
}

static bool is_even(const unsigned char *images, size_t points) {
    bool even = true;
    for (size_t i = 0; i < points; i++)
        for (size_t j = i + 1; j < points; j++)
            even ^= images[i] > images[j];
    return even;
}

icl_permutations icl_permutations_list(size_t points, bool even) {
    icl_permutations list = {.points = points};
    size_t codes = 1;

    assert(points <= ICL_MOST_POINTS);
    for (size_t i = 0; i < points; i++)
        codes *= points;
    for (size_t code = 0; code < codes; code++) {
        unsigned char images[ICL_MOST_POINTS];
        for (size_t i = points, rest = code; i-- > 0; rest /= points)
            images[i] = (unsigned char)(rest % points);
        if (is_permutation(images, points) && (!even || is_even(images, points)))
            memcpy(list.images[list.count++], images, points);
    }
    return list;
}

static size_t find(const icl_permutations *group, const unsigned char *images) {
    size_t element = 0;
    while (element < group->count && memcmp(group->images[element], images, group->points) != 0)
        element++;
    assert(element < group->count);
    return element;
}

size_t icl_permutations_compose(const icl_permutations *group, size_t later, size_t first) {
    unsigned char images[ICL_MOST_POINTS];

    for (size_t i = 0; i < group->points; i++)
        images[i] = group->images[later][group->images[first][i]];
    return find(group, images);
}

size_t icl_permutations_cycle(const icl_permutations *group, size_t first, size_t second, size_t third) {
    unsigned char images[ICL_MOST_POINTS];

    for (size_t i = 0; i < group->points; i++)
        images[i] = (unsigned char)i;
    images[first] = (unsigned char)second;
    images[second] = (unsigned char)third;
    if (third != first)
        images[third] = (unsigned char)first;
    return find(group, images);
}
