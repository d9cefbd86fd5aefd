#include "tools/tca-mpi/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/must.h"

/* ---- one file */

struct file {
    const uint8_t *data;
    size_t bytes;
};

static int file_map(struct file *file, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;

    if (fd < 0)
        return -errno;
    *file = (struct file){.data = MAP_FAILED};
    if (fstat(fd, &status) < 0)
        r = -errno;
    else if (!S_ISREG(status.st_mode) || status.st_size < (off_t)sizeof(Elf64_Ehdr))
        r = -ENOEXEC;
    if (r == 0) {
        file->bytes = status.st_size;
        file->data = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        r = file->data == MAP_FAILED ? -errno : 0;
    }
    close(fd);
    return r;
}

static void file_unmap(struct file *file)
{
    munmap((void *)file->data, file->bytes);
}

/* `count` objects of `bytes` bytes at an offset; NULL: outside the file. */
static const void *part(const struct file *file, uint64_t offset, uint64_t count, uint64_t bytes)
{
    if (offset > file->bytes || count > (file->bytes - offset) / bytes)
        return NULL;
    return file->data + offset;
}

static const char *string(const struct file *file, uint64_t offset)
{
    if (offset >= file->bytes || !memchr(file->data + offset, 0, file->bytes - offset))
        return NULL;
    return (const char *)file->data + offset;
}

struct program {
    const Elf64_Phdr *headers;
    uint16_t header_count;
    const Elf64_Dyn *dynamic;
    uint64_t dynamic_count;
    uint64_t strings; /* offset in the file */
};

/* Offset in the file of an address. */
static uint64_t offset_of(const struct program *program, uint64_t address)
{
    for (uint16_t i = 0; i < program->header_count; i++) {
        const Elf64_Phdr *header = &program->headers[i];
        if (header->p_type == PT_LOAD && address >= header->p_vaddr &&
            address - header->p_vaddr < header->p_filesz)
            return address - header->p_vaddr + header->p_offset;
    }
    return UINT64_MAX;
}

static int program_read(struct program *program, const struct file *file)
{
    const Elf64_Ehdr *elf = part(file, 0, 1, sizeof(*elf));

    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_ident[EI_CLASS] != ELFCLASS64 ||
        elf->e_phentsize != sizeof(Elf64_Phdr))
        return -ENOEXEC;
    *program = (struct program){.header_count = elf->e_phnum, .strings = UINT64_MAX};
    program->headers = part(file, elf->e_phoff, elf->e_phnum, sizeof(Elf64_Phdr));
    if (!program->headers)
        return -ENOEXEC;
    for (uint16_t i = 0; i < program->header_count; i++) {
        const Elf64_Phdr *header = &program->headers[i];
        if (header->p_type == PT_DYNAMIC) {
            program->dynamic_count = header->p_filesz / sizeof(Elf64_Dyn);
            program->dynamic =
                part(file, header->p_offset, program->dynamic_count, sizeof(Elf64_Dyn));
        }
    }
    if (!program->dynamic)
        program->dynamic_count = 0; /* linked statically */
    for (uint64_t i = 0; i < program->dynamic_count; i++)
        if (program->dynamic[i].d_tag == DT_STRTAB)
            program->strings = offset_of(program, program->dynamic[i].d_un.d_ptr);
    return 0;
}

static const char *program_string(const struct program *program, const struct file *file,
                                  uint64_t i)
{
    uint64_t at = program->dynamic[i].d_un.d_val;

    return program->strings > UINT64_MAX - at ? NULL : string(file, program->strings + at);
}

/* ---- where the loader looks */

static bool is_there(char path[static PATH_MAX], const char *directory, size_t length,
                     const char *name)
{
    int bytes = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, directory, name);

    return bytes < PATH_MAX && access(path, R_OK) == 0;
}

