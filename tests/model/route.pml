/*
 * The routes of a plan, and its moves from one to another: a process that starts it, its tcad with the engine, the receiver.
 *
 * A route is a rail and a seat: A and B are rails of tcad's seat, of which A is better; P is a connection of the process
 * itself. The plan is bound to one of tcad's, to P, or to both; each start takes one. Whatever the cause of a move, it has
 * the same steps. The process tries other routes whenever it likes, routes are lost and come back, binding fails. Data that
 * was put may arrive after its start is complete. Spin shows that
 *   - starts arrive in order and once, and those that succeeded do arrive,
 *   - no route is released while a start or its data is on it, and no start takes one that was released,
 *   - every start and every request is answered, and the machine settles (else: an invalid end state),
 * and that it would notice: with any one of the macros below, which break the protocol in one place, it finds a counterexample.
 *
 *   NO_HOLD            tcad: releases a route while the engine takes starts
 *   NO_FLUSH           tcad: goes to another route before the data on the last one has arrived
 *   REST_ONLY          tcad: waits until the start that runs is complete, though its route was lost
 *   NO_RESUME          tcad: does not begin the start that came during a move
 *   NO_SECOND_LOOK     tcad: does not look for a loss during a move that was not caused by one
 *   DROP_REQUEST       tcad: forgets a request that came during a move
 *   DROP_BOTH          tcad: releases the other route, too, when one cannot be bound
 *   NO_WAY_BACK        tcad: breaks the plan when its own routes are lost, though the process has P
 *   FLUSH_JOINS        tcad: takes a request about starts that it has run for one to bind its routes
 *   PART_ANYWAY        tcad: leaves its seat, as it was asked to, though the process has lost P since
 *   UNPAIR_FIRST       tcad: releases P when it is lost, before the process has left it
 *   NO_BREAK           tcad: has no route left, and holds starts for ever
 *   LEAVE_AT_ONCE      process: leaves P before its data has arrived
 *   RISE_AT_ONCE       process: takes P before the data of tcad's starts has arrived
 *   ANY_ANSWER         process: takes the answer to an earlier request for that to the last one
 *   GO_ON_HELD         process: starts while it waits for the data of earlier starts
 */

#define N        2 /* starts */
#define REQUESTS 2

#define NONE 0
#define A    1 /* rails of tcad's seat */
#define B    2
#define P    3 /* the process's own */

mtype = { JOIN, TRY, FLUSH, PART, FELL,    /* requests: a rail of tcad's or NONE, and the turn */
          CHANGED, PAIRED, BROKEN,         /* events: tcad's route, and the turn */
          REST, PAUSE, RESUME, CLOSE,      /* orders to the engine */
          OPEN, RESTING, PAUSED, CLOSED }; /* it takes starts, until none runs, holds them, refuses them */

bool up[4];
byte wire[4]; /* the start whose data is on the route, not arrived; 0: none */
byte last;    /* that has arrived */
byte arrived; /* one bit each */

chan submit = [1] of { byte };
chan complete = [1] of { byte, bool }; /* whether it succeeded */
chan requests = [3] of { mtype, byte, byte };
chan events = [4] of { mtype, byte, byte };
chan orders = [1] of { mtype };
chan ordered = [1] of { bool };

byte bound;   /* tcad's route, */
bool alive;   /* not lost since it was bound */
bool paired;  /* P is bound */
bool on_pair; /* the process's starts take it */
bool left;    /* it has ended */

proctype receiver()
{
    byte route;
end:
    do
    :: d_step { wire[A] != 0 -> route = A }; goto arrives
    :: d_step { wire[B] != 0 -> route = B }; goto arrives
    :: d_step { wire[P] != 0 -> route = P }; goto arrives
arrives:
        atomic {
            if
            :: wire[route] != 0 ->
                assert(wire[route] > last);
                last = wire[route];
                arrived = arrived | (1 << last);
                wire[route] = 0
            :: else /* lost meanwhile */
            fi;
            route = NONE
        }
    od
}

/* ---- the engine ---- */

mtype engine = OPEN;
byte running, held;
bool posted;

proctype engine_thread()
{
    byte start;
    mtype order;
end:
    do
    :: atomic { running == 0 && held == 0 && engine != CLOSED && engine != RESTING && nempty(submit) ->
            submit ? start;
            if
            :: engine == PAUSED -> held = start
            :: else -> running = start
            fi;
            start = 0
        }
    :: atomic { engine == CLOSED && nempty(submit) -> submit ? start; complete ! start, false; start = 0 }
    :: atomic { running != 0 && !posted && alive && (wire[bound] == 0) ->
            assert(bound != NONE);
            wire[bound] = running;
            posted = true
        }
    :: atomic { running != 0 && bound == NONE -> assert(false) }
    :: atomic { running != 0 && posted && alive -> /* over a lost route, it never completes */
            posted = false;
            complete ! running, true;
            running = 0
        }
    :: atomic { engine == RESTING && running == 0 -> engine = PAUSED; ordered ! true }
    :: atomic { orders ? order ->
            if
            :: order == REST -> engine = RESTING
            :: order == RESUME && engine == PAUSED -> engine = OPEN; running = held; held = 0
            :: order == RESUME && engine != PAUSED
            :: order == PAUSE && engine == PAUSED /* it rested already, and has said so */
            :: else ->
                if
                :: running != 0 -> complete ! running, false
                :: else
                fi;
                running = 0;
                posted = false;
                if
                :: order == CLOSE && held != 0 -> complete ! held, false; held = 0
                :: else
                fi;
                engine = (order == PAUSE -> PAUSED : CLOSED);
                ordered ! true
            fi;
            order = 0
        }
    od
}

