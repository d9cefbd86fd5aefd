/*
 * Bounces (proto/segment.h): memory that this process has attached is copied to and from memory
 * that its daemon has, too, when the daemon asks for that, for puts in its seat and of other nodes.
 * A thread does that, begun with the first bounce: the process may be computing meanwhile. It
 * sleeps otherwise, takes no signals, and touches nothing of the session but what is named here.
 */
#pragma once

#include "proto/frame.h"
#include "proto/tca.pb-c.h"

struct bounces;
struct tca;

/* Events of the daemon. The frame's descriptors may be taken. */
void bounce_add(struct tca *session, const Tca__Bounce *bounce, struct frame *frame);
void bounce_remove(struct tca *session, const Tca__Bounce *bounce);

/* Memory that was attached is not ours from now on: it is touched no more. */
void bounce_forget(struct tca *session, uint64_t region);

/* The session ends. In a child that was forked there is no thread to end. */
void bounces_clear(struct tca *session);
