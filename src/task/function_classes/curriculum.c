#include "task/function_classes/curriculum.h"

#include "core/recipe_keys.h"

static const icl_recipe_key stage_rows[] = {
    {"task", "curriculum_d", ICL_KEY_COUNT, "5", 1, ICL_MAX_EXTENT,
     .help = "coordinates of x that are not 0 at first; each rise adds one"},
    {"task", "curriculum_n", ICL_KEY_COUNT, "10", 0, ICL_MAX_EXTENT, .help = "labelled pairs in use at first"},
    {"task", "curriculum_points", ICL_KEY_COUNT, "2", 0, ICL_MAX_EXTENT, .help = "pairs that each rise adds"},
};
static const icl_recipe_group stage_keys = ICL_RECIPE_GROUP(stage_rows);
static const icl_recipe_group *const stages[] = {&stage_keys, NULL};

static const icl_recipe_key rows[] = {
    {"task", "curriculum", ICL_KEY_COUNT, "0", 0, ICL_MAX_STEPS,
     .help = "training steps between rises of the coordinates and pairs in use; 0: all are, always", .keys = stages,
     .neutral = "0"},
};
const icl_recipe_group icl_curriculum_keys = ICL_RECIPE_GROUP(rows);

icl_status icl_curriculum_read(const icl_recipe *recipe, size_t dimension, size_t context, icl_curriculum *curriculum,
                               icl_error *error) {
    *curriculum = (icl_curriculum){.every = icl_recipe_count(recipe, "task", "curriculum"),
                                   .slices = icl_recipe_count(recipe, "train", "slices"),
                                   .refresh = icl_recipe_count(recipe, "train", "refresh"),
                                   .first = {(size_t)icl_recipe_count(recipe, "task", "curriculum_d"),
                                             (size_t)icl_recipe_count(recipe, "task", "curriculum_n")},
                                   .last = {dimension, context},
                                   .more_points = (size_t)icl_recipe_count(recipe, "task", "curriculum_points")};
    if (curriculum->every > 0 && curriculum->first.dimension > dimension)
        return icl_recipe_reject(recipe, "task", "curriculum_d", error, "at most task.d = %zu", dimension);
    if (curriculum->every > 0 && curriculum->first.context > context)
        return icl_recipe_reject(recipe, "task", "curriculum_n", error, "at most task.n = %zu", context);
    return ICL_OK;
}

/* first + rises * more, at most last. */
static size_t raised(size_t first, uint64_t rises, size_t more, size_t last) {
    return more > 0 && rises >= (last - first + more - 1) / more ? last : first + (size_t)rises * more;
}

icl_stage icl_curriculum_at(const icl_curriculum *curriculum, uint64_t batch) {
    const icl_stage *first = &curriculum->first, *last = &curriculum->last;

    if (curriculum->every == 0)
        return *last;
    const uint64_t rises = batch / curriculum->slices * curriculum->refresh / curriculum->every;
    return (icl_stage){raised(first->dimension, rises, 1, last->dimension),
                       raised(first->context, rises, curriculum->more_points, last->context)};
}