/* ---- tcad's machine ---- */

/* The best route that leads there; the one that was asked for, if that does. */
#define BEST (asked != NONE && up[asked] -> asked : (up[A] -> A : (up[B] -> B : NONE)))

#ifdef REST_ONLY
#define STOP REST
#else
#define STOP (alive -> REST : PAUSE)
#endif

inline hold()
{
#ifndef NO_HOLD
    orders ! STOP;
    do
    :: ordered ? _ -> break
    :: atomic { engine == RESTING && !alive && empty(orders) && empty(ordered) && !paused ->
            paused = true;
            orders ! STOP
        }
    :: atomic { nempty(requests) && requests ? [FELL, _, _] -> requests ? FELL, _, _; assert(!on_pair); paired = false }
    od;
    paused = false
#else
    skip
#endif
}

inline flush()
{
#ifndef NO_FLUSH
    wire[bound] == 0 || !alive
#else
    skip
#endif
}

inline release()
{
    assert(running == 0 && (wire[bound] == 0 || !alive));
    bound = NONE;
    alive = false
}

inline bind(route)
{
    bound = route;
    alive = up[route]
}

inline answer()
{
    events ! CHANGED, bound, turn
}

inline close()
{
    orders ! CLOSE;
    ordered ? _
}

#ifdef NO_SECOND_LOOK
#define LOST (bound != NONE && !alive && !broken && !looks)
#else
#define LOST (bound != NONE && !alive && !broken)
#endif

#ifdef PART_ANYWAY
#define MAY_PART true
#else
#define MAY_PART paired
#endif

#ifdef FLUSH_JOINS
#define JOINS (kind == JOIN || kind == FLUSH)
#else
#define JOINS (kind == JOIN)
#endif

proctype machine()
{
    byte asked, turn, next, route, number;
    mtype kind;
    bool paused, broken, failed, risen, looks;

end:
    do
    :: atomic { requests ? kind, route, number ->
            if
            :: kind == FELL -> assert(!on_pair); paired = false
            :: kind != FELL ->
                turn = number;
                asked = (kind == TRY -> route : asked)
            fi;
            route = 0;
            number = 0;
            looks = true
        };
        if
        :: kind == FELL
        :: kind != FELL && broken
        :: JOINS && !broken && bound == NONE ->
            atomic {
                next = BEST;
                if
                :: next != NONE -> bind(next); engine = OPEN
                :: !failed -> /* or cannot be bound */
                    failed = true
#ifdef DROP_BOTH
                    ; assert(!on_pair); paired = false
#endif
                :: next == NONE
                fi
            };
            answer()
        :: kind != FELL && kind != PART && !broken && bound != NONE -> /* moves, or only flushes */
            hold();
            goto move
        :: kind == PART && !broken && bound != NONE && !paired -> answer()
        :: kind != FELL && !JOINS && !broken && bound == NONE -> answer()
        :: kind == PART && !broken && bound != NONE && paired ->
            hold();
            if
            :: MAY_PART -> goto part
            :: else -> orders ! RESUME; answer() /* the process has lost P meanwhile */
            fi
        fi;
        goto settled

    :: LOST -> /* lost */
        hold();
        goto move
    :: bound == B && up[A] && asked != B && !broken -> /* back */
        hold();
        goto move
    :: atomic { bound != NONE && up[P] && !paired && !risen && !broken -> risen = true; paired = true };
        events ! PAIRED, bound, turn; /* rises */
        goto settled
#ifdef UNPAIR_FIRST
    :: atomic { paired && !up[P] -> assert(!on_pair); paired = false }
#endif
    :: left && empty(requests) -> break

move:
        flush();
        atomic {
            next = BEST;
            if
            :: next != NONE && next != bound -> release(); bind(next)
            :: next != NONE && next == bound && !alive -> bind(next) /* it is back */
            :: else
            fi
        };
        if
#ifndef NO_WAY_BACK
        :: !alive && next == NONE && paired -> goto part
        :: !alive && next == NONE && !paired ->
#else
        :: !alive && next == NONE ->
#endif
#ifndef NO_BREAK
            close();
            broken = true;
            events ! BROKEN, NONE, turn
#else
            broken = true
#endif
        :: else ->
#ifndef NO_RESUME
            orders ! RESUME;
#else
            engine = OPEN;
#endif
            answer()
        fi;
        goto settled
part:
        assert(paired || !(up[A] || up[B])); /* there is another seat */
        flush();
        close();
        release();
        answer();
settled:
#ifdef DROP_REQUEST
        do
        :: requests ? _, _, _
        :: empty(requests) -> break
        od;
#endif
        kind = 0;
        next = NONE
    od
}

