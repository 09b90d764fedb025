#include "commands.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const subcommand *const commands[] = {
    &command_devices,   &command_train, &command_eval,    &command_inspect, &command_predict,
    &command_reproduce, &command_sweep, &command_compare, &command_bench,
};

const subcommand *const *all_commands(size_t *count) {
    *count = COUNT_OF(commands);
    return commands;
}

const subcommand *find_command(const char *name) {
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}
