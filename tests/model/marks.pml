/*
 * The marks of proto/segment.h (notify_tell(), notify_mark(), client/core/watch.c) on a machine with x86's memory model: processes raise
 * one line each, whose bits lie in one word, while their owner begins to watch the lines, takes what was raised, and sleeps. Each of them
 * may be killed anywhere. (The engine watches lines for starts that wait; its SLEEPING is engine_armed.) Spin shows that the owner gets all
 * that the others raise (else it sleeps for ever: an invalid end state), and that it would notice: with any one of the macros below, which
 * break the protocol in one place, it finds a counterexample.
 *
 *   NO_TELL_FENCE      raiser: its counter and the loads of `watched` and `sleeping` may pass each other
 *   NO_WATCH_FENCE     owner: `watched` and its look at the counter may pass each other
 *   NO_FIRST_LOOK      owner: does not look at the lines that it begins to watch
 *   WORD_FIRST         raiser: marks the word before the line
 *   WORD_ONCE          raiser: marks the word only with the first bit of it: the one who set that may have been killed
 *   LINES_FIRST        owner: takes the marks of lines before that of their word
 *   WAKE_FIRST         raiser: looks whether the owner sleeps before it marks
 *   NO_SLEEP_FENCE     owner: `sleeping` and the last look may pass each other
 *   NO_LAST_LOOK       owner: sleeps right after it has set `sleeping`
 */

#define RAISERS 2
#define N       2 /* notifications of each */

/* ---- shared memory ---- */

#define LINES    0 /* a word of marks */
#define WORDS    1 /* a mark of that word */
#define SLEEPING 2
#define DOORBELL 3
#define COUNT    4
#define WATCHED  (COUNT + RAISERS)
#define MEMORY   (WATCHED + RAISERS)

byte memory[MEMORY];
bool dead[RAISERS];
byte taken[RAISERS];

/* Total store order, as in ring.pml. Exchanges wait until the buffer is empty. */
chan owner_stores = [3] of { byte, byte };
chan stores_of_0 = [2] of { byte, byte };
chan stores_of_1 = [2] of { byte, byte };

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

/* ---- those who raise ---- */

inline may_die()
{
    if
    :: goto killed
    :: skip
    fi
}

inline mark_word()
{
    if
    :: memory[WORDS] -> skip
    :: else -> may_die(); atomic { empty(stores); memory[WORDS] = 1 }
    fi
}

inline mark()
{
#ifdef WORD_FIRST
    mark_word();
#endif
    atomic { empty(stores); before = memory[LINES]; memory[LINES] = before | (1 << self) }
    may_die();
#ifdef WORD_ONCE
    if
    :: before == 0 -> mark_word()
    :: else
    fi;
#else
#ifndef WORD_FIRST
    mark_word();
#endif
#endif
    before = 0
}

inline wake()
{
    if
    :: memory[SLEEPING] ->
        atomic { empty(stores); before = memory[SLEEPING]; memory[SLEEPING] = 0 }
        /* who is killed here does not ring: the owner sleeps at most 100 ms at a time */
        if
        :: before -> atomic { empty(stores); memory[DOORBELL]++ }
        :: else
        fi;
        before = 0
    :: else
    fi
}

proctype raiser(byte self; chan stores)
{
    byte raised, before;
    do
    :: raised < N ->
        may_die();
        raised++;
        stores ! COUNT + self, raised;
#ifndef NO_TELL_FENCE
        fence(stores);
#endif
#ifdef WAKE_FIRST
        wake();
#endif
        if
        :: memory[WATCHED + self] -> mark()
        :: else
        fi;
#ifndef WAKE_FIRST
        wake()
#endif
    :: else -> goto ends
    od;
killed:
    dead[self] = true;
ends:
    skip
}

/* ---- the owner ---- */

#define HAS_ALL_OF(i) (taken[i] == N || dead[i])
#define HAS_ALL       (HAS_ALL_OF(0) && HAS_ALL_OF(1))

inline update()
{
    if
    :: memory[WORDS] ->
#ifdef LINES_FIRST
        atomic { empty(owner_stores); queue = queue | memory[LINES]; memory[LINES] = 0 }
#endif
        atomic { empty(owner_stores); memory[WORDS] = 0 }
#ifndef LINES_FIRST
        atomic { empty(owner_stores); queue = queue | memory[LINES]; memory[LINES] = 0 }
#endif
    :: else
    fi
}

/* Of all lines in the queue; a line with more stays there. */
inline take()
{
    took = false;
    for (i : 0 .. RAISERS - 1) {
        if
        :: queue & (1 << i) ->
            if
            :: memory[COUNT + i] != taken[i] -> taken[i]++; took = true
            :: else -> queue = queue & ~(1 << i)
            fi
        :: else
        fi
    }
    i = 0
}

proctype owner()
{
    byte queue, i, seen;
    bool took;
    for (i : 0 .. RAISERS - 1) {
        owner_stores ! WATCHED + i, 1;
#ifndef NO_WATCH_FENCE
        fence(owner_stores);
#endif
#ifndef NO_FIRST_LOOK
        queue = queue | (1 << i)
#endif
    }
    i = 0;
    do
    :: HAS_ALL -> break
    :: else ->
        update();
        take();
        if
        :: took
        :: else ->
            seen = memory[DOORBELL];
            owner_stores ! SLEEPING, 1;
#ifndef NO_SLEEP_FENCE
            fence(owner_stores);
#endif
#ifndef NO_LAST_LOOK
            update();
            take();
#endif
            if
            :: took -> owner_stores ! SLEEPING, 0
            :: else ->
                if /* the daemon tells of deaths */
                :: memory[DOORBELL] != seen
                :: HAS_ALL
                fi;
                owner_stores ! SLEEPING, 0
            fi;
            seen = 0
        fi
    od
}

init
{
    atomic {
        run drain(owner_stores);
        run drain(stores_of_0);
        run drain(stores_of_1);
        run owner();
        run raiser(0, stores_of_0);
        run raiser(1, stores_of_1)
    }
}
