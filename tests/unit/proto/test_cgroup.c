/* What control groups grant, read from made-up trees of files: both versions, nested groups, containers. */
#include "proto/base/cgroup.h"
#include "tests/unit/cunit_main.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void make(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(whole, 0700);
    }
    FILE *f = fopen(whole, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs(text, f);
    fclose(f);
}

static void begin(const char *groups)
{
    snprintf(root, sizeof root, "/tmp/tensord-groups-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
    make("proc/self/cgroup", groups);
}

static int gone(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void end(void)
{
    CU_ASSERT_EQUAL(nftw(root, gone, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void second_version(void)
{
    begin("0::/user.slice/job\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 0);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 0);
    make("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    make("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 0);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 0);
    make("sys/fs/cgroup/user.slice/memory.max", "3000000\n");
    make("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 3000000);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 2);
    make("sys/fs/cgroup/user.slice/job/memory.max", "4000000\n"); /* more than what it lies in */
    make("sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 3000000);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 1);
    make("sys/fs/cgroup/memory.max", "2000000\n"); /* a container's top */
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 2000000);
    end();
}

static void first_version(void)
{
    begin("12:pids:/x\n4:memory:/batch/job\n3:cpu,cpuacct:/batch\n1:name=systemd:/\n");
    make("sys/fs/cgroup/pids/x/memory.limit_in_bytes", "1\n"); /* not of this one's */
    make("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "-1\n");
    make("sys/fs/cgroup/cpu/batch/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 0);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 0);
    make("sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "5000000000\n");
    make("sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "300000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 5000000000);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 3);
    make("sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes", "4000000000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 4000000000);
    end();
}

/* The path is the host's, and the container sees only itself, at the top. */
static void in_a_container(void)
{
    begin("4:memory:/docker/0123\n3:cpu:/docker/0123\n0::/\n");
    make("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n");
    make("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    make("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 1000000000);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 2);
    make("sys/fs/cgroup/memory.max", "900000000\n"); /* a host with both */
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 900000000);
    end();
}

static void nothing_to_read(void)
{
    begin("nonsense\n::\n4:memory\n0::/a\n");
    make("sys/fs/cgroup/a/memory.max", "\n");
    make("sys/fs/cgroup/a/cpu.max", "100000\n");
    CU_ASSERT_EQUAL(td_cgroup_memory(root), 0);
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 0);
    make("sys/fs/cgroup/a/cpu.max", "100000 0\n");
    CU_ASSERT_EQUAL(td_cgroup_processors(root), 0);
    CU_ASSERT_EQUAL(td_cgroup_memory("/nowhere at all"), 0);
    end();
}

TD_CUNIT_MAIN("proto_cgroup", {"the second version", second_version}, {"the first version", first_version},
              {"in a container", in_a_container}, {"nothing to read", nothing_to_read})
