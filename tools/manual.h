/* Man pages, written from the tables that --help is printed from. */
#ifndef ICLAB_TOOLS_MANUAL_H
#define ICLAB_TOOLS_MANUAL_H

#include <stdio.h>

#include "options.h"

/* iclab-NAME(1), iclab(1) and iclab-recipe(5), in the macros of man(7). */
void write_command_page(FILE *out, const subcommand *line);
void write_general_page(FILE *out);
void write_recipe_page(FILE *out);

#endif
