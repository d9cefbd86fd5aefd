/* Offload processors. */
#include "daemon/control/inspect.h"
#include "daemon/offload/offload.h"
#include "daemon/sessions/session.h"

json_t *inspect_offload(const struct session *session)
{
    struct offload_info info;
    if (!offload_info(session, &info))
        return NULL;
    return json_pack(
        "{s:I, s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "session",
        (json_int_t)session->id, "pid", (int)session->pid, "uid", (json_int_t)session->uid, "name",
        session->name, "device", info.device, "memory_bytes", (json_int_t)info.memory_bytes,
        "domains", (json_int_t)info.domains, "cqs", (json_int_t)info.cqs, "qps",
        (json_int_t)info.qps, "memories", (json_int_t)info.memories, "entries",
        (json_int_t)info.counters.entries, "completions", (json_int_t)info.counters.completions,
        "errors", (json_int_t)info.counters.errors, "bytes", (json_int_t)info.counters.bytes);
}
