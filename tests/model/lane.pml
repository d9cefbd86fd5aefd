/*
 * The lanes of proto/lane.h, with notifications and sleep (proto/notify.h), on a machine with x86's memory model.
 *
 * A sender publishes N entries and raises a notification after each, without waiting for the receiver unless the lane is full; it
 * does entries itself whenever it likes. The receiver does them before it takes a notification, and sleeps when there is nothing for
 * it. At any time it may have its daemon's engine take the notifications instead (strict). The sender may be killed at any time, also
 * in the middle of an entry. Spin shows that
 *   - what was put before a notification is there when that is taken, by whomever, and never again after something younger,
 *   - every notification that was raised is taken (else somebody waits for ever: an invalid end state),
 * and that it would notice: with any one of the macros below, which break the protocol in one place, it finds a counterexample.
 *
 *   NO_DRAIN           receiver: takes a notification without a look at the lane
 *   NO_LOCK            both do entries at the same time
 *   NO_TAKE_OVER       receiver: waits for a sender that died at work
 *   NO_STRICT_FENCE    sender: entry and load of `strict` may pass each other
 *   NO_LOOK_FENCE      receiver: `strict` and its look at the lane may pass each other
 *   NO_STRICT_DRAIN    receiver: leaves what is in the lane to the engine
 *   NO_STRICT_WAIT     sender: does not land the entry before it raises
 *   NO_DRAIN_WAKE      sender: does not wake a receiver that found it at work
 *   NO_WAKE_FENCE      sender: notification, or the end of its work, and load of `sleeping` may pass each other
 *   NO_SLEEP_FENCE, NO_LAST_LOOK      receiver: `sleeping` and the second look
 *   SEQUENCE_FIRST     sender: publishes before the slot is written
 *   NOTIFY_FIRST       sender: raises before it publishes
 *   HEAD_FIRST         both: give an entry back before its data are there
 *   FREE_FIRST         both: give it back before they have read the slot
 */

#define N    3 /* entries in all */
#define LANE 2 /* places */

#define NOBODY   0
#define RECEIVER 1
#define SENDER   2

/* ---- shared memory ---- */

#define HEAD     0
#define DRAINER  1
#define LANDED   2 /* the target: which entry wrote it last */
#define NOTIFIED 3
#define STRICT   4
#define SLEEPING 5
#define DOORBELL 6
#define DEAD     7 /* source_state: by the daemon */
#define SEQUENCE 8
#define SLOTS    (SEQUENCE + LANE)
#define MEMORY   (SLOTS + LANE)

byte memory[MEMORY];

/* Total store order, as in ring.pml. Loads go to memory: who loads what it may have in its own buffer has a copy beside. */
chan sender_stores = [6] of { byte, byte };
chan receiver_stores = [6] of { byte, byte };

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

bool in_futex_wait; /* the receiver */
bool engine_on;
byte taken; /* exchanged by receiver and engine */

/* ---- both ends ---- */

#define NONE  0
#define DONE  1
#define AGAIN 2

/* lane_drain_one(). head is where it got to; a sender may be killed in the middle. */
inline drain_one(stores, self)
{
#ifdef NO_LOCK
    fence(stores);
    result = DONE;
#else
    atomic {
        empty(stores);
        if
        :: memory[DRAINER] == NOBODY -> memory[DRAINER] = self; result = DONE
        :: else -> result = AGAIN
        fi
    }
#endif
    if
    :: result == AGAIN
    :: else ->
        head = memory[HEAD];
        if
        :: memory[SEQUENCE + head % LANE] == head + 1 ->
#ifdef FREE_FIRST
            stores ! HEAD, head + 1;
#endif
            value = memory[SLOTS + head % LANE];
            assert(value == memory[LANDED] + 1 || value == memory[LANDED]); /* again, after a sender's death */
#ifdef HEAD_FIRST
            stores ! HEAD, head + 1;
#endif
            stores ! LANDED, value;
            if
            :: self == SENDER -> goto gone
            :: skip
            fi;
#ifndef FREE_FIRST
#ifndef HEAD_FIRST
            stores ! HEAD, head + 1;
#endif
#endif
            head++
        :: else -> result = NONE
        fi;
#ifndef NO_LOCK
        stores ! DRAINER, NOBODY
#endif
    fi
}

/* ---- sender ---- */

inline wake()
{
#ifndef NO_WAKE_FENCE
    fence(sender_stores);
#endif
    if
    :: memory[SLEEPING] == 1 ->
        atomic {
            empty(sender_stores);
            was = memory[SLEEPING];
            memory[SLEEPING] = 0
        }
        if
        :: was ->
            d_step { empty(sender_stores); memory[DOORBELL]++ }
            in_futex_wait = false
        :: else
        fi;
        was = 0
    :: else
    fi
}

inline help()
{
    drain_one(sender_stores, SENDER);
    if
    :: result != AGAIN ->
#ifndef NO_DRAIN_WAKE
        wake()
#else
        skip
#endif
    :: else
    fi;
    value = 0;
    head = 0
}

