/* Requests, from peers_ask() to the call of answered(). Requests to this node take the same path,
 * without a connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/message.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/frame.h"
#include "proto/status.h"

/* ---- pending requests ---- */

static struct question *question_find(struct peers *peers, uint32_t node, uint32_t tag)
{
    const struct table_entry *entry = table_first(&peers->questions, tag);
    for (; entry; entry = table_again(entry)) {
        struct question *question = entry->owner;
        if (question->node == node && !question->finished)
            return question;
    }
    return NULL;
}

static uint32_t new_tag(struct peers *peers)
{
    do
        peers->last_tag++;
    while (peers->last_tag == 0);
    return peers->last_tag;
}

void question_list_init(struct question_list *list)
{
    *list = (struct question_list){.last = &list->first};
}

static void list_append(struct question_list *list, struct question *question)
{
    question->list = list;
    question->link = list->last;
    question->next = NULL;
    *list->last = question;
    list->last = &question->next;
}

static void list_remove(struct question *question)
{
    if (!question->list)
        return;
    *question->link = question->next;
    if (question->next)
        question->next->link = question->link;
    else
        question->list->last = question->link;
    question->list = NULL;
}

static void question_free(struct peers *peers, struct question *question)
{
    table_remove(&peers->questions, &question->entry);
    deadline_clear(&peers->deadlines, &question->deadline);
    list_remove(question);
    free(question->bytes);
    free(question->text);
    free(question);
}

/* Removes the request from all lists, then calls answered(), which may do anything. */
static void finish(struct peers *peers, struct question *question, int status,
                   const Tca__Message *answer, const char *text)
{
    peer_answered *answered = question->answered;
    void *context = question->context;

    question_free(peers, question);
    answered(context, status, answer, text);
}

static void finish_with(struct peers *peers, struct question *question, const Tca__Message *answer)
{
    if (answer->body_case != TCA__MESSAGE__BODY_FAILURE) {
        finish(peers, question, 0, answer, "");
        return;
    }
    int status = status_from_wire(answer->failure->status);
    char text[PEER_TEXT_MAX * 4];
    snprintf(text, sizeof text, "%s", answer->failure->text);
    peer_clean(text);
    finish(peers, question, status < 0 ? status : -EPROTO, NULL, text);
}

/* ---- packing ---- */

static uint8_t *pack(const Tca__Message *message, size_t *ret_count)
{
    size_t count = tca__message__get_packed_size(message);
    uint8_t *bytes = count <= FRAME_PAYLOAD_MAX ? malloc(count + 1) : NULL;
    if (bytes)
        *ret_count = tca__message__pack(message, bytes);
    return bytes;
}

/* ---- deliveries from the loop: requests and replies of this node, and immediate failures ---- */

static void put_local(struct peers *peers, struct question *question)
{
    list_remove(question);
    list_append(&peers->local, question);
    loop_timer_set(peers->local_timer, 0, 0);
}

/* Calls answered() with these arguments, from the loop. */
static void finish_later(struct peers *peers, struct question *question, int status,
                         const char *text)
{
    deadline_clear(&peers->deadlines, &question->deadline);
    question->finished = true;
    question->status = status;
    question->text = strdup(text);
    free(question->bytes);
    question->bytes = NULL;
    put_local(peers, question);
}

/* This node has replied. */
static void answer_later(struct peers *peers, struct question *question, const Tca__Message *answer)
{
    question->bytes = pack(answer, &question->count);
    if (!question->bytes) {
        finish_later(peers, question, -ENOMEM,
                     "out of memory, or an answer beyond the limit of 64 MiB");
        return;
    }
    deadline_clear(&peers->deadlines, &question->deadline);
    question->finished = true;
    put_local(peers, question);
}

static void deliver(struct peers *peers, struct question *question)
{
    uint32_t tag = question->tag, node = question->node;
    Tca__Message *message = NULL;
    bool finished = question->finished;
    char *text = question->text;

    question->text = NULL;
    if (question->bytes) {
        message = tca__message__unpack(NULL, question->count, question->bytes);
        free(question->bytes);
        question->bytes = NULL;
        if (!message) {
            finish(peers, question, -ENOMEM, NULL, "out of memory for a message");
            return;
        }
    }
    if (!finished) /* it stays pending until peers_answer() */
        peers->events.asked(peers->events.context, node, tag, message);
    else if (message)
        finish_with(peers, question, message);
    else
        finish(peers, question, question->status, NULL, text ? text : "out of memory");
    free(text);
    if (message)
        tca__message__free_unpacked(message, NULL);
}

void questions_deliver_local(void *context)
{
    struct peers *peers = context;

    while (peers->local.first) {
        struct question *question = peers->local.first;
        list_remove(question);
        deliver(peers, question);
        if (loop_slice_over(peers->tcad->loop))
            break; /* lets other work of the loop go first */
    }
    if (peers->local.first)
        loop_timer_set(peers->local_timer, 0, 0);
}

/* ---- sending requests ---- */

static void expire(void *context)
{
    struct question *question = context;
    struct peers *peers = question->peers;
    const struct cluster_node *node = cluster_by_id(peers->tcad->cluster, question->node);
    char text[PEER_TEXT_MAX];

    snprintf(text, sizeof text, "node %s (id %u) has not answered in time", node ? node->name : "?",
             question->node);
    finish_later(peers, question, -ETIMEDOUT, text);
}