/* ---- the process ---- */

#ifdef GO_ON_HELD
#define MAY_START true
#else
#define MAY_START (!held_back)
#endif
#ifdef LEAVE_AT_ONCE
#define MAY_LEAVE true
#else
#define MAY_LEAVE (wire[P] == 0)
#endif
#ifdef ANY_ANSWER
#define ANSWERS true
#else
#define ANSWERS (number == turn)
#endif

proctype process()
{
    byte start = 1, turn, route, number, succeeded, budget = REQUESTS;
    mtype kind;
    bool runs, ok, waits, held_back, dead;
    bool has_pair = on_pair, in_tcad = !on_pair;

    do
    /* a start */
    :: atomic { !runs && start <= N && on_pair && up[P] && wire[P] == 0 ->
            assert(paired);
            wire[P] = start;
            succeeded = succeeded | (1 << start);
            start++
        }
    :: atomic { !runs && start <= N && on_pair && !up[P] -> /* P was lost */
            has_pair = false;
            on_pair = false;
            requests ! FELL, NONE, 0;
            dead = !in_tcad
        }
    :: atomic { !runs && start <= N && !on_pair && !dead && MAY_START -> submit ! start; runs = true }
    :: atomic { runs && nempty(complete) ->
            complete ? number, ok;
            assert(number == start);
            succeeded = succeeded | (ok << start);
            number = 0;
            ok = false;
            start++;
            runs = false
        }
    :: atomic { dead && !runs && start <= N -> start++ }

    /* a trial */
    :: atomic { !waits && !runs && budget > 0 && !dead && start <= N ->
            if
            :: on_pair && !in_tcad -> requests ! JOIN, NONE, turn + 1
            :: on_pair && in_tcad -> requests ! PART, NONE, turn + 1
            :: !on_pair && !has_pair -> requests ! TRY, A, turn + 1
            :: !on_pair && !has_pair -> requests ! TRY, B, turn + 1
            :: !on_pair && has_pair -> requests ! FLUSH, NONE, turn + 1; held_back = true
            fi;
            turn++;
            budget--;
            waits = true
        }
    :: atomic { !runs && on_pair && in_tcad && budget > 0 && !waits && MAY_LEAVE -> on_pair = false; budget-- }
    :: held_back -> held_back = false /* it takes too long */

    /* an event */
    :: atomic { events ? kind, route, number ->
            if
            :: kind == PAIRED ->
                has_pair = true
#ifdef RISE_AT_ONCE
                ; if
                :: !runs -> on_pair = true
                :: else
                fi
#endif
            :: kind == BROKEN -> assert(!has_pair); in_tcad = false; dead = true; waits = false; held_back = false
            :: kind == CHANGED ->
                in_tcad = (route != NONE);
                if
                :: held_back && !runs && has_pair && in_tcad && ANSWERS -> on_pair = true; held_back = false
                :: else
                fi;
                if
                :: number == turn -> waits = false
                :: else
                fi;
                if
                :: !in_tcad && !on_pair && has_pair -> on_pair = true
                :: !in_tcad && !on_pair && !has_pair -> dead = true; waits = false
                :: else
                fi
            fi;
            kind = 0;
            route = 0;
            number = 0
        }
    :: start > N && !runs && !waits && empty(events) -> break
    od;
    left = true;
    (wire[A] == 0 && wire[B] == 0 && wire[P] == 0);
    assert((succeeded & arrived) == succeeded);
end:
    do
    :: events ? _, _, _
    od
}

/* Routes are lost, without data of complete starts on them (else the plan is broken), and one comes back. */
inline lose(route)
{
    atomic {
        !lost[route] && (wire[route] == 0 || (wire[route] == running && route != P)) ->
        lost[route] = true;
        up[route] = false;
        wire[route] = 0;
        alive = alive && bound != route
    }
}

proctype routes()
{
    bool lost[4], returned;
end:
    do
    :: lose(A)
    :: lose(B)
    :: lose(P)
    :: atomic { lost[A] && !returned -> returned = true; up[A] = true }
    od
}

init
{
    atomic {
        up[A] = true;
        up[B] = true;
        up[P] = true;
        if
        :: bound = A; alive = true
        :: paired = true; on_pair = true; engine = CLOSED
        fi;
        run receiver();
        run engine_thread();
        run machine();
        run process();
        run routes()
    }
}
