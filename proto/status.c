#include "proto/status.h"

#include <errno.h>

/* Wire format: never renumber or reuse a code. */
enum wire_status {
    WIRE_OK = 0,
    WIRE_IO = 1, /* also any error without a code of its own */
    WIRE_PERMISSION = 2,
    WIRE_NOT_FOUND = 3,
    WIRE_INTERRUPTED = 4,
    WIRE_TRY_AGAIN = 5,
    WIRE_NO_MEMORY = 6,
    WIRE_ACCESS = 7,
    WIRE_BUSY = 8,
    WIRE_EXISTS = 9,
    WIRE_NO_DEVICE = 10,
    WIRE_INVALID = 11,
    WIRE_NO_DESCRIPTORS = 12,
    WIRE_NO_SPACE = 13,
    WIRE_PIPE = 14,
    WIRE_QUOTA = 15,
    WIRE_PROTOCOL = 16,
    WIRE_OVERFLOW = 17,
    WIRE_TOO_LONG = 18,
    WIRE_VERSION = 19,
    WIRE_NOT_SUPPORTED = 20,
    WIRE_RAIL_DOWN = 21,
    WIRE_NODE_DOWN = 22,
    WIRE_STALE = 23,
    WIRE_OWNER_DIED = 24,
    WIRE_CANCELED = 25,
    WIRE_TIMED_OUT = 26,
    WIRE_RESET = 27,
    WIRE_NOT_CONNECTED = 28,
    WIRE_TOO_MANY = 29,
    WIRE_FILE_TOO_BIG = 30,
    WIRE_READ_ONLY = 31,
    WIRE_NO_DATA = 32,
    WIRE_REFUSED = 33,
    WIRE_UNREACHABLE = 34,
    WIRE_BAD_ADDRESS = 35,
    WIRE_BAD_DESCRIPTOR = 36,
    WIRE_NO_BUFFERS = 37,
    WIRE_RANGE = 38,
    WIRE_NOT_A_DIRECTORY = 39,
    WIRE_ADDRESS_IN_USE = 40,
    WIRE_ALREADY = 41,
    WIRE_IN_PROGRESS = 42,
    WIRE_SHUT_DOWN = 43,
    WIRE_NO_SYSTEM_CALL = 44,
    WIRE_NAME_TOO_LONG = 45,
    WIRE_BAD_MESSAGE = 46,
    WIRE_NO_PROCESS = 47,
    WIRE_KEY_REJECTED = 48,
    WIRE_NO_SUCH_DEVICE = 49,
    WIRE_DEADLOCK = 50,
    WIRE_NO_LOCKS = 51,
    WIRE_TOO_MANY_FILES = 52,
    WIRE_ABORTED = 53,
    WIRE_NO_ADDRESS = 54,
    WIRE_NETWORK_UNREACHABLE = 55,
    WIRE_COUNT,
};

