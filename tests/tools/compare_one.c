/* Tests iclab compare on a single case of a single element: its row of the table, and its values as JSON. */
#include <string.h>

#include "captured.h"
#include "command.h"
#include "tap.h"

/* Runs a command line whose words are separated by bars. */
static int run(const char *line, char *text, size_t size) {
    char copy[256], *words[16];
    int count = 0;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *rest = copy, *at = strtok_r(copy, "|", &rest); at; at = strtok_r(NULL, "|", &rest))
        words[count++] = at;
    captured to = capture_begin(stdout);
    const int code = command_compare.run(NULL, count, words);
    capture_end(&to, text, size);
    return code;
}

/* Returns the number after a key; `missing` if it is absent or null. */
static double number_of(const char *text, const char *key, double missing) {
    const char *at = strstr(text, key);
    char *end = NULL;
    const double number = at ? strtod(at + strlen(key), &end) : missing;

    return at && end != at + strlen(key) ? number : missing;
}

#define ONE "--device|cpu|--against|ref|--quiet|--op|relu ()() plain random"

int main(void) {
    char text[4096];
    tap_run tap = {0};

    int code = run(ONE, text, sizeof text);
    tap_ok(&tap, code == EXIT_DONE && number_of(text, "\nrelu ", 0) == 1, "a row of one case");
    code = run(ONE "|--json", text, sizeof text);
    const double value = number_of(text, "\"worst_value\":", -1), truth = number_of(text, "\"worst_truth\":", -2);
    tap_ok(&tap, code == EXIT_DONE && value == truth, "the value %g of its one element is the truth %g", value, truth);
    return tap_done(&tap);
}
