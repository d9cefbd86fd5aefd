#!/usr/bin/env python3
"""Writes the C source of tca._native, the functions of the public headers for Python, with cffi:

    build.py OUTPUT.c HEADER...

What the headers declare is declared to cffi, with their types and constants: there is no second list of them."""

import re
import sys

import cffi

# What a module needs beyond libtca: memory that arrays still use when their session is closed stays where it is.
HELPERS = """
void *tca_python_hold(void *address, size_t bytes);
int tca_python_put_back(void *held, void *address, size_t bytes);
void free(void *memory);
"""
HELPERS_C = """
#include <errno.h>
#include <sys/mman.h>

/* Maps shared memory once more, elsewhere. NULL: it cannot be. */
static void *tca_python_hold(void *address, size_t bytes)
{
    void *held = mremap(address, 0, bytes, MREMAP_MAYMOVE);
    return held == MAP_FAILED ? NULL : held;
}

/* Moves that mapping to the address where the first one was. 0 or a negative errno. */
static int tca_python_put_back(void *held, void *address, size_t bytes)
{
    /* Nothing that came there meanwhile may be replaced. */
    void *free_there = mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (free_there == MAP_FAILED)
        return -errno;
    if (free_there != address) { /* a kernel that does not know the flag */
        munmap(free_there, bytes);
        return -EEXIST;
    }
    void *there = mremap(held, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address);
    return there == MAP_FAILED ? -errno : 0;
}
"""


def declarations(text):
    """What cffi understands of a public header."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r'#ifdef __cplusplus\n.*?#endif\n', "", text, flags=re.S)
    constants = re.findall(r"^#define (TCA_[A-Z_0-9]+)[ \t]+[^\n(]*\d", text, flags=re.M)
    constants += re.findall(r"^#define (TCA_[A-Z_0-9]+)[ \t]+(?:\(+.*|UINT\d+_MAX)$", text, flags=re.M)
    text = re.sub(r"^#(?:.*\\\n)*.*\n", "", text, flags=re.M)
    text = re.sub(r"\bTCA_API\b", "", text)
    return "".join(f"#define {name} ...\n" for name in dict.fromkeys(constants)), text


def main():
    output, *headers = sys.argv[1:]
    builder = cffi.FFI()
    constants, texts = "", ""
    for path in headers:
        with open(path, encoding="utf-8") as header:
            more, text = declarations(header.read())
        constants, texts = constants + more, texts + text
    # Sizes of arrays in structs are constants that cffi has to know.
    for name in set(re.findall(r"\[(TCA_[A-Z_0-9]+)\]", texts)):
        for path in headers:
            with open(path, encoding="utf-8") as header:
                value = re.search(rf"{name}\s*=?\s*(\d+)\b", header.read())
            if value:
                constants = constants.replace(f"#define {name} ...", f"#define {name} {value[1]}")
                break
    builder.cdef(constants + texts + HELPERS)
    names = "".join(f"#include <{path.rsplit('/', 1)[-1]}>\n" for path in headers)
    builder.set_source("tca._native", "#include <stdlib.h>\n" + names + HELPERS_C)
    builder.emit_c_code(output)


if __name__ == "__main__":
    main()
