"""save() and load(): tensors in files, and whole objects, as modules. Stands on core; nothing in a file runs unless load() is told so."""
