/* Dmabufs, of the kernel's vgem where it is loaded, and descriptors that are none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/actor/actor.h"

enum { CARDS = 8, LINE_BYTES = 4096 };

/* Of the kernel's interface (drm/drm.h, drm/drm_mode.h), whose headers Debian keeps in
 * libdrm-dev. */
struct version {
    int major, minor, patch;
    size_t name_bytes;
    char *name;
    size_t date_bytes;
    char *date;
    size_t text_bytes;
    char *text;
};
struct create {
    uint32_t height, width, bits, flags, handle, line_bytes;
    uint64_t bytes;
};
struct export
{
    uint32_t handle, flags;
    int32_t fd;
};
#define DRM_VERSION _IOWR('d', 0x00, struct version)
#define DRM_EXPORT  _IOWR('d', 0x2d, struct export)
#define DRM_CREATE  _IOWR('d', 0xb2, struct create)
#define DRM_DESTROY _IOWR('d', 0xb4, uint32_t)

static bool is_vgem(int card)
{
    char name[16] = "";
    struct version version = {.name = name, .name_bytes = sizeof(name) - 1};
    return ioctl(card, DRM_VERSION, &version) == 0 && strcmp(name, "vgem") == 0;
}

static int open_vgem(void)
{
    for (int i = 0; i < CARDS; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/dev/dri/card%d", i);
        int card = open(path, O_RDWR | O_CLOEXEC);
        if (card >= 0 && is_vgem(card))
            return card;
        if (card >= 0)
            close(card);
    }
    return -ENODEV;
}

static int export(int card, uint64_t bytes, bool readonly)
{
    struct create create = {
        .width = LINE_BYTES / 4, .height = (uint32_t)(bytes / LINE_BYTES), .bits = 32};
    if (ioctl(card, DRM_CREATE, &create) < 0)
        return -errno;
    struct export export = {.handle = create.handle,
                            .flags = O_CLOEXEC | (readonly ? O_RDONLY : O_RDWR)};
    int r = ioctl(card, DRM_EXPORT, &export) < 0 ? -errno : export.fd;
    ioctl(card, DRM_DESTROY, &create.handle);
    return r;
}

static int new_dmabuf(uint64_t bytes, bool readonly)
{
    int card = open_vgem();
    int fd = card < 0 ? card : export(card, bytes, readonly);
    if (card >= 0)
        close(card);
    return fd;
}

static int new_memfd(uint64_t bytes)
{
    int fd = memfd_create("dmabuf:", MFD_CLOEXEC);
    return fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ? -errno : fd;
}

static int new_pipe(void)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    close(fds[1]);
    return fds[0];
}

static int new_closed(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    close(fd);
    return fd;
}

/* dmabuf KIND BYTES: ok DESCRIPTOR. KIND: vgem, readonly, memfd, pipe or closed */
static int make(struct actor *actor, const struct words *words)
{
    const char *kind = word(words, 1);
    const uint64_t bytes = word_number(words, 2);
    int fd = strcmp(kind, "vgem") == 0       ? new_dmabuf(bytes, false)
             : strcmp(kind, "readonly") == 0 ? new_dmabuf(bytes, true)
             : strcmp(kind, "memfd") == 0    ? new_memfd(bytes)
             : strcmp(kind, "pipe") == 0     ? new_pipe()
                                             : new_closed();
    return fd < 0 ? say_error(fd, "no %s", kind) : say("%d", fd);
}

/* import DESCRIPTOR OFFSET BYTES: ok REGION ADDRESS BYTES */
static int import(struct actor *actor, const struct words *words)
{
    struct tca_region *region;
    if (actor->region_count == REGIONS_MAX)
        return say_error(-E2BIG, "this program can count %d regions", REGIONS_MAX);
    int r = tca_region_import(actor->session, (int)word_number(words, 1), word_number(words, 2),
                              word_number(words, 3), &region);
    if (r < 0)
        return say_result(r);
    actor->regions[actor->region_count] = region;
    return say("%u %p %llu", actor->region_count++, tca_region_address(region),
               (unsigned long long)tca_region_bytes(region));
}

/* close DESCRIPTOR */
static int close_dmabuf(struct actor *actor, const struct words *words)
{
    return close((int)word_number(words, 1)) < 0 ? say_error(-errno, "not open") : say("closed");
}

const struct command dmabuf_commands[] = {
    {"dmabuf", 2, make}, {"import", 3, import}, {"closefd", 1, close_dmabuf}, {NULL}};