/* In a list of directories, with $ORIGIN. */
static bool find_in_list(char path[static PATH_MAX], const char *list, const char *origin,
                         const char *name)
{
    while (list && *list) {
        size_t length = strcspn(list, ":");
        char directory[PATH_MAX];
        static const char *const words[] = {"$ORIGIN", "${ORIGIN}"};
        snprintf(directory, sizeof(directory), "%.*s", (int)length, list);
        for (size_t i = 0; i < 2; i++) {
            size_t word = strlen(words[i]);
            if (length >= word && memcmp(list, words[i], word) == 0)
                snprintf(directory, sizeof(directory), "%s%.*s", origin, (int)(length - word),
                         list + word);
        }
        if (*directory && is_there(path, directory, strlen(directory), name))
            return true;
        list += length + (list[length] == ':');
    }
    return false;
}

/* The loader's cache, as ldconfig(8) writes it. */
struct cache_head {
    char magic[20]; /* "glibc-ld.so.cache1.1" */
    uint32_t count, string_bytes, unused[5];
};
struct cache_entry {
    int32_t flags;
    uint32_t name, path; /* offsets in the file */
    uint32_t version;
    uint64_t needs;
};

static bool find_in_cache(char path[static PATH_MAX], const char *name)
{
    struct file file;
    bool found = false;

    if (file_map(&file, "/etc/ld.so.cache") < 0)
        return false;
    const struct cache_head *head = part(&file, 0, 1, sizeof(*head));
    const struct cache_entry *entries = NULL;
    if (head && memcmp(head->magic, "glibc-ld.so.cache1.1", sizeof(head->magic)) == 0)
        entries = part(&file, sizeof(*head), head->count, sizeof(*entries));
    for (uint32_t i = 0; entries && i < head->count && !found; i++) {
        const char *entry_name = string(&file, entries[i].name);
        const char *entry_path = string(&file, entries[i].path);
        if (entry_name && entry_path && strcmp(entry_name, name) == 0)
            found = snprintf(path, PATH_MAX, "%s", entry_path) < PATH_MAX;
    }
    file_unmap(&file);
    return found;
}

/* ---- all that it needs */

struct search {
    const char *const *names;
    char *paths[256]; /* that were or are to be read */
    size_t count, read;
};

static void add(struct search *search, const char *path)
{
    for (size_t i = 0; i < search->count; i++)
        if (strcmp(search->paths[i], path) == 0)
            return;
    if (search->count < sizeof(search->paths) / sizeof(search->paths[0]))
        search->paths[search->count++] = must(strdup(path));
}

/* What one file needs: the index of a name, or -ENOENT. */
static int look(struct search *search, const struct file *file, const char *path)
{
    struct program program;
    const char *runpath = NULL;
    char copy[PATH_MAX], found[PATH_MAX];
    int r = program_read(&program, file);

    if (r < 0)
        return r;
    snprintf(copy, sizeof(copy), "%s", path);
    const char *origin = dirname(copy);
    for (uint64_t i = 0; i < program.dynamic_count; i++)
        if (program.dynamic[i].d_tag == DT_RUNPATH || program.dynamic[i].d_tag == DT_RPATH)
            runpath = program_string(&program, file, i);
    for (uint64_t i = 0; i < program.dynamic_count; i++) {
        if (program.dynamic[i].d_tag != DT_NEEDED)
            continue;
        const char *name = program_string(&program, file, i);
        if (!name)
            continue;
        for (int k = 0; search->names[k]; k++)
            if (strcmp(name, search->names[k]) == 0)
                return k;
        if (find_in_list(found, getenv("LD_LIBRARY_PATH"), origin, name) ||
            find_in_list(found, runpath, origin, name) || find_in_cache(found, name) ||
            find_in_list(found, "/lib:/usr/lib:/lib64:/usr/lib64", origin, name))
            add(search, found);
    }
    return -ENOENT;
}

int elf_find_needed(const char *path, const char *const *names)
{
    struct search search = {.names = names};
    struct file file;
    int r = -ENOENT;

    add(&search, path);
    for (; search.read < search.count && r == -ENOENT; search.read++) {
        int mapped = file_map(&file, search.paths[search.read]);
        if (mapped == 0) {
            r = look(&search, &file, search.paths[search.read]);
            file_unmap(&file);
        }
        if (search.read == 0 && mapped < 0)
            r = mapped;
        else if (search.read > 0 && r < 0)
            r = -ENOENT; /* a library that cannot be read is the loader's affair */
    }
    for (size_t i = 0; i < search.count; i++)
        free(search.paths[i]);
    return r;
}
