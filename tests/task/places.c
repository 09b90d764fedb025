/* tools/reference/devices.md says of each family whether the device or the host draws its batches, in the order of the
 * families, and names no other. */
#include <stdio.h>

#include "frame.h"
#include "iclab/file.h"
#include "task/task.h"

#define MOST_TEXT 4096
#define MOST_PAGE ((size_t)1 << 20)

/* Writes the rows that the page must have, one after the other. */
static size_t write_rows(char *rows, size_t room) {
    static const struct {
        const char *word;
        const icl_task_family *family;
    } all[] = {
#define ROW(word, family) {word, &(family)},
        ICL_TASK_FAMILIES(ROW)
#undef ROW
    };
    const size_t count = sizeof all / sizeof *all;
    size_t length = 0;

    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(rows + length, room - length, "| `%s` | %s\n", all[i].word,
                                   all[i].family->draw ? "host" : "device");
    return count;
}

/* Returns how many rows of the table after its head stand in `rows`, in this order; *count: how many there are. */
static size_t count_right(const char *table, const char *rows, size_t *count) {
    size_t right = 0;

    for (*count = 0; table[0] == '|'; ++*count) {
        const size_t line = strcspn(rows, "\n");
        right += line > 0 && strncmp(table, rows, line) == 0 && strchr(" ,;", table[line]);
        rows += line + (rows[line] == '\n');
        table += strcspn(table, "\n");
        table += *table == '\n';
    }
    return right;
}

int main(int argc, char **argv) {
    static const char head[] = "| `task.family` | drawn on |\n| --- | --- |\n";
    tap_run tap = {0};
    char rows[MOST_TEXT], *page = NULL;
    size_t there = 0, size;

    if (argc < 2)
        return 1;
    tap_need(icl_file_read(argv[1], MOST_PAGE, &page, &size, tap_error()));
    const size_t families = write_rows(rows, sizeof rows);
    const char *table = strstr(page, head);
    const size_t right = table ? count_right(table + sizeof head - 1, rows, &there) : 0;
    tap_ok(&tap, right == families && there == families,
           "%zu of %zu rows say where a family is drawn, expected %zu of %zu, beginning with \"%.*s\"", right, there,
           families, families, (int)strcspn(rows, "\n"), rows);
    icl_free(&page);
    return tap_done(&tap);
}
