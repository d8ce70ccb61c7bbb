/* Descriptors that clients bring: sealed memory is mapped, files are read, everything else is refused with a reason and
 * closed.
 *
 * After each test the daemon must be alive, serve a new client, and hold exactly the sessions, objects, bytes and
 * descriptors that it held before; none of it may have held the loop up. */
#include "client/tensord.h"
#include "tests/hostile/counted.h"
#include "tests/unit/cunit_main.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int start(void)
{
    return counted_start("64M", "2");
}

static int memory(size_t bytes, int seals)
{
    int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CU_ASSERT_EQUAL_FATAL(ftruncate(fd, (off_t)bytes), 0);
    if (seals) CU_ASSERT_EQUAL_FATAL(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* A file without a name in the build's or the system's temporary directory, holding floats 0, 1, 2, ... */
static int file_of(int n, int flags)
{
    char path[] = "/var/tmp/tensord-import-XXXXXX";
    int fd = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    for (int i = 0; i < n; i++) {
        float v = (float)i;
        CU_ASSERT_EQUAL_FATAL(write(fd, &v, sizeof v), (ssize_t)sizeof v);
    }
    int again = open(path, flags | O_CLOEXEC);
    unlink(path);
    close(fd);
    return again;
}

/* ---- through the library */

static td_client *join(void)
{
    td_clear_error();
    td_client *c = td_connect(d.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    return c;
}

/* Values, without what it takes to get them. */
static double at(td_array *x, int64_t i)
{
    td_scope s;
    td_scope_begin(&s);
    double v = td_item_f64(td_select(td_reshape(x, td_dims(-1)), 0, i));
    td_scope_end(&s);
    return v;
}

static double total(td_array *x)
{
    td_array *sum = td_sum(x);
    double v = td_item_f64(sum);
    td_release(sum);
    return v;
}

static int code_of_import(td_client *c, int fd, size_t offset, td_ints shape)
{
    td_clear_error();
    td_array *a = td_import(c, fd, offset, TD_FLOAT32, shape);
    td_release(a);
    return a ? TD_OK : td_last_error()->code;
}

static void memory_is_mapped(void)
{
    td_client *c = join();
    int fd = memory(20000, F_SEAL_SHRINK);
    float *p = mmap(NULL, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 5000; i++) p[i] = (float)i;
    td_array *x = td_import(c, fd, 4096, TD_FLOAT32, td_dims(2, 1000));
    close(fd);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_EQUAL(at(x, 1999), 1024 + 1999);
    p[1024] = -7; /* the very bytes */
    CU_ASSERT_EQUAL(at(x, 0), -7);
    CU_ASSERT_EQUAL(td_fill_(x, 5), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(p[1024], 5);
    CU_ASSERT_EQUAL(p[1023], 1023);
    CU_ASSERT_EQUAL(p[1024 + 2000], 1024 + 2000);
    const float *seen = td_data(x);
    CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
    CU_ASSERT_EQUAL(seen[1999], 5);
    CU_ASSERT_EQUAL(td_publish(x, "imported", 0), TD_OK);
    td_client *other = join();
    td_array *y = td_open(other, "imported", 0);
    CU_ASSERT_EQUAL(total(y), 10000);
    CU_ASSERT_EQUAL(td_drop(other, "imported"), TD_OK);
    td_release(y);
    td_disconnect(other);
    td_release(x);
    td_disconnect(c);
    munmap(p, 20000);
    back_to_normal();
}

static void read_only_memory(void)
{
    td_client *c = join();
    for (int how = 0; how < 2; how++) {
        int fd = memory(4096, F_SEAL_SHRINK | (how ? F_SEAL_WRITE : 0));
        if (!how) {
            char path[32];
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            int again = open(path, O_RDONLY | O_CLOEXEC);
            close(fd);
            fd = again;
        }
        td_array *x = td_import(c, fd, 0, TD_FLOAT32, td_dims(1024));
        close(fd);
        CU_ASSERT_EQUAL(total(x), 0);
        td_clear_error();
        td_add_(x, 1);
        CU_ASSERT_EQUAL(td_sync(c), TD_E_PERMISSION);
        td_clear_error();
        td_fill_(x, 1);
        CU_ASSERT_EQUAL(td_sync(c), TD_E_PERMISSION);
        td_clear_error();
        CU_ASSERT_PTR_NULL(td_write_begin(x, 100));
        CU_ASSERT_EQUAL(td_last_error()->code, TD_E_PERMISSION);
        td_array *y = td_add(x, 1);
        CU_ASSERT_EQUAL(total(y), 1024);
        td_release(y);
        td_release(x);
    }
    td_disconnect(c);
    back_to_normal();
}

static void files_are_read(void)
{
    td_client *c = join();
    int fd = file_of(100000, O_RDONLY);
    lseek(fd, 12, SEEK_SET);
    td_array *x = td_import(c, fd, 40, TD_FLOAT32, td_dims(99990));
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 12); /* its position is the caller's */
    CU_ASSERT_EQUAL(at(x, 0), 10);
    CU_ASSERT_EQUAL(at(x, 99989), 99999);
    CU_ASSERT_EQUAL(td_add_(x, 1), TD_OK); /* a copy: the file is left alone */
    CU_ASSERT_EQUAL(at(x, 0), 11);
    float v = 0;
    CU_ASSERT_EQUAL(pread(fd, &v, sizeof v, 40), (ssize_t)sizeof v);
    CU_ASSERT_EQUAL(v, 10);
    td_release(x);
    CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(0)), TD_OK);
    close(fd);
    td_disconnect(c);
    back_to_normal();
}

/* The bytes of a busy connection go through a ring; descriptors go on over its socket. */
static void on_a_busy_connection(void)
{
    td_client *c = join();
    raw looker;
    CU_ASSERT_TRUE(raw_open(&looker, d.socket));
    for (int i = 0; i < 5000 && raw_status(&looker, "rings") < 1; i++)
        for (int k = 0; k < 100; k++) td_sync(c);
    CU_ASSERT_EQUAL(raw_status(&looker, "rings"), 1);
    raw_close(&looker);
    int fds[2] = {memory(4096, F_SEAL_SHRINK), file_of(1024, O_RDONLY)}, unsealed = memory(4096, 0);
    for (int i = 0; i < 40; i++) {
        td_array *y = td_ones(c, td_dims(1024), TD_FLOAT32);
        td_array *x = td_import(c, fds[i % 2], 0, TD_FLOAT32, td_dims(1024));
        CU_ASSERT_PTR_NOT_NULL_FATAL(x);
        td_array *sum = td_add(x, y);
        CU_ASSERT_EQUAL(total(sum), i % 2 ? 1024 + 1023 * 512 : 1024);
        CU_ASSERT_EQUAL(code_of_import(c, unsealed, 0, td_dims(1)), TD_E_INVALID);
        td_release(sum), td_release(x), td_release(y);
    }
    close(fds[0]), close(fds[1]), close(unsealed);
    td_disconnect(c);
    back_to_normal();
}

/* ---- edges */

static void offsets_and_lengths(void)
{
    td_client *c = join();
    int fds[2] = {memory(4000, F_SEAL_SHRINK), file_of(1000, O_RDONLY)};
    for (int i = 0; i < 2; i++) {
        int fd = fds[i];
        CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(1000)), TD_OK);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 3996, td_dims(1)), TD_OK);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 4000, td_dims(0)), TD_OK);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(1001)), TD_E_INVALID);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 4, td_dims(1000)), TD_E_INVALID);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 4000, td_dims(1)), TD_E_INVALID);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 4004, td_dims(0)), TD_E_INVALID);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 2, td_dims(1)), TD_E_INVALID);
        CU_ASSERT_EQUAL(code_of_import(c, fd, SIZE_MAX - 3, td_dims(1)), TD_E_INVALID);
        CU_ASSERT_EQUAL(code_of_import(c, fd, SIZE_MAX / 2 - 3, td_dims(1)), TD_E_INVALID);
        CU_ASSERT_NOT_EQUAL(code_of_import(c, fd, 0, td_dims(INT64_MAX / 8)), TD_OK);
        CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(1000)), TD_OK); /* and it still works */
        close(fd);
    }
    td_array *one = td_ones(c, td_dims(1), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_item_f64(one), 1);
    td_release(one);
    td_disconnect(c);
    back_to_normal();
}

