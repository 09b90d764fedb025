/*
 * Embeds OpenCL kernels: embed OUTPUT.c INPUT.cl ...
 *
 * Writes one C file that holds each input as a byte array and the table icl_kernel_sources of
 * src/backend/opencl/sources.h. Local includes (#include "x.h") are resolved here, each once for each input, so that no
 * include path reaches a driver's compiler; #line keeps its messages pointing at the right file. A kernel name that
 * occurs twice is an error. Runs on the build machine; standard C alone.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *data;
    size_t size, capacity;
} text;

typedef struct names {
    char **items;
    size_t count;
} names;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("embed: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *grow(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (!memory)
        fail("no memory for %zu bytes", size);
    return memory;
}

static void append(text *to, const char *data, size_t size) {
    if (!to->data || to->size + size + 1 > to->capacity) {
        to->capacity = 2 * (to->size + size + 1);
        to->data = grow(to->data, to->capacity);
    }
    memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = '\0';
}

static void add_name(names *to, const char *name, size_t length) {
    to->items = grow(to->items, (to->count + 1) * sizeof *to->items);
    to->items[to->count] = grow(NULL, length + 1);
    memcpy(to->items[to->count], name, length);
    to->items[to->count++][length] = '\0';
}

static int has_name(const names *in, const char *name, size_t length) {
    for (size_t i = 0; i < in->count; i++)
        if (strlen(in->items[i]) == length && memcmp(in->items[i], name, length) == 0)
            return 1;
    return 0;
}

static void free_names(names *all) {
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i]);
    free(all->items);
}

static text read_file(const char *path) {
    text file = {0};
    char block[4096];
    size_t got;
    FILE *stream = fopen(path, "rb");

    if (!stream)
        fail("%s: %s", path, strerror(errno));
    append(&file, "", 0);
    while ((got = fread(block, 1, sizeof block, stream)) > 0)
        append(&file, block, got);
    if (ferror(stream))
        fail("%s: %s", path, strerror(errno));
    fclose(stream);
    return file;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/'), *backslash = strrchr(path, '\\');
    const char *last = slash > backslash ? slash : backslash;
    return last ? last + 1 : path;
}

/* The name between the quotes of a local include, or NULL when the line is something else. */
static const char *local_include(const char *line, size_t length, size_t *name_length) {
    static const char directive[] = "#include \"";
    const char *start = line + sizeof directive - 1, *end;
    if (length < sizeof directive || strncmp(line, directive, sizeof directive - 1) != 0)
        return NULL;
    end = memchr(start, '"', length - (sizeof directive - 1));
    *name_length = end ? (size_t)(end - start) : 0;
    return end ? start : NULL;
}

static void append_line_directive(text *to, unsigned line, const char *path) {
    char directive[512];
    const int length = snprintf(directive, sizeof directive, "#line %u \"%s\"\n", line, base_name(path));
    append(to, directive, (size_t)length);
}

/* The path of a file that another one includes: in that one's folder, "dir/../" left out, so that a file has one name
 * whoever includes it. */
static text resolve(const char *from, const char *name, size_t length) {
    text path = {0};
    char *up;

    append(&path, from, (size_t)(base_name(from) - from));
    append(&path, name, length);
    up = path.data;
    while ((up = strstr(up, "/../"))) {
        char *folder = up;
        while (folder > path.data && folder[-1] != '/')
            folder--;
        if (strncmp(folder, "../", 3) == 0) { /* leads out of where we are, and stays */
            up += 3;
            continue;
        }
        memmove(folder, up + 4, strlen(up + 4) + 1);
        up = path.data;
    }
    path.size = strlen(path.data);
    return path;
}

/* Appends a file with its local includes in place. */
static void expand(const char *path, names *included, text *to) {
    text file = read_file(path);
    const char *line = file.data, *end = file.data + file.size;

    append_line_directive(to, 1, path);
    for (unsigned number = 1; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t length = newline ? (size_t)(newline - line) + 1 : (size_t)(end - line);
        size_t name_length;
        const char *name = local_include(line, length, &name_length);
        if (!name) {
            append(to, line, length);
        } else {
            text inner = resolve(path, name, name_length);
            if (has_name(included, inner.data, inner.size)) {
                append(to, "\n", 1);
            } else {
                add_name(included, inner.data, inner.size);
                expand(inner.data, included, to);
                append_line_directive(to, number + 1, path);
            }
            free(inner.data);
        }
        line += length;
    }
    free(file.data);
}

