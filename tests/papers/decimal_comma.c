/* Numbers are read and written with points under a locale with a decimal comma: recipes, values of a sweep, tables,
 * metrics, safetensors, results and findings. localedef makes the locale, so that none need be installed. */
#include <locale.h>
#include <math.h>

#include "../core/scratch.h"
#include "core/allocate.h"
#include "core/safetensors.h"
#include "iclab/csv.h"
#include "iclab/file.h"
#include "iclab/json.h"
#include "iclab/recipe.h"
#include "iclab/result.h"
#include "iclab/run.h"
#include "iclab/session.h"
#include "iclab/table.h"
#include "papers/reproduce.h"
#include "run/metrics.h"
#include "run/sweep/grid.h"
#include "tap.h"

static const char numbers[] = "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                              "grouping 3;3\nEND LC_NUMERIC\n";

static bool take_locale(scratch_folder *scratch) {
    char command[1200], text[16];

    scratch_write(scratch, "comma.txt", numbers, strlen(numbers));
    snprintf(command, sizeof command,
             "mkdir '%s/locales' && localedef -c -i '%s/comma.txt' '%s/locales/comma' 2>/dev/null", scratch->folder,
             scratch->folder, scratch->folder);
    (void)!system(command); /* NOLINT(cert-env33-c): warns of the parts that the locale lacks */
    (void)setenv("LOCPATH", scratch_path(scratch, "locales"), 1);
    if (!setlocale(LC_NUMERIC, "comma"))
        return false;
    snprintf(text, sizeof text, "%g", 0.5);
    return strcmp(text, "0,5") == 0;
}

static bool file_is(scratch_folder *scratch, const char *name, const char *expected) {
    char *text = NULL;
    size_t size;
    const bool same =
        icl_file_read(scratch_path(scratch, name), 0, &text, &size, NULL) == ICL_OK && strcmp(text, expected) == 0;

    if (!same)
        tap_note("%s: %s", name, text ? text : "cannot be read");
    icl_free(&text);
    return same;
}

static void test_recipe(tap_run *tap) {
    icl_recipe *recipe = NULL;
    icl_list list = {0};
    char *text = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, &error));
    ICL_TRY(icl_recipe_parse(recipe, "[train]\nlearning_rate = 0.125\n", "text", &error));
    tap_ok(tap, icl_recipe_number(recipe, "train", "learning_rate") == .125, "a recipe");
    ICL_TRY(icl_recipe_override(recipe, "train.learning_rate=2.5e-3", &error));
    tap_ok(tap, icl_recipe_number(recipe, "train", "learning_rate") == 2.5e-3, "an override");
    ICL_TRY(icl_recipe_write(recipe, &text, &error));
    tap_ok(tap, strstr(text, "learning_rate = 2.5e-3\n") || strstr(text, "learning_rate = 0.0025\n"),
           "as it is written");
    ICL_TRY(icl_list_parse("0.5:1.5:0.5", &list, &error));
    tap_ok(tap, list.count == 3 && strcmp(list.values[0], "0.5") == 0 && strcmp(list.values[2], "1.5") == 0,
           "values of a sweep");
done:
    tap_status(tap, status, &error, "recipes");
    icl_list_clear(&list);
    icl_text_free(&text);
    icl_recipe_destroy(&recipe);
}

static void test_tables(tap_run *tap, scratch_folder *scratch) {
    static const char text[] = "a,y\n0.5,1.25\n2.5,-1e-3\n";
    const icl_table_params params = {.source = {.path = "text", .text = text, .size = sizeof text - 1}, .target = "y"};
    const double row[] = {1.5, .25, .125, 2.75};
    icl_table *table = NULL;
    icl_csv *csv = NULL;
    icl_metrics metrics = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_table_read(&params, &table, &error));
    tap_ok(tap, table->values[0] == .5 && table->values[1] == 1.25 && table->values[3] == -1e-3, "a table");
    ICL_TRY(icl_csv_create(scratch_path(scratch, "metrics.csv"), ICL_METRICS_HEADER, &csv, &error));
    ICL_TRY(icl_csv_row(csv, 7, row, 4, &error));
    ICL_TRY(icl_csv_flush(csv, &error));
    tap_ok(tap, file_is(scratch, "metrics.csv", ICL_METRICS_HEADER "\n7,1.5,0.25,0.125,2.75\n"), "metrics are written");
    ICL_TRY(icl_metrics_read(scratch->folder, &metrics, &error));
    tap_ok(tap, metrics.loss[0] == 1.5 && metrics.half_adjusted[0] == 2.75, "and read");