/* The daemon commits 64 MiB: a sparse file of more must not get past that, nor a client's 65th. */
static void charged_before_it_is_given(void)
{
    td_client *c = join();
    int fd = memory((size_t)1 << 40, F_SEAL_SHRINK);
    CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(1)), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "memory is full"));
    close(fd);
    fd = memory(4096, F_SEAL_SHRINK);
    td_array *x[65];
    for (int i = 0; i < 65; i++) x[i] = td_import(c, fd, 0, TD_FLOAT32, td_dims(1));
    CU_ASSERT_PTR_NOT_NULL(x[63]);
    CU_ASSERT_PTR_NULL(x[64]);
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_QUOTA);
    td_release(x[0]);
    td_clear_error();
    x[0] = td_import(c, fd, 0, TD_FLOAT32, td_dims(1));
    CU_ASSERT_PTR_NOT_NULL(x[0]);
    for (int i = 0; i < 65; i++) td_release(x[i]);
    close(fd);
    td_disconnect(c);
    back_to_normal();
}

/* ---- what is no memory and no file */

static int odd(int kind)
{
    int p[2] = {-1, -1};
    switch (kind) {
    case 0: return open("/dev/zero", O_RDWR | O_CLOEXEC);
    case 1: return memory(4096, 0);                          /* may still be cut */
    case 2: return memory(4096, F_SEAL_GROW | F_SEAL_WRITE); /* the same */
    case 3: return pipe2(p, O_CLOEXEC) ? -1 : (close(p[1]), p[0]);
    case 4: return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) ? -1 : (close(p[1]), p[0]);
    case 5: return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    case 6: return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 7: return open("/", O_PATH | O_CLOEXEC);
    case 8: return file_of(1024, O_WRONLY);
    case 9: return eventfd(0, EFD_CLOEXEC);
    case 10: return pipe2(p, O_CLOEXEC) ? -1 : (close(p[0]), p[1]);
    default: return open("/proc/self/status", O_RDONLY | O_CLOEXEC); /* a regular file of no bytes */
    }
}

