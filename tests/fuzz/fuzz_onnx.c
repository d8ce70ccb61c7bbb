/* Fuzzes what reads ONNX files: the wire format, the tensors' sizes and bytes, the names of graphs within graphs, and the
 * text that comes of these. Nothing may crash, leak, or take more memory than the file's size allows; the text of what is
 * accepted is a program's. */
#include "client/onnx/onnx.h"
#include "client/script/script.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    td_error e = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    char *text = write(fd, data, size) == (ssize_t)size ? td_onnx_source(path, &e) : NULL;
    assert(text || (e.code && e.message[0]));
    if (text) {
        td_script_source s = {"main", text, strlen(text), 1};
        td_ast ast;
        int rc = td_script_parse(&s, 0, &ast, &e);
        assert(rc == 0 || e.code == TD_E_UNSUPPORTED); /* too long, or too deep */
        td_ast_deinit(&ast);
    }
    free(text);
    close(fd);
    return 0;
}
