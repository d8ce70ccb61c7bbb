/* What a file of tensors holds, of whatever format: the tree of plain values, the tensors in it, the storages these
 * look at, and where in the file the bytes of each lie. Every tensor lies within its storage, and every storage within
 * the file. */
#ifndef TENSORD_CLIENT_FILES_FILE_H
#define TENSORD_CLIENT_FILES_FILE_H

#include "client/files/pickle.h"
#include "client/files/zip.h"
#include "proto/base/desc.h"
#include "proto/base/hash.h"

#define TD_LONGEST_HEADER (UINT64_C(100) * 1000 * 1000) /* bytes, of safetensors */

/* td_plain.made of an object (.i says which), and of what is wrapped. */
enum {
    TD_MADE_BIG_NUMBER,
    TD_MADE_STORAGE,
    TD_MADE_TENSOR,
    TD_MADE_NOTHING, /* of a dtype that is skipped */
    TD_MADE_CLASS    /* of a module */
};
enum { TD_COAT_ORDERED, TD_COAT_COUNTER, TD_COAT_SET, TD_COAT_SIZE, TD_COAT_DEVICE, TD_COAT_BYTEARRAY, TD_COAT_MODULE };

/* Floats of a byte, which come as those of a dtype that holds all of their values. */
typedef enum td_narrow { TD_NARROW_NONE, TD_NARROW_E4M3, TD_NARROW_E5M2, TD_NARROW_E8M0 } td_narrow;

typedef struct td_stored {
    UT_hash_handle hh;
    const char *key;      /* as the file calls it */
    const char *location; /* "cpu", "cuda:0": where it was */
    td_dtype dtype;
    uint64_t numel, at; /* `at`: its first byte in the file */
    uint64_t packed;    /* 0: as it is; otherwise so many bytes from `at` on, which inflate to `skip` bytes and it */
    uint32_t skip, crc, index;
    uint32_t skipped_crc;         /* of what stands before it and counts, too */
    uint32_t users;               /* tensors that the tree holds */
    int device;                   /* where they come to */
    bool found, has_crc, swapped; /* swapped: the bytes of each number lie the other way round */
    bool untyped;                 /* bytes until all is read: its tensors say what of */
    td_narrow narrow;             /* in the file; `dtype` is what they become */
    td_dtype told; /* by its tensors: theirs, or bytes, where they differ; TD_DTYPE_NONE: none came yet */
} td_stored;

typedef struct td_file_tensor {
    uint32_t storage;
    td_desc desc;
    bool requires_grad, parameter, conj, neg;
    bool reached; /* the tree holds it */
    char *name;   /* of a program's */
    bool listed;  /* its class calls it a parameter or a buffer */
} td_file_tensor;

/* An object of a program: see scripted.h. */
typedef struct td_file_module {
    const char *class; /* "__torch__.torch.nn.modules.linear Linear" */
    const td_plain *at;
    char *title; /* where it stands: "layers.0"; NULL: nowhere */
} td_file_module;

typedef struct td_file {
    td_source source;
    td_pickle pickle; /* all values are in its memory, whatever they were read from */
    td_plain *root;
    td_stored **storages, *by_key;
    td_file_tensor *tensors;
    uint32_t nstorages, storage_room, ntensors, tensor_room;
    bool swapped; /* of all that follows */
    /* set before it is opened */
    bool skip;     /* tensors of dtypes that are not known here are left out */
    bool programs; /* what torch.jit.save() wrote is taken: the tree is a dict of its tensors */
    /* of a program */
    bool every_name;     /* of tensors: programs beside them know each by its own */
    td_plain *constants; /* a tuple */
    td_file_module *modules;
    td_pickle_name **classes;
    uint32_t nmodules, module_room, nclasses, class_room;
} td_file;

/* `fd` stays the caller's and must stay open; of *t only what is set before is looked at. The format is told by what is
 * in it. */
int td_file_open(td_file *t, int fd, td_error *e);
void td_file_close(td_file *t); /* also of one that did not open */
/* What a file is, and what to do, when it is something that is often taken for a file of tensors; NULL: not known. */
enum { TD_FILE_HEAD = 64 };
const char *td_file_stranger(const unsigned char *head, size_t n);
/* The bytes of a storage, in order, as this machine has them, into memory of its size. */
int td_file_read(const td_file *t, const td_stored *s, void *to, td_error *e);

/* For readers. TD_E_INVALID: a storage of this name is there. */
int td_file_add_storage(td_file *t, const td_stored *like, td_stored **out, td_error *e);
int td_file_add_nothing(td_file *t, td_plain **out, td_error *e);
int td_file_add_tensor(td_file *t, const td_file_tensor *tensor, td_plain **out, td_error *e);
/* A storage as one tensor of this shape; column by column if so asked. */
int td_file_add_whole(td_file *t, const td_stored *like, int ndim, const int64_t *shape, bool columns, td_plain **out,
                      td_error *e);

/* The readers: each fills t->root. */
int td_read_archive(td_file *t, td_zip *z, td_error *e); /* of torch.save() */
int td_read_legacy(td_file *t, td_error *e);
int td_read_safetensors(td_file *t, td_error *e);
int td_read_npy(td_file *t, td_error *e);
int td_read_npz(td_file *t, td_zip *z, td_error *e);
bool td_is_archive(const td_zip *z);
bool td_archive_has_programs(const td_zip *z); /* FOLDER/programs/NAME.pb */
/* "FOLDER/data.pkl" of an archive: all else lies in that folder, too. NULL: it has none, or several. */
const td_zip_entry *td_archive_data(const td_zip *z, td_error *e);
/* An entry beside data.pkl; NULL: there is none, or its name is too long to be one. */
const td_zip_entry *td_archive_beside(const td_zip *z, const td_zip_entry *data, const char *folder, const char *name);

#endif
