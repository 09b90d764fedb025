/* Chains of a user's own: a text file of probabilities. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "task/markov/family.h"

#define BETWEEN     ", \t\r"
#define MOST_BYTES  ((size_t)1 << 30)
#define NEAR_TO_ONE 1e-6

/* The rest of the file, and the number of its last line that was read. */
typedef struct reader {
    const char *path, *at;
    size_t line;
} reader;

/* Returns the next line that is neither empty nor a comment, from its first number on; NULL: there is none. */
static const char *next_line(reader *file) {
    while (*file->at) {
        const char *start = file->at + strspn(file->at, BETWEEN);
        file->at += strcspn(file->at, "\n");
        file->at += *file->at == '\n';
        file->line++;
        if (*start && *start != '\n' && *start != '#')
            return start;
    }
    return NULL;
}

/* Reads the `count` probabilities of a line and divides them by their sum, which is 1 but for rounding. */
static icl_status read_row(const reader *file, const char *text, size_t count, double *row, icl_error *error) {
    double sum = 0;
    size_t found = 0;

    for (; *text && *text != '\n'; text += strspn(text, BETWEEN)) {
        const size_t length = strcspn(text, BETWEEN "\n");
        double value;
        if (!icl_parse_number(text, length, &value) || !(value >= 0 && value <= 1))
            return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: '%.*s': expected a probability",
                            file->path, file->line, (int)(length < 32 ? length : 32), text);
        if (found < count)
            row[found] = value;
        found++;
        sum += value;
        text += length;
    }
    if (found != count)
        return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: %zu numbers: expected %zu", file->path,
                        file->line, found, count);
    if (!(fabs(sum - 1) <= NEAR_TO_ONE))
        return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: the sum is %.9g: expected 1, within %g",
                        file->path, file->line, sum, NEAR_TO_ONE);
    for (size_t i = 0; i < count; i++)
        row[i] /= sum;
    return ICL_OK;
}

/* Reads all rows; chains: room for so many numbers. Returns the numbers in *found. */
static icl_status read_rows(reader *file, const icl_chain_law *law, double *chains, size_t most, size_t *found,
                            icl_error *error) {
    const char *line;

    for (*found = 0; (line = next_line(file)) != NULL;) {
        const size_t width = *found % law->size < law->states * law->states ? law->states : law->symbols;
        if (width > most - *found)
            return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: expected at most %zu numbers in all",
                            file->path, file->line, most);
        ICL_CHECK(read_row(file, line, width, chains + *found, error));
        *found += width;
    }
    if (*found == 0 || *found % law->size != 0)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "task.chain: %s: %zu numbers: expected %zu for each chain, a row behind each of %zu contexts or "
            "states",
            file->path, *found, law->size, law->states > 0 ? 2 * law->states : law->contexts);
    return ICL_OK;
}

icl_status icl_markov_read_chains(const char *path, icl_markov *state, size_t most, icl_error *error) {
    reader file = {.path = path};
    char *text = NULL;
    size_t size = 0, found = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_file_read(path, MOST_BYTES, &text, &size, error));
    file.at = text;
    /* Two bytes hold a number at least. */
    const size_t room = size / 2 + 1 < most ? size / 2 + 1 : most;
    ICL_TRY(icl_allocate(room, sizeof *state->chains, "chains of task.chain", &state->chains, error));
    ICL_TRY(read_rows(&file, &state->law, state->chains, room, &found, error));
    state->pool = found / state->law.size;
    state->is_fresh = false;
done:
    icl_text_free(&text);
    return status;
}