static struct question *question_new(struct peers *peers, uint32_t node, uint64_t timeout_ns,
                                     peer_answered *answered, void *context)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    const uint64_t now = clock_now_ns();
    question->peers = peers;
    question->tag = new_tag(peers);
    question->node = node;
    question->answered = answered;
    question->context = context;
    table_add(&peers->questions, &question->entry, question->tag, question);
    deadline_set(&peers->deadlines, &question->deadline,
                 timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns, expire, question);
    return question;
}

static void question_send(struct peer *peer, struct question *question)
{
    link_send_bytes(peer, question->tag, question->bytes, question->count);
    free(question->bytes);
    question->bytes = NULL;
}

void questions_send(struct peer *peer)
{
    for (struct question *question = peer->questions.first; question; question = question->next)
        if (question->bytes)
            question_send(peer, question);
}

static void ask_peer(struct peers *peers, struct question *question)
{
    struct peer *peer;
    char text[PEER_TEXT_MAX + 128];

    int r = peer_get(peers, question->node, &peer);
    if (r < 0) {
        snprintf(text, sizeof text, "node %u is not in the cluster file", question->node);
        finish_later(peers, question, r, r == -EINVAL ? text : "out of memory");
        return;
    }
    if (peer->state == PEER_IDLE || peer->state == PEER_DOWN) {
        /* Connects before the request is in the peer's list: if connecting fails at once, answered()
         * must still be called from the loop. */
        if (peer_connect(peer) == -EAGAIN || peer->state == PEER_DOWN) {
            snprintf(text, sizeof text, "node %s (id %u) is down: %s", peer->name, peer->node,
                     peer->last_error);
            finish_later(peers, question, -EHOSTDOWN, text);
            return;
        }
    }
    list_append(&peer->questions, question);
    if (peer_has_link(peer))
        question_send(peer, question);
}

void peers_ask(struct peers *peers, uint32_t node, const Tca__Message *message, uint64_t timeout_ns,
               peer_answered *answered, void *context)
{
    struct question *question = question_new(peers, node, timeout_ns, answered, context);
    if (!question) {
        /* Not even the failure can be stored: the only case in which answered() is called at once. */
        answered(context, -ENOMEM, NULL, "out of memory for a question");
        return;
    }
    question->bytes = pack(message, &question->count);
    if (!question->bytes)
        finish_later(peers, question, -ENOMEM,
                     "out of memory for a question, or one beyond the limit of 64 MiB");
    else if (node == peers->tcad->node)
        put_local(peers, question);
    else
        ask_peer(peers, question);
}

void peers_tell(struct peers *peers, uint32_t node, const Tca__Message *message)
{
    struct peer *peer = peer_find(peers, node);
    if (peer && peer_has_link(peer))
        link_send(peer, 0, message);
}

/* ---- replies ---- */

/* Releases bindings that arrived after the time-out of their request; otherwise the other node would
 * keep them until the requesting session ends. */
static void give_back(struct peers *peers, uint32_t node, const Tca__PeerBound *bound)
{
    uint64_t bindings[BIND_PUTS_MAX];
    Tca__PeerUnbind unbind = TCA__PEER_UNBIND__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    for (size_t i = 0; i < bound->n_puts && i < BIND_PUTS_MAX; i++)
        bindings[unbind.n_bindings++] = bound->puts[i]->binding;
    unbind.bindings = bindings;
    message.body_case = TCA__MESSAGE__BODY_PEER_UNBIND;
    message.peer_unbind = &unbind;
    if (unbind.n_bindings > 0)
        peers_tell(peers, node, &message);
}

void question_answered(struct peers *peers, uint32_t node, uint32_t tag, const Tca__Message *answer)
{
    struct question *question = question_find(peers, node, tag);
    if (question &&
        !question->bytes) /* else it has not been sent yet, so this cannot be its reply */
        finish_with(peers, question, answer);
    else if (!question && answer->body_case == TCA__MESSAGE__BODY_PEER_BOUND)
        give_back(peers, node, answer->peer_bound);
}

void peers_answer(struct peers *peers, uint32_t node, uint32_t tag, const Tca__Message *answer)
{
    if (tag == 0)
        return; /* a message that needs no reply */
    if (node == peers->tcad->node) {
        struct question *question = question_find(peers, node, tag);
        if (question && !question->bytes)
            answer_later(peers, question, answer);
        return;
    }
    struct peer *peer = peer_find(peers, node);
    if (peer && peer_has_link(peer))
        link_send(peer, tag, answer);
}

void peers_fail(struct peers *peers, uint32_t node, uint32_t tag, int error, const char *format,
                ...)
{
    char text[PEER_TEXT_MAX * 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);

    Tca__Failure failure;
    Tca__Message message;
    message_failure(&message, &failure, error, text);
    peers_answer(peers, node, tag, &message);
}

/* ---- failing requests ---- */

void questions_fail(struct peer *peer, int error, const char *text)
{
    /* Only these: requests that answered() makes are not failed with them. */
    struct question_list failed;
    question_list_init(&failed);
    while (peer->questions.first) {
        struct question *question = peer->questions.first;
        list_remove(question);
        list_append(&failed, question);
    }
    while (failed.first)
        finish(peer->peers, failed.first, error, NULL, text);
}

static void free_one(void *context, void *question)
{
    question_free(context, question);
}

void questions_free(struct peers *peers)
{
    table_each(&peers->questions, free_one, peers);
    table_deinit(&peers->questions);
}
