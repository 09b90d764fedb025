#include "report/figure_script.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/printable.h"
#include "iclab/file.h"

/* Bytes that gnuplot takes as they are in double quotes; those of UTF-8 are, too. */
static bool is_plain(unsigned char byte) {
    return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z') || (byte != '\0' && strchr(" .,:;()+-*/=_<>|!?%^~&[]#$", byte) != NULL);
}

icl_status icl_script_text(icl_text *script, const char *text, icl_error *error) {
    enum { LONGEST = 1024 };
    char clean[LONGEST];

    ICL_CHECK(icl_text_append(script, "\"", 1, error));
    for (const char *c = icl_printable(text, clean, sizeof clean); *c != '\0'; c++)
        ICL_CHECK(is_plain((unsigned char)*c) ? icl_text_append(script, c, 1, error)
                                              : icl_text_print(script, error, "\\%03o", (unsigned)(unsigned char)*c));
    return icl_text_append(script, "\"", 1, error);
}

/* Where a line of at most so many bytes ends: before its last blank, or, of a word that is longer, before the character
 * of UTF-8 that would go beyond. */
static size_t line_length(const char *text, size_t most) {
    size_t length = strlen(text), end = most;

    if (length <= most)
        return length;
    while (end > 0 && text[end] != ' ')
        end--;
    if (end == 0)
        for (end = most; end > 1 && ((unsigned char)text[end] & 0xc0) == 0x80; end--)
            continue;
    return end;
}

icl_status icl_script_lines(icl_text *script, const char *text, size_t most, icl_error *error) {
    enum { LINES = 2 };
    icl_text line = {0};
    icl_status status = ICL_OK;

    for (int i = 1; i <= LINES; i++) {
        const bool is_cut = i == LINES && strlen(text) > most;
        const size_t length = line_length(text, is_cut ? most - 3 : most);
        line.length = 0;
        ICL_TRY(icl_text_append(&line, text, length, error));
        ICL_TRY(icl_text_append(&line, "...", is_cut ? 3 : 0, error));
        ICL_TRY(icl_script_text(script, line.bytes, error));
        text += length + (text[length] == ' ');
        if (*text == '\0' || is_cut)
            break;
        ICL_TRY(icl_text_print(script, error, ".\"\\n\"."));
    }
done:
    icl_text_release(&line);
    return status;
}

/* Of two kinds: SVG for pages, and PNG of twice the pixels, so that it stands enlargement. */
icl_status icl_script_begin(icl_text *script, const icl_drawing *drawing, const char *name, const char *title,
                            size_t width, size_t height, icl_error *error) {
    ICL_CHECK(icl_text_print(script, error, "# Written by %s. Draw again: gnuplot %s.gp\n", drawing->command, name));
    ICL_CHECK(icl_text_print(script, error,
                             "set datafile separator ','\n"
                             "do for [kind in 'svg png'] {\n"
                             "options = 'noenhanced background \"#ffffff\" font \"sans-serif,%d\"'\n"
                             "if (kind eq 'svg') { eval 'set terminal svg dynamic size %zu,%zu '.options }\n"
                             "if (kind eq 'png') { eval 'set terminal '.(strstrt(GPVAL_TERMINALS, 'pngcairo') > 0 "
                             "? 'pngcairo size %zu,%zu fontscale 1.6 pointscale 2 linewidth 2 '.options "
                             ": 'png size %zu,%zu noenhanced background \"#ffffff\"') }\n"
                             "set output '%s.'.kind\n"
                             "set title ",
                             ICL_SCRIPT_FONT, width, height, 2 * width, 2 * height, width, height, name));
    ICL_CHECK(icl_script_lines(script, title, width / ICL_SCRIPT_LETTER, error));
    return icl_text_print(script, error, " noenhanced\n");
}

icl_status icl_script_write(const icl_drawing *drawing, const char *name, size_t width, size_t height,
                            const char *commands, icl_error *error) {
    icl_text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_script_begin(&script, drawing, name, "", width, height, error));
    ICL_TRY(icl_text_append(&script, commands, strlen(commands), error));
    ICL_TRY(icl_script_finish(&script, drawing, name, error));
done:
    icl_text_release(&script);
    return status;
}

icl_status icl_script_label(icl_text *script, const char *axis, const char *label, size_t most, icl_error *error) {
    if (!label)
        return ICL_OK;
    ICL_CHECK(icl_text_print(script, error, "set %slabel ", axis));
    ICL_CHECK(icl_script_lines(script, label, most, error));
    return icl_text_print(script, error, " noenhanced\n");
}

/* The name of a place on an axis is a format to gnuplot. */
static icl_status add_tick(icl_text *script, const char *name, icl_error *error) {
    icl_text format = {0};
    icl_status status = ICL_OK;

    for (; *name != '\0'; name++)
        ICL_TRY(icl_text_append(&format, *name == '%' ? "%%" : name, *name == '%' ? 2 : 1, error));
    ICL_TRY(icl_script_text(script, format.bytes ? format.bytes : "", error));
done:
    icl_text_release(&format);
    return status;
}

icl_status icl_script_names(icl_text *script, const char *axis, const char *const *names, size_t count,
                            icl_error *error) {
    ICL_CHECK(icl_text_print(script, error, "set %stics scale 0 (", axis));
    for (size_t i = 0; i < count; i++) {
        ICL_CHECK(icl_text_append(script, ", ", i > 0 ? 2 : 0, error));
        ICL_CHECK(add_tick(script, names[i], error));
        ICL_CHECK(icl_text_print(script, error, " %zu", i));
    }
    return icl_text_print(script, error, ")\n");
}

static icl_status path_of(const icl_drawing *drawing, const char *name, const char *suffix, char **path,
                          icl_error *error) {
    icl_text file = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&file, error, "%s%s", name, suffix));
    ICL_TRY(icl_path_join(drawing->folder, file.bytes, path, error));
done:
    icl_text_release(&file);
    return status;
}

icl_status icl_figure_file(const icl_drawing *drawing, const char *name, const char *suffix, const icl_text *content,
                           icl_error *error) {
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(path_of(drawing, name, suffix, &path, error));
    ICL_TRY(icl_file_write(path, content->bytes ? content->bytes : "", content->length, error));
done:
    icl_free(&path);
    return status;
}

icl_status icl_script_finish(icl_text *script, const icl_drawing *drawing, const char *name, icl_error *error) {
    static const char *const pictures[] = {".svg", ".png"};
    icl_text file = {0};
    char *old = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(script, error, "unset output\n}\n"));
    ICL_TRY(icl_figure_file(drawing, name, ".gp", script, error));
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        ICL_TRY(path_of(drawing, name, pictures[i], &old, error));
        (void)remove(old);
        icl_free(&old);
    }
    ICL_TRY(icl_text_print(&file, error, "%s.gp", name));
    if (drawing->draw)
        ICL_TRY(drawing->draw(drawing->user, drawing->folder, file.bytes, error));
done:
    icl_free(&old);
    icl_text_release(&file);
    return status;
}
