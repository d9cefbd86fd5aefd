/*
 * The rings of proto/ring.h with both ways to sleep (proto/segment.h, proto/notify.h), on a machine with x86's memory model.
 *
 * A client submits N entries, an engine takes them and completes each. When it has nothing to do, the engine arms itself and
 * blocks on its eventfd, the client sleeps on its doorbell. Spin shows that
 *   - every entry arrives once, whole and in order (the assertions),
 *   - nobody sleeps through a wake-up (else both are stuck: an invalid end state),
 * and that it would notice: with any one of the macros below, which break the protocol in one place, it finds a counterexample.
 *
 *   NO_SUBMIT_FENCE    client: tail and load of engine_armed may pass each other
 *   NO_ARM_FENCE       engine: engine_armed and the second look may pass each other
 *   NO_SECOND_LOOK     engine: blocks right after arming itself
 *   NO_WAKE_FENCE, NO_SLEEP_FENCE, NO_LAST_LOOK      the same for the client's doorbell
 *   LATE_DOORBELL      client: reads the doorbell only after it has set `sleeping`
 *   INDEX_FIRST        producers: index before entry
 *   FREE_FIRST         consumers: give the place back before they have read it
 */

#define N         4 /* entries in all */
#define SUBMIT    2 /* capacity of the submission ring */
#define COMPLETE  4 /* of the completion ring: more than can be in flight */
#define IN_FLIGHT 3 /* more than the submission ring holds: it runs full */
#define START     6 /* of all indexes, which wrap around at 8 */

#define WRAPPED(index) ((index) & 7)
#define USED(tail, head) (((tail) - (head)) & 7)

/* ---- shared memory ---- */

#define SUBMIT_TAIL      0
#define SUBMIT_HEAD      1
#define COMPLETE_TAIL    2
#define COMPLETE_HEAD    3
#define ENGINE_ARMED     4
#define SLEEPING         5
#define DOORBELL         6
#define SUBMIT_ENTRIES   7
#define COMPLETE_ENTRIES (SUBMIT_ENTRIES + SUBMIT)
#define MEMORY           (COMPLETE_ENTRIES + COMPLETE)

byte memory[MEMORY];

/*
 * Total store order: a store waits in its core's buffer, in order, and reaches memory at any later time. A fence waits
 * until the buffer is empty; so does an exchange. Nobody here loads what is in its own buffer, so loads go to memory.
 */
chan client_stores = [4] of { byte, byte };
chan engine_stores = [4] of { byte, byte };

proctype drain(chan stores)
{
    byte place, value;
end:
    do
    :: d_step { stores ? place, value -> memory[place] = value; place = 0; value = 0 }
    od
}

inline fence(stores)
{
    empty(stores)
}

/* ---- the kernel ---- */

byte eventfd;       /* its counter; one is as good as many */
bool in_futex_wait; /* the client */

/* ---- rings ---- */

/* Two stores: the entry, then the index that says so. */
inline push(stores, entries, capacity, tail_place, tail, value)
{
#ifdef INDEX_FIRST
    stores ! tail_place, WRAPPED(tail + 1);
    stores ! entries + tail % capacity, value;
#else
    stores ! entries + tail % capacity, value;
    stores ! tail_place, WRAPPED(tail + 1);
#endif
    tail = WRAPPED(tail + 1)
}

inline pop(stores, entries, capacity, head_place, head, value)
{
#ifdef FREE_FIRST
    stores ! head_place, WRAPPED(head + 1);
    value = memory[entries + head % capacity];
#else
    value = memory[entries + head % capacity];
    stores ! head_place, WRAPPED(head + 1);
#endif
    head = WRAPPED(head + 1)
}

/* ---- client ---- */

