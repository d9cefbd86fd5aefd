/*
 * The gates of attached memory (drivers/shm/attached.h), on a machine with x86's memory model.
 *
 * Two writers, in processes of their own, put into a region again and again; each may be killed at any time. The owner frees the
 * region, and then uses its gate for another one. Spin shows that
 *   - nobody stores to the region once it has been freed,
 *   - the owner does not wait for ever, for somebody who was killed or has left (an invalid end state),
 * and that it would notice: with any one of the macros below, which break the protocol in one place, it finds a counterexample.
 *
 *   NO_SECOND_LOOK     writer: stores once its mark is there
 *   NO_MARK_FENCE      writer: mark and second look may pass each other
 *   NO_CLOSE_FENCE     owner: closing and its look at the marks may pass each other
 *   LATE_USED          writer: says that its page of marks is used after its second look
 *   ONE_PLACE          both writers have the same place
 *   OPEN_OR_CLOSED     writer: looks whether the gate is open, not whose it is
 *   LEAVE_FIRST        writer: takes its mark away before it has stored
 *   MARKS_FIRST        owner: closes the gate after its look at the marks
 *   NO_MARKS           owner: does not look at the marks
 *   NO_ENDED           owner: waits for the mark of a writer that was killed
 */

#define WRITERS 2
#define REGION  1 /* names of regions; 0: the gate is closed */
#define NEXT    2

/* ---- the owner's memory ---- */

#define GATE   0
#define USED   1 /* by writer: each has a page of its own */
#define MARKS  (USED + WRITERS)
#define MEMORY (MARKS + WRITERS)

byte memory[MEMORY];
bool freed; /* the region */
bool ended[WRITERS];
bool storing[WRITERS]; /* a store to the region has begun: the kernel copies */

/* Total store order, as in ring.pml. Loads go to memory: who loads what it may have in its own buffer does so after a fence. */
chan writer_stores[WRITERS] = [3] of { byte, byte };
chan owner_stores = [3] of { byte, byte };

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

#ifdef ONE_PLACE
#define PLACE 0
#else
#define PLACE self
#endif

#ifdef OPEN_OR_CLOSED
#define LETS_IN (memory[GATE] != 0)
#else
#define LETS_IN (memory[GATE] == REGION)
#endif

inline may_be_killed()
{
    if
    :: goto killed
    :: skip
    fi
}

inline leave()
{
    stores ! MARKS + PLACE, 0
}

proctype writer(byte self; chan stores)
{
    byte puts;

    do
    :: puts == 2 -> break
    :: puts < 2 ->
        puts++;
        if /* the first look */
        :: LETS_IN -> skip
        :: else -> goto left
        fi;
        may_be_killed();
        stores ! MARKS + PLACE, REGION;
#ifndef LATE_USED
        stores ! USED + PLACE, 1;
#endif
        may_be_killed();
#ifndef NO_MARK_FENCE
        fence(stores);
#endif
#ifndef NO_SECOND_LOOK
        if
        :: LETS_IN -> skip
        :: else -> leave(); goto left
        fi;
#endif
#ifdef LATE_USED
        stores ! USED + PLACE, 1;
#endif
#ifdef LEAVE_FIRST
        leave();
#endif
        storing[self] = true;
        assert(!freed);
        storing[self] = false;
        may_be_killed();
#ifndef LEAVE_FIRST
        leave();
#endif
left:
        skip
    od;
killed:
    empty(stores); /* what it has stored is there, then the kernel says so */
    ended[self] = true
}

#ifdef NO_ENDED
#define IS_THERE(writer) (memory[USED + writer] == 1 && memory[MARKS + writer] == REGION)
#else
#define IS_THERE(writer) (memory[USED + writer] == 1 && memory[MARKS + writer] == REGION && !ended[writer])
#endif

proctype owner()
{
#ifdef MARKS_FIRST
    !IS_THERE(0);
    !IS_THERE(1);
#endif
    owner_stores ! GATE, 0;
#ifndef NO_CLOSE_FENCE
    fence(owner_stores);
#endif
#ifndef MARKS_FIRST
#ifndef NO_MARKS
    !IS_THERE(0); /* one after the other */
    !IS_THERE(1);
#endif
#endif
    atomic {
        assert(!storing[0] && !storing[1]);
        freed = true
    }
    owner_stores ! GATE, NEXT
}

init
{
    atomic {
        memory[GATE] = REGION;
        run drain(writer_stores[0]);
        run drain(writer_stores[1]);
        run drain(owner_stores);
        run writer(0, writer_stores[0]);
        run writer(1, writer_stores[1]);
        run owner()
    }
}