static const struct {
    int number;
    const char *text;
} statuses[WIRE_COUNT] = {
    [WIRE_OK] = {0, "success"},
    [WIRE_IO] = {EIO, "I/O error"},
    [WIRE_PERMISSION] = {EPERM, "not permitted"},
    [WIRE_NOT_FOUND] = {ENOENT, "not found"},
    [WIRE_INTERRUPTED] = {EINTR, "interrupted"},
    [WIRE_TRY_AGAIN] = {EAGAIN, "temporarily unavailable, try again"},
    [WIRE_NO_MEMORY] = {ENOMEM, "out of memory"},
    [WIRE_ACCESS] = {EACCES, "access denied"},
    [WIRE_BUSY] = {EBUSY, "busy"},
    [WIRE_EXISTS] = {EEXIST, "already exists"},
    [WIRE_NO_DEVICE] = {ENODEV, "no such rail or driver"},
    [WIRE_INVALID] = {EINVAL, "invalid argument"},
    [WIRE_NO_DESCRIPTORS] = {EMFILE, "too many open files in this process"},
    [WIRE_NO_SPACE] = {ENOSPC, "no space left"},
    [WIRE_PIPE] = {EPIPE, "connection closed"},
    [WIRE_QUOTA] = {EDQUOT, "quota exhausted"},
    [WIRE_PROTOCOL] = {EPROTO, "protocol error"},
    [WIRE_OVERFLOW] = {EOVERFLOW, "value too large"},
    [WIRE_TOO_LONG] = {EMSGSIZE, "wrong message size"},
    [WIRE_VERSION] = {EPROTONOSUPPORT, "protocol version mismatch"},
    [WIRE_NOT_SUPPORTED] = {EOPNOTSUPP, "not supported"},
    [WIRE_RAIL_DOWN] = {ENETDOWN, "rail down"},
    [WIRE_NODE_DOWN] = {EHOSTDOWN, "node down"},
    [WIRE_STALE] = {ESTALE, "stale handle"},
    [WIRE_OWNER_DIED] = {EOWNERDEAD, "owner died"},
    [WIRE_CANCELED] = {ECANCELED, "canceled"},
    [WIRE_TIMED_OUT] = {ETIMEDOUT, "timed out"},
    [WIRE_RESET] = {ECONNRESET, "connection lost"},
    [WIRE_NOT_CONNECTED] = {ENOTCONN, "not connected"},
    [WIRE_TOO_MANY] = {E2BIG, "too many or too big"},
    [WIRE_FILE_TOO_BIG] = {EFBIG, "file too big"},
    [WIRE_READ_ONLY] = {EROFS, "read-only file system"},
    [WIRE_NO_DATA] = {ENODATA, "no data"},
    [WIRE_REFUSED] = {ECONNREFUSED, "connection refused"},
    [WIRE_UNREACHABLE] = {EHOSTUNREACH, "node unreachable"},
    [WIRE_BAD_ADDRESS] = {EFAULT, "bad address"},
    [WIRE_BAD_DESCRIPTOR] = {EBADF, "bad file descriptor"},
    [WIRE_NO_BUFFERS] = {ENOBUFS, "out of buffers"},
    [WIRE_RANGE] = {ERANGE, "out of range"},
    [WIRE_NOT_A_DIRECTORY] = {ENOTDIR, "not a directory"},
    [WIRE_ADDRESS_IN_USE] = {EADDRINUSE, "address in use"},
    [WIRE_ALREADY] = {EALREADY, "already in progress"},
    [WIRE_IN_PROGRESS] = {EINPROGRESS, "in progress"},
    [WIRE_SHUT_DOWN] = {ESHUTDOWN, "shut down"},
    [WIRE_NO_SYSTEM_CALL] = {ENOSYS, "not implemented on this system"},
    [WIRE_NAME_TOO_LONG] = {ENAMETOOLONG, "name too long"},
    [WIRE_BAD_MESSAGE] = {EBADMSG, "corrupt message"},
    [WIRE_NO_PROCESS] = {ESRCH, "no such process"},
    [WIRE_KEY_REJECTED] = {EKEYREJECTED, "wrong key"},
    [WIRE_NO_SUCH_DEVICE] = {ENXIO, "no such device or address"},
    [WIRE_DEADLOCK] = {EDEADLK, "would deadlock"},
    [WIRE_NO_LOCKS] = {ENOLCK, "no locks available"},
    [WIRE_TOO_MANY_FILES] = {ENFILE, "too many open files in this system"},
    [WIRE_ABORTED] = {ECONNABORTED, "connection aborted"},
    [WIRE_NO_ADDRESS] = {EADDRNOTAVAIL, "address not available"},
    [WIRE_NETWORK_UNREACHABLE] = {ENETUNREACH, "network unreachable"},
};

uint32_t status_to_wire(int error)
{
    for (uint32_t code = 0; code < WIRE_COUNT; code++)
        if (error == -statuses[code].number)
            return code;
    return WIRE_IO;
}

int status_from_wire(uint32_t code)
{
    return code < WIRE_COUNT ? -statuses[code].number : -EPROTO;
}

const char *status_text(int error)
{
    for (uint32_t code = 0; code < WIRE_COUNT; code++)
        if (error == -statuses[code].number)
            return statuses[code].text;
    return "unknown error";
}