proctype client()
{
    byte sent, got, doorbell, value;
    byte tail = START, head_seen = START; /* of the submission ring */
    byte head = START, tail_seen = START; /* of the completion ring */
    bool was;

    do
    :: got == N -> break

    :: got < N && sent < N && sent - got < IN_FLIGHT ->
        if
        :: USED(tail, head_seen) == SUBMIT -> head_seen = memory[SUBMIT_HEAD]
        :: else
        fi;
        if
        :: USED(tail, head_seen) == SUBMIT -> goto look /* full: wait for a completion */
        :: else
        fi;
        sent++;
        push(client_stores, SUBMIT_ENTRIES, SUBMIT, SUBMIT_TAIL, tail, sent);
#ifndef NO_SUBMIT_FENCE
        fence(client_stores);
#endif
        if
        :: memory[ENGINE_ARMED] == 1 ->
            atomic {
                empty(client_stores);
                was = memory[ENGINE_ARMED];
                memory[ENGINE_ARMED] = 0
            }
            if
            :: was -> eventfd = 1
            :: else
            fi;
            was = 0
        :: else
        fi

    :: got < N && sent > got ->
look:
        if
        :: head == tail_seen -> tail_seen = memory[COMPLETE_TAIL]
        :: else
        fi;
        if
        :: head != tail_seen ->
            pop(client_stores, COMPLETE_ENTRIES, COMPLETE, COMPLETE_HEAD, head, value);
            got++;
            assert(value == got)
        :: else ->
#ifndef LATE_DOORBELL
            doorbell = memory[DOORBELL];
#endif
            client_stores ! SLEEPING, 1;
#ifndef NO_SLEEP_FENCE
            fence(client_stores);
#endif
#ifdef LATE_DOORBELL
            doorbell = memory[DOORBELL];
#endif
            if
#ifndef NO_LAST_LOOK
            :: memory[COMPLETE_TAIL] != head
#endif
            :: else ->
                atomic { /* the kernel compares and goes to sleep in one */
                    if
                    :: memory[DOORBELL] == doorbell -> in_futex_wait = true
                    :: else
                    fi
                }
                !in_futex_wait
            fi;
            client_stores ! SLEEPING, 0
        fi;
        value = 0;
        doorbell = 0
    od
}

/* ---- engine ---- */

proctype engine()
{
    byte done, value;
    byte head = START, tail_seen = START; /* of the submission ring */
    byte tail = START;                    /* of the completion ring */
    bool was;

    do
    :: done == N -> break
    :: else ->
        if
        :: head == tail_seen -> tail_seen = memory[SUBMIT_TAIL]
        :: else
        fi;
        if
        :: head != tail_seen ->
            pop(engine_stores, SUBMIT_ENTRIES, SUBMIT, SUBMIT_HEAD, head, value);
            done++;
            assert(value == done);
            assert(USED(tail, memory[COMPLETE_HEAD]) < COMPLETE);
            push(engine_stores, COMPLETE_ENTRIES, COMPLETE, COMPLETE_TAIL, tail, value);
            value = 0;
#ifndef NO_WAKE_FENCE
            fence(engine_stores);
#endif
            if
            :: memory[SLEEPING] == 1 ->
                atomic {
                    empty(engine_stores);
                    was = memory[SLEEPING];
                    memory[SLEEPING] = 0
                }
                if
                :: was ->
                    d_step { empty(engine_stores); memory[DOORBELL] = WRAPPED(memory[DOORBELL] + 1) }
                    in_futex_wait = false
                :: else
                fi;
                was = 0
            :: else
            fi
        :: else ->
            engine_stores ! ENGINE_ARMED, 1;
#ifndef NO_ARM_FENCE
            fence(engine_stores);
#endif
            if
#ifndef NO_SECOND_LOOK
            :: memory[SUBMIT_TAIL] != head -> engine_stores ! ENGINE_ARMED, 0
#endif
            :: else -> d_step { eventfd != 0 -> eventfd = 0 }
            fi
        fi
    od
}

init
{
    atomic {
        memory[SUBMIT_TAIL] = START;
        memory[SUBMIT_HEAD] = START;
        memory[COMPLETE_TAIL] = START;
        memory[COMPLETE_HEAD] = START;
        run drain(client_stores);
        run drain(engine_stores);
        run client();
        run engine()
    }
}