done:
    tap_status(tap, status, &error, "tables");
    icl_metrics_release(&metrics);
    icl_csv_destroy(&csv);
    icl_table_destroy(&table);
}

static void test_json(tap_run *tap, scratch_folder *scratch) {
    icl_json json = {0};
    icl_result *result = NULL;
    char *line = NULL;
    double number = 0;
    icl_error error = {0};
    icl_status status = ICL_OK;

    icl_json_number(&json, "x", .5);
    ICL_TRY(icl_json_finish(&json, false, &line, &error));
    tap_ok(tap, strcmp(line, "{\"x\":0.5}") == 0, "JSON is written: %s", line);
    ICL_TRY(icl_result_create(&result, &error));
    ICL_TRY(icl_result_add(result, ICL_RESULT_ROWS, line, &error));
    ICL_TRY(icl_result_write(result, scratch->folder, &(icl_result_facts){.command = "test"}, NULL, &error));
    tap_ok(tap, file_is(scratch, "result.csv", "x\n0.5\n"), "and read into CSV");
    scratch_write(scratch, "run.json", "{\"training_seconds\": 12.75}\n", 28);
    ICL_TRY(icl_run_read_number(scratch->folder, "training_seconds", &number, &error));
    tap_ok(tap, number == 12.75, "what is known of a run: %.2f", number);
done:
    tap_status(tap, status, &error, "JSON");
    icl_text_free(&line);
    icl_result_destroy(&result);
}

static void test_safetensors(tap_run *tap, scratch_folder *scratch) {
    static const float values[] = {.5F, 1.5F};
    const icl_named_tensor tensor = {.name = "v", .type = ICL_ELEMENT_F32, .rank = 1, .shape = {2}, .data = values};
    icl_safetensors *file = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_write(scratch_path(scratch, "v"), &tensor, 1, (const icl_metadata[]){{"rate", "0.5"}}, 1,
                                  &error));
    ICL_TRY(icl_safetensors_read(scratch_path(scratch, "v"), &file, &error));
    tap_ok(tap, strcmp(icl_safetensors_metadata(file, "rate"), "0.5") == 0, "metadata");
done:
    tap_status(tap, status, &error, "safetensors");
    icl_safetensors_destroy(&file);
}

static void test_findings(tap_run *tap) {
    static const char *const signs[] = {"", "<= ", ">= "};
    const icl_finding finding = {
        .ours = .25, .standard_error = .0625, .target = .5, .tolerance = .125, .evidence = ICL_READ};
    const icl_finding_text text = icl_finding_write(&finding, " +- ", signs);
    const icl_phrase phrase = icl_phrase_print("%.2f", 1.25);

    tap_ok(tap, strcmp(text.ours, "0.25 +- 0.0625") == 0 && strcmp(text.target, "0.5 +- 0.125") == 0, "a finding: %s",
           text.ours);
    tap_ok(tap, strcmp(phrase.text, "1.25") == 0, "a phrase: %s", phrase.text);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    if (take_locale(&scratch)) {
        test_recipe(&tap);
        test_tables(&tap, &scratch);
        test_json(&tap, &scratch);
        test_safetensors(&tap, &scratch);
        test_findings(&tap);
    } else {
        tap_ok(&tap, true, "localedef makes no locale here: tests of core plant one in what prints");
    }
    scratch_close(&scratch);
    return tap_done(&tap);
}
