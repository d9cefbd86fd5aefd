/*
 * Order between rails (daemon/engine/engine_flow.c): plans of one channel, run by one engine, put to one node over the rails A and B.
 * On each of these, data arrives in order. The channel takes one start at a time; it posts its data, which is complete here later, and
 * arrives later still. A peer confirms only what was complete when it was asked. A plan moves, between two of its starts, when its data
 * has arrived, and so it is released; another takes its place. The engine notes whose data may be on its way only while there are
 * plans on both rails. Spin shows that the starts of all plans arrive in order, and that each of them arrives (else: an invalid end
 * state), and that it would notice: with any one of the macros below, which break the protocol in one place, it finds a counterexample.
 *
 *   NO_WAIT         a start does not wait for earlier ones on the other rail
 *   ASK_AT_ONCE     asks the peer before what was posted is complete
 *   NO_FIRST        when plans are on both rails for the first time, takes nothing to be on its way
 *   NOTE_NOTHING    does not note the starts that it lets begin
 *   GO_UNFLUSHED    a plan moves or is released before its data has arrived
 *   LATE_ANSWER     takes an answer for one about starts that began after the question
 *   ONE_ANSWER      takes an answer of one rail for one of both
 *   LOOK_ONCE       does not look again when the answer is there
 */

#define STARTS 5
#define PLANS  2
#define MOVES  6
#define NONE   2 /* no rail: 0 and 1 are A and B */

byte rail[PLANS];     /* that it puts over */
byte running[PLANS];  /* number of its start that is not complete here; 0: none */
chan wire[2] = [STARTS] of { byte }; /* complete here, on their way */
byte last;            /* that has arrived */
byte count, moves;    /* starts that were taken, moves of plans */
byte held = NONE;     /* a plan whose start has the channel and waits */
bool unlanded[2], asked[2];
byte behind[2];       /* what was on its way when the peer was asked: to arrive before it answers */

#define OTHER(r)  (1 - (r))
#define SPLIT     (rail[0] != NONE && rail[1] != NONE && rail[0] != rail[1])
#define POSTS(r)  ((rail[0] == (r) && running[0]) || (rail[1] == (r) && running[1]))
#define IS_NEXT(p) (running[p] && !(rail[0] == rail[1] && running[1 - (p)] && running[1 - (p)] < running[p])) /* in the driver's queue */
#define LANDED(p) (running[p] == 0 && empty(wire[rail[p]]))

/* The receiver. */
active [2] proctype arrive()
{
    byte number;
end:
    do
    :: atomic {
        nempty(wire[_pid]) -> wire[_pid] ? number;
        assert(number > last);
        last = number;
        number = 0;
        behind[_pid] = (behind[_pid] > 0 -> behind[_pid] - 1 : 0)
    }
    od
}

#ifdef NOTE_NOTHING
#define NOTES false
#else
#define NOTES SPLIT
#endif
inline note(plan)
{
    unlanded[rail[plan]] = unlanded[rail[plan]] || NOTES
}

#ifdef NO_FIRST
#define FIRST false
#else
#define FIRST (SPLIT && !was)
#endif

#ifdef NO_WAIT
#define MUST_WAIT(plan) false
#else
#define MUST_WAIT(plan) (SPLIT && (unlanded[OTHER(rail[plan])] || asked[OTHER(rail[plan])]))
#endif
#ifdef ASK_AT_ONCE
#define MAY_ASK(r) (!asked[r])
#else
#define MAY_ASK(r) (!asked[r] && !POSTS(r))
#endif
#ifdef GO_UNFLUSHED
#define MAY_GO(p) (moves < MOVES && running[p] == 0)
#else
#define MAY_GO(p) (moves < MOVES && LANDED(p))
#endif

inline begin(plan)
{
    note(plan);
    running[plan] = count
}

inline take(plan)
{
    count++;
    if
    :: MUST_WAIT(plan) -> held = plan
    :: else -> begin(plan)
    fi
}

/* What a plan has put completes here: the driver has sent it. A plan that was moved or released is at rest. */
inline complete(plan)
{
    wire[rail[plan]] ! running[plan];
    running[plan] = 0
}

inline move(plan, to)
{
    was = SPLIT;
    moves++;
    rail[plan] = to;
    if
    :: FIRST -> unlanded[0] = true; unlanded[1] = true
    :: else
    fi;
    was = false
}

inline ask(r)
{
    asked[r] = true;
    unlanded[r] = false;
    behind[r] = len(wire[r])
}

inline answer(r)
{
    asked[r] = false
#ifdef LATE_ANSWER
    ; unlanded[r] = false
#endif
#ifdef ONE_ANSWER
    ; unlanded[OTHER(r)] = false; asked[OTHER(r)] = false
#endif
}

#ifdef LOOK_ONCE
#define LOOKS false
#else
#define LOOKS true
#endif

active proctype engine()
{
    bool was;
    do
    :: atomic { held == NONE && count < STARTS && running[0] == 0 && rail[0] != NONE -> take(0) }
    :: atomic { held == NONE && count < STARTS && running[1] == 0 && rail[1] != NONE -> take(1) }
    :: atomic { held != NONE && LOOKS && !MUST_WAIT(held) -> begin(held); held = NONE }
    :: atomic { held != NONE && SPLIT && unlanded[OTHER(rail[held])] && MAY_ASK(OTHER(rail[held])) -> ask(OTHER(rail[held])) }
    :: atomic { asked[0] && behind[0] == 0 -> answer(0) }
    :: atomic { asked[1] && behind[1] == 0 -> answer(1) }
    :: atomic { IS_NEXT(0) -> complete(0) }
    :: atomic { IS_NEXT(1) -> complete(1) }
    :: atomic { rail[0] != NONE && MAY_GO(0) -> move(0, OTHER(rail[0])) }
    :: atomic { rail[1] != NONE && MAY_GO(1) -> move(1, OTHER(rail[1])) }
    :: atomic { rail[1] != NONE && held != 1 && MAY_GO(1) -> move(1, NONE) }
    :: atomic { rail[1] == NONE && moves < MOVES -> move(1, 0) }
    :: atomic { rail[1] == NONE && moves < MOVES -> move(1, 1) }
    :: atomic { count == STARTS && held == NONE && running[0] == 0 && running[1] == 0 && !asked[0] && !asked[1] -> break }
    od
}
