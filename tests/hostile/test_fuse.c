/* Files whose reading depends on another process: a FUSE file system of the test's own, which answers properly or not
 * at all. It lives in a mount namespace of a child and goes with it.
 *
 * What is on it is refused; while its server hangs, the daemon's loop, the imports of others and the end of the very
 * session that waits for it go on. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the file system: one file of a page */

static int device;
static atomic_bool hang;
static char directory[] = "/tmp/tensord-fuse-XXXXXX";

static void answer(const struct fuse_in_header *q, int error, const void *what, size_t n)
{
    struct fuse_out_header h = {.len = (uint32_t)(sizeof h + n), .error = error, .unique = q->unique};
    struct iovec v[2] = {{&h, sizeof h}, {(void *)what, n}};
    if (writev(device, v, 2) < 0 && errno == ENODEV) atomic_store(&hang, true);
}

static struct fuse_attr attributes(uint64_t node)
{
    return (struct fuse_attr){
        .ino = node, .size = node == 2 ? 4096 : 0, .mode = node == 2 ? S_IFREG | 0644 : S_IFDIR | 0755, .nlink = 1};
}

static void serve(const struct fuse_in_header *q)
{
    static const char page[4096];
    struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096, .max_pages = 1};
    struct fuse_entry_out entry = {.nodeid = 2, .entry_valid = 100, .attr = attributes(2)};
    struct fuse_attr_out attr = {.attr = attributes(q->nodeid)};
    struct fuse_open_out opened = {.fh = 1};
    struct fuse_statfs_out statfs = {.st = {.bsize = 4096, .namelen = 255}};
    switch (q->opcode) {
    case FUSE_INIT: answer(q, 0, &init, sizeof init); break;
    case FUSE_LOOKUP: answer(q, 0, &entry, sizeof entry); break;
    case FUSE_GETATTR: answer(q, 0, &attr, sizeof attr); break;
    case FUSE_OPEN: answer(q, 0, &opened, sizeof opened); break;
    case FUSE_STATFS: answer(q, 0, &statfs, sizeof statfs); break;
    case FUSE_READ: answer(q, 0, page, sizeof page); break;
    case FUSE_RELEASE:
    case FUSE_FLUSH: answer(q, 0, NULL, 0); break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: break;
    default: answer(q, -ENOSYS, NULL, 0);
    }
}

static void *server(void *unused)
{
    static _Alignas(8) char buffer[FUSE_MIN_READ_BUFFER + 8192];
    for (;;) {
        ssize_t n = read(device, buffer, sizeof buffer);
        if (n < 0 && errno == ENODEV) return unused; /* unmounted */
        if (n >= (ssize_t)sizeof(struct fuse_in_header) && !atomic_load(&hang)) serve((void *)buffer);
    }
}

/* The file, open; -1 when this machine grants no FUSE. */
static int mount_and_open(pthread_t *thread)
{
    char options[96], path[64];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0 || !mkdtemp(directory)) return -1;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tensord-test", directory, "fuse", MS_NOSUID | MS_NODEV, options)) {
        rmdir(directory);
        return -1;
    }
    pthread_create(thread, NULL, server, NULL);
    snprintf(path, sizeof path, "%s/file", directory);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void unmount(pthread_t thread, int fd)
{
    umount2(directory, MNT_FORCE); /* whoever waits gets an error */
    close(fd);
    umount2(directory, MNT_DETACH);
    pthread_join(thread, NULL);
    rmdir(directory);
}

/* ---- imports */

static uint64_t import(raw *r, bool announce, uint32_t id, int fd)
{
    Td__Wire__Call c;
    Td__Wire__Import i;
    Td__Wire__Desc desc;
    int64_t n = 1024;
    td__wire__call__init(&c);
    td__wire__import__init(&i);
    td__wire__desc__init(&desc);
    desc.dtype = TD_FLOAT32;
    desc.n_shape = 1;
    desc.shape = &n;
    i.announce = announce;
    i.id = id;
    i.desc = announce ? NULL : &desc;
    c.import = &i;
    c.serial = ++r->serial;
    uint8_t b[128];
    size_t size = td__wire__call__pack(&c, b + TD_FRAME_HEADER);
    td_frame_put_header(b, (uint32_t)size, TD_FRAME_CALL, fd >= 0);
    return raw_bytes_fds(r, b, size + TD_FRAME_HEADER, &fd, fd >= 0) ? c.serial : 0;
}

static bool announced(raw *r)
{
    Td__Wire__Reply *x = import(r, true, 0, -1) ? raw_reply(r, TEST_LONG_MS) : NULL;
    return x && !x->error;
}

static int refused(void)
{
    pthread_t thread;
    raw r;
    int fd = mount_and_open(&thread), rc = 1;
    if (fd < 0) return 98;
    if (raw_open(&r, d.socket) && announced(&r) && import(&r, false, 1, fd)) {
        Td__Wire__Reply *x = raw_reply(&r, TEST_LONG_MS);
        rc = x && x->error && x->error->code == TD_E_UNSUPPORTED && strstr(x->error->message, "FUSE") ? 0 : 2;
    }
    raw_close(&r);
    unmount(thread, fd);
    return rc;
}

/* 0, or the number of what went wrong. */
static int go_on(raw *other, int memory)
{
    for (int i = 0; i < 20; i++)
        if (raw_status(other, "pid") <= 0) return 3;
    if (!announced(other) || !import(other, false, 7, memory)) return 4;
    Td__Wire__Reply *x = raw_reply(other, TEST_LONG_MS);
    return x && !x->error ? 0 : 5;
}

static int hanging(void)
{
    pthread_t thread;
    raw r, other;
    int memory = memfd_create("fuse", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd = mount_and_open(&thread);
    if (fd < 0) return 98;
    bool ok = !ftruncate(memory, 4096) && !fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) && raw_open(&r, d.socket) &&
              raw_open(&other, d.socket) && announced(&r);
    atomic_store(&hang, true);
    int rc = ok && import(&r, false, 1, fd) ? 0 : 2;
    if (raw_reply(&r, 100)) rc = 8; /* it should hang */
    if (!rc) rc = go_on(&other, memory);
    int64_t sessions = raw_status(&other, "sessions");
    raw_close(&r); /* its session ends, though its descriptor hangs */
    for (int i = 0; i < TEST_LONG_MS / 5 && raw_status(&other, "sessions") >= sessions; i++) test_sleep_ms(5);
    if (!rc && raw_status(&other, "sessions") >= sessions) rc = 6;
    raw_close(&other);
    unmount(thread, fd);
    return rc;
}

static void in_a_child(int (*child)(void))
{
    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK)) {
        td_test_skip("only root may mount, and only where there is FUSE");
        return;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(child());
    int status = -1;
    waitpid(pid, &status, 0);
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (rc == 98) {
        td_test_skip("this machine mounts no FUSE");
        return;
    }
    CU_ASSERT_EQUAL(rc, 0);
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
    CU_ASSERT_TRUE(test_daemon_alive(&d));
}

static void a_file_is_refused(void)
{
    in_a_child(refused);
}

static void a_server_that_hangs(void)
{
    in_a_child(hanging);
}

static int start(void)
{
    return counted_start("64M", "2");
}

int main(int argc, char **argv)
{
    static const td_test tests[] = {{"a file is refused", a_file_is_refused},
                                    {"a server that hangs", a_server_that_hangs}};
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("fuse", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
