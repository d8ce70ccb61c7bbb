/* A daemon with a GPU of the fake driver, one client of it, and the driver's log: what suites of CUDA tensors share. */
#ifndef TENSORD_TESTS_CLIENT_TENSOR_CUDA_DAEMON_H
#define TENSORD_TESTS_CLIENT_TENSOR_CUDA_DAEMON_H

#include "tests/client/common.h"
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static test_daemon gpu;
static td_client *c;
static td_scope scope;
static char log_path[64];

static void begin_with(const char *const *options)
{
    snprintf(log_path, sizeof log_path, "/tmp/fake-cuda-client-%d.log", (int)getpid());
    unlink(log_path);
    setenv("FAKE_CUDA_LOG", log_path, 1);
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&gpu, options));
    td_clear_error();
    CU_ASSERT_PTR_NOT_NULL_FATAL(c = td_connect(gpu.socket));
    td_scope_begin(&scope);
}

/* Lines of the log with this word. */
static int logged(const char *word)
{
    char line[600];
    int n = 0;
    FILE *f = fopen(log_path, "r");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, word) != NULL;
    if (f) fclose(f);
    return n;
}

/* The process beside the daemon; 0: there is none. */
static pid_t beside(void)
{
    DIR *d = opendir("/proc");
    pid_t found = 0;
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        char path[300], text[512] = "";
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *f = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (!f) continue;
        const char *behind = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        fclose(f);
        if (behind && sscanf(behind + 1, " %*c %d", &parent) == 1 && parent == gpu.pid) found = atoi(entry->d_name);
    }
    if (d) closedir(d);
    return found;
}

static void end(void)
{
    td_set_device(TD_CPU);
    td_scope_end(&scope);
    td_clear_error();
    CU_ASSERT_TRUE(comes_to(c, "bytes_used_on_cuda:0", 0));
    td_disconnect(c);
    pid_t process = beside();
    CU_ASSERT_EQUAL(test_daemon_stop(&gpu), 0);
    if (process) CU_ASSERT_NOT_EQUAL(kill(process, 0), 0);
    CU_ASSERT_EQUAL(logged("misuse"), 0);
    unlink(log_path);
}

#endif