/* wait_backlog(): until at most `most` entries are left, helping whenever nobody is at work. */
inline wait_backlog(most)
{
    do
    :: next - memory[HEAD] <= most -> break
    :: next - memory[HEAD] > most && memory[DRAINER] == NOBODY -> help()
    od
}

inline raise()
{
    sender_stores ! NOTIFIED, next;
    wake()
}

proctype sender()
{
    byte next, head, value, result;
    bool was;

    do
    :: next == N -> break
    :: next < N ->
        wait_backlog(LANE - 1);
#ifdef NOTIFY_FIRST
        next++;
        raise();
        next--;
#endif
#ifdef SEQUENCE_FIRST
        sender_stores ! SEQUENCE + next % LANE, next + 1;
        sender_stores ! SLOTS + next % LANE, next + 1;
#else
        sender_stores ! SLOTS + next % LANE, next + 1;
        sender_stores ! SEQUENCE + next % LANE, next + 1;
#endif
        next++;
#ifndef NO_STRICT_FENCE
        fence(sender_stores);
#endif
#ifndef NO_STRICT_WAIT
        if
        :: memory[STRICT] == 1 -> wait_backlog(0)
        :: else
        fi;
#endif
#ifndef NOTIFY_FIRST
        raise();
#endif
        if
        :: help()
        :: skip
        :: goto gone
        fi
    od;
    wait_backlog(0);
    goto idle; /* and it stays */
gone:
    empty(sender_stores); /* what it has stored is there, then its daemon says so */
    memory[DEAD] = 1;
    atomic {
        if
        :: memory[SLEEPING] == 1 -> memory[SLEEPING] = 0; memory[DOORBELL]++; in_futex_wait = false
        :: else
        fi
    }
idle:
    skip
}

/* ---- receiver ---- */

#define pending (memory[SEQUENCE + next % LANE] >= next + 1)

/* lane_in_drain(): landed, or the sender is at it. */
inline drain_all()
{
    do
    :: !pending -> landed = true; break
    :: pending ->
        drain_one(receiver_stores, RECEIVER);
        if
        :: result == AGAIN ->
#ifndef NO_TAKE_OVER
            if
            :: memory[DEAD] == 1 ->
                atomic {
                    empty(receiver_stores);
                    if
                    :: memory[DRAINER] == SENDER -> memory[DRAINER] = NOBODY
                    :: else
                    fi
                }
            :: else -> break
            fi
#else
            break
#endif
        :: else ->
            if
            :: result == DONE -> mine = value
            :: else
            fi;
            next = head
        fi;
        value = 0;
        head = 0
    od
}

proctype receiver()
{
    byte next, head, value, result, doorbell, mine;
    bool dead, landed, armed;

    do
    :: taken == N -> break
    :: taken < N ->
        if
        :: !armed -> /* lanes_strict() */
            receiver_stores ! STRICT, 1;
#ifndef NO_LOOK_FENCE
            fence(receiver_stores);
#endif
            landed = false;
#ifndef NO_STRICT_DRAIN
            do
            :: landed -> break
            :: !landed && (memory[DRAINER] == NOBODY || memory[DEAD] == 1) -> drain_all()
            od;
#endif
            fence(receiver_stores); /* the commit that follows goes through the kernel */
            engine_on = true;
            do /* it still helps */
            :: taken == N || memory[DEAD] == 1 -> goto gone
            :: taken < N && memory[DEAD] == 0 && pending && memory[DRAINER] == NOBODY -> drain_all()
            od
        :: skip
        fi;
        dead = memory[DEAD];
        landed = false;
        if
        :: memory[NOTIFIED] != taken ->
#ifdef NO_DRAIN
            landed = true
#else
            drain_all()
#endif
        :: else
        fi;
        if
        :: landed ->
            assert(mine > taken || memory[LANDED] > taken);
            taken++
        :: !landed && dead -> assert(memory[NOTIFIED] == taken); goto gone
        :: !landed && !dead && !armed ->
            doorbell = memory[DOORBELL];
            receiver_stores ! SLEEPING, 1;
#ifndef NO_SLEEP_FENCE
            fence(receiver_stores);
#endif
            armed = true
#ifdef NO_LAST_LOOK
            ; goto asleep
#endif
        :: !landed && !dead && armed ->
#ifdef NO_LAST_LOOK
asleep:
#endif
            atomic { /* the kernel compares and goes to sleep in one */
                if
                :: memory[DOORBELL] == doorbell -> in_futex_wait = true
                :: else
                fi
            }
            !in_futex_wait;
            landed = true; /* only that it does not sleep any more */
        fi;
        if
        :: landed && armed -> receiver_stores ! SLEEPING, 0; armed = false; doorbell = 0
        :: else
        fi
    od;
gone:
    skip
}

proctype engine()
{
end:
    engine_on;
    do
    :: taken == N -> break
    :: memory[NOTIFIED] > taken ->
        assert(memory[LANDED] > taken);
        taken++
    :: memory[DEAD] == 1 && memory[NOTIFIED] == taken -> break
    od
}

init
{
    atomic {
        run drain(sender_stores);
        run drain(receiver_stores);
        run sender();
        run receiver();
        run engine()
    }
}
