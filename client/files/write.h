/* Writers: a tree and the bytes of its tensors, to a file of some format. */
#ifndef TENSORD_CLIENT_FILES_WRITE_H
#define TENSORD_CLIENT_FILES_WRITE_H

#include "client/files/note.h"
#include "client/files/sink.h"
#include "proto/base/desc.h"

typedef struct td_out_storage {
    const unsigned char *bytes; /* the first that is written */
    uint64_t numel;
    td_dtype dtype;
} td_out_storage;

typedef struct td_out_tensor {
    uint32_t storage;
    td_desc desc; /* over what is written of its storage */
    bool requires_grad;
} td_out_tensor;

typedef struct td_out {
    td_note tree;                  /* its 'x' are positions in `tensors` */
    const td_out_record *records;  /* only in archives */
    const td_out_record *metadata; /* texts; only in safetensors */
    const td_out_storage *storages;
    const td_out_tensor *tensors;
    uint32_t nstorages, ntensors, nrecords, nmetadata;
    bool scripted; /* an archive of TorchScript: what its ops mean has a version of its own */
} td_out;

/* As torch.save() writes it (PyTorch 2.13): a zip archive with the tree as a pickle, and a record for each storage.
 * Tensors that look at one storage do so in the file. `folder`: what all records lie in. */
int td_write_torch(td_sink *to, const char *folder, const td_out *out, td_error *e);
/* For these each tensor fills a storage, row by row. */
int td_write_safetensors(td_sink *to, const td_out *out, td_error *e);
int td_write_npy(td_sink *to, const td_out *out, td_error *e); /* TD_E_TYPE: the tree is more than one tensor */
int td_write_npz(td_sink *to, const td_out *out, td_error *e);

#endif