/* The next identifier or single character after position *at, comments and white space left out; its length,
 * 0 at the end. */
static size_t next_token(const text *source, size_t *at) {
    const char *s = source->data;
    for (;;) {
        while (isspace((unsigned char)s[*at]))
            ++*at;
        if (s[*at] == '/' && s[*at + 1] == '*') {
            const char *end = strstr(s + *at + 2, "*/");
            *at = end ? (size_t)(end + 2 - s) : source->size;
        } else if (s[*at] == '/' && s[*at + 1] == '/') {
            *at += strcspn(s + *at, "\n");
        } else {
            break;
        }
    }
    if (*at >= source->size)
        return 0;
    if (!isalnum((unsigned char)s[*at]) && s[*at] != '_')
        return 1;
    size_t length = 0;
    while (isalnum((unsigned char)s[*at + length]) || s[*at + length] == '_')
        length++;
    return length;
}

static int is(const text *source, size_t at, size_t length, const char *word) {
    return strlen(word) == length && memcmp(source->data + at, word, length) == 0;
}

/* Notes every kernel's name: the identifier before the first parenthesis after __kernel that is no attribute's. */
static void collect_kernels(const text *source, const char *path, names *kernels) {
    size_t at = 0, length;
    while ((length = next_token(source, &at)) > 0) {
        const int starts = is(source, at, length, "__kernel");
        size_t name = at, name_length = 0;
        int depth = 0, attribute = 0;
        at += length;
        while (starts && (length = next_token(source, &at)) > 0) {
            const char c = source->data[at];
            if (c == '(' && !attribute && depth == 0)
                break;
            depth += (c == '(') - (c == ')');
            if (is(source, at, length, "__attribute__"))
                attribute = 1;
            else if (depth == 0 && c == ')')
                attribute = 0;
            else if (depth == 0)
                name = at, name_length = length;
            at += length;
        }
        if (!starts)
            continue;
        if (has_name(kernels, source->data + name, name_length))
            fail("%s: kernel %.*s exists already", path, (int)name_length, source->data + name);
        add_name(kernels, source->data + name, name_length);
    }
}

/* FNV-1a, 64 bits. */
static unsigned long long hash_of(const text *source) {
    unsigned long long hash = 14695981039346656037ULL;
    for (size_t i = 0; i < source->size; i++)
        hash = (hash ^ (unsigned char)source->data[i]) * 1099511628211ULL;
    return hash;
}

static void write_bytes(FILE *out, size_t index, const text *source) {
    fprintf(out, "static const unsigned char source_%zu[] = {", index);
    for (size_t i = 0; i < source->size; i++)
        fprintf(out, "%s%u,", i % 24 ? "" : "\n", (unsigned)(unsigned char)source->data[i]);
    fprintf(out, "\n0};\n");
}

int main(int argc, char **argv) {
    names kernels = {0};
    text table = {0};
    FILE *out;

    if (argc < 3)
        fail("usage: embed OUTPUT.c INPUT.cl ...");
    out = fopen(argv[1], "wb");
    if (!out)
        fail("%s: %s", argv[1], strerror(errno));
    fprintf(out, "/* Written by tools/embed.c from cl/. Do not edit. */\n#include \"backend/opencl/sources.h\"\n\n");
    for (int i = 2; i < argc; i++) {
        text source = {0};
        names included = {0};
        char row[256];
        const char *name = base_name(argv[i]);
        expand(argv[i], &included, &source);
        collect_kernels(&source, argv[i], &kernels);
        write_bytes(out, (size_t)i - 2, &source);
        append(&table, row,
               (size_t)snprintf(row, sizeof row, "    {\"%.*s\", source_%d, %zu, 0x%016llxULL},\n",
                                (int)strcspn(name, "."), name, i - 2, source.size, hash_of(&source)));
        free(source.data);
        free_names(&included);
    }
    fprintf(out, "\nconst icl_kernel_source icl_kernel_sources[] = {\n%s};\n", table.data);
    fprintf(out, "const size_t icl_kernel_source_count = %d;\n", argc - 2);
    free(table.data);
    free_names(&kernels);
    if (ferror(out) | (fclose(out) != 0))
        fail("%s: %s", argv[1], strerror(errno));
    return 0;
}
