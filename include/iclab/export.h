/* Marks that public declarations carry: which symbols the shared library shows, and C linkage in C++ programs. */
#ifndef ICLAB_EXPORT_H
#define ICLAB_EXPORT_H

/* ICL_API: a function that the shared library shows. ICL_PLUGIN_API: one that a file of families shows (families.h).
 * ICL_PRINTF: one that takes a format and its arguments, counted from 1. */
#if defined(__GNUC__) || defined(__clang__)
#define ICL_API                                  __attribute__((visibility("default")))
#define ICL_PLUGIN_API                           __attribute__((visibility("default")))
#define ICL_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define ICL_API
#define ICL_PLUGIN_API
#define ICL_PRINTF(format_index, first_argument)
#endif

/* These two enclose the declarations of each public header. */
#ifdef __cplusplus
#define ICL_C_BEGIN extern "C" {
#define ICL_C_END   }
#else
#define ICL_C_BEGIN
#define ICL_C_END
#endif

#endif
