/* What a Python is called: by the script that it runs. */
#include "client/wire/internal.h"
#include "client/wire/places.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PARENTS = 8 };

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Of the words of a Python's command line what it runs: a script, a module, or NULL. */
static const char *script_of(const char *words, size_t n, bool *of_its_parent)
{
    const char *end = words + n, *word = words + strlen(words) + 1;
    for (; word < end && *word; word += strlen(word) + 1) {
        const char *next = word + strlen(word) + 1;
        if (word[0] != '-') return last_part(word);
        if (strcmp(word, "-m") == 0) return next < end && *next ? next : NULL;
        if (strcmp(word, "-c") == 0) {
            *of_its_parent = next < end && strncmp(next, "from multiprocessing", 20) == 0;
            return NULL;
        }
        if (strcmp(word, "-W") == 0 || strcmp(word, "-X") == 0) word = next;
        if (word >= end) break;
    }
    return NULL;
}

bool td_python_script(pid_t pid, char *out, size_t size)
{
    char words[1024];
    td_relative p;
    for (int i = 0; i < MOST_PARENTS && pid > 0; i++, pid = td_relative_look(pid, &p) ? p.parent : 0) {
        bool of_its_parent = false;
        size_t n = td_process_file(pid, "cmdline", words, sizeof words);
        bool python = strncmp(last_part(words), "python", 6) == 0;
        const char *script = python ? script_of(words, n, &of_its_parent) : NULL;
        if (of_its_parent) continue; /* a child that multiprocessing spawned */
        if (script) snprintf(out, size, "%s", script);
        return script != NULL;
    }
    return false;
}