static void everything_else_is_refused(void)
{
    td_client *c = join(), *other = join();
    for (int kind = 0; kind < 12; kind++) {
        int fd = odd(kind);
        CU_ASSERT_TRUE_FATAL(fd >= 0);
        uint64_t before = test_now_ms();
        int code = code_of_import(c, fd, 0, td_dims(16));
        if (code != TD_E_INVALID) printf("\n    kind %d: %d %s\n", kind, code, td_last_error()->message);
        CU_ASSERT_EQUAL(code, TD_E_INVALID);
        CU_ASSERT_TRUE(strlen(td_last_error()->message) > 20);
        CU_ASSERT_EQUAL(td_sync(other), TD_OK);
        CU_ASSERT_TRUE(test_now_ms() - before < TEST_LONG_MS);
        close(fd);
    }
    CU_ASSERT_EQUAL(code_of_import(c, -1, 0, td_dims(1)), TD_E_INVALID);
    int fd = memory(4096, F_SEAL_SHRINK);
    CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(16)), TD_OK); /* the connection has lived through all that */
    close(fd);
    td_disconnect(other);
    td_disconnect(c);
    back_to_normal();
}

/* A FIFO that nobody writes to blocks who opens or reads it. */
static void a_fifo(void)
{
    char directory[] = "/var/tmp/tensord-fifo-XXXXXX", path[64];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/fifo", directory);
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    unlink(path);
    rmdir(directory);
    td_client *c = join();
    uint64_t before = test_now_ms();
    CU_ASSERT_EQUAL(code_of_import(c, fd, 0, td_dims(16)), TD_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "pipe"));
    CU_ASSERT_TRUE(test_now_ms() - before < TEST_LONG_MS);
    close(fd);
    td_disconnect(c);
    back_to_normal();
}

/* ---- by hand: what no library would send */

static Td__Wire__Reply *announce(raw *r)
{
    Td__Wire__Call c;
    Td__Wire__Import import;
    td__wire__call__init(&c);
    td__wire__import__init(&import);
    import.announce = true;
    c.import = &import;
    return raw_ask(r, &c);
}

