/* Fuzzes what reads files that other programs wrote: the directory of a zip file and what is deflated in it, pickles,
 * headers of safetensors and of NumPy's arrays, the tensors and storages that these describe, and the bytes; programs
 * beside them, and the modules and the code of TorchScript's archives. Nothing may crash, leak, or reach outside of the
 * file; of what is accepted every tensor lies within its storage, and every storage within the file. */
#include "client/files/file.h"
#include "client/files/programs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const td_file *t, size_t size)
{
    td_error e;
    for (uint32_t i = 0; i < t->nstorages; i++) {
        const td_stored *s = t->storages[i];
        size_t bytes = (size_t)s->numel * td_dtype_size(s->dtype);
        uint64_t there = s->packed ? s->packed : s->narrow ? s->numel : bytes;
        assert(s->found && s->at <= size && there <= size - s->at);
        assert(!s->packed || bytes + s->skip <= UINT64_C(1) << 30);
        void *to = malloc(bytes + 1);
        if (to) td_file_read(t, s, to, &e); /* the checksum may be wrong */
        free(to);
    }
    for (uint32_t i = 0; i < t->ntensors; i++) {
        const td_file_tensor *x = &t->tensors[i];
        assert(x->storage < t->nstorages);
        const td_stored *s = t->storages[x->storage];
        assert(td_desc_check(&x->desc, s->numel * td_dtype_size(s->dtype), &e) == 0);
    }
}

/* As td_load() reads it; `programs`: as for a program. */
static void read_tensors(int fd, size_t size, bool programs)
{
    td_file t = {.skip = size & 1, .programs = programs};
    td_error e = {0};
    int rc = td_file_open(&t, fd, &e);
    assert(rc == 0 || (e.code == rc && e.message[0]));
    if (rc == 0) walk(&t, size);
    for (uint32_t i = 0; rc == 0 && t.modules && i + 1 < t.root->n; i += 2) {
        assert(t.root->items[i + 1]->made == TD_MADE_TENSOR);
        assert(strcmp(t.tensors[t.root->items[i + 1]->i].name, t.root->items[i]->text) == 0);
    }
    td_file_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    td_error e = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return 0;
    if (write(fd, data, size) == (ssize_t)size) {
        td_filed_all programs;
        read_tensors(fd, size, false);
        read_tensors(fd, size, true);
        int rc = td_filed_read(fd, &programs, &e);
        assert(rc == 0 || e.message[0]);
        td_filed_free(&programs);
    }
    close(fd);
    return 0;
}
