/* Text: the files of a corpus, and predictions of the next byte by counts of byte strings and by trees of contexts. */
#ifndef ICLAB_TASK_TEXT_H
#define ICLAB_TASK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* ---- Files of text, read in pieces (corpus.c) ---- */

typedef struct icl_corpus_file icl_corpus_file;

/* Regular files, one after the other, as one sequence of bytes. They are never held in memory, nor open between two
 * reads. */
typedef struct icl_corpus {
    uint64_t size;          /* bytes of all files */
    uint64_t hash;          /* of these bytes (FNV-1a, 64 bits) */
    bool is_utf8;           /* whether they are valid UTF-8 */
    icl_corpus_file *files; /* [count], private */
    size_t count, capacity;
} icl_corpus;

/* Finds the files: a comma-separated list of files and folders; a folder stands for the files in it, in the order of
 * their names by bytes, without those whose names begin with a dot. Reads all of them once, for the hash. Messages
 * call the list `what`. ICL_ERROR_INPUT if a name is missing or is no regular file, ICL_ERROR_IO if one cannot be
 * read. */
icl_status icl_corpus_open(const char *list, const char *what, icl_corpus **corpus, icl_error *error);

/* Sets *corpus to NULL; NULL is allowed. */
void icl_corpus_close(icl_corpus **corpus);

/* Reads `count` bytes from byte `first` on, which must be there (asserted). Any number of threads may read.
 * ICL_ERROR_IO if a file is gone, or is not as it was found: another file, another size or another time of change. */
icl_status icl_corpus_read(const icl_corpus *corpus, uint64_t first, size_t count, unsigned char *bytes,
                           icl_error *error);

/* ---- Counts of byte strings (text.c) ---- */

/* The number of bytes, and the largest order: how many bytes before it predict a byte. */
enum { ICL_BYTES = 256, ICL_MOST_ORDER = 6 };

/* The most strings that are counted, and the bytes of memory that they take. */
#define ICL_MOST_STRINGS      ((size_t)1 << 23)
#define ICL_BYTES_OF_A_STRING ((size_t)28)

typedef struct icl_string_node icl_string_node;

/* Counts of the strings of at most order + 1 bytes that a text holds. */
typedef struct icl_ngrams {
    uint64_t counted;       /* bytes that were counted */
    size_t strings;         /* different ones */
    size_t order, most;     /* of icl_ngrams_create; the rest is private */
    icl_string_node *nodes; /* [room]; the first one is the empty string */
    uint32_t *table;        /* [slots], the number of a node; 0: free */
    size_t room, slots;     /* slots, a power of two, are twice as many */
    size_t active;          /* the contexts of the next byte, of 0 … active - 1 bytes */
    uint32_t contexts[ICL_MOST_ORDER + 1];
    bool is_full;
} icl_ngrams;

/* Creates counts of nothing. `most` strings at most are counted, from 1 to ICL_MOST_STRINGS. */
icl_status icl_ngrams_create(size_t order, size_t most, icl_ngrams **ngrams, icl_error *error);
void icl_ngrams_destroy(icl_ngrams **ngrams);

/* Forgets all strings, and what stood last. */
void icl_ngrams_clear(icl_ngrams *ngrams);

/* Counts the strings that end with this byte, after those that came before. Once there is no room for the new strings
 * of another byte, counts nothing more. ICL_ERROR_MEMORY. */
icl_status icl_ngrams_add(icl_ngrams *ngrams, unsigned char byte, icl_error *error);

/*
 * Writes p [256], the probabilities of the byte after a context of `length` bytes, of which the last k, at most
 * `order`, count, by interpolation (Witten, Bell 1991, method C):
 *     p_-1(s) = 1 / 256,   p_k(s) = (c(h s) + t(h) p_(k-1)(s)) / (n(h) + t(h)),   h the last k bytes of the context
 * with c the count of a string, n(h) the sum of c(h s) over s, t(h) the number of different s after h; p_k = p_(k-1)
 * where n(h) = 0.
 */
void icl_ngrams_predict(const icl_ngrams *ngrams, const unsigned char *context, size_t length, size_t order,
                        double p[ICL_BYTES]);

/* ---- Bayes over trees of contexts, which learn while they predict (byte_trees.c) ---- */

/* The most contexts that are kept, and the bytes of memory that they take. */
#define ICL_MOST_CONTEXTS      ((size_t)1 << 22)
#define ICL_BYTES_OF_A_CONTEXT ((size_t)32)

typedef struct icl_tree_node icl_tree_node;

/*
 * Context-tree weighting of bytes (Willems, Shtarkov, Tjalkens 1995; of text as bits, Tjalkens, Volf, Willems 1997). A
 * byte is eight binary decisions, the highest bit first; each of the 255 decisions, named by the bits before it, has a
 * tree of contexts of its own, whose node of d bytes stands for the d bytes before. A node is a leaf with probability
 * 1/2, and at depth D always; a leaf's decisions have one probability ~ Beta(1/2, 1/2), so that after a zeros and b
 * ones the next is 1 with probability (b + 1/2) / (a + b + 1). With P_e(s) the probability of what came behind s if s
 * is a leaf,
 *
 *     P_w(s) = 1/2 P_e(s) + 1/2 prod_c P_w(c s),   P_w = P_e at depth D
 *
 * Behind a context that reaches before the beginning, or for which there is no room, both decisions are equally likely.
 */
typedef struct icl_byte_trees {
    size_t depth, most;   /* D, and the most contexts */
    size_t contexts;      /* those that are kept; the roots are the first 255 */
    icl_tree_node *nodes; /* [room], number 0 is none; the rest is private */
    uint32_t *table;      /* [slots], the number of a node; 0: free */
    size_t room, slots;   /* slots, a power of two, are twice as many */
} icl_byte_trees;

/* The calls that build trees and ask them. */
typedef struct icl_byte_trees_functions {
    /* Creates trees that know nothing. `most` contexts at most are kept, from 256 to ICL_MOST_CONTEXTS; the depth is
     * ICL_MOST_ORDER or less. */
    icl_status (*create)(size_t depth, size_t most, icl_byte_trees **trees, icl_error *error);
    void (*destroy)(icl_byte_trees **trees);

    /* Forgets everything. */
    void (*clear)(icl_byte_trees *trees);

    /* Takes in the byte behind a context of `length` bytes, of which the last D count. ICL_ERROR_MEMORY. */
    icl_status (*add)(icl_byte_trees *trees, const unsigned char *context, size_t length, unsigned char byte,
                      icl_error *error);

    /* Writes p [256], the probabilities of the byte behind a context of `length` bytes. */
    void (*predict)(const icl_byte_trees *trees, const unsigned char *context, size_t length, double p[ICL_BYTES]);
} icl_byte_trees_functions;

extern const icl_byte_trees_functions icl_trees;

#endif