static size_t import_frame(raw *r, uint8_t *b, uint32_t id, uint32_t dtype, int64_t n)
{
    Td__Wire__Call c;
    Td__Wire__Import import;
    Td__Wire__Desc desc;
    td__wire__call__init(&c);
    td__wire__import__init(&import);
    td__wire__desc__init(&desc);
    desc.dtype = dtype;
    desc.n_shape = 1;
    desc.shape = &n;
    import.id = id;
    import.desc = &desc;
    c.import = &import;
    c.serial = ++r->serial;
    size_t size = td__wire__call__pack(&c, b + TD_FRAME_HEADER);
    return size;
}

/* Import with these descriptors attached; the reply's code, or -1 when the connection ended. */
static int import_code(raw *r, uint32_t id, uint32_t dtype, int64_t n, const int *fds, int nfds)
{
    uint8_t b[256];
    size_t size = import_frame(r, b, id, dtype, n);
    td_frame_put_header(b, (uint32_t)size, TD_FRAME_CALL, nfds > 0);
    if (!raw_bytes_fds(r, b, size + TD_FRAME_HEADER, fds, nfds)) return -2;
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    return !x ? -1 : x->error ? (int)x->error->code : 0;
}

static void not_announced(void)
{
    raw r;
    int fd = memory(4096, F_SEAL_SHRINK);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    int code = import_code(&r, 1, TD_FLOAT32, 4, &fd, 1);
    CU_ASSERT_TRUE(code == -1 || code == -2); /* refused by the kernel, or the end */
    raw_close(&r);
    CU_ASSERT_TRUE(raw_open(&r, d.socket)); /* announced, but nothing brought */
    CU_ASSERT_PTR_NOT_NULL(announce(&r));
    CU_ASSERT_EQUAL(import_code(&r, 1, TD_FLOAT32, 4, NULL, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(import_code(&r, 1, TD_FLOAT32, 4, &fd, 1), 0);
    code = import_code(&r, 2, TD_FLOAT32, 4, &fd, 1); /* once only */
    CU_ASSERT_TRUE(code == -1 || code == -2);
    raw_close(&r);
    close(fd);
    back_to_normal();
}

static void too_many_at_once(void)
{
    for (int n = 2; n <= 32; n *= 4) {
        raw r;
        int fds[32];
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_PTR_NOT_NULL(announce(&r));
        for (int i = 0; i < n; i++) fds[i] = memory(4096, F_SEAL_SHRINK);
        CU_ASSERT_EQUAL(import_code(&r, 1, TD_FLOAT32, 4, fds, n), -1);
        for (int i = 0; i < n; i++) close(fds[i]);
        raw_close(&r);
    }
    back_to_normal();
}

/* With a batch, with a call of another kind, with a frame that is never finished. */
static void in_the_wrong_place(void)
{
    int fd = memory(4096, F_SEAL_SHRINK);
    uint8_t b[64];
    for (int kind = 0; kind < 3; kind++) {
        raw r;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_PTR_NOT_NULL(announce(&r));
        td_frame_put_header(b, kind == 2 ? 1000 : 0, kind == 0 ? TD_FRAME_BATCH : TD_FRAME_CALL, 1);
        raw_bytes_fds(&r, b, 8, &fd, 1);
        if (kind == 0) CU_ASSERT_TRUE(raw_ended(&r, TEST_LONG_MS));
        if (kind == 1)
            CU_ASSERT_PTR_NOT_NULL(raw_reply(&r, TEST_LONG_MS)); /* an empty call: unknown, and the descriptor goes */
        if (kind == 1) CU_ASSERT_TRUE(raw_status(&r, "pid") > 0);
        raw_close(&r);
    }
    close(fd);
    back_to_normal();
}

static void wrong_requests(void)
{
    raw r;
    int fd = memory(4096, F_SEAL_SHRINK);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    static const struct {
        uint32_t id, dtype;
        int64_t n;
        int code;
    } cases[] = {{0, TD_FLOAT32, 4, TD_E_INVALID},
                 {TD_MAX_ID + 1, TD_FLOAT32, 4, TD_E_INVALID},
                 {5, 77, 4, TD_E_TYPE},
                 {5, TD_FLOAT32, -4, TD_E_SHAPE},
                 {5, TD_FLOAT32, 4, TD_OK},
                 {5, TD_FLOAT32, 4, TD_E_EXISTS},
                 {6, TD_COMPLEX128, 256, TD_OK},
                 {7, TD_COMPLEX128, 257, TD_E_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CU_ASSERT_PTR_NOT_NULL(announce(&r));
        int code = import_code(&r, cases[i].id, cases[i].dtype, cases[i].n, &fd, 1);
        if (cases[i].code == TD_E_SHAPE) CU_ASSERT_TRUE(code > 0);
        if (cases[i].code != TD_E_SHAPE) CU_ASSERT_EQUAL(code, cases[i].code);
    }
    close(fd);
    raw_close(&r);
    back_to_normal();
}

/* The last close of a socket that lingers waits for its other end: not on the loop. */
static void a_socket_that_lingers(void)
{
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    CU_ASSERT_EQUAL_FATAL(bind(server, (struct sockaddr *)&a, n), 0);
    listen(server, 1);
    getsockname(server, (struct sockaddr *)&a, &n);
    CU_ASSERT_EQUAL_FATAL(connect(client, (struct sockaddr *)&a, n), 0);
    struct linger linger = {1, 2 * TEST_LONG_MS / 1000};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    fcntl(client, F_SETFL, O_NONBLOCK);
    char junk[65536] = {0};
    while (send(client, junk, sizeof junk, MSG_NOSIGNAL) > 0) {
    } /* nobody reads: closing it waits */
    fcntl(client, F_SETFL, 0);
    raw r, taken, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&taken, d.socket));
    CU_ASSERT_PTR_NOT_NULL(announce(&taken));
    CU_ASSERT_PTR_NOT_NULL(announce(&r));
    uint8_t b[8];
    td_frame_put_header(b, 100, TD_FRAME_CALL, 1);
    raw_bytes_fds(&r, b, 8, &client, 1); /* with half a frame: nobody takes it */
    test_sleep_ms(50);
    close(client); /* now the daemon's, or the one on its way there, is the last */
    uint64_t before = test_now_ms();
    raw_close(&r);
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    for (int i = 0; i < 20; i++) CU_ASSERT_TRUE(raw_status(&other, "pid") > 0);
    int fd = memory(4096, F_SEAL_SHRINK);
    CU_ASSERT_EQUAL(import_code(&taken, 1, TD_FLOAT32, 4, &fd, 1), 0); /* imports of others go on */
    close(fd);
    CU_ASSERT_TRUE(test_now_ms() - before < TEST_LONG_MS);
    raw_close(&taken);
    raw_close(&other);
    close(server); /* the lingering ends */
    back_to_normal();
}

static void killed_while_importing(void)
{
    int fd = file_of(200000, O_RDONLY);
    for (int i = 0; i < 100; i++) {
        raw r;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        CU_ASSERT_PTR_NOT_NULL(announce(&r));
        uint8_t b[256];
        size_t size = import_frame(&r, b, 1, TD_FLOAT32, 200000);
        td_frame_put_header(b, (uint32_t)size, TD_FRAME_CALL, 1);
        raw_bytes_fds(&r, b, i % 3 ? size + 8 : size, &fd, 1);
        if (i % 2) test_sleep_ms(1);
        raw_close(&r);
    }
    close(fd);
    back_to_normal();
}

static const td_test tests[] = {
    {"sealed memory is mapped", memory_is_mapped},
    {"memory that may only be read", read_only_memory},
    {"files are read", files_are_read},
    {"on a busy connection", on_a_busy_connection},
    {"offsets and lengths at every edge", offsets_and_lengths},
    {"charged before it is given", charged_before_it_is_given},
    {"everything else is refused", everything_else_is_refused},
    {"a FIFO", a_fifo},
    {"not announced", not_announced},
    {"too many at once", too_many_at_once},
    {"in the wrong place", in_the_wrong_place},
    {"wrong requests", wrong_requests},
    {"a socket that lingers", a_socket_that_lingers},
    {"gone while importing", killed_while_importing},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("import", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
