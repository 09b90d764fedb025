/* Gathers the keys that the readers declare, section by section. */
#include <assert.h>
#include <string.h>

#include "core/allocate.h"
#include "model/model.h"
#include "run/recipe_keys.h"
#include "task/task.h"
#include "train/settings.h"

/* What is read whatever the words are. Groups of one section stand together. */
static const icl_recipe_group *const roots[] = {
    &icl_task_keys,
    &icl_model_keys,
    &icl_optimizer_keys,
    &icl_schedule_keys,
    &icl_trainer_keys,
    &icl_loop_keys,
    &icl_starts_keys,
    &icl_polish_keys,
    &icl_session_keys,
    &icl_evaluation_keys,
    &icl_session_evaluation_keys,
    NULL,
};

enum { MOST_GROUPS = 96 };

typedef struct gathering {
    const icl_recipe_group *groups[MOST_GROUPS];
    size_t count;
} gathering;

static void add(gathering *all, const icl_recipe_group *group) {
    for (size_t i = 0; i < all->count; i++)
        if (all->groups[i] == group)
            return;
    assert(all->count < MOST_GROUPS);
    all->groups[all->count++] = group;
}

static void add_list(gathering *all, const icl_recipe_group *const *groups) {
    for (; groups && *groups; groups++)
        add(all, *groups);
}

static void add_governed(gathering *all, const icl_recipe_key *key) {
    for (const icl_choice *choice = key->choices; choice && choice->word; choice++)
        add_list(all, choice->keys);
    add_list(all, key->keys);
}

/* Behind each root what its keys bring into use, and what these bring. */
static void gather(gathering *all) {
    size_t next = 0;

    for (const icl_recipe_group *const *root = roots; *root; root++)
        for (add(all, *root); next < all->count; next++)
            for (size_t i = 0; i < all->groups[next]->count; i++)
                add_governed(all, &all->groups[next]->rows[i]);
}

const icl_recipe_key *icl_recipe_known_key(size_t index) {
    gathering all = {0};

    gather(&all);
    for (size_t i = 0; i < all.count; index -= all.groups[i++]->count)
        if (index < all.groups[i]->count)
            return &all.groups[i]->rows[index];
    return NULL;
}

icl_status icl_recipe_create_complete(icl_recipe **recipe, icl_error *error) {
    gathering all = {0};
    icl_recipe_key *keys = NULL;
    icl_status status = ICL_OK;
    size_t count = 0;

    gather(&all);
    for (size_t i = 0; i < all.count; i++)
        count += all.groups[i]->count;
    ICL_TRY(icl_allocate(count, sizeof *keys, "recipe keys", &keys, error));
    count = 0;
    for (size_t i = 0; i < all.count; count += all.groups[i++]->count)
        memcpy(keys + count, all.groups[i]->rows, all.groups[i]->count * sizeof *keys);
    ICL_TRY(icl_recipe_create(keys, count, recipe, error));
done:
    icl_free(&keys);
    return status;
}
