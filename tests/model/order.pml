/*
 * Order between seats (client/plan/order.h): two plans of one channel put to the same process. Their starts take the process's pair P, or
 * tcad's seat T; on each of these, data arrives in order. Each plan moves from one to the other when the data of its own starts has
 * arrived, as in a trial or when there is a pair again (route.pml). The process notes whose starts may be in flight only while some plan
 * may move, and has no more than one start of each plan at a time. Spin shows that all starts of both plans arrive in order, and
 * that it would notice: with any one of the macros below, which break the protocol in one place, it finds a counterexample.
 *
 *   NO_LAND_HERE      a start in tcad's seat does not wait for earlier ones over the pair
 *   NO_LAND_TCAD      a start over the pair does not wait for earlier ones in tcad's seat
 *   ASK_AT_ONCE       asks when data has arrived before all of it was posted
 *   NO_FIRST          when the first plan may move, does not note what was started before
 *   FORGET_JOIN       takes a plan for landed when tcad begins to take its starts, though it goes on over its pair
 *   LAND_OWN          waits for the data of its own plan only
 *   MOVE_AT_ONCE      a plan takes the other seat before the data of its own starts has arrived
 */

#define N 3 /* starts of each plan */
#define P 0
#define T 1

chan wire[2] = [4] of { byte }; /* starts that were posted, by number */
byte posting[2];                /* accepted on a seat, not posted: 0: none */
byte last;                      /* that has arrived */

/* Data arrives in order on each seat. */
proctype receiver()
{
    byte number;
end:
    do
    :: atomic { nempty(wire[P]) -> wire[P] ? number; assert(number > last); last = number; number = 0 }
    :: atomic { nempty(wire[T]) -> wire[T] ? number; assert(number > last); last = number; number = 0 }
    od
}

/* The pair, or tcad's engine. */
proctype poster(byte seat)
{
end:
    do
    :: atomic { posting[seat] != 0 && nfull(wire[seat]) -> wire[seat] ! posting[seat]; posting[seat] = 0 }
    od
}

byte seat[2];     /* of the next start, */
bool in_tcad[2];  /* tcad takes starts, too */
bool unlanded[2]; /* of the last one, in the seat that the plan has */
byte movers;

/* All that was put on the seat so far has arrived. */
#ifdef ASK_AT_ONCE
#define LANDED(s) (empty(wire[s]))
#else
#define LANDED(s) (posting[s] == 0 && empty(wire[s]))
#endif

#ifdef NO_LAND_HERE
#define WAITS_HERE false
#else
#define WAITS_HERE (seat[plan] == T && seat[1 - plan] == P)
#endif
#ifdef NO_LAND_TCAD
#define WAITS_TCAD false
#else
#define WAITS_TCAD (seat[plan] == P && seat[1 - plan] == T)
#endif
#ifdef MOVE_AT_ONCE
#define MAY_MOVE(plan) in_tcad[plan]
#else
#define MAY_MOVE(plan) (in_tcad[plan] && LANDED(seat[plan]))
#endif
#ifdef LAND_OWN
#define FOR (plan)
#else
#define FOR (1 - plan)
#endif

inline count(more)
{
    if
    :: more ->
        movers++;
        if
#ifndef NO_FIRST
        :: movers == 1 -> unlanded[0] = started[0]; unlanded[1] = started[1]
#endif
        :: else
        fi
    :: else ->
        movers--;
        if
        :: movers == 0 -> unlanded[0] = false; unlanded[1] = false
        :: else
        fi
    fi
}

inline start()
{
    if
    :: movers > 0 && (WAITS_HERE || WAITS_TCAD) && unlanded[FOR] ->
        LANDED(seat[FOR]);
        unlanded[FOR] = false
    :: else
    fi;
    atomic {
        posting[seat[plan]] == 0; /* a seat takes starts in order */
        unlanded[plan] = unlanded[plan] || movers > 0;
        started[plan] = true;
        posting[seat[plan]] = number;
        number++;
        left[plan]--
    }
}

inline join(which)
{
    in_tcad[which] = true;
    count(true);
#ifdef FORGET_JOIN
    unlanded[which] = false
#endif
}

inline move(which)
{
    seat[which] = 1 - seat[which];
    unlanded[which] = false
}

proctype process()
{
    byte number = 1, plan, left[2];
    bool started[2];
    left[0] = N;
    left[1] = N;

    do
    :: atomic { left[0] > 0 -> plan = 0 }; start()
    :: atomic { left[1] > 0 -> plan = 1 }; start()
    :: atomic { !in_tcad[0] -> join(0) }
    :: atomic { !in_tcad[1] -> join(1) }
    :: atomic { !in_tcad[1] && left[1] == N -> join(1); seat[1] = T } /* committed there, only now */
    :: atomic { in_tcad[0] && seat[0] == P -> in_tcad[0] = false; count(false) }
    :: atomic { in_tcad[1] && seat[1] == P -> in_tcad[1] = false; count(false) }
    :: atomic { MAY_MOVE(0) -> move(0) }
    :: atomic { MAY_MOVE(1) -> move(1) }
    :: left[0] == 0 && left[1] == 0 -> break
    od
}

init
{
    atomic {
        run receiver();
        run poster(P);
        run poster(T);
        run process()
    }
}
